"""List every problem of a run for the page: its id, n, c and each selector's ranks, all of them from the cells."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

from .chosen import Cell
from .page import encoded
from .visible import cut, visible

ID = 200  # characters
BYTES = 1_200_000  # of JSON; a longer list holds the means of the trials' ranks, not each rank
PROMPT, PROMPTS_BYTES = 80, 300_000  # characters of a prompt that the search finds, if they all have room


def hardest_first(entries: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the problems sorted by their share of correct responses, then by id."""
    return sorted(entries, key=lambda entry: (entry["c"] / max(entry["n"], 1), entry["id"]))


def index(cells: Sequence[Cell], order: Sequence[str]) -> dict[str, Any]:
    """Return columns of equal length, in the order of these ids: `id`, `n`, `c`, and `ranks`, a column for each cell.

    A rank is that of the first correct response: a number if it is the same in all trials, else a list with the rank of
    each trial. A subset method has None in place of its column.
    """
    first = [cells[0].by_id[name] for name in order]
    listed = {
        "id": [cut(name, ID) for name in order],
        "n": [entry["n"] for entry in first],
        "c": [entry["c"] for entry in first],
        "ranks": [_ranks(cell, order, _short) for cell in cells],
    }
    if len(encoded(listed)) > BYTES:
        listed["ranks"] = [_ranks(cell, order, _mean) for cell in cells]
    return listed


def beginnings(order: Sequence[str], prompts: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the column `prompt`, the beginning of each problem's prompt ("" if unknown); {} if it has no room."""
    column = {"prompt": [visible(prompts.get(name, "")[:PROMPT]) for name in order]}
    return column if len(encoded(column)) <= PROMPTS_BYTES else {}


def _ranks(cell: Cell, order: Sequence[str], form: Callable[[Sequence[int]], Any]) -> list[Any] | None:
    return [form(cell.by_id[name]["ranks"]) for name in order] if cell.kind == "order" else None


def _short(ranks: Sequence[int]) -> int | list[int]:
    return ranks[0] if len(set(ranks)) == 1 else list(ranks)


def _mean(ranks: Sequence[int]) -> float:
    return round(fmean(ranks), 1)


def telling(cells: Sequence[Cell], order: Sequence[str]) -> str:
    """Return the problem on which the page opens: where the first and the last ranker differ most, by their mean ranks.

    A single ranker is compared with random selection. Of equal ones the first in `order`.
    """
    rankers = [cell.by_id for cell in cells if cell.kind == "order"]
    if not rankers:
        return order[0]
    left, right = rankers[0], rankers[-1]

    def gap(name: str) -> float:
        entry = left[name]
        other = fmean(right[name]["ranks"]) if len(rankers) > 1 else (entry["n"] + 1) / (entry["c"] + 1)
        return abs(math.log(fmean(entry["ranks"]) / other))

    return max(order, key=gap)
