"""The checks of a selector (ranker or subset method), in the order in which they run.

A selector that fails one of `BASIC` is not checked further. All others take picks through the guard of a run.
"""

from __future__ import annotations

import gc
import pickle
import time
import tracemalloc
import warnings
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice, zip_longest
from operator import itemgetter
from typing import Any

import numpy as np
from scipy.special import chdtrc

from harness.plugin_system.calls import COLUMNS, needs, picked, subset_of
from harness.plugin_system.component import parameters

from ..errors import HarnessError, error_text
from ..records import Ints, Outcome, Pool, Problem, correct, wrong
from . import examples
from .bounded_checks import called_elsewhere
from .checking import (
    Inapplicable,
    Violation,
    check,
    expect,
    global_rngs_preserved,
    parameter_check,
    pickled,
    require_global_rngs_untouched,
)
from .checking import picklable as parameters_survive_pickling

BUDGET_N, BUDGET_D, BUDGET_K = 512, 64, 64
TIME_S = 30.0
MEMORY_BYTES = 96 * 2**20
KEPT_BYTES = 8 * 2**20

# Get picks from `rank` or `select`: unchecked (`picks`), or with the checks of a run (`order`).


def is_ranker(selector: Any) -> bool:
    """Whether the selector is a ranker; else it is a subset method."""
    return callable(getattr(selector, "rank", None))


def ranking(selector: Any, pool: Pool, seed: int = 0) -> Iterator[Any]:
    """An iterator over a ranker's picks; none is pulled yet."""
    return iter(selector.rank(pool, np.random.default_rng(seed)))


