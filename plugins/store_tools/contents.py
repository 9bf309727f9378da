"""Walk through a store: the folders of its stages with their sizes, and what is not the store's own.

No link is followed, and nothing is opened but manifests.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.store import in_use
from harness.store.json_files import read_manifest
from harness.store.missing_rows import MARK, PAID
from harness.store.shard_files import OLDER, SUFFIXES

MANIFEST = "manifest.json"
BESIDE = (MANIFEST, "weights.json", "index.json", OLDER)
SHARD = re.compile(r"[A-Za-z0-9_-]*\.[0-9a-f]{12}")  # what `keys.named_shard` makes
PAYMENT = re.compile(rf"spent\.[0-9a-f]{{12}}\.json|[0-9a-f]{{12}}{re.escape(PAID)}")  # of engines that pay for tokens
KEY = re.compile(r"[0-9a-f]{20}")
RECORDS = ("cells", "sequences")  # folders of files of their own


@dataclass(frozen=True)
class Stage:
    """The folder of one stage: STORE/KIND/KEY.

    inputs     its manifest
    made       when the manifest was written
    last_used  when a shard was last read or written, as far as the disk keeps that; both in seconds since 1970
    """

    kind: str
    folder: Path
    inputs: Mapping[str, Any]
    files: int
    size: int
    made: float
    last_used: float

    @property
    def key(self) -> str:
        """The hash of the inputs."""
        return self.folder.name


def require_store(root: Path) -> None:
    """Raise HarnessError unless the folder has a subfolder that a store has."""
    if not any((root / kind).is_dir() for kind in (*SUFFIXES, *RECORDS, "rl")):
        raise HarnessError(f"store: {root} is no store of `harness run`: --store says where one is")


def stages(root: Path) -> Iterator[Stage]:
    """Every folder of a stage that has a sound manifest, in order."""
    for kind in SUFFIXES:
        for entry in entries(root / kind):
            if KEY.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                with suppress(HarnessError):
                    yield _stage(kind, Path(entry.path))


def _stage(kind: str, folder: Path) -> Stage:
    inputs, made = read_manifest(folder), (folder / MANIFEST).lstat().st_mtime
    stats = {entry.name: entry.stat(follow_symlinks=False) for entry in own_files(folder, kind)}
    size = sum(stat.st_size for stat in stats.values())
    times = [max(stat.st_atime, stat.st_mtime) for name, stat in stats.items() if name not in BESIDE]
    return Stage(kind, folder, inputs, len(stats), size, made, max(times, default=made))


def own_files(folder: Path, kind: str) -> Iterator[os.DirEntry[str]]:
    """The files of a stage's folder that the harness wrote: shards and what stands beside them; no links."""
    return (each for each in entries(folder) if each.is_file(follow_symlinks=False) and _is_own(each.name, kind))


def _is_own(name: str, kind: str) -> bool:
    if name.startswith("."):
        return name.endswith(".tmp")  # of a writer that was killed
    stem, suffix = os.path.splitext(name.removesuffix(MARK) + SUFFIXES[kind] if name.endswith(MARK) else name)
    return (
        name in BESIDE
        or PAYMENT.fullmatch(name) is not None
        or (suffix == SUFFIXES[kind] and SHARD.fullmatch(stem) is not None)
    )


def entries(folder: Path) -> list[os.DirEntry[str]]:
    """What is in a folder, in order; [] for a link, for no folder, and for one that cannot be read."""
    with suppress(OSError):
        if not folder.is_symlink():
            with os.scandir(folder) as scan:
                return sorted(scan, key=lambda entry: entry.name)
    return []


def size_below(path: Path) -> tuple[int, int, float]:
    """The number of files in a folder and below it (1 for a file), their bytes, and when one was last written.

    A link counts as itself.
    """
    about = path.lstat()
    inside = entries(path) if path.is_dir() else []
    if not inside:
        return (0, 0, about.st_mtime) if path.is_dir() and not path.is_symlink() else (1, about.st_size, about.st_mtime)
    parts = [size_below(Path(entry.path)) for entry in inside]
    return sum(part[0] for part in parts), sum(part[1] for part in parts), max(part[2] for part in parts)


def others(root: Path, known: set[Path]) -> Iterator[Path]:
    """Every file or link that is not the store's own, in order; a folder of such files counts as one.

    known  the folders of the store's stages
    """
    for path in sorted(root.iterdir()):  # the root itself may be a link
        if path.is_symlink() or path.name not in (*SUFFIXES, *RECORDS, "rl", in_use.NAME):
            yield path
        elif path.name in RECORDS:
            yield from (Path(each.path) for each in entries(path) if not is_record(each))
        elif path.name in SUFFIXES:
            yield from _others_of_kind(path, known)


def is_record(entry: os.DirEntry[str]) -> bool:
    """Whether it is a file of a cell or a sequence."""
    return entry.is_file(follow_symlinks=False) and entry.name.endswith(".json")


def _others_of_kind(folder: Path, known: set[Path]) -> Iterator[Path]:
    for entry in entries(folder):
        path = Path(entry.path)
        if path not in known:
            yield path
        else:
            own = {each.name for each in own_files(path, folder.name)}
            yield from (path / each.name for each in entries(path) if each.name not in own)
