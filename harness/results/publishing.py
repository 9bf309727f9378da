"""Publish results: copy cells from a store to results/, and record each selector's conformance beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypedDict

from harness.errors import HarnessError
from harness.plugin_system.component import Spec, build, described
from harness.plugin_system.registry import Registry, load_registry
from harness.system.files import write_atomically
from harness.system.hashing import canonical_json, digest
from harness.system.json_text import read as read_json
from harness.system.json_text import shaped
from harness.testing import checks, findings

from . import cells, inert_text
from .leaderboard import AGAIN, gather
from .schemas import Badge


def publish(keys: Sequence[str], from_store: Path, to: Path, plugin_files: Sequence[Path]) -> list[dict[str, Any]]:
    """Copy cells of a store to TO/TASK/KEY.json, and write badges; return "cell", "file", "conformance" for each cell.

    `keys`: beginnings of keys; [] means all. Without `keys` failed cells are skipped, with `keys` they are an error.
    An absolute path in a cell is published as its last part: the key of such a cell, a hash of its inputs, changes. All
    cells are read and their selectors checked before the first file is written. If a file cannot be written, those
    written before are removed or restored.
    """
    folder = from_store / "cells"
    paths = cells.files([folder])
    for key in keys:
        if not any(path.stem.startswith(key) for path in paths):
            raise HarnessError(f"results publish: no cell {key!r} in {folder} ({len(paths)} are there)")
    chosen = [path for path in paths if not keys or any(path.stem.startswith(key) for key in keys)]
    if not chosen:
        raise HarnessError(f"results publish: {folder} holds no cells: `harness run` makes them")
    files: dict[Path, bytes] = {}
    rows: list[dict[str, Any]] = []
    registry = load_registry(plugin_files)
    for path in chosen:
        cell = _publishable(path, asked_for=bool(keys))
        if cell is not None:
            conformance = _record(cell, to, registry, files)
            name, content = _without_folders(path, cell)
            target = to / inert_text.folder_name(inert_text.without_folders(cell["labels"]["task"])) / name
            files[target] = content
            rows.append({"cell": target.stem, "file": str(target), "conformance": conformance})
    _write_all(files)
    return rows


def _without_folders(path: Path, cell: cells.Cell) -> tuple[str, bytes]:
    """Name and content of the published cell, the file's own if nothing in it has to go."""
    published = cells.without_folders(cell)
    if published == cell:
        return path.name, path.read_bytes()
    with TemporaryDirectory() as scratch:
        name = f"{cells.write(Path(scratch), published)}.json"
        return name, Path(scratch, name).read_bytes()


def _publishable(path: Path, asked_for: bool) -> cells.Cell | None:
    """The cell if it is a result; None if it failed and was not asked for by key; else HarnessError."""
    cell = cells.read(path)
    if "failed" in cell:
        if asked_for:
            raise HarnessError(f"results publish: cell {path.stem} failed ({cell['failed']}): nothing to publish")
        return None
    if cells.is_random(cell):
        raise HarnessError(f"results publish: cell {path.stem} was made with random weights: it is a test, no result")
    return cell


def _write_all(files: Mapping[Path, bytes]) -> None:
    """Write all files or none: after a failure existing files are restored and new ones removed."""
    before = {path: path.read_bytes() if path.exists() else None for path in files}
    new_folders = [folder for path in files for folder in path.parents if not folder.exists()]
    written: list[Path] = []
    try:
        for path, content in files.items():
            write_atomically(path, content)
            written.append(path)
    except BaseException:
        for path in written:
            content_before = before[path]
            if content_before is None:
                path.unlink(missing_ok=True)
            else:
                write_atomically(path, content_before)
        for folder in sorted(set(new_folders), key=lambda folder: len(folder.parts), reverse=True):
            with suppress(OSError):  # missing, or not empty
                folder.rmdir()
        raise


def _record(cell: cells.Cell, to: Path, registry: Registry, files: dict[Path, bytes]) -> str:
    """Run the conformance kit on the cell's selector and return a summary, such as "passes 31" or "not tried: ...".

    It runs once for each version of selector and kit, and only if that selector is installed. A new badge is added to
    `files`, for the badges' folder of `to` or of the nearest folder above it that has one.
    """
    selector = cell["inputs"]["ranking"]["selector"]
    folder = next((each for each in (to, *to.parents) if (each / cells.BADGES).is_dir()), to)
    published = inert_text.without_folders(selector)
    path = folder / cells.BADGES / f"{digest(published)}.json"
    kit = digest([check.name for check in checks("selector")])
    badge: Badge | None = None
    if path in files or path.exists():
        content = json.loads(files[path]) if path in files else read_json(path, "badge", lenient=True)
        badge = shaped(content, Badge, f"badge {path}", f"delete it; {AGAIN}")
    if badge is None or badge.get("kit") != kit:
        try:
            badge = {"selector": published, "kit": kit, **_checked(selector, registry)}
        except HarnessError as reason:
            if badge is None:
                return f"not tried: {reason}"
        else:
            files[path] = (canonical_json(badge) + "\n").encode("utf-8", "surrogatepass")
    return f"fails {len(badge['failed'])}" if badge["failed"] else f"passes {badge['passed']}"


class _Findings(TypedDict):
    passed: int
    failed: list[str]


def _checked(selector: Mapping[str, Any], registry: Registry) -> _Findings:
    """How many checks exactly this selector passes, and the messages of those it fails; else HarnessError."""
    spec = Spec(selector["name"], {name: _text(value) for name, value in selector["params"].items()})
    component = build(registry, "selector", spec)
    if described(registry.find("selector", spec.name), component) != selector:
        raise HarnessError("another version of it is installed here")
    results = list(findings("selector", component))
    failed = [finding["what"] for finding in results if finding["outcome"] == "failed"]
    passed = sum(finding["outcome"] == "passed" for finding in results)
    return {"passed": passed, "failed": inert_text.without_folders(failed)}


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
