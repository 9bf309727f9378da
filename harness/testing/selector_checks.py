"""What the harness expects of a selector, ranker or subset method.

The first six are presumed by all others: a selector that fails one of them is not tried further.
"""

from __future__ import annotations

import gc
import pickle
import time
import tracemalloc
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from ..component import parameters
from ..errors import HarnessError
from ..records import Pool, Problem, Verdict, correct, wrong
from . import examples, global_rngs
from .checking import Inapplicable, Violation, check, expect, require_one_line, said
from .common_checks import parameter_check, pickled
from .common_checks import picklable as parameters_survive_pickling
from .elsewhere import called_elsewhere
from .equivariance import require_equivariant
from .picking import brief, counted, is_ranker, needs, no_runtime_warnings, order, picks, ranking

COLUMNS = ("embeddings", "logprobs")
BUDGET_N, BUDGET_D, BUDGET_K = 512, 64, 64
TIME_S = 30.0
MEMORY_BYTES = 96 * 2**20
KEPT_BYTES = 8 * 2**20

# What all others presume.


@check("give it rank(pool, rng) or select(pool, k, rng), and say in `needs` which columns it reads")
def contract(selector: Any) -> None:
    """It has `rank` or `select`, knows what it `needs`, and answers on an ordinary pool."""
    forms = [name for name in ("rank", "select") if callable(getattr(selector, name, None))]
    expect(len(forms) == 1, f"it has {' and '.join(forms) or 'neither rank nor select'}, where one is wanted")
    named = getattr(selector, "needs", ("embeddings",))
    listed = isinstance(named, (tuple, list)) and set(named) <= set(COLUMNS)
    expect(listed, f"needs must be some of {COLUMNS}, got {named!r}")
    picks(selector, examples.pool())


@check("yield ints that count from 0", presumes=(contract,))
def valid_indices(selector: Any) -> None:
    """Every pick is an integer and an index of the pool."""
    for n in (24, 7):
        for pick in picks(selector, examples.pool(n)):
            integer = isinstance(pick, (int, np.integer)) and not isinstance(pick, bool)
            expect(integer, f"a pick is {pick!r:.40}, a {type(pick).__name__}")
            expect(0 <= pick < n, f"a pick is {pick} from a pool of {n}")


@check("never pick what is picked already", presumes=(contract,))
def distinct_indices(selector: Any) -> None:
    """No pick comes twice."""
    for n in (24, 7):
        found = picks(selector, examples.pool(n))
        twice = sorted({str(pick) for pick in found if found.count(pick) > 1})
        expect(not twice, f"picked more than once from a pool of {n}: {brief(twice)}")


@check("rank the whole pool, or select exactly k", presumes=(contract,))
def complete(selector: Any) -> None:
    """A ranker yields all n responses and ends; a subset method gives exactly k."""
    for n in (24, 7):
        for k in [None] if is_ranker(selector) else examples.budgets(n):
            wanted = n if k is None else k
            found = len(picks(selector, examples.pool(n), k=k))
            expect(found == wanted, f"{counted(found, wanted)} picks from a pool of {n}, where {wanted} are wanted")


@check("draw from the rng that it is given and keep nothing between calls", presumes=(contract,))
def same_rng_same_order(selector: Any) -> None:
    """Equal pools and equal rngs give equal orders, time after time."""
    for seed in range(3):
        first = picks(selector, examples.pool(), seed)
        for _ in range(2):
            again = picks(selector, examples.pool(), seed)
            expect(again == first, f"one rng gives {brief(first)}, then {brief(again)}")


@check("draw from the rng that it is given", presumes=(contract, same_rng_same_order))
def own_rng_only(selector: Any) -> None:
    """The order depends on the rng passed, not on the process's global generators."""
    found = []
    for seed in range(4):
        with global_rngs.seeded(seed):
            found.append(picks(selector, examples.pool()))
        expect(found[-1] == found[0], f"other global generators give {brief(found[-1])}, not {brief(found[0])}")


BASIC = (contract, valid_indices, distinct_indices, complete, same_rng_same_order, own_rng_only)

# Streaming, randomness and state.


