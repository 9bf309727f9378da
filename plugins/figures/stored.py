"""Get each trial's first k picks of a cell, and its responses' likelihoods, from the store in which it was made.

Rankings in cells and in the store end at the first correct response. This module therefore runs the same selector again
with the same random stream, for k picks of every problem.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.columns.stored import StoredProblem, picks, rebuilt, stored_problems
from harness.errors import HarnessError, error_text
from harness.plugin_system.registry import load_registry
from harness.records import Floats, Ints, Pool

from .chosen import Chosen
from .request import Request


@dataclass(frozen=True, eq=False)
class Picked:
    """One problem: log-probability per token (n,), whether each response is correct (n,), and each trial's first picks.

    `picks` (trials, k) holds indices of responses.
    """

    per_token: Floats
    is_correct: Any
    picks: Ints


def picked(request: Request, chosen: Chosen, k: int) -> Iterator[Picked]:
    """Yield a `Picked` for each of the cell's problems, in its order.

    HarnessError if the store does not hold the cell's pool, another version of the selector is installed, or a pool has
    fewer than k responses or no log-probabilities.
    """
    smallest = int(chosen.outcomes.n.min())
    if k > smallest:
        raise request.refused(f"-k {k}: the smallest pool of cell {chosen.key} has {smallest} responses")
    selector, problems = _selector(request, chosen), _problems(request, chosen)
    changed = 0
    for entry in chosen.cell["problems"]:
        result = _picked(request, chosen, selector, problems[entry["id"]], entry["n"], k)
        changed += _differs(entry, result.picks)
        yield result
    if changed:
        request.say(
            f"cell {chosen.key}: on {changed} problems this machine's picks differ from the cell's; its own are drawn"
        )


def _selector(request: Request, chosen: Chosen) -> Any:
    """The selector that made the cell, built again."""
    spec, selector = chosen.about["selector"], rebuilt(load_registry(request.plugin_files), chosen.cell)
    if selector is None:
        raise request.refused(f"selector {spec!r} is not the version that made cell {chosen.key}: run it again")
    if not hasattr(selector, "rank"):
        raise request.refused(f"selector {spec!r} chooses sets, not an order: it has no first picks")
    return selector


def _problems(request: Request, chosen: Chosen) -> dict[str, StoredProblem]:
    """All problems of the cell, by id."""
    problems = stored_problems(request.store, chosen.cell)
    if len(problems) < len(chosen.problems):
        raise request.refused(
            f"store {request.store} holds {len(problems)} of the {len(chosen.problems)} problems of "
            f"cell {chosen.key}: name the store in which it was run (--store)"
        )
    return problems


def _picked(request: Request, chosen: Chosen, selector: Any, stored: StoredProblem, n: int, k: int) -> Picked:
    spec, pool = chosen.about["selector"], _pool(request, chosen, stored, n)
    try:
        firsts = [_first(selector, chosen, pool, stored, trial, k) for trial in range(chosen.about["trials"])]
    except Exception as failure:  # a selector is foreign code
        raise request.refused(f"selector {spec!r}, problem {stored.problem.id!r}: {error_text(failure)}") from failure
    is_correct = np.array([verdict == "correct" for verdict in stored.verdicts(chosen.cell, n)])
    return Picked(pool.logprobs / np.maximum(pool.lengths, 1), is_correct, np.array(firsts))


def _first(selector: Any, chosen: Chosen, pool: Pool, stored: StoredProblem, trial: int, k: int) -> list[int]:
    first = picks(selector, chosen.cell, pool, stored.problem, trial, most=k)
    if len(first) < k:
        raise HarnessError(f"the ranking ended after {len(first)} of {len(pool)} responses")
    return first


def _pool(request: Request, chosen: Chosen, stored: StoredProblem, n: int) -> Pool:
    """One problem's pool as the selector saw it; HarnessError if it has no log-probabilities or no token counts."""
    responses = stored.responses(chosen.cell)
    if np.isnan(responses.logprobs).any() or responses.token_ids is None:
        lacks = "token counts" if responses.token_ids is None else "log-probabilities"
        raise request.refused(f"the pool of cell {chosen.key} carries no {lacks}: sample one with `harness run`")
    return stored.pool(chosen.cell, n)


def _differs(entry: dict[str, Any], picks: Ints) -> bool:
    """Whether some trial's picks differ from those in the cell."""
    return any(
        list(new[: len(old)]) != list(old[: len(new)])
        for new, old in zip(picks, entry.get("orders") or [], strict=False)
    )
