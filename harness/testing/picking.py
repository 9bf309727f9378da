"""Get a selector's picks, from `rank` or `select`: unchecked, and through the checks that a run applies."""

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
    """The columns that it says it needs."""
    return tuple(getattr(selector, "needs", ("embeddings",)))


def ranking(selector: Any, pool: Pool, seed: int = 0) -> Iterator[Any]:
    """A ranker's picks, not pulled yet."""
    return iter(selector.rank(pool, np.random.default_rng(seed)))


def picks(selector: Any, pool: Pool, seed: int = 0, k: int | None = None) -> list[Any]:
    """Unchecked picks, at most n + 1: a ranker's first k (default: all), or a subset of size k (default: n // 3)."""
    n = len(pool)
    try:
        if is_ranker(selector):
            return list(islice(ranking(selector, pool, seed), n + 1 if k is None else k))
        k = max(1, n // 3) if k is None else k
        return list(islice(selector.select(pool, k, np.random.default_rng(seed)), n + 1))
    except HarnessError as refusal:
        raise Violation(f"it refuses a pool of {n} responses: {refusal}") from refusal


def order(selector: Any, pool: Pool, seed: int = 0, k: int | None = None) -> list[int]:
    """The same as `picks`, each index checked as in a run; Violation if the number of picks is wrong."""
    n, rng = len(pool), np.random.default_rng(seed)
    try:
        if not is_ranker(selector):
            return subset_of(selector, pool, max(1, n // 3) if k is None else k, rng)
        result = list(islice(picked(selector.rank(pool, rng), n), n + 1 if k is None else k))
    except HarnessError as refusal:
        raise Violation(f"a run refuses it on a pool of {n} responses: {refusal}") from refusal
    wanted = n if k is None else k
    expect(len(result) == wanted, f"{len(result)} picks from a pool of {n}, not {wanted}")
    return result


def counted(pulled: int, wanted: int) -> str:
    """The number of picks as text; `more than` if too many, since pulling stops after one too many."""
    return f"more than {wanted}" if pulled > wanted else str(pulled)


def brief(values: Iterable[Any], most: int = 8) -> str:
    """The first `most` values as text."""
    shown = [str(value) for value in values]
    return f"[{', '.join(shown[:most])}{', ...' if len(shown) > most else ''}]"


@contextmanager
def no_runtime_warnings() -> Iterator[None]:
    """Inside, numpy's warnings of overflow, division by zero and invalid values are violations."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        try:
            yield
        except RuntimeWarning as warning:
            raise Violation(f"it warns: {warning}") from warning
