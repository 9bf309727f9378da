"""What a cell's selector picks first, and how likely each response is: read from the store that the cell was made in.

A cell, and the store's rankings, end at the first correct response; here the same selector is asked again for k picks
of every problem, from the same stream of random numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.errors import HarnessError, said
from harness.plugin_system.registry import load_registry
from harness.records import Floats, Ints, Pool
from harness.results.stored_cells import StoredProblem, key_of, picks, rebuilt, stored_problems

from .chosen import Chosen
from .request import Request


@dataclass(frozen=True, eq=False)
class Picked:
    """One problem: log-probability per token (n,), verdicts (n,), and each trial's first picks (trials, k)."""

    per_token: Floats
    is_correct: Any
    picks: Ints


def picked(request: Request, one: Chosen, k: int) -> Iterator[Picked]:
    """The cell's problems, in its order; HarnessError where the store or the selector is not what the cell says."""
    smallest = int(one.outcomes.n.min())
    if k > smallest:
        raise request.refused(f"-k {k}: the smallest pool of cell {one.key} has {smallest} responses")
    selector, there = _selector(request, one), _problems(request, one)
    changed = 0
    for entry in one.cell["problems"]:
        found = _picked(request, one, selector, there[entry["id"]], entry["n"], k)
        changed += _differs(entry, found.picks)
        yield found
    if changed:
        request.say(
            f"cell {one.key}: on {changed} problems this machine's picks differ from the cell's; its own are drawn"
        )


def _selector(request: Request, one: Chosen) -> Any:
    """The selector that made the cell, built again."""
    spec, selector = one.about["selector"], rebuilt(load_registry(request.plugin_files), one.cell)
    if selector is None:
        raise request.refused(f"selector {spec!r} is not the version that made cell {one.key}: run it again")
    if not hasattr(selector, "rank"):
        raise request.refused(f"selector {spec!r} chooses sets, not an order: it has no first picks")
    return selector


def _problems(request: Request, one: Chosen) -> dict[str, StoredProblem]:
    """All of the cell's problems, by id."""
    if not (request.store / "pool" / str(key_of(one.cell, "pool"))).is_dir():
        raise request.refused(
            f"store {request.store} does not hold the pool of cell {one.key}: say in which --store it was run"
        )
    there = stored_problems(request.store, one.cell)
    if len(there) < len(one.problems):
        raise request.refused(
            f"store {request.store} holds {len(there)} of the {len(one.problems)} problems of "
            f"cell {one.key}: name the store in which it was run (--store)"
        )
    return there


def _picked(request: Request, one: Chosen, selector: Any, stored: StoredProblem, n: int, k: int) -> Picked:
    spec, pool = one.about["selector"], _pool(request, one, stored, n)
    try:
        firsts = [_first(selector, one, pool, stored, trial, k) for trial in range(one.about["trials"])]
    except Exception as failure:  # a selector is foreign code
        raise request.refused(f"selector {spec!r}, problem {stored.problem.id!r}: {said(failure)}") from failure
    is_correct = np.array([verdict == "correct" for verdict in stored.verdicts(one.cell, n)])
    return Picked(pool.logprobs / np.maximum(pool.lengths, 1), is_correct, np.array(firsts))


def _first(selector: Any, one: Chosen, pool: Pool, stored: StoredProblem, trial: int, k: int) -> list[int]:
    first = picks(selector, one.cell, pool, stored.problem, trial, most=k)
    if len(first) < k:
        raise HarnessError(f"the ranking ended after {len(first)} of {len(pool)} responses")
    return first


def _pool(request: Request, one: Chosen, stored: StoredProblem, n: int) -> Pool:
    """One problem's pool as the selector saw it; HarnessError where it carries no log-probabilities per token."""
    responses = stored.responses(one.cell)
    if np.isnan(responses.logprobs).any() or responses.token_ids is None:
        lacks = "token counts" if responses.token_ids is None else "log-probabilities"
        raise request.refused(f"the pool of cell {one.key} carries no {lacks}: sample one with `harness run`")
    return stored.pool(one.cell, n, responses)


def _differs(entry: dict[str, Any], picks: Ints) -> bool:
    """Whether a trial begins otherwise than the cell says."""
    return any(
        list(new[: len(old)]) != list(old[: len(new)])
        for new, old in zip(picks, entry.get("orders") or [], strict=False)
    )
