"""The checks of a selector: a ranker, or a subset method."""

from __future__ import annotations

import gc
import pickle
import reprlib
import time
import tracemalloc
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice, zip_longest
from typing import Any

import numpy as np

from harness.errors import HarnessError, error_text
from harness.plugin_system.calls import COLUMNS, needs, picked
from harness.plugin_system.component import parameters
from harness.records import Ints, Outcome, Pool, Problem, correct, wrong

from . import examples
from .checking import Inapplicable, Violation, called_elsewhere, check, expect, without_global_rngs

BUDGET_N, BUDGET_D, BUDGET_K = 512, 64, 64
TIME_S = 30.0
MEMORY_BYTES, KEPT_BYTES = 96 * 2**20, 8 * 2**20
SENTINEL = "Quite unlike anything else: gryphon 7305518."


def is_ranker(selector: Any) -> bool:
    """Whether the selector is a ranker; else it is a subset method."""
    return callable(getattr(selector, "rank", None))


def picks(selector: Any, pool: Pool, seed: int = 0, k: int | None = None) -> Iterator[Any]:
    """The picks as the selector gives them: a ranking of the pool, or a subset of size k (default: n // 3)."""
    rng = np.random.default_rng(seed)
    if is_ranker(selector):
        return iter(selector.rank(pool, rng))
    return iter(selector.select(pool, k or max(1, len(pool) // 3), rng))


def order(selector: Any, pool: Pool, seed: int = 0, k: int | None = None) -> list[int]:
    """A ranker's first k picks (default: all), or a subset of size k (default: n // 3), each checked as in a run.

    Violation if their number is wrong, or if the selector refuses the pool with a HarnessError.
    """
    n = len(pool)
    wanted = k or (n if is_ranker(selector) else max(1, n // 3))
    most = k if is_ranker(selector) and k else n + 1
    try:
        result = list(islice(picked(picks(selector, pool, seed, k), n), most))
    except HarnessError as refusal:
        raise Violation(f"on a pool of {n} responses: {refusal}") from refusal
    expect(len(result) == wanted, f"{len(result)} picks from a pool of {n}, where {wanted} are wanted")
    return result


def orders(selector: Any) -> list[list[int]]:
    """Return three orders by the selector: two of one pool, with different seeds, and one of a smaller pool."""
    return [order(selector, examples.pool(n), seed) for n, seed in ((24, 0), (24, 1), (13, 2))]


def brief(values: Iterable[Any]) -> str:
    """The first few picks as text."""
    return reprlib.repr([int(value) for value in values])


@check("selector", "give it rank(pool, rng) or select(pool, k, rng), and say in `needs` what it reads", basic=True)
def contract(selector: Any) -> None:
    """It has `rank` or `select`, knows what it `needs`, and answers on an ordinary pool."""
    forms = [name for name in ("rank", "select") if callable(getattr(selector, name, None))]
    expect(len(forms) == 1, f"it has {' and '.join(forms) or 'neither rank nor select'}; it must have exactly one")
    declared = needs(selector)
    is_valid = isinstance(declared, (tuple, list)) and set(declared) <= set(COLUMNS)
    expect(is_valid, f"needs must be some of {COLUMNS}, got {declared!r}")
    list(islice(picks(selector, examples.pool()), 25))


@check("selector", "yield ints, counted from 0, each once: the whole pool, or exactly k, also if k = n", basic=True)
def complete(selector: Any) -> None:
    """A ranker yields every index of the pool once, and ends; a subset method gives k distinct ones, up to k = n."""
    for n in (24, 7):
        for k in [None] if is_ranker(selector) else [1, 2, 4, n // 2, n]:
            order(selector, examples.pool(n), k=k)


@check("selector", "use the given rng only (scikit-learn: random_state=int(rng.integers(2**31)))", basic=True)
def same_rng_same_order(selector: Any) -> None:
    """Equal pools and rngs give equal orders, and no global random number generator is used or changed."""
    for seed in range(3):
        action = partial(order, selector, examples.pool(), seed)
        first, *others = (without_global_rngs(action, global_seed) for global_seed in (728_364_501, 728_364_501, 41))
        for again in others:
            expect(again == first, f"equal rngs give {brief(first)}, then {brief(again)}")


@check("selector", "keep the state of a ranking in local variables, not on the selector", basic=True)
def independent_rankings(selector: Any) -> None:
    """Rankings under way at once, one after another, pulled a little and left, or in two goes do not differ."""
    pools = (examples.pool(), examples.pool(13, seed=1))
    alone = [order(selector, pool, seed) for seed, pool in enumerate(pools)]
    if is_ranker(selector):
        few = order(selector, pools[0], k=5)
        expect(few == alone[0][:5], f"its first five are {brief(few)}, of the whole ranking {brief(alone[0][:5])}")
        in_turn = zip_longest(*(picks(selector, pool, seed) for seed, pool in enumerate(pools)))
        columns = zip(*islice(in_turn, 25), strict=True)
        together = [[pick for pick in column if pick is not None] for column in columns]
    else:
        together = [order(selector, pool, seed) for seed, pool in enumerate(pools)]
    for expected, got in zip(alone, together, strict=True):
        expect(got == expected, f"beside another ranking it gives {brief(got)}, not {brief(expected)}")


@check("selector", "use the pool's columns and nothing else")
def label_blind(selector: Any) -> None:
    """The order does not change with the verdicts and references that its callers hold."""
    pool, got = examples.pool(), []
    for shift in range(5):  # these names are those of the pipeline
        is_correct = [(i + shift) % 5 == 2 for i in range(len(pool))]
        verdicts = [correct() if each else wrong() for each in is_correct]
        problem = Problem("conformance/labels", "?", reference=list(zip(pool.answers, verdicts, strict=True)))
        got.append(order(selector, pool))
        what = (
            f"{problem.id}: with other verdicts in its callers' frames it gives {brief(got[-1])}, not {brief(got[0])}"
        )
        expect(got[-1] == got[0], what)


@check("selector", "keep no pool and no state: a selector has parameters only; work on a copy of an array")
def leaves_no_trace(selector: Any) -> None:
    """A ranking changes no parameter and no array of the pool, and nothing of the pool is in the selector's pickle."""
    pool = examples.pool()
    pool = replace(pool, texts=[*pool.texts[:-1], SENTINEL], answers=[SENTINEL] * len(pool))
    before, own = pickle.dumps(pool), parameters(selector)
    arrays = {"embeddings": pool.embeddings, "logprobs": pool.logprobs, "lengths": pool.lengths, **pool.scores}
    order(selector, pool)
    expect(parameters(selector) == own, f"ranking changed its parameters from {own} to {parameters(selector)}")
    expect(pickle.dumps(pool) == before, "ranking changed the pool")
    writeable = [name for name, array in arrays.items() if array.flags.writeable]
    expect(not writeable, f"it made the pool's {' and '.join(writeable)} writeable")
    try:
        kept = SENTINEL.encode() in pickle.dumps(selector)
    except Exception:  # nothing asks that it can be pickled
        return
    expect(not kept, "its pickle holds texts of a pool that it ranked")


@check("selector", "name all that it reads: embeddings, logprobs, scores in `needs`; texts, answers, order in `reads`")
def reads_what_it_says(selector: Any) -> None:
    """The columns that it does not say it `needs`, and those beside its `reads` if it has that, make no difference."""
    pool, n, reads = examples.pool(), len(examples.pool()), getattr(selector, "reads", None)
    blank: dict[str, Any] = {"embeddings": np.zeros((n, 0), np.float32), "logprobs": np.full(n, np.nan), "scores": {}}
    unread = {name: column for name, column in blank.items() if name not in needs(selector)}
    if reads is not None:
        is_valid = isinstance(reads, (tuple, list)) and set(reads) <= {"texts", "answers", "order"}
        expect(is_valid, f"reads must be some of ('texts', 'answers', 'order'), got {reads!r}")
        blank = {"texts": [""] * n, "answers": [None] * n}
        unread |= {name: column for name, column in blank.items() if name not in reads}
    expected = order(selector, pool)
    for name, column in unread.items():
        try:
            got = order(selector, replace(pool, **{name: column}))
        except Exception as failure:
            raise Violation(f"without {name}, which it does not say it reads, it {error_text(failure)}") from failure
        expect(got == expected, f"its order changes with the {name}, which it does not say it reads")


@check("selector", "see Ranker and LearnsFromOutcomes in harness.contracts")
def abilities(selector: Any) -> None:
    """Where it has `rank_after` or `pick_after`, they do what is promised, the same for equal rngs."""
    pool = examples.pool()
    if not (hasattr(selector, "rank_after") or hasattr(selector, "pick_after")):
        raise Inapplicable("it has no rank_after or pick_after")
    for verified in ((3,), (5, 1, 0), tuple(range(1, 24)), tuple(range(24))) if hasattr(selector, "rank_after") else ():
        rankings = (selector.rank_after(pool, verified, np.random.default_rng(0)) for _ in range(2))
        first, again = (list(islice(ranked, len(pool) + 1)) for ranked in rankings)
        is_rest = sorted(first) == sorted(set(range(24)) - set(verified))
        expect(is_rest, f"after {brief(verified)} it yields {brief(first)}, which is not all the rest")
        expect(first == again, f"after {brief(verified)} equal rngs give {brief(first)}, then {brief(again)}")
    outcomes = ((), (0.0,), (None,), (0.0, None, 1.0), (0.5, -3.0, 2.0, None), (0.0,) * 23, (1.0, 0.0) * 11)
    for values in outcomes if hasattr(selector, "pick_after") else ():
        known = tuple(Outcome(index, value) for index, value in enumerate(values))
        pick, again = (selector.pick_after(pool, known, np.random.default_rng(0)) for _ in range(2))
        is_new = isinstance(pick, (int, np.integer)) and len(values) <= pick < len(pool)
        expect(is_new, f"after outcomes of 0 to {len(values) - 1} it picks {pick!r:.40}")
        expect(pick == again, f"after equal outcomes equal rngs give {pick}, then {again}")


@check("selector", "handle one response, copies, vectors of length 0, any precision and any scale")
def unusual_pools(selector: Any) -> None:
    """Tiny pools, copies, zero vectors, other precisions and scales give a whole order, without numpy's warnings."""
    pool, rows = examples.pool(), np.arange(24)[:, None]
    h, equal, mean = pool.embeddings, pool.part([4] * 12), np.asarray(pool.mean)
    pools = {
        "a pool of one response": examples.pool(1),
        "a pool of two responses": examples.pool(2),
        "equal responses": equal,
        "equal zero vectors": replace(equal, embeddings=np.zeros((12, 8), np.float32)),
        "a zero vector": replace(pool, embeddings=np.where(rows == 7, np.float32(0), h)),
        "copies": pool.part([*range(12), *range(12)]),
        "copies of two responses": pool.part([3] * 5 + [8] * 11),
        "float16 vectors": examples.pool(dtype=np.float16),
        "float64 vectors": examples.pool(dtype=np.float64),
    }
    pools |= {
        f"vectors times {scale:g}": replace(pool, embeddings=(h * scale).astype(np.float32), mean=mean * scale)
        for scale in (np.float32(1e-6), np.float32(1e6))
    }
    faults: dict[str, str] = {}
    for what, unusual in pools.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", RuntimeWarning)
                for k in [None] if is_ranker(selector) else sorted({1, max(1, len(unusual) // 2), len(unusual)}):
                    order(selector, unusual, k=k)
        except Exception as failure:
            faults[what] = str(failure) if isinstance(failure, (Violation, RuntimeWarning)) else error_text(failure)
    first, *others = faults or [""]
    also = f" (also with {', '.join(others)})" if others else ""
    expect(not faults, f"{first}: {faults.get(first)}{also}")


@check("selector", "make it faster, make no array of (n, n, d), keep no pool: those of a run are ten times as large")
def budget(selector: Any) -> None:
    """512 responses of 64 dimensions are ordered (64 selected) in 30 s and 96 MiB; at most 8 MiB stay."""
    pool = examples.pool(BUDGET_N, BUDGET_D)
    order(selector, examples.pool())  # lets it import its libraries
    tracemalloc.start()  # what Python and numpy allocate
    try:
        start, (before, _) = time.perf_counter(), tracemalloc.get_traced_memory()
        for pulled, _ in enumerate(picks(selector, pool, k=BUDGET_K), 1):
            took = time.perf_counter() - start
            expect(took < TIME_S, f"{pulled} of {BUDGET_N} picks took {took:.1f} s, {TIME_S:g} s are allowed for all")
        peak = tracemalloc.get_traced_memory()[1] - before
        del pool
        gc.collect()
        kept = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    expect(peak <= MEMORY_BYTES, f"it takes {peak / 2**20:.0f} MiB, where {MEMORY_BYTES / 2**20:.0f} are allowed")
    expect(kept <= KEPT_BYTES, f"it keeps {kept / 2**20:.0f} MiB after the pool is deleted")


@check("selector", "use no hash(), no order of a set, no file and no state of the process")
def same_in_another_process(selector: Any) -> None:
    """Another process, with another hash seed and in an empty folder, gives the same orders."""
    for local, remote in zip(orders(selector), called_elsewhere(orders, selector), strict=True):
        expect(local == remote, f"another process gives {brief(remote)}, not {brief(local)}")


# Orders by content: permute the rows of a pool and compare the orders, response by response. A correct selector fails
# with a probability below 1 in 100,000; since seeds are fixed, on one machine it fails always or never.
#
# A selector that uses clusters of answers has ties if all answers differ; one that uses vectors has ties if copies are
# left. So there are two pools, the second of seven copies of three responses. Passing on one of them is enough.

SEEDS = 24  # to see whether a selector is random: enough for a random first pick out of 8 to occur twice
SAMPLES = 200  # orders, to compare distributions
LEVEL = 1e-6  # of the chi-square test; there are two tests for each of two pools
# Permutations for the two pools. Each changes which responses are in the first half, and in the second.
DISTINCT_MOVED = (5, 2, 7, 0, 6, 4, 1, 3)
COPIES_MOVED = (3, 4, 5, 1, 6, 0, 2)


@check("selector", "order responses by their content; break ties by the rng")
def permutation_equivariant(selector: Any) -> None:
    """Permuting the rows permutes the order, or leaves its distribution, where nothing ties."""
    if "order" in (getattr(selector, "reads", None) or ()):
        raise Inapplicable("it says that it reads the order in which responses were sampled")
    copies = np.array([0, 1, 1, 2, 2, 2, 2])
    try:
        _require_equivariant(selector, examples.without_ties(), np.arange(8), DISTINCT_MOVED)
    except Violation as violation:
        try:
            _require_equivariant(selector, examples.without_ties(3).part(copies.tolist()), copies, COPIES_MOVED)
        except Violation:
            raise violation from None


def _require_equivariant(selector: Any, pool: Pool, kinds: Ints, moved: Sequence[int]) -> None:
    """Raise Violation if permuting the pool's rows changes the orders.

    The orders of two pools are compared where the first pick is the same response. Where that does not fix the others,
    and if the first pick varies, a chi-square test over seeds compares the distributions of the first and the third.

    kinds  (n,) which response each row is a copy of; orders are compared by them, and a subset counts as one pick
    """
    ranks = is_ranker(selector)

    def orders(seeds: range, k: int | None) -> list[list[tuple[Any, ...]]]:
        both: list[list[tuple[Any, ...]]] = []
        for each, kind, offset in ((pool, kinds, 0), (pool.part(moved), kinds[list(moved)], 10_000)):
            rows = [kind[order(selector, each, offset + seed, k)].tolist() for seed in seeds]
            both.append([tuple(row) if ranks else (tuple(sorted(row)),) for row in rows])
        return both

    whole = orders(range(SEEDS), None if ranks else 2)
    before, after = firsts = [{each[0]: each for each in some} for some in whole]
    is_fixed = all(each == by_first[each[0]] for some, by_first in zip(whole, firsts, strict=True) for each in some)
    if is_fixed:
        common = before.keys() & after.keys()
        expect(common, f"permuting the pool's rows changes the first pick from {[*before]} to {[*after]}")
        for pick in common:
            what = f"permuting the pool's rows changes the order from {before[pick]} to {after[pick]}"
            expect(before[pick] == after[pick], what)
        if len(before) == len(after) == 1:
            return
    from scipy.stats import chi2_contingency  # half a second to import

    places = [0] if is_fixed else [0, 2]
    samples = orders(range(SEEDS, SEEDS + SAMPLES), places[-1] + 1 if ranks else 2)
    for place in places:
        counts = [Counter(each[place] for each in sample) for sample in samples]
        p = chi2_contingency([[count[kind] for kind in counts[0] | counts[1]] for count in counts], correction=False)[1]
        what = f"pick number {place + 1}" if ranks else "selected pair"
        test = f"chi-square over {SAMPLES} orders: p = {p:.1e}"
        expect(p > LEVEL, f"permuting the pool's rows changes the distribution of the {what} ({test})")
