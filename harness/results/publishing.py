"""Publish results: copy cells from a store to results/, and record each selector's conformance beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.plugin_system.component import Spec, build, described
from harness.plugin_system.registry import Registry, load_registry
from harness.system.files import write_atomically
from harness.system.json_text import canonical_json, digest
from harness.testing import checks, findings

from . import cells, inert_text
from .leaderboard import conformance, gather, read_badge


def publish(keys: Sequence[str], from_store: Path, to: Path, plugin_files: Sequence[Path]) -> list[dict[str, Any]]:
    """Copy cells of a store to TO/TASK/KEY.json, and write badges; return "cell", "file", "conformance" for each cell.

    `keys`: beginnings of keys; [] means all. Without `keys` failed cells are skipped, with `keys` they are an error.
    An absolute path in a cell is published as its last part: the key of such a cell, a hash of its inputs, changes. All
    cells are read and their selectors checked before the first file is written.
    """
    folder = from_store / "cells"
    paths = cells.files([folder])
    for key in keys:
        if not any(path.stem.startswith(key) for path in paths):
            raise HarnessError(f"results publish: no cell {key!r} in {folder} ({len(paths)} are there)")
    chosen = [path for path in paths if not keys or any(path.stem.startswith(key) for key in keys)]
    if not chosen:
        raise HarnessError(f"results publish: {folder} holds no cells: `harness run` makes them")
    badges = next((each for each in (to, *to.parents) if (each / cells.BADGES).is_dir()), to) / cells.BADGES
    files: dict[Path, bytes] = {}
    rows: list[dict[str, Any]] = []
    registry = load_registry(plugin_files)
    for path in chosen:
        cell = cells.read(path)
        if "failed" in cell and not keys:
            continue
        if "failed" in cell:
            raise HarnessError(f"results publish: cell {path.stem} failed ({cell['failed']}): nothing to publish")
        if cells.is_random(cell):
            raise HarnessError(
                f"results publish: cell {path.stem} was made with random weights: it is a test, no result"
            )
        checked = _conformance(cell["inputs"]["ranking"]["selector"], badges, registry, files)
        published = cells.as_published(cell)
        key, parts = cells.rendered(published, published["problems"])
        target = to / inert_text.folder_name(published["labels"]["task"]) / f"{key}.json"
        files[target] = b"".join(parts)
        rows.append({"cell": key, "file": str(target), "conformance": checked})
    for path, content in files.items():
        write_atomically(path, content)
    return rows


def _conformance(selector: Mapping[str, Any], badges: Path, registry: Registry, files: dict[Path, bytes]) -> str:
    """Run the conformance kit on a cell's selector and return a summary, such as "passes 31" or "not tried: ...".

    It runs once for each version of selector and kit, and only if exactly that selector is installed. A new badge, in
    the folder `badges`, is added to `files`.
    """
    published = inert_text.without_folders(dict(selector))
    path = badges / f"{digest(published)}.json"
    kit = digest([check.name for check in checks("selector")])
    badge = json.loads(files[path]) if path in files else read_badge(path) if path.exists() else None
    if badge is None or badge.get("kit") != kit:
        spec = Spec(selector["name"], {name: _text(value) for name, value in selector["params"].items()})
        try:
            component = build(registry, "selector", spec)
            if described(registry.find("selector", spec.name), component) != selector:
                raise HarnessError("another version of it is installed here")
        except HarnessError as reason:
            return conformance(badge) if badge else f"not tried: {reason}"
        results = list(findings("selector", component))
        failed = [finding["what"] for finding in results if finding["outcome"] == "failed"]
        passed = sum(finding["outcome"] == "passed" for finding in results)
        faults = inert_text.without_folders(failed)
        badge = {"selector": published, "kit": kit, "passed": passed, "failed": faults}
        files[path] = (canonical_json(badge) + "\n").encode("utf-8", "surrogatepass")
    return conformance(badge)


def _text(value: Any) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def validate(folders: Sequence[Path]) -> list[str]:
    """Return a line for each file that is no cell, cannot be trusted or was made with random weights; [] if none is.

    One line if the folders hold no cells at all.
    """
    content = gather(folders)
    if not (content.measured or content.failed or content.faults):
        where = ", ".join(map(str, folders))
        return [f"results {where}: holds no cells; `harness results publish` copies them there"]
    return content.faults