@check("let the order not depend on how far it is pulled", presumes=BASIC)
def prefix_consistent(selector: Any) -> None:
    """A ranking pulled a little and left, or pulled in two goes, is the beginning of the whole ranking."""
    if not is_ranker(selector):
        raise Inapplicable("a subset method has no prefixes")
    pool = examples.pool()
    whole = order(selector, pool)
    few = list(islice(ranking(selector, pool), 5))
    expect(few == whole[:5], f"its first five are {brief(few)}, of the whole ranking {brief(whole[:5])}")
    going = ranking(selector, pool)
    parts = [*islice(going, 5), *going]
    expect(parts == whole, f"after a ranking that was left at five: {brief(parts)}, not {brief(whole)}")


@check("keep what a ranking works with in local variables, not on the selector", presumes=BASIC)
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
    """All of each, pulled one pick at a time in turn."""
    found: list[list[Any]] = [[] for _ in rankings]
    live = list(range(len(rankings)))
    while live:
        for i in list(live):
            pick = next(rankings[i], None)
            if pick is None or len(found[i]) > 24:
                live.remove(i)
            else:
                found[i].append(pick)
    return found


@check("draw from the rng that it is given; scikit-learn takes random_state=int(rng.integers(2**31))", presumes=BASIC)
def global_rngs_untouched(selector: Any) -> None:
    """It leaves the global generators of random, numpy and torch as they were."""
    with global_rngs.untouched():
        order(selector, examples.pool())


@check("order responses by what they are; break ties by the rng", presumes=BASIC)
def permutation_equivariant(selector: Any) -> None:
    """Permuting the rows permutes the order, or leaves its distribution, where nothing ties."""
    require_equivariant(selector)


# What it may see and keep.


@check("look at the pool's columns alone", presumes=BASIC)
def label_blind(selector: Any) -> None:
    """The order does not change with the verdicts and references that its callers hold."""
    pool = examples.pool()
    labels = [bool(i % 5 == 2) for i in range(len(pool))]
    for seed in range(3):
        found = _order_beside(selector, pool, labels, seed)
        other = _order_beside(selector, pool, [not label for label in labels], seed)
        expect(
            found == other, f"with other verdicts in its callers' frames it gives {brief(other)}, not {brief(found)}"
        )


def _order_beside(selector: Any, pool: Pool, is_correct: list[bool], seed: int) -> list[int]:
    """The order, while this frame holds verdicts under the names that the pipeline has for them."""
    verdicts: list[Verdict] = [correct() if label else wrong() for label in is_correct]
    problem = Problem(
        "conformance/labels", "?", reference=[a for a, v in zip(pool.answers, is_correct, strict=True) if v]
    )
    found = order(selector, pool, seed)
    assert len(verdicts) == len(pool)
    assert problem.reference is not None
    return found


@check("keep no pool and no state: a selector is its parameters", presumes=BASIC)
def keeps_no_pool(selector: Any) -> None:
    """After a ranking its parameters are unchanged, and nothing of the pool is found in its pickle."""
    before = parameters(selector)
    pool = examples.pool()
    marked = examples.replaced(
        pool, texts=[*pool.texts[:-1], examples.SENTINEL], answers=[examples.SENTINEL] * len(pool)
    )
    order(selector, marked)
    expect(parameters(selector) == before, f"ranking changed its parameters from {before} to {parameters(selector)}")
    expect(not _pickle_holds(selector, examples.SENTINEL), "its pickle holds texts of a pool that it ranked")


def _pickle_holds(selector: Any, text: str) -> bool:
    try:
        return text.encode() in pickle.dumps(selector)
    except Exception:  # for `picklable` to say
        return False


@check("work on a copy", presumes=BASIC)
def inputs_unchanged(selector: Any) -> None:
    """Every column has the same bytes after a ranking as before, and is the same object."""
    pool = examples.pool()
    before, columns = _contents(pool), dict(vars(pool))
    order(selector, pool)
    changed = [
        name for name in columns if _contents(pool)[name] != before[name] or vars(pool)[name] is not columns[name]
    ]
    expect(not changed, f"ranking changed the pool's {' and '.join(changed)}")


@check("work on a copy; leave `flags.writeable` alone", presumes=BASIC)
def inputs_stay_read_only(selector: Any) -> None:
    """The pool's arrays are read-only during and after a ranking."""
    pool = examples.pool()
    if is_ranker(selector):
        next(ranking(selector, pool, seed=99))
        _require_read_only(pool)
    order(selector, pool)
    _require_read_only(pool)


