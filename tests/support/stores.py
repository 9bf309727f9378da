"""Read what a run wrote."""

from __future__ import annotations

from pathlib import Path


def contents(store: Path) -> dict[str, bytes]:
    """Every file of a store, by its path there."""
    return {str(path.relative_to(store)): path.read_bytes() for path in sorted(store.rglob("*")) if path.is_file()}
