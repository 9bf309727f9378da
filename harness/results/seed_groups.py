"""Cells that differ only in their seeds are one row: seeds and trials are averaged inside a problem first.

Only in their seeds: equal labels but for the seed, the same problems, and equal inputs of every stage once the seeds
(the pool's, the projection's, the ranking's) and the keys that are hashed from them are left out. A parameter of a
component that happens to be called seed is a parameter. A pool made elsewhere has no seed: two such files are two
pools.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.scoring.metrics import Outcomes, over_seeds, summary
from harness.store.keys import canonical_json, digest

from . import cells
from .cells import Cell
from .rows import Row
from .verdict_quality import quality

SEEDS = ("seed", "projection_seed")
HASHED = ("key", "pool", "embedding", "verdict")  # a stage's own key, and those of the stages that it reads

Keyed = tuple[str, Cell]


def unseeded(stage: Mapping[str, Any]) -> dict[str, Any]:
    """A stage's inputs without its seeds and without what is hashed from any seed."""
    return {name: value for name, value in stage.items() if name not in SEEDS + HASHED}


def setting(cell: Mapping[str, Any]) -> str:
    """What cells of one row have in common, as canonical JSON."""
    labels = {name: value for name, value in cell["labels"].items() if name != "seed"}
    inputs = {name: unseeded(stage) for name, stage in cell["inputs"].items()}
    return canonical_json([labels, inputs, [entry["id"] for entry in cell["problems"]]])


def rows_of(found: Mapping[str, Cell]) -> list[list[Keyed]]:
    """The cells in groups of one row each, by seed inside a group; equal whatever order the cells come in.

    A row's pools have equally many cells each. Where they have not (rankings of one pool by several seeds, of another
    by one) every pool is a row of its own.
    """
    groups: dict[str, list[Keyed]] = {}
    for key in sorted(found, key=lambda key: (found[key]["labels"]["seed"], key)):
        groups.setdefault(setting(found[key]), []).append((key, found[key]))
    rows = []
    for name in sorted(groups):
        pools = by_pool(groups[name])
        even = len({len(group) for group in pools}) == 1
        rows += [groups[name]] if even else pools
    return rows


def by_pool(group: Iterable[Keyed]) -> list[list[Keyed]]:
    """The cells of one row by the pool that they ranked, in the order of its first."""
    pools: dict[str, list[Keyed]] = {}
    for key, cell in group:
        pools.setdefault(cell["inputs"]["pool"]["key"], []).append((key, cell))
    return list(pools.values())


def pools_of(group: Iterable[Keyed]) -> list[str]:
    """The keys of the pools that a row's cells ranked."""
    return [pool[0][1]["inputs"]["pool"]["key"] for pool in by_pool(group)]


def outcomes(group: Sequence[Keyed]) -> Outcomes:
    """A row's outcomes: one cell's, or several cells' with their pools and trials inside each problem."""
    return over_seeds([[cells.outcomes(cell) for _, cell in pool] for pool in by_pool(group)])


def row(group: Sequence[Keyed]) -> Row:
    """A row from the cells of one group; of one cell the same as `cells.row`, but for `seeds` and `cells`.

    `seed` is None where there are several; resampling is then seeded by the keys of all cells.
    """
    key, cell = group[0]
    keys = [each for each, _ in group]
    shared: dict[str, Any] = {"seeds": [each["labels"]["seed"] for _, each in group], "cells": keys}
    if len(group) == 1:
        return replace(cells.row(cell, key), **shared)
    about: dict[str, Any] = {
        "grader": cells.grader(cell),
        "conditions": _conditions(group),
        "disputed": _disputed(group),
    }
    seed = int(digest(sorted(keys), 8), 16)
    verdicts = quality([pool[0][1] for pool in by_pool(group)], seed)
    labels: dict[str, Any] = {**cell["labels"], "seed": None}
    return Row(**labels, cell=key, **about, **verdicts, **summary(outcomes(group), seed), **shared)


def _conditions(group: Iterable[Keyed]) -> dict[str, list[str]]:
    """Under what the verdicts of any of the cells were made."""
    found: dict[str, set[str]] = {}
    for _, cell in group:
        for name, values in cell["conditions"].items():
            found.setdefault(name, set()).update(values)
    return {name: sorted(values) for name, values in sorted(found.items())}


def _disputed(group: Iterable[Keyed]) -> int | None:
    """Disputed grades of all pools, each counted once; None where none was audited."""
    counts = {cell["inputs"]["pool"]["key"]: cells.disputed(cell) for _, cell in group}
    known = [count for count in counts.values() if count is not None]
    return sum(known) if known else None