def _require_read_only(pool: Pool) -> None:
    writeable = [name for name, column in vars(pool).items() if getattr(getattr(column, "flags", None), "writeable", 0)]
    expect(not writeable, f"it made the pool's {' and '.join(writeable)} writeable")


def _contents(pool: Pool) -> dict[str, bytes]:
    return {
        name: column.tobytes() if isinstance(column, np.ndarray) else pickle.dumps(tuple(column))
        for name, column in vars(pool).items()
    }


@check('name what it reads in `needs`: (), ("embeddings",), ("logprobs",) or both', presumes=BASIC)
def needs_what_it_says(selector: Any) -> None:
    """Columns that it does not say it needs may be missing."""
    pool, absent = examples.pool(), [name for name in COLUMNS if name not in needs(selector)]
    if not absent:
        raise Inapplicable("it needs every column")
    blank = {"embeddings": np.zeros((len(pool), 0), np.float32), "logprobs": np.full(len(pool), np.nan)}
    expected = order(selector, pool)
    try:
        got = order(selector, examples.replaced(pool, **{name: blank[name] for name in absent}))
    except Exception as failure:
        raise Violation(f"without {' and '.join(absent)}, not in its needs, it {said(failure)}") from failure
    expect(got == expected, f"{' or '.join(absent)}, not in its needs, changes its order")


@check('name all that it reads in `reads`: "texts" (with their lengths), "answers", or ()', presumes=BASIC)
def reads_what_it_says(selector: Any) -> None:
    """Where it says which of texts and answers it `reads`, the others make no difference."""
    said_so = getattr(selector, "reads", None)
    if said_so is None:
        raise Inapplicable("it does not say what it reads")
    known = isinstance(said_so, (tuple, list)) and set(said_so) <= {"texts", "answers"}
    expect(known, f"reads must be some of ('texts', 'answers'), got {said_so!r}")
    pool = examples.pool()
    blank = {"texts": [""] * len(pool), "answers": [None] * len(pool)}
    unread = {name: column for name, column in blank.items() if name not in said_so}
    if not unread:
        raise Inapplicable("it says that it reads everything")
    got = order(selector, examples.replaced(pool, **unread))
    expect(got == order(selector, pool), f"{' or '.join(unread)}, not in its reads, changes its order")


@check("yield what is not verified yet, each once", presumes=BASIC)
def rest_after_verified(selector: Any) -> None:
    """Where it has `rank_after`, that yields all that is not verified, each once, and the same for one rng."""
    if not callable(getattr(selector, "rank_after", None)):
        raise Inapplicable("it has no rank_after")
    pool = examples.pool()
    for verified in ((3,), (5, 1, 0), tuple(range(1, 24)), tuple(range(24))):
        rest = sorted(set(range(24)) - set(verified))
        first, again = (_after(selector, pool, verified) for _ in range(2))
        expect(sorted(first) == rest, f"after {brief(verified)} it yields {brief(first)}, which is not all the rest")
        expect(first == again, f"after {brief(verified)} one rng gives {brief(first)}, then {brief(again)}")


def _after(selector: Any, pool: Pool, verified: tuple[int, ...]) -> list[int]:
    return [int(pick) for pick in islice(selector.rank_after(pool, verified, np.random.default_rng(0)), len(pool) + 1)]


@check("let rank_many give each pool and rng what rank gives it", presumes=BASIC)
def many_as_one_by_one(selector: Any) -> None:
    """Where it has `rank_many`, that gives the orders of `rank`, whatever pools and trials it is given together."""
    if not callable(getattr(selector, "rank_many", None)):
        raise Inapplicable("it has no rank_many")
    pools = [examples.pool(n, seed=seed) for seed, n in enumerate((24, 13, 24))]
    many = selector.rank_many(pools, [[np.random.default_rng(trial) for trial in range(2)] for _ in pools])
    for place, (pool, orders) in enumerate(zip(pools, many, strict=True)):
        for trial, found in enumerate(orders):
            one, together = order(selector, pool, trial), [int(pick) for pick in islice(found, len(pool) + 1)]
            expect(together == one, f"pool {place}, trial {trial}: together {brief(together)}, alone {brief(one)}")


