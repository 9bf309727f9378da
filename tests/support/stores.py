"""Read what a run wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.results import cells


def contents(store: Path) -> dict[str, bytes]:
    """Every file of a store, by its path there."""
    return {str(path.relative_to(store)): path.read_bytes() for path in sorted(store.rglob("*")) if path.is_file()}


def results_of(store: Path) -> dict[str, bytes]:
    """As `contents`; of a cell without the options by which it was made, such as the path of a plugin."""
    kept = contents(store)
    for name in [name for name in kept if name.startswith("cells/")]:
        cell = {key: value for key, value in json.loads(kept[name]).items() if key not in ("config", "checksum")}
        kept[name] = json.dumps(cell).encode()
    return kept


def cell_of(store: Path, row: dict[str, Any]) -> dict[str, Any]:
    """The cell of a row of a run's table."""
    return cells.read(store / "cells" / f"{row['cell']}.json")


def all_cells(store: Path) -> list[dict[str, Any]]:
    """Every cell of a store but those of the controls that a run adds, in the order of their keys."""
    every = [cells.read(path) for path in sorted((store / "cells").glob("*.json"))]
    return [cell for cell in every if not cell.get("control")]


def files_of(store: Path, kind: str) -> list[Path]:
    """The files of all columns of a kind ("responses", "orders", ...) but the controls', sorted by name."""
    folders = [path.parent for path in store.glob(f"*/{kind}.*/column.json")]
    every = [path for folder in folders for path in folder.iterdir() if path.name.count(".") >= 3]
    return sorted(path for path in every if not is_of_control(path))


def is_of_control(path: Path) -> bool:
    """Whether a file of a store is the cell of a control that a run added, or orders of a control."""
    if path.parent.name == "cells":
        return path.suffix == ".json" and bool(json.loads(path.read_bytes()).get("control"))
    return path.parent.name.startswith(("orders.length", "orders.norm"))
