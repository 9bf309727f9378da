"""Find the pools of a store by the beginning of their key, and the verdicts on them."""

from __future__ import annotations

from pathlib import Path

from harness.errors import HarnessError, did_you_mean

from .json_files import read_manifest


def stored_pool(root: Path, key: str) -> Path:
    """The folder of the pool whose key begins with `key`; HarnessError if there is none or more than one."""
    folders = sorted(path for path in (root / "pool").glob("*") if path.is_dir())
    matches = [path for path in folders if path.name.startswith(key)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise HarnessError(f"pool {key!r}: {len(matches)} pools of {root} begin so: write more of the key")
    known = did_you_mean(key, [path.name for path in folders]).replace("installed", "there")
    raise HarnessError(f"pool {key!r}: no such file, and no such key in {root} {known}")


def graded_folder(root: Path, key: str) -> Path | None:
    """The folder of the verdicts on the pool with this (whole) key; None if the pool was not graded.

    If the pool was graded more than once, it is the folder with the newest manifest.
    """
    manifests = [
        path for path in (root / "verdict").glob("*/manifest.json") if read_manifest(path.parent).get("pool") == key
    ]
    return max(manifests, key=lambda path: path.stat().st_mtime_ns).parent if manifests else None
