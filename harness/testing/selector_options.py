"""Check a selector's optional abilities: `reads`, `rank_after`, `rank_many`, `pick_after` do what they promise."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np

from ..records import Outcome, Pool
from . import examples
from .checking import Inapplicable, check, expect
from .picking import brief, order
from .selector_basics import BASIC


@check('name all that it reads in `reads`: "texts" (with their lengths), "answers", "order", or ()', presumes=BASIC)
def reads_what_it_says(selector: Any) -> None:
    """Where it says which of texts and answers it `reads`, the others make no difference."""
    declared = getattr(selector, "reads", None)
    if declared is None:
        raise Inapplicable("it does not say what it reads")
    is_valid = isinstance(declared, (tuple, list)) and set(declared) <= {"texts", "answers", "order"}
    expect(is_valid, f"reads must be some of ('texts', 'answers', 'order'), got {declared!r}")
    pool = examples.pool()
    blank = {"texts": [""] * len(pool), "answers": [None] * len(pool)}
    unread = {name: column for name, column in blank.items() if name not in declared}
    if not unread:
        raise Inapplicable("it says that it reads everything")
    got = order(selector, examples.replaced(pool, **unread))
    expect(got == order(selector, pool), f"{' or '.join(unread)}, not in its reads, changes its order")


@check("yield the responses that are not verified yet, each once", presumes=BASIC)
def rest_after_verified(selector: Any) -> None:
    """Where it has `rank_after`, that yields all that is not verified, each once, and the same for one rng."""
    if not callable(getattr(selector, "rank_after", None)):
        raise Inapplicable("it has no rank_after")
    pool = examples.pool()
    for verified in ((3,), (5, 1, 0), tuple(range(1, 24)), tuple(range(24))):
        rest = sorted(set(range(24)) - set(verified))
        first, again = (_after(selector, pool, verified) for _ in range(2))
        expect(sorted(first) == rest, f"after {brief(verified)} it yields {brief(first)}, which is not all the rest")
        expect(first == again, f"after {brief(verified)} equal rngs give {brief(first)}, then {brief(again)}")


def _after(selector: Any, pool: Pool, verified: tuple[int, ...]) -> list[int]:
    return [int(pick) for pick in islice(selector.rank_after(pool, verified, np.random.default_rng(0)), len(pool) + 1)]


@check("let rank_many give for each pool and rng what rank gives for them", presumes=BASIC)
def many_as_one_by_one(selector: Any) -> None:
    """Where it has `rank_many`, that gives the orders of `rank`, whatever pools and trials it is given together."""
    if not callable(getattr(selector, "rank_many", None)):
        raise Inapplicable("it has no rank_many")
    pools = [examples.pool(n, seed=seed) for seed, n in enumerate((24, 13, 24))]
    many = selector.rank_many(pools, [[np.random.default_rng(trial) for trial in range(2)] for _ in pools])
    for place, (pool, orders) in enumerate(zip(pools, many, strict=True)):
        for trial, ranked in enumerate(orders):
            alone, together = order(selector, pool, trial), [int(pick) for pick in islice(ranked, len(pool) + 1)]
            expect(together == alone, f"pool {place}, trial {trial}: together {brief(together)}, alone {brief(alone)}")


@check("return one index that is in no outcome, and take what it learns from the outcomes given alone", presumes=BASIC)
def picks_after_outcomes(selector: Any) -> None:
    """Where it has `pick_after`, that gives a new index after any outcomes, and the same for equal ones."""
    if not callable(getattr(selector, "pick_after", None)):
        raise Inapplicable("it does not learn from outcomes")
    pool = examples.pool()
    for values in ((), (0.0,), (None,), (0.0, None, 1.0), (0.5, -3.0, 2.0, None), (0.0,) * 23, (1.0, 0.0) * 11):
        outcomes = tuple(Outcome(index, value) for index, value in enumerate(values))
        first, again = (selector.pick_after(pool, outcomes, np.random.default_rng(0)) for _ in range(2))
        is_new = isinstance(first, (int, np.integer)) and len(values) <= first < len(pool)
        expect(is_new, f"after outcomes of 0 to {len(values) - 1} it picks {first!r:.40}")
        expect(first == again, f"after equal outcomes equal rngs give {first}, then {again}")


CHECKS = (reads_what_it_says, rest_after_verified, many_as_one_by_one, picks_after_outcomes)
