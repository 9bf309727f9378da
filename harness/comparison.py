"""`harness compare A B`: two cells on the same problems, the paired difference, and the problems that flipped."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import cells, stats, store
from .cells import Cell
from .errors import HarnessError


def compare(names: Sequence[str], folders: Sequence[Path]) -> dict[str, Any]:
    """The comparison of two cells, named by file or by the beginning of their keys in the folders.

    Problems that only one of them has are left out and counted. `fewer`, `more`: the problems where the first needs
    fewer, or more, calls than the second, the largest difference first, with the mean ranks of both.
    """
    first, second = (cells.read(_find(name, folders)) for name in names)
    a, b = (_ranks(cell, name) for cell, name in zip((first, second), names, strict=True))
    shared = [problem for problem in a if problem in b]
    if not shared:
        raise HarnessError(f"compare: {names[0]!r} and {names[1]!r} have no problem in common")
    _check_trials(a, b, shared)
    ours, theirs = (np.array([ranks[problem] for problem in shared], np.int64) for ranks in (a, b))
    seed = int(store.digest([cells.key_of(first), cells.key_of(second)], 8), 16)
    found = stats.paired_difference(ours, theirs, seed)

    def listed(places: Sequence[int]) -> list[dict[str, Any]]:
        return [{"id": shared[i], "first": float(ours[i].mean()), "second": float(theirs[i].mean())} for i in places]

    return {
        "first": _about(first),
        "second": _about(second),
        "same_pool": first["inputs"]["pool"]["key"] == second["inputs"]["pool"]["key"],
        "problems": len(shared),
        "left_out": len(set(a) ^ set(b)),
        "samples_to_correct": [float(ours.mean()), float(theirs.mean())],
        "difference": found.difference,
        "difference_ci": found.difference_ci,
        "ratio": found.ratio,
        "ratio_ci": found.ratio_ci,
        "p": found.p,
        "fewer": listed(found.fewer),
        "more": listed(found.more),
    }


def _find(name: str, folders: Sequence[Path]) -> Path:
    if Path(name).is_file():
        return Path(name)
    found = sorted({path.name: path for folder in folders for path in folder.rglob(f"{name}*.json")}.values())
    if len(found) == 1:
        return found[0]
    where = ", ".join(map(str, folders))
    if not found:
        raise HarnessError(f"compare: no file {name!r}, and no cell whose key begins so in {where}")
    keys = ", ".join(path.stem for path in found[:3])
    raise HarnessError(f"compare: {name!r} begins the keys of {len(found)} cells ({keys}, ...): write more of it")


def _ranks(cell: Cell, name: str) -> dict[str, list[int]]:
    """problem id -> its ranks, a trial each."""
    if "failed" in cell:
        raise HarnessError(f"compare: cell {name!r} failed ({cell['failed']}): run it again")
    if "ranks" not in cell["problems"][0]:
        raise HarnessError(f"compare: cell {name!r} is of a subset method, which has no samples-to-correct")
    return {entry["id"]: entry["ranks"] for entry in cell["problems"]}


def _check_trials(a: dict[str, list[int]], b: dict[str, list[int]], shared: Sequence[str]) -> None:
    trials = [len(ranks[shared[0]]) for ranks in (a, b)]
    if trials[0] != trials[1]:
        raise HarnessError(f"compare: the cells have {trials[0]} and {trials[1]} trials: run both with equally many")


def _about(cell: Cell) -> dict[str, Any]:
    return {"cell": cells.key_of(cell), **cell["labels"]}
