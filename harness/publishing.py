"""From a store to results/: cells are copied, and each selector's conformance is recorded beside them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import cells, store
from .component import Spec, build, described
from .errors import HarnessError
from .leaderboard import gather
from .registry import Registry, load_registry
from .testing import checks, findings

# What is in a table and could not be tried is told apart from what failed.


def publish(keys: Sequence[str], from_store: Path, to: Path, plugin_files: Sequence[Path]) -> list[dict[str, Any]]:
    """Copy cells of the store (all that did not fail, or those whose keys begin so) to TO/TASK/KEY.json; a row each."""
    folder = from_store / "cells"
    paths = sorted(folder.glob("*.json"))
    for key in keys:
        if not any(path.stem.startswith(key) for path in paths):
            raise HarnessError(f"results publish: no cell {key!r} in {folder} ({len(paths)} are there)")
    chosen = [path for path in paths if not keys or any(path.stem.startswith(key) for key in keys)]
    if not chosen:
        raise HarnessError(f"results publish: {folder} holds no cells: `harness run` makes them")
    registry = load_registry(plugin_files)
    return [row for path in chosen if (row := _publish(path, to, registry, asked_for=bool(keys)))]


def _publish(path: Path, to: Path, registry: Registry, asked_for: bool) -> dict[str, Any] | None:
    cell = cells.read(path)
    if "failed" in cell:
        if asked_for:
            raise HarnessError(f"results publish: cell {path.stem} failed ({cell['failed']}): nothing to publish")
        return None
    if cells.is_random(cell):
        raise HarnessError(f"results publish: cell {path.stem} was made with random weights: it is a test, no result")
    target = to / cell["labels"]["task"] / path.name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)
    return {"cell": path.stem, "file": str(target), "conformance": _record(cell, to, registry)}


def _record(cell: cells.Cell, to: Path, registry: Registry) -> str:
    """Try the selector by the conformance kit, once a version of both; what is not installed here is not tried."""
    selector = cell["inputs"]["ranking"]["selector"]
    path = to / cells.BADGES / f"{store.digest(selector)}.json"
    kit = store.digest([check.name for check in checks("selector")])
    badge = store.read_json(path) if path.exists() else None
    if badge is None or badge.get("kit") != kit:
        try:
            badge = {"selector": selector, "kit": kit, **_tried(selector, registry)}
        except HarnessError as reason:
            if badge is None:
                return f"not tried: {reason}"
        else:
            store.write_json(path, badge)
    return f"fails {len(badge['failed'])}" if badge["failed"] else f"passes {badge['passed']}"


def _tried(selector: Mapping[str, Any], registry: Registry) -> dict[str, Any]:
    """How many checks this very selector passes, and what the others say; HarnessError where it is not here."""
    spec = Spec(selector["name"], {name: _text(value) for name, value in selector["params"].items()})
    component = build(registry, "selector", spec)
    if described(registry.find("selector", spec.name), component) != selector:
        raise HarnessError("another version of it is installed here")
    tried = list(findings("selector", component))
    failed = [finding["what"] for finding in tried if finding["outcome"] == "failed"]
    return {"passed": sum(finding["outcome"] == "passed" for finding in tried), "failed": failed}


def _text(value: Any) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def validate(folders: Sequence[Path]) -> list[str]:
    """One line for each file in the folders that is no cell, or none that can be trusted."""
    return gather(folders).faults
