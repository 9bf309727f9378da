"""Test that a selector orders responses by their content and not by their position in the pool.

The test permutes the rows of a pool and compares the orders, response by response. On a pool without ties a
deterministic selector must give the same order. A selector with a random first pick must give the same order whenever
the first pick is the same response. A random selector must give the same distribution: a chi-square test over seeds
compares its first and third pick (for a subset method: the selected pair). A correct selector fails with a probability
below 1 in 100,000; since seeds are fixed, on one machine it fails always or never.

A selector that uses clusters of answers has ties if all answers differ; one that uses vectors has ties if copies are
left. So there are two pools, the second of seven copies of three responses. Passing on one of them is enough.
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

SEEDS = 24  # to see whether a selector is random: enough for a random first pick out of 8 to occur twice
SAMPLES = 200  # orders, to compare distributions
LEVEL = 1e-6  # of the chi-square test; there are two tests for each of two pools

Order = tuple[int, ...]


def require_equivariant(selector: Any) -> None:
    """Raise Violation if permuting the rows changes the orders, or their distribution, on both of two example pools.

    Orders are compared where the first pick fixes them, distributions where picks are random.
    """
    distinct = examples.without_ties()
    copies, kind = examples.with_copies()
    try:
        _require_on(selector, distinct, np.arange(len(distinct)), examples.DISTINCT_MOVED)
    except Violation as violation:
        try:
            _require_on(selector, copies, kind, examples.COPIES_MOVED)
        except Violation:
            raise violation from None


def _require_on(selector: Any, pool: Pool, kind: Ints, permutation: Sequence[int]) -> None:
    original = _Orders(selector, pool, kind, seeds=0)
    moved = _Orders(selector, pool.part(permutation), kind[list(permutation)], seeds=10_000)
    by_first = None if original.by_first is None or moved.by_first is None else (original.by_first, moved.by_first)
    if by_first is not None:
        _require_same_orders(*by_first)
    if original.varies or moved.varies:
        k = 2 if not is_ranker(selector) else 3 if by_first is None else 1
        _require_same_distributions(original.sampled(k), moved.sampled(k), ranked=is_ranker(selector))


class _Orders:
    """A selector's orders of one pool over seeds; an order lists the kinds of the picks."""

    def __init__(self, selector: Any, pool: Pool, kind: Ints, seeds: int) -> None:
        self.selector, self.pool, self.kind, self.seeds = selector, pool, kind, seeds
        orders = [self._order(seed, None if is_ranker(selector) else 2) for seed in range(SEEDS)]
        self.varies = len(set(orders)) > 1
        self.by_first = _by_first_pick(orders) if is_ranker(selector) or not self.varies else None

    def sampled(self, k: int) -> list[Order]:
        """SAMPLES orders: the first k picks, or the k selected."""
        return [self._order(SEEDS + seed, k) for seed in range(SAMPLES)]

    def _order(self, seed: int, k: int | None) -> Order:
        kinds = [int(self.kind[pick]) for pick in order(self.selector, self.pool, self.seeds + seed, k)]
        return tuple(kinds if is_ranker(self.selector) else sorted(kinds))


def _by_first_pick(orders: Sequence[Order]) -> dict[int, Order] | None:
    """First pick -> order; None if orders with the same first pick differ: then later picks are random too."""
    by_first: dict[int, set[Order]] = defaultdict(set)
    for picks in orders:
        by_first[picks[0]].add(picks)
    ambiguous = any(len(distinct) > 1 for distinct in by_first.values())
    return None if ambiguous else {first: distinct.pop() for first, distinct in by_first.items()}


def _require_same_orders(original: dict[int, Order], moved: dict[int, Order]) -> None:
    for first in sorted(original.keys() & moved.keys()):
        expect(
            original[first] == moved[first],
            f"permuting the pool's rows changes the order from {brief(original[first])} to {brief(moved[first])}",
        )
    expect(
        original.keys() & moved.keys(),
        f"permuting the pool's rows changes the first pick from {brief(original)} to {brief(moved)}",
    )


def _require_same_distributions(original: Sequence[Order], moved: Sequence[Order], ranked: bool) -> None:
    """Compare the distributions of the first and the last pick, or of the selected pair; one outcome per seed."""
    views: dict[str, Callable[[Order], Hashable]] = {"selected pair": tuple}
    if ranked:
        views = {f"pick number {place + 1}": itemgetter(place) for place in {0, len(original[0]) - 1}}
    for what, view in views.items():
        p = _p_value([view(picks) for picks in original], [view(picks) for picks in moved])
        expect(
            p > LEVEL,
            f"permuting the pool's rows changes the distribution of the {what} (chi-square over {SAMPLES} orders: "
            f"p = {p:.1e})",
        )


def _p_value(original: Sequence[Hashable], moved: Sequence[Hashable]) -> float:
    """The p-value of a chi-square test that two samples of equal size come from one distribution."""
    place = {outcome: i for i, outcome in enumerate(dict.fromkeys([*original, *moved]))}
    counts = np.array([np.bincount([place[o] for o in sample], minlength=len(place)) for sample in (original, moved)])
    statistic = ((counts[0] - counts[1]) ** 2 / counts.sum(axis=0)).sum()
    return float(chdtrc(len(place) - 1, statistic)) if len(place) > 1 else 1.0