def picks(selector: Any, pool: Pool, seed: int = 0, k: int | None = None) -> list[Any]:
    """Return at most n + 1 unchecked picks: a ranker's first k (default: all), or a subset of size k (default: n // 3).

    n is the size of the pool. Violation if the selector refuses the pool with a HarnessError.
    """
    n = len(pool)
    try:
        if is_ranker(selector):
            return list(islice(ranking(selector, pool, seed), n + 1 if k is None else k))
        k = max(1, n // 3) if k is None else k
        return list(islice(selector.select(pool, k, np.random.default_rng(seed)), n + 1))
    except HarnessError as refusal:
        raise Violation(f"it refuses a pool of {n} responses: {refusal}") from refusal


def order(selector: Any, pool: Pool, seed: int = 0, k: int | None = None) -> list[int]:
    """The picks, each index checked as in a run; Violation if their number is wrong. Arguments as for `picks`."""
    n, rng = len(pool), np.random.default_rng(seed)
    try:
        if not is_ranker(selector):
            return subset_of(selector, pool, max(1, n // 3) if k is None else k, rng)
        result = list(islice(picked(selector.rank(pool, rng), n), n + 1 if k is None else k))
    except HarnessError as refusal:
        raise Violation(f"a run refuses it on a pool of {n} responses: {refusal}") from refusal
    expected = n if k is None else k
    expect(len(result) == expected, f"{len(result)} picks from a pool of {n}, not {expected}")
    return result


def brief(values: Iterable[Any], most: int = 8) -> str:
    """The first `most` values as text."""
    shown = [str(value) for value in values]
    return f"[{', '.join(shown[:most])}{', ...' if len(shown) > most else ''}]"


# The basic checks, which all others presume.


@check("give it rank(pool, rng) or select(pool, k, rng), and say in `needs` which columns it reads")
def contract(selector: Any) -> None:
    """It has `rank` or `select`, knows what it `needs`, and answers on an ordinary pool."""
    forms = [name for name in ("rank", "select") if callable(getattr(selector, name, None))]
    expect(len(forms) == 1, f"it has {' and '.join(forms) or 'neither rank nor select'}; it must have exactly one")
    declared = needs(selector)
    is_valid = isinstance(declared, (tuple, list)) and set(declared) <= set(COLUMNS)
    expect(is_valid, f"needs must be some of {COLUMNS}, got {declared!r}")
    picks(selector, examples.pool())


@check("yield ints, counted from 0, and no response twice", (contract,))
def valid_indices(selector: Any) -> None:
    """Every pick is an integer and an index of the pool, and none comes twice."""
    for n in (24, 7):
        result = picks(selector, examples.pool(n))
        for pick in result:
            is_integer = isinstance(pick, (int, np.integer)) and not isinstance(pick, bool)
            expect(is_integer, f"a pick is {pick!r:.40}, a {type(pick).__name__}")
            expect(0 <= pick < n, f"a pick is {pick} from a pool of {n}")
        repeated = sorted({str(pick) for pick in result if result.count(pick) > 1})
        expect(not repeated, f"picked more than once from a pool of {n}: {brief(repeated)}")


@check("rank the whole pool, or select exactly k, also if k = n", (contract,))
def complete(selector: Any) -> None:
    """A ranker yields all n responses and ends; a subset method gives exactly k, up to k = n."""
    for n in (24, 7):
        for k in [None] if is_ranker(selector) else [1, 2, 4, n // 2, n]:
            wanted = n if k is None else k
            count = len(picks(selector, examples.pool(n), k=k))
            number = f"more than {wanted}" if count > wanted else str(count)  # pulling stops at the first too many
            expect(count == wanted, f"{number} picks from a pool of {n}, where {wanted} are wanted")


@check("take random numbers from the given rng only, and keep nothing between calls", (contract,))
def same_rng_same_order(selector: Any) -> None:
    """Equal pools and equal rngs give equal orders, time after time."""
    for seed in range(3):
        first = picks(selector, examples.pool(), seed)
        for _ in range(2):
            again = picks(selector, examples.pool(), seed)
            expect(again == first, f"equal rngs give {brief(first)}, then {brief(again)}")


@check("take random numbers from the given rng only", (contract, same_rng_same_order))
def own_rng_only(selector: Any) -> None:
    """The order depends on the rng passed, not on the process's global generators."""
    results = []
    for seed in range(4):
        with global_rngs_preserved(seed):
            results.append(picks(selector, examples.pool()))
        expect(results[-1] == results[0], f"another global seed gives {brief(results[-1])}, not {brief(results[0])}")


BASIC = (contract, valid_indices, complete, same_rng_same_order, own_rng_only)

# Streaming, randomness and state.


@check("let the order not depend on how many picks are pulled", BASIC)
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


@check("keep the state of a ranking in local variables, not on the selector", BASIC)
def independent_rankings(selector: Any) -> None:
    """Two rankings under way at once, or one after another, do not disturb each other."""
    pools = (examples.pool(), examples.pool(13, seed=1))
    alone = [order(selector, pool, seed) for seed, pool in enumerate(pools)]
    if is_ranker(selector):
        in_turn = zip_longest(*(ranking(selector, pool, seed) for seed, pool in enumerate(pools)))
        columns = zip(*islice(in_turn, 25), strict=True)
        together = [[pick for pick in column if pick is not None] for column in columns]
    else:
        together = [picks(selector, pool, seed) for seed, pool in enumerate(pools)]
    for expected, got in zip(alone, together, strict=True):
        expect(got == expected, f"beside another ranking it gives {brief(got)}, not {brief(expected)}")


@check("take random numbers from the given rng only; scikit-learn takes random_state=int(rng.integers(2**31))", BASIC)
def global_rngs_untouched(selector: Any) -> None:
    """It leaves the global generators of random, numpy and torch as they were."""
    require_global_rngs_untouched(lambda: order(selector, examples.pool()))


# Orders by content: permute the rows of a pool and compare the orders, response by response. On a pool without ties a
# deterministic selector must give the same order. A selector with a random first pick must give the same order whenever
# the first pick is the same response. A random selector must give the same distribution: a chi-square test over seeds
# compares its first and third pick (for a subset method: the selected pair). A correct selector fails with a
# probability below 1 in 100,000; since seeds are fixed, on one machine it fails always or never.
#
# A selector that uses clusters of answers has ties if all answers differ; one that uses vectors has ties if copies are
# left. So there are two pools, the second of seven copies of three responses. Passing on one of them is enough.

SEEDS = 24  # to see whether a selector is random: enough for a random first pick out of 8 to occur twice
SAMPLES = 200  # orders, to compare distributions
LEVEL = 1e-6  # of the chi-square test; there are two tests for each of two pools
# Permutations for the two pools. Each changes which responses are in the first half, and in the second.
DISTINCT_MOVED = (5, 2, 7, 0, 6, 4, 1, 3)
COPIES_MOVED = (3, 4, 5, 1, 6, 0, 2)

Order = tuple[int, ...]


@check("order responses by their content; break ties by the rng", BASIC)
def permutation_equivariant(selector: Any) -> None:
    """Permuting the rows permutes the order, or leaves its distribution, where nothing ties."""
    if "order" in (getattr(selector, "reads", None) or ()):
        raise Inapplicable("it says that it reads the order in which responses were sampled")
    require_equivariant(selector)


def require_equivariant(selector: Any) -> None:
    """Raise Violation if permuting the rows changes the orders, or their distribution, on both of two example pools.

    Orders are compared where the first pick fixes them, distributions where picks are random.
    """
    distinct = examples.without_ties()
    copies, kind = examples.with_copies()
    try:
        _require_equivariant_on(selector, distinct, np.arange(len(distinct)), DISTINCT_MOVED)
    except Violation as violation:
        try:
            _require_equivariant_on(selector, copies, kind, COPIES_MOVED)
        except Violation:
            raise violation from None


def _require_equivariant_on(selector: Any, pool: Pool, kind: Ints, permutation: Sequence[int]) -> None:
    ranks = is_ranker(selector)

    def kinds(pool: Pool, kind: Ints, seeds: Iterable[int], k: int | None) -> list[Order]:
        """The selector's orders over seeds; an order lists the kinds of the picks."""
        orders = [[int(kind[pick]) for pick in order(selector, pool, seed, k)] for seed in seeds]
        return [tuple(each if ranks else sorted(each)) for each in orders]

    original, moved = partial(kinds, pool, kind), partial(kinds, pool.part(permutation), kind[list(permutation)])
    all_picks = None if ranks else 2
    first, second = original(range(SEEDS), all_picks), moved(range(10_000, 10_000 + SEEDS), all_picks)
    varies = len(set(first)) > 1 or len(set(second)) > 1
    before, after = (_by_first_pick(orders) if ranks or len(set(orders)) == 1 else None for orders in (first, second))
    is_fixed = before is not None and after is not None
    if before is not None and after is not None:
        common = before.keys() & after.keys()
        for pick in sorted(common):
            what = f"permuting the pool's rows changes the order from {brief(before[pick])} to {brief(after[pick])}"
            expect(before[pick] == after[pick], what)
        expect(common, f"permuting the pool's rows changes the first pick from {brief(before)} to {brief(after)}")
    if varies:
        k = 2 if not ranks else 1 if is_fixed else 3
        seeds = range(SEEDS, SEEDS + SAMPLES)
        _require_same_distributions(original(seeds, k), moved([10_000 + seed for seed in seeds], k), ranks)


def _by_first_pick(orders: Sequence[Order]) -> dict[int, Order] | None:
    """First pick -> order; None if orders with the same first pick differ: then later picks are random too."""
    by_first: dict[int, set[Order]] = defaultdict(set)
    for picks in orders:
        by_first[picks[0]].add(picks)
    is_ambiguous = any(len(distinct) > 1 for distinct in by_first.values())
    return None if is_ambiguous else {first: distinct.pop() for first, distinct in by_first.items()}


def _require_same_distributions(original: Sequence[Order], moved: Sequence[Order], ranks: bool) -> None:
    """Compare the distributions of the first and the last pick, or of the selected pair, by a chi-square test."""
    views: dict[str, Callable[[Order], Hashable]] = {"selected pair": tuple}
    if ranks:
        views = {f"pick number {place + 1}": itemgetter(place) for place in {0, len(original[0]) - 1}}
    for what, view in views.items():
        samples = [[view(picks) for picks in orders] for orders in (original, moved)]
        place = {outcome: i for i, outcome in enumerate(dict.fromkeys([*samples[0], *samples[1]]))}
        counts = np.array([np.bincount([place[o] for o in sample], minlength=len(place)) for sample in samples])
        statistic = ((counts[0] - counts[1]) ** 2 / counts.sum(axis=0)).sum()  # of two samples of equal size
        p = float(chdtrc(len(place) - 1, statistic)) if len(place) > 1 else 1.0
        test = f"chi-square over {SAMPLES} orders: p = {p:.1e}"
        expect(p > LEVEL, f"permuting the pool's rows changes the distribution of the {what} ({test})")


# What it reads, keeps and changes.


@check("use the pool's columns and nothing else", BASIC)
def label_blind(selector: Any) -> None:
    """The order does not change with the verdicts and references that its callers hold."""
    pool = examples.pool()
    labels = [i % 5 == 2 for i in range(len(pool))]
    for seed in range(3):
        first = _order_near(selector, pool, labels, seed)
        second = _order_near(selector, pool, [not label for label in labels], seed)
        what = f"with other verdicts in its callers' frames it gives {brief(second)}, not {brief(first)}"
        expect(first == second, what)


def _order_near(selector: Any, pool: Pool, is_correct: list[bool], seed: int) -> list[int]:
    """The selector's order, while this frame holds verdicts in variables named as in the pipeline."""
    verdicts = [correct() if label else wrong() for label in is_correct]
    problem = Problem("conformance/labels", "?", reference=list(zip(pool.answers, is_correct, strict=True)))
    picks = order(selector, pool, seed)
    del verdicts, problem
    return picks


@check("keep no pool and no state: a selector has parameters only", BASIC)
def keeps_no_pool(selector: Any) -> None:
    """After a ranking its parameters are unchanged, and nothing of the pool is found in its pickle."""
    before, pool = parameters(selector), examples.pool()
    marked = [examples.SENTINEL] * len(pool)
    order(selector, replace(pool, texts=[*pool.texts[:-1], examples.SENTINEL], answers=marked))
    expect(parameters(selector) == before, f"ranking changed its parameters from {before} to {parameters(selector)}")
    try:
        kept = examples.SENTINEL.encode() in pickle.dumps(selector)
    except Exception:  # the check `picklable` reports it
        kept = False
    expect(not kept, "its pickle holds texts of a pool that it ranked")


@check("work on a copy; leave `flags.writeable` alone", BASIC)
def inputs_unchanged(selector: Any) -> None:
    """Every column is the same object after a ranking as before, has the same bytes, and is read-only all the time."""
    pool = examples.pool()
    before, columns = _contents(pool), dict(vars(pool))
    if is_ranker(selector):
        next(ranking(selector, pool, seed=99))
        _require_read_only(pool)
    order(selector, pool)
    after = _contents(pool)
    changed = [name for name in columns if after[name] != before[name] or vars(pool)[name] is not columns[name]]
    expect(not changed, f"ranking changed the pool's {' and '.join(changed)}")
    _require_read_only(pool)


def _require_read_only(pool: Pool) -> None:
    columns = {**vars(pool), **pool.scores}
    writeable = [name for name, column in columns.items() if getattr(getattr(column, "flags", None), "writeable", 0)]
    expect(not writeable, f"it made the pool's {' and '.join(writeable)} writeable")


def _contents(pool: Pool) -> dict[str, bytes]:
    """Each column as bytes."""
    columns = {**vars(pool), "scores": [(name, values.tobytes()) for name, values in pool.scores.items()]}
    return {
        name: column.tobytes() if isinstance(column, np.ndarray) else pickle.dumps(tuple(column))
        for name, column in columns.items()
    }


@check('name what it reads in `needs`: some of "embeddings", "logprobs", "scores", or ()', BASIC)
def needs_what_it_says(selector: Any) -> None:
    """Columns that it does not say it needs may be missing."""
    pool, absent = examples.pool(), [name for name in COLUMNS if name not in needs(selector)]
    if not absent:
        raise Inapplicable("it needs every column")
    n = len(pool)
    blank: dict[str, Any] = {"embeddings": np.zeros((n, 0), np.float32), "logprobs": np.full(n, np.nan), "scores": {}}
    expected = order(selector, pool)
    try:
        got = order(selector, replace(pool, **{name: blank[name] for name in absent}))
    except Exception as failure:
        raise Violation(f"without {' and '.join(absent)}, not in its needs, it {error_text(failure)}") from failure
    expect(got == expected, f"{' or '.join(absent)}, not in its needs, changes its order")


@check('name all that it reads in `reads`: "texts" (with their lengths), "answers", "order", or ()', BASIC)
def reads_what_it_says(selector: Any) -> None:
    """Where it says which of texts and answers it `reads`, the others make no difference."""
    declared = getattr(selector, "reads", None)
    if declared is None:
        raise Inapplicable("it does not say what it reads")
    is_valid = isinstance(declared, (tuple, list)) and set(declared) <= {"texts", "answers", "order"}
    expect(is_valid, f"reads must be some of ('texts', 'answers', 'order'), got {declared!r}")
    pool = examples.pool()
    blank: dict[str, Any] = {"texts": [""] * len(pool), "answers": [None] * len(pool)}
    unread = {name: column for name, column in blank.items() if name not in declared}
    if not unread:
        raise Inapplicable("it says that it reads everything")
    got = order(selector, replace(pool, **unread))
    expect(got == order(selector, pool), f"{' or '.join(unread)}, not in its reads, changes its order")


# Optional abilities: `rank_after`, `rank_many`, `pick_after` do what they promise.


@check("yield the responses that are not verified yet, each once", BASIC)
def rest_after_verified(selector: Any) -> None:
    """Where it has `rank_after`, that yields all that is not verified, each once, and the same for one rng."""
    if not callable(getattr(selector, "rank_after", None)):
        raise Inapplicable("it has no rank_after")
    pool = examples.pool()
    for verified in ((3,), (5, 1, 0), tuple(range(1, 24)), tuple(range(24))):
        rest = sorted(set(range(24)) - set(verified))
        rankings = (selector.rank_after(pool, verified, np.random.default_rng(0)) for _ in range(2))
        first, again = ([int(pick) for pick in islice(ranked, len(pool) + 1)] for ranked in rankings)
        expect(sorted(first) == rest, f"after {brief(verified)} it yields {brief(first)}, which is not all the rest")
        expect(first == again, f"after {brief(verified)} equal rngs give {brief(first)}, then {brief(again)}")


@check("let rank_many give for each pool and rng what rank gives for them", BASIC)
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


@check("return one index that is in no outcome, and take what it learns from the outcomes given alone", BASIC)
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


# Pools out of the ordinary.


@check("handle one response, copies, vectors of length 0, any precision and any scale", BASIC)
def unusual_pools(selector: Any) -> None:
    """Tiny pools, copies, zero vectors, other precisions and scales give a whole order, without numpy's warnings."""
    pool = examples.pool()
    h, equal, copies = pool.embeddings, pool.part([4] * 12), pool.part([*range(12), *range(12)])
    one_is_zero = np.where(np.arange(24)[:, None] == 7, np.float32(0), h)
    pools = {
        "a pool of one response": examples.pool(1),
        "a pool of two responses": examples.pool(2),
        "equal responses": equal,
        "equal zero vectors": replace(equal, embeddings=np.zeros((12, 8), np.float32)),
        "a zero vector": replace(pool, embeddings=one_is_zero),
        "copies": copies,
        "copies of two responses": pool.part([3] * 5 + [8] * 11),
        "float16 vectors": examples.pool(dtype=np.float16),
        "float64 vectors": examples.pool(dtype=np.float64),
        "vectors times 1e-06": replace(pool, embeddings=(h * 1e-6).astype(np.float32)),
        "vectors times 1e+06": replace(pool, embeddings=(h * 1e6).astype(np.float32)),
    }
    faults: dict[str, str] = {}
    for what, unusual in pools.items():
        n = len(unusual)
        for k in [None] if is_ranker(selector) else sorted({1, max(1, n // 2), n}):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error", RuntimeWarning)
                    order(selector, unusual, k=k)
            except RuntimeWarning as warning:
                faults[what] = f"it warns: {warning}"
            except Violation as violation:
                faults[what] = str(violation)
            except Exception as failure:
                faults[what] = error_text(failure)
    first, *others = faults or [""]
    also = f" (also with {', '.join(others)})" if others else ""
    expect(not faults, f"{first}: {faults.get(first)}{also}")


# Cost.


@check("make it faster; the pools of a run are ten times as large", BASIC)
def time_budget(selector: Any) -> None:
    """512 responses of 64 dimensions are ordered (64 of them selected) within 30 seconds."""
    pool, start, pulled = examples.pool(BUDGET_N, BUDGET_D), time.perf_counter(), 0
    for _ in ranking(selector, pool) if is_ranker(selector) else picks(selector, pool, k=BUDGET_K):
        took, pulled = time.perf_counter() - start, pulled + 1
        what = f"{pulled} of {BUDGET_N} picks took {took:.1f} s, where {TIME_S:g} s are allowed for all"
        expect(took < TIME_S, what)


@check("make no array of (n, n, d), and keep no reference to a pool after ranking it", BASIC)
def memory_budget(selector: Any) -> None:
    """512 responses of 64 dimensions take at most 96 MiB on top of the pool, and 8 MiB once it is gone."""
    pool = examples.pool(BUDGET_N, BUDGET_D)
    order(selector, examples.pool(), k=None)  # lets it import its libraries
    tracemalloc.start()  # what Python and numpy allocate
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        picks(selector, pool, k=None if is_ranker(selector) else BUDGET_K)
        peak = tracemalloc.get_traced_memory()[1] - before
        del pool
        gc.collect()
        kept = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    expect(peak <= MEMORY_BYTES, f"it takes {peak / 2**20:.0f} MiB, where {MEMORY_BYTES / 2**20:.0f} are allowed")
    expect(kept <= KEPT_BYTES, f"it keeps {kept / 2**20:.0f} MiB after the pool is deleted")


# Worker processes.


@check("hold no generator, lock, open file or lambda", BASIC)
def picklable(selector: Any) -> None:
    """It can be pickled, before and after a ranking, and the copy gives the same order."""
    parameters_survive_pickling.function(selector)
    expected = order(selector, examples.pool())
    got = order(pickled(selector), examples.pool())
    expect(got == expected, f"a pickled copy gives {brief(got)}, not {brief(expected)}")


@check("use no hash(), no order of a set, no file and no state of the process", (*BASIC, picklable))
def same_in_another_process(selector: Any) -> None:
    """Another process, with another hash seed and in an empty folder, gives the same orders."""
    for local, remote in zip(orders(selector), called_elsewhere(orders, selector), strict=True):
        expect(local == remote, f"another process gives {brief(remote)}, not {brief(local)}")


def orders(selector: Any) -> list[list[int]]:
    """Return three orders by the selector: two of one pool, with different seeds, and one of a smaller pool."""
    return [order(selector, examples.pool(n), seed) for n, seed in ((24, 0), (24, 1), (13, 2))]


CHECKS = (
    *BASIC,
    prefix_consistent,
    independent_rankings,
    global_rngs_untouched,
    permutation_equivariant,
    label_blind,
    keeps_no_pool,
    inputs_unchanged,
    needs_what_it_says,
    reads_what_it_says,
    rest_after_verified,
    many_as_one_by_one,
    picks_after_outcomes,
    unusual_pools,
    time_budget,
    memory_budget,
    parameter_check("selector"),
    picklable,
    same_in_another_process,
)
