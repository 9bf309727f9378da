"""Whether a selector orders responses by what they are and not by where they stand in the pool.

The rows of a pool are permuted and its order is compared, response by response. On a pool without ties a deterministic
selector must give the same order; one that draws its first pick, the same order wherever that is the same response; a
random one, the same distribution: a chi-square test, over seeds, of its first and its third pick (of the pair that a
subset method selects). A sound selector fails with a probability below one in 100,000, and always or never on the same
machine: seeds are fixed.

A selector by clusters of answers has ties wherever all answers differ, and one by vectors wherever copies are left
over. So there are two pools, one of seven copies of three responses, and one of them is enough.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from scipy.special import chdtrc

from ..records import Ints, Pool
from . import examples
from .checking import Violation, expect
from .picking import brief, is_ranker, order

SEEDS = 24  # for a look at whether it is random; a first pick out of 8 comes twice
DRAWS = 200  # for a distribution
LEVEL = 1e-6  # of the chi-square test: two of them for each of two pools

Order = tuple[int, ...]


def require_equivariant(selector: Any) -> None:
    """Raise Violation unless one of the two pools, permuted, gives the same answer."""
    distinct = examples.without_ties()
    copies, kind = examples.with_copies()
    try:
        _require_on(selector, distinct, np.arange(len(distinct)), examples.DISTINCT_MOVED)
    except Violation as found:
        try:
            _require_on(selector, copies, kind, examples.COPIES_MOVED)
        except Violation:
            raise found from None


def _require_on(selector: Any, pool: Pool, kind: Ints, permutation: Sequence[int]) -> None:
    here = _Answers(selector, pool, kind, seeds=0)
    there = _Answers(selector, pool.part(permutation), kind[list(permutation)], seeds=10_000)
    given_first = None if here.by_first is None or there.by_first is None else (here.by_first, there.by_first)
    if given_first is not None:
        _require_same_orders(*given_first)
    if here.varies or there.varies:
        k = 2 if not is_ranker(selector) else 3 if given_first is None else 1
        _require_same_distributions(here.drawn(k), there.drawn(k), ranked=is_ranker(selector))


class _Answers:
    """A selector's answers on one pool over seeds, as kinds of responses."""

    def __init__(self, selector: Any, pool: Pool, kind: Ints, seeds: int) -> None:
        self.selector, self.pool, self.kind, self.seeds = selector, pool, kind, seeds
        orders = [self._order(seed, None if is_ranker(selector) else 2) for seed in range(SEEDS)]
        self.varies = len(set(orders)) > 1
        self.by_first = _given_first(orders) if is_ranker(selector) or not self.varies else None

    def drawn(self, k: int) -> list[Order]:
        """DRAWS answers: the first k picks, or the k selected."""
        return [self._order(SEEDS + seed, k) for seed in range(DRAWS)]

    def _order(self, seed: int, k: int | None) -> Order:
        found = [int(self.kind[pick]) for pick in order(self.selector, self.pool, self.seeds + seed, k)]
        return tuple(found if is_ranker(self.selector) else sorted(found))


def _given_first(orders: Sequence[Order]) -> dict[int, Order] | None:
    """First pick -> order; None where one first pick has two orders, so that more than it is random."""
    by_first: dict[int, set[Order]] = defaultdict(set)
    for found in orders:
        by_first[found[0]].add(found)
    return None if any(len(found) > 1 for found in by_first.values()) else {f: o.pop() for f, o in by_first.items()}


def _require_same_orders(here: dict[int, Order], there: dict[int, Order]) -> None:
    for first in sorted(here.keys() & there.keys()):
        expect(
            here[first] == there[first],
            f"permuting the pool's rows changes the order from {brief(here[first])} to {brief(there[first])}",
        )
    expect(
        here.keys() & there.keys(),
        f"permuting the pool's rows changes the first pick from {brief(here)} to {brief(there)}",
    )


def _require_same_distributions(here: Sequence[Order], there: Sequence[Order], ranked: bool) -> None:
    """Of the first and of the last pick that was drawn, or of what was selected: one outcome a draw."""
    views: dict[str, Callable[[Order], Hashable]] = {"selected pair": tuple}
    if ranked:
        views = {f"pick number {place + 1}": itemgetter(place) for place in {0, len(here[0]) - 1}}
    for what, view in views.items():
        chance = _same_chance([view(found) for found in here], [view(found) for found in there])
        expect(
            chance > LEVEL,
            f"permuting the pool's rows changes the distribution of the {what} (chi-square over {DRAWS} draws: "
            f"p = {chance:.1e})",
        )


def _same_chance(here: Sequence[Hashable], there: Sequence[Hashable]) -> float:
    """The chi-square test's p-value of two samples of equal size from one distribution."""
    place = {outcome: i for i, outcome in enumerate(dict.fromkeys([*here, *there]))}
    counts = np.array([np.bincount([place[o] for o in sample], minlength=len(place)) for sample in (here, there)])
    statistic = ((counts[0] - counts[1]) ** 2 / counts.sum(axis=0)).sum()
    return float(chdtrc(len(place) - 1, statistic)) if len(place) > 1 else 1.0
