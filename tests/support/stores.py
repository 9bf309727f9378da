"""Read what a run wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.results import cells


def contents(store: Path) -> dict[str, bytes]:
    """Every file of a store, by its path there."""
    return {str(path.relative_to(store)): path.read_bytes() for path in sorted(store.rglob("*")) if path.is_file()}


def cell_of(store: Path, row: dict[str, Any]) -> dict[str, Any]:
    """The cell of a row of a run's table."""
    return cells.read(store / "cells" / f"{row['cell']}.json")


def all_cells(store: Path) -> list[dict[str, Any]]:
    """Every cell of a store, in the order of their keys."""
    return [cells.read(path) for path in sorted((store / "cells").glob("*.json"))]
