"""How selectors are called: each pick is checked as it arrives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from harness.contracts import LearnsFromOutcomes, Ranker, Selector, SubsetSelector
from harness.errors import HarnessError
from harness.records import Pool

COLUMNS = ("embeddings", "logprobs", "scores")


def needs(selector: Any) -> Sequence[str]:
    """The columns that a selector reads besides texts, lengths and answers; "embeddings" if it has no `needs`."""
    columns: Sequence[str] = getattr(selector, "needs", ("embeddings",))
    return columns


def information(selector: Any) -> list[str] | None:
    """All that a selector is given: its `reads`, its `needs`, outcomes; None if it does not say what it reads."""
    if not hasattr(selector, "reads"):
        return None
    columns = ["vectors" if column == "embeddings" else column for column in needs(selector)]
    return [*selector.reads, *columns, *(["outcomes"] if isinstance(selector, LearnsFromOutcomes) else [])]


def require_selector(spec: str, selector: Any) -> Selector:
    """Return the selector; HarnessError unless it ranks or selects, and needs only columns that exist."""
    if not isinstance(selector, (Ranker, SubsetSelector)):
        raise HarnessError(f"selector {spec!r}: has neither rank(pool, rng) nor select(pool, k, rng)")
    if unknown := set(needs(selector)) - set(COLUMNS):
        raise HarnessError(f"selector {spec!r}: needs {sorted(unknown)}; it can need {', '.join(map(repr, COLUMNS))}")
    return selector


def picked(ranking: Iterable[Any], n: int) -> Iterator[int]:
    """Yield the indices of a ranking of a pool of size n, each checked as it arrives.

    HarnessError if an index is not an integer, is outside the pool, or was yielded before.
    """
    seen: set[int] = set()
    for raw in ranking:
        if isinstance(raw, bool) or not isinstance(raw, (int, np.integer)):
            raise HarnessError(f"an index must be an integer, got {raw!r:.40}")
        index = int(raw)
        if not 0 <= index < n:
            raise HarnessError(f"index {index} is outside the pool of {n}")
        if index in seen:
            raise HarnessError(f"index {index} was picked twice")
        seen.add(index)
        yield index


def subset_of(selector: SubsetSelector, pool: Pool, k: int, rng: np.random.Generator) -> list[int]:
    """Return the k indices that a subset method chooses; HarnessError unless they are k distinct ones of the pool."""
    subset = list(picked(selector.select(pool, k, rng), len(pool)))
    if len(subset) != k:
        raise HarnessError(f"select gave {len(subset)} indices for k = {k}")
    return subset
