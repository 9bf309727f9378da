"""Get a selector's picks from `rank` or `select`: unchecked (`picks`), or with the checks of a run (`order`)."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np

from harness.plugin_system.picks import picked, subset_of

from ..errors import HarnessError
from ..records import Pool
from .checking import Violation, expect


def is_ranker(selector: Any) -> bool:
    """Whether the selector is a ranker; else it is a subset method."""
    return callable(getattr(selector, "rank", None))


def needs(selector: Any) -> Sequence[str]:
    """The columns in a selector's `needs`; "embeddings" if it has none."""
    return tuple(getattr(selector, "needs", ("embeddings",)))


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


def counted(pulled: int, expected: int) -> str:
    """The number of picks as text; `more than` if there are too many, since pulling stops at the first one too many."""
    return f"more than {expected}" if pulled > expected else str(pulled)


def brief(values: Iterable[Any], most: int = 8) -> str:
    """The first `most` values as text."""
    shown = [str(value) for value in values]
    return f"[{', '.join(shown[:most])}{', ...' if len(shown) > most else ''}]"


@contextmanager
def no_runtime_warnings() -> Iterator[None]:
    """Raise Violation if numpy warns of overflow, division by zero or invalid values in the code inside."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        try:
            yield
        except RuntimeWarning as warning:
            raise Violation(f"it warns: {warning}") from warning
