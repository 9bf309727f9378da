"""The basic checks of a selector, which all others presume, and the checks of streaming, randomness and state.

A selector that fails one of `BASIC` is not checked further.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from . import examples, global_rngs
from .checking import Inapplicable, check, expect
from .common_checks import require_global_rngs_untouched
from .equivariance import require_equivariant
from .picking import brief, counted, is_ranker, order, picks, ranking

COLUMNS = ("embeddings", "logprobs", "scores")

# The basic checks, which all others presume.


@check("give it rank(pool, rng) or select(pool, k, rng), and say in `needs` which columns it reads")
def contract(selector: Any) -> None:
    """It has `rank` or `select`, knows what it `needs`, and answers on an ordinary pool."""
    forms = [name for name in ("rank", "select") if callable(getattr(selector, name, None))]
    expect(len(forms) == 1, f"it has {' and '.join(forms) or 'neither rank nor select'}; it must have exactly one")
    declared = getattr(selector, "needs", ("embeddings",))
    is_valid = isinstance(declared, (tuple, list)) and set(declared) <= set(COLUMNS)
    expect(is_valid, f"needs must be some of {COLUMNS}, got {declared!r}")
    picks(selector, examples.pool())


@check("yield ints, counted from 0", presumes=(contract,))
def valid_indices(selector: Any) -> None:
    """Every pick is an integer and an index of the pool."""
    for n in (24, 7):
        for pick in picks(selector, examples.pool(n)):
            is_integer = isinstance(pick, (int, np.integer)) and not isinstance(pick, bool)
            expect(is_integer, f"a pick is {pick!r:.40}, a {type(pick).__name__}")
            expect(0 <= pick < n, f"a pick is {pick} from a pool of {n}")


@check("never pick a response twice", presumes=(contract,))
def distinct_indices(selector: Any) -> None:
    """No pick comes twice."""
    for n in (24, 7):
        picked = picks(selector, examples.pool(n))
        repeated = sorted({str(pick) for pick in picked if picked.count(pick) > 1})
        expect(not repeated, f"picked more than once from a pool of {n}: {brief(repeated)}")


@check("rank the whole pool, or select exactly k", presumes=(contract,))
def complete(selector: Any) -> None:
    """A ranker yields all n responses and ends; a subset method gives exactly k."""
    for n in (24, 7):
        for k in [None] if is_ranker(selector) else examples.budgets(n):
            wanted = n if k is None else k
            count = len(picks(selector, examples.pool(n), k=k))
            expect(count == wanted, f"{counted(count, wanted)} picks from a pool of {n}, where {wanted} are wanted")


@check("take random numbers from the given rng only, and keep nothing between calls", presumes=(contract,))
def same_rng_same_order(selector: Any) -> None:
    """Equal pools and equal rngs give equal orders, time after time."""
    for seed in range(3):
        first = picks(selector, examples.pool(), seed)
        for _ in range(2):
            again = picks(selector, examples.pool(), seed)
            expect(again == first, f"equal rngs give {brief(first)}, then {brief(again)}")


@check("take random numbers from the given rng only", presumes=(contract, same_rng_same_order))
def own_rng_only(selector: Any) -> None:
    """The order depends on the rng passed, not on the process's global generators."""
    results = []
    for seed in range(4):
        with global_rngs.seeded(seed):
            results.append(picks(selector, examples.pool()))
        expect(results[-1] == results[0], f"another global seed gives {brief(results[-1])}, not {brief(results[0])}")


BASIC = (contract, valid_indices, distinct_indices, complete, same_rng_same_order, own_rng_only)

# Streaming, randomness and state.


@check("let the order not depend on how many picks are pulled", presumes=BASIC)
def prefix_consistent(selector: Any) -> None:
    """A ranking pulled a little and left, or pulled in two goes, is the beginning of the whole ranking."""
    if not is_ranker(selector):
        raise Inapplicable("a subset method has no prefixes")
    pool = examples.pool()
    whole = order(selector, pool)
    few = list(islice(ranking(selector, pool), 5))
    expect(few == whole[:5], f"pulled alone, its first five are {brief(few)}, of the whole ranking {brief(whole[:5])}")
    iterator = ranking(selector, pool)
    resumed = [*islice(iterator, 5), *iterator]
    expect(resumed == whole, f"pulled in two parts it gives {brief(resumed)}, not {brief(whole)}")


@check("keep the state of a ranking in local variables, not on the selector", presumes=BASIC)
def independent_rankings(selector: Any) -> None:
    """Two rankings under way at once, or one after another, do not disturb each other."""
    first, second = examples.pool(), examples.pool(13, seed=1)
    alone = [[order(selector, pool, seed) for _ in range(2)][-1] for pool, seed in ((first, 1), (second, 2))]
    if is_ranker(selector):
        together = _in_turn([ranking(selector, first, 1), ranking(selector, second, 2)])
    else:
        together = [picks(selector, first, 1), picks(selector, second, 2)]
    for expected, got in zip(alone, together, strict=True):
        expect(got == expected, f"beside another ranking it gives {brief(got)}, not {brief(expected)}")
    again = order(selector, first, 1)
    expect(again == alone[0], f"after other pools it gives {brief(again)}, not {brief(alone[0])}")


def _in_turn(rankings: list[Iterator[Any]]) -> list[list[Any]]:
    """All picks of each ranking; one pick is pulled from each in turn."""
    pulled: list[list[Any]] = [[] for _ in rankings]
    live = list(range(len(rankings)))
    while live:
        for i in list(live):
            pick = next(rankings[i], None)
            if pick is None or len(pulled[i]) > 24:
                live.remove(i)
            else:
                pulled[i].append(pick)
    return pulled


@check(
    "take random numbers from the given rng only; scikit-learn takes random_state=int(rng.integers(2**31))",
    presumes=BASIC,
)
def global_rngs_untouched(selector: Any) -> None:
    """It leaves the global generators of random, numpy and torch as they were."""
    require_global_rngs_untouched(lambda: order(selector, examples.pool()))


@check("order responses by their content; break ties by the rng", presumes=BASIC)
def permutation_equivariant(selector: Any) -> None:
    """Permuting the rows permutes the order, or leaves its distribution, where nothing ties."""
    if "order" in (getattr(selector, "reads", None) or ()):
        raise Inapplicable("it says that it reads the order in which responses were sampled")
    require_equivariant(selector)


STREAMS = (prefix_consistent, independent_rankings, global_rngs_untouched, permutation_equivariant)
