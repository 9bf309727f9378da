"""Join cells that differ only in their seeds into one row: seeds and trials are averaged inside a problem first.

Such cells have equal labels except for the seed, the same problems, and equal inputs of every stage, apart from the
seeds (of the pool, the projection and the ranking) and the keys that depend on them. A component's own parameter named
seed counts as a parameter. An imported pool has no seed: two files are two pools.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.scoring.metrics import Outcomes, over_seeds, summary
from harness.store.keys import canonical_json

from . import cells, one_answer
from .cells import Cell
from .rows import Row
from .verdict_quality import quality

SEEDS = ("seed", "projection_seed")
HASHED = ("key", "pool", "embedding", "score", "verdict")  # the key of a stage, and those of the stages that it reads

Keyed = tuple[str, Cell]


def unseeded(stage: Mapping[str, Any]) -> dict[str, Any]:
    """A stage's inputs without its seeds and without the keys that depend on a seed."""
    return {name: value for name, value in stage.items() if name not in SEEDS + HASHED}


def shared_inputs(cell: Mapping[str, Any]) -> str:
    """The labels, inputs and problem ids that are equal in all cells of one row, as canonical JSON."""
    labels = {name: value for name, value in cell["labels"].items() if name != "seed"}
    inputs = {name: unseeded(stage) for name, stage in cell["inputs"].items()}
    return canonical_json([labels, inputs, [entry["id"] for entry in cell["problems"]]])


def rows_of(measured: Mapping[str, Cell]) -> list[list[Keyed]]:
    """Group the cells into rows, sorted by seed inside a row. The result does not depend on the order of the cells.

    All pools of a row have the same number of cells. Where they differ (one pool ranked with several seeds, another
    with one), each pool becomes a separate row.
    """
    groups: dict[str, list[Keyed]] = {}
    for key in sorted(measured, key=lambda key: (measured[key]["labels"]["seed"], key)):
        groups.setdefault(shared_inputs(measured[key]), []).append((key, measured[key]))
    rows = []
    for name in sorted(groups):
        pools = by_pool(groups[name])
        even = len({len(group) for group in pools}) == 1
        rows += [groups[name]] if even else pools
    return rows


def by_pool(group: Iterable[Keyed]) -> list[list[Keyed]]:
    """The cells of one row grouped by the pool they ranked; pools in order of their first cell."""
    pools: dict[str, list[Keyed]] = {}
    for key, cell in group:
        pools.setdefault(cell["inputs"]["pool"]["key"], []).append((key, cell))
    return list(pools.values())


def pools_of(group: Iterable[Keyed]) -> list[str]:
    """The keys of the pools that a row's cells ranked."""
    return [pool[0][1]["inputs"]["pool"]["key"] for pool in by_pool(group)]


def outcomes(group: Sequence[Keyed]) -> Outcomes:
    """A row's outcomes: those of its cells, with their pools and trials joined inside each problem."""
    return over_seeds([[cells.outcomes(cell) for _, cell in pool] for pool in by_pool(group)])


def row(group: Sequence[Keyed]) -> Row:
    """The row of one group of cells; for a single cell it is `cells.row` plus `seeds` and `cells`.

    With several cells `seed` is None, and the outcomes of all cells seed the resampling.
    """
    key, cell = group[0]
    keys = [each for each, _ in group]
    shared: dict[str, Any] = {"seeds": [each["labels"]["seed"] for _, each in group], "cells": keys}
    if len(group) == 1:
        return replace(cells.row(cell, key), **shared)
    about: dict[str, Any] = {
        "learns": cell["inputs"]["ranking"].get("learns"),
        "grader": cells.grader(cell),
        "conditions": _conditions(group),
        "disputed": _disputed(group),
    }
    seed = cells.resampling_seed(*(each for _, each in group))
    first = [pool[0][1] for pool in by_pool(group)]
    of_pools = {**quality(first, seed), **one_answer.metrics([entry for each in first for entry in each["problems"]])}
    labels: dict[str, Any] = {**cell["labels"], "seed": None}
    return Row(**labels, cell=key, **about, **of_pools, **summary(outcomes(group), seed), **shared)


def _conditions(group: Iterable[Keyed]) -> dict[str, list[str]]:
    """The conditions under which the verdicts of any of the cells were made: name -> sorted values."""
    merged: dict[str, set[str]] = {}
    for _, cell in group:
        for name, values in cell["conditions"].items():
            merged.setdefault(name, set()).update(values)
    return {name: sorted(values) for name, values in sorted(merged.items())}


def _disputed(group: Iterable[Keyed]) -> int | None:
    """The number of disputed grades in all pools, each pool counted once; None if no pool was audited."""
    counts = {cell["inputs"]["pool"]["key"]: cells.disputed(cell) for _, cell in group}
    audited = [count for count in counts.values() if count is not None]
    return sum(audited) if audited else None
