"""Compute each selector's full order of a pool, and how novel each pick is.

Rankings in the store end at the first correct response. This module therefore runs the same selector again with the
first trial's random stream. It shows the new order only if it starts with the stored one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.columns.stored import picks, rebuilt
from harness.errors import HarnessError, error_text
from harness.plugin_system.registry import load_registry
from harness.records import Floats, Pool, Problem

from .chosen import Cell

PICKS = 512  # at most so many picks are shown, unless the stored ranking is longer


class Rankers:
    """The selectors of some cells, built once; if one is not the version that made its cell, the reason instead."""

    def __init__(self, cells: Sequence[Cell], plugin_files: Sequence[Path]) -> None:
        self.registry = load_registry(plugin_files)
        self.built: dict[str, Any] = {}
        self.refused: dict[str, str] = {}
        for cell in cells:
            try:
                self.built[cell.key] = self._built(cell)
            except HarnessError as failure:
                self.refused[cell.key] = str(failure)

    def _built(self, cell: Cell) -> Any:
        selector = rebuilt(self.registry, cell.content)
        if selector is None:
            spec = cell.content["labels"]["selector"]
            raise HarnessError(f"selector {spec!r} is another version than the one that made this cell")
        return selector

    def order(self, cell: Cell, pool: Pool, problem: Problem, stored: Sequence[int]) -> tuple[list[int], str]:
        """Return the first trial's order, and "" if it is complete, otherwise why it is not.

        stored   the picks of the first trial that the store has
        """
        if cell.key in self.refused:
            return list(stored), f"only the stored picks are shown: {self.refused[cell.key]}"
        most = max(PICKS, len(stored))
        try:
            order = picks(self.built[cell.key], cell.content, pool, problem, trial=0, most=most)
        except Exception as failure:  # a selector is foreign code; whatever it raises, the page can be made
            return list(stored), f"only the stored picks are shown: {error_text(failure)}"
        if order[: len(stored)] != list(stored):
            return list(stored), "only the stored picks are shown: this machine's order differs from them"
        return order, "" if len(order) == len(pool) else f"the first {len(order)} picks are shown"

    def novelty(self, cell: Cell, order: Sequence[int], vectors: Floats) -> dict[str, Any]:
        """Return {"values", "figure"}: how novel each pick of `order` was when it was picked, and the measure's name.

        A selector with `bonuses` computes it itself. For any other selector it is the distance to the nearest earlier
        pick (None for the first). vectors (n, d), centred: those of the whole pool.
        """
        h, selector = np.asarray(vectors[list(order)], float), self.built.get(cell.key)
        if selector is not None and hasattr(selector, "bonuses"):
            return {"figure": selector.bonus, "values": _short(selector.bonuses(h))}
        return {"figure": "distance to the nearest earlier pick", "values": _short(nearest_earlier(h))}


def nearest_earlier(h: Floats) -> list[float | None]:
    """Return the Euclidean distance of each row of h (m, d) to the nearest earlier row; None for the first."""
    square = (h**2).sum(axis=1)
    distances = np.sqrt(np.maximum(square[:, None] + square - 2 * (h @ h.T), 0.0))
    return [None if row == 0 else float(distances[row, :row].min()) for row in range(len(h))]


def _short(values: Sequence[float | None]) -> list[float | None]:
    return [None if value is None or not np.isfinite(value) else float(f"{value:.3g}") for value in values]