# Pools that are out of the ordinary.


def _require_order(selector: Any, pool: Pool, what: str) -> None:
    """A whole answer, and answers for small and large k, without numpy's warnings."""
    n = len(pool)
    for k in [None] if is_ranker(selector) else sorted({1, max(1, n // 2), n}):
        with no_runtime_warnings():
            try:
                order(selector, pool, k=k)
            except Violation as found:
                raise Violation(f"{what}: {found}") from found


@check("mind n = 1", presumes=BASIC)
def one_response(selector: Any) -> None:
    """A pool of one response is ordered."""
    _require_order(selector, examples.pool(1), "a pool of one response")
    _require_order(selector, examples.pool(2), "a pool of two responses")


@check("mind k = n", presumes=BASIC)
def whole_pool(selector: Any) -> None:
    """A subset of all n responses is the whole pool."""
    if is_ranker(selector):
        raise Inapplicable("a ranker's whole pool is for `complete`")
    for n in (24, 7):
        order(selector, examples.pool(n), k=n)


@check("take equal responses in any order, but take them all", presumes=BASIC)
def identical_rows(selector: Any) -> None:
    """A pool of equal responses is ordered, their vectors zero (as centring leaves them) or not."""
    pool = examples.pool().part([4] * 12)
    _require_order(selector, pool, "equal responses")
    _require_order(selector, examples.replaced(pool, embeddings=np.zeros((12, 8), np.float32)), "equal zero vectors")


@check("mind the length 0", presumes=BASIC)
def zero_rows(selector: Any) -> None:
    """A zero vector among others is ordered with them."""
    pool = examples.pool()
    h = pool.embeddings.copy()
    h[7] = 0
    _require_order(selector, examples.replaced(pool, embeddings=h), "a zero vector")


@check("take equal responses in any order, but take them all", presumes=BASIC)
def duplicates(selector: Any) -> None:
    """Copies of responses are all picked, each once."""
    _require_order(selector, examples.pool().part([*range(12), *range(12)]), "copies")
    _require_order(selector, examples.pool().part([3] * 5 + [8] * 11), "copies of two responses")


@check("refuse it with a HarnessError `name: what, which response`, before the first pick", presumes=BASIC)
def nan_refused(selector: Any) -> None:
    """NaN in a column that it needs is refused with one line that names the selector."""
    _require_refused(selector, np.nan)


@check("refuse it with a HarnessError `name: what, which response`, before the first pick", presumes=BASIC)
def infinity_refused(selector: Any) -> None:
    """Infinity in a column that it needs is refused with one line that names the selector."""
    _require_refused(selector, np.inf)
    _require_refused(selector, -np.inf)


def _require_refused(selector: Any, value: float) -> None:
    if not needs(selector):
        raise Inapplicable("it needs no numbers")
    for name in needs(selector):
        pool = examples.pool()
        column = getattr(pool, name).copy()
        column[17, ...] = value
        try:
            with no_runtime_warnings():
                _first(selector, examples.replaced(pool, **{name: column}))
        except HarnessError as refusal:
            text = require_one_line(refusal)
            expect(_names(text, selector), f"its refusal does not name the selector: {text!r:.120}")
        else:
            raise Violation(f"it takes {value} in {name}")


def _first(selector: Any, pool: Pool) -> None:
    rng = np.random.default_rng(0)
    if is_ranker(selector):
        next(iter(selector.rank(pool, rng)))
    else:
        selector.select(pool, 8, rng)


def _names(text: str, selector: Any) -> bool:
    """Whether a line names the selector: by its class, its module's file or its attribute `name`, dashes aside."""
    factory = type(selector)
    known = (factory.__name__, factory.__module__.rpartition(".")[2], str(getattr(selector, "name", "")))
    return any(_plain(name) in _plain(text) for name in known if name)


def _plain(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter.isalnum())


@check("compute in a dtype of its own", presumes=BASIC)
def precisions(selector: Any) -> None:
    """Vectors of float16 and float64 are ordered as those of float32 are."""
    for dtype in (np.float16, np.float64):
        _require_order(selector, examples.pool(dtype=dtype), f"{np.dtype(dtype).name} vectors")


@check("let no threshold be absolute", presumes=BASIC)
def scale(selector: Any) -> None:
    """Vectors a million times smaller or larger are ordered, without numpy's warnings."""
    pool = examples.pool()
    for factor in (1e-6, 1e6):
        scaled = (pool.embeddings * factor).astype(np.float32)
        _require_order(selector, examples.replaced(pool, embeddings=scaled), f"vectors times {factor:g}")


# What it costs.


@check("see where the time goes; the pools of a run are ten times as large", presumes=BASIC)
def time_budget(selector: Any) -> None:
    """512 responses of 64 dimensions are ordered (64 of them selected) within 30 seconds."""
    pool, start = examples.pool(BUDGET_N, BUDGET_D), time.perf_counter()
    if is_ranker(selector):
        for pulled, _ in enumerate(ranking(selector, pool), 1):
            _require_in_time(start, f"{pulled} of {BUDGET_N} picks")
    else:
        picks(selector, pool, k=BUDGET_K)
        _require_in_time(start, f"{BUDGET_K} of {BUDGET_N}")


def _require_in_time(start: float, what: str) -> None:
    took = time.perf_counter() - start
    expect(took < TIME_S, f"{what} took {took:.1f} s, where {TIME_S:g} s are allowed for all")


@check("make no array of (n, n, d), and let go of a pool that is ranked", presumes=BASIC)
def memory_budget(selector: Any) -> None:
    """512 responses of 64 dimensions take at most 96 MiB on top of the pool, and 8 MiB once it is gone."""
    pool = examples.pool(BUDGET_N, BUDGET_D)
    order(selector, examples.pool(), k=None)  # loads what it loads
    with _traced() as memory:
        picks(selector, pool, k=None if is_ranker(selector) else BUDGET_K)
        peak = memory.peak()
        del pool
        gc.collect()
        kept = memory.now()
    expect(peak <= MEMORY_BYTES, f"it takes {peak / 2**20:.0f} MiB, where {MEMORY_BYTES / 2**20:.0f} are allowed")
    expect(kept <= KEPT_BYTES, f"it keeps {kept / 2**20:.0f} MiB of a pool that is gone")


class _traced:
    """What Python and numpy allocate inside, in bytes above the beginning."""

    def __enter__(self) -> _traced:
        self._ours = not tracemalloc.is_tracing()
        if self._ours:
            tracemalloc.start()
        tracemalloc.reset_peak()
        self._before = tracemalloc.get_traced_memory()[0]
        return self

    def __exit__(self, *failure: object) -> None:
        if self._ours:
            tracemalloc.stop()

    def peak(self) -> int:
        """The most at one time."""
        return tracemalloc.get_traced_memory()[1] - self._before

    def now(self) -> int:
        """What is still held."""
        return tracemalloc.get_traced_memory()[0] - self._before


# Workers.

parameters_round_trip = parameter_check("selector")


@check("hold no generator, lock, open file or lambda", presumes=BASIC)
def picklable(selector: Any) -> None:
    """It can be pickled, before and after a ranking, and the copy gives the same order."""
    parameters_survive_pickling.function(selector)
    expected = order(selector, examples.pool())
    got = order(pickled(selector), examples.pool())
    expect(got == expected, f"a pickled copy gives {brief(got)}, not {brief(expected)}")


@check("use no hash(), no order of a set, no file and no state of the process", presumes=(*BASIC, picklable))
def same_in_another_process(selector: Any) -> None:
    """Another process, with another hash seed and in an empty folder, gives the same orders."""
    expected = orders(selector)
    got = called_elsewhere(orders, selector)
    for here, there in zip(expected, got, strict=True):
        expect(here == there, f"another process gives {brief(there)}, not {brief(here)}")


def orders(selector: Any) -> list[list[int]]:
    """The orders of a few pools."""
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
    inputs_stay_read_only,
    needs_what_it_says,
    reads_what_it_says,
    rest_after_verified,
    many_as_one_by_one,
    one_response,
    whole_pool,
    identical_rows,
    zero_rows,
    duplicates,
    nan_refused,
    infinity_refused,
    precisions,
    scale,
    time_budget,
    memory_budget,
    parameters_round_trip,
    picklable,
    same_in_another_process,
)
