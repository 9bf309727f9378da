"""Pools for selectors on any column, their orders, and a test of how often each order comes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import chisquare

from harness import Pool
from harness.testing.selector_checks import orders


def pool_of(texts=None, answers=None, lengths=None, logprobs=None, embeddings=None, scores=None) -> Pool:
    """A pool with these columns; the others are the same for every response."""
    columns = (texts, answers, lengths, logprobs, embeddings, *(scores or {}).values())
    given = next(column for column in columns if column is not None)
    n = len(given)
    return Pool(
        texts=["x"] * n if texts is None else texts,
        embeddings=np.zeros((n, 0), np.float32) if embeddings is None else embeddings,
        logprobs=np.zeros(n) if logprobs is None else np.asarray(logprobs, np.float64),
        lengths=np.ones(n, np.int64) if lengths is None else np.asarray(lengths, np.int64),
        answers=[None] * n if answers is None else answers,
        scores=scores or {},
    )


def mixed_pool(n: int, seed: int = 0) -> Pool:
    """A pool with duplicated texts, answers and vectors, and with responses that have no answer."""
    rng = np.random.default_rng(seed)
    text = rng.integers(max(1, n // 2), size=n)
    return Pool(
        texts=[f"say {i} and {i % 3} or {i % 7}" if i else "" for i in text],
        embeddings=rng.normal(size=(n, 6)).astype(np.float32)[text],
        logprobs=-rng.exponential(20, size=n),
        lengths=rng.integers(1, 9, size=n),
        answers=[None if i % 5 == 0 else str(i % 4) for i in text],
    )


def ranked(selector: Any, pool: Pool, seed: int = 0) -> list[int]:
    """A selector's whole order."""
    return list(selector.rank(pool, np.random.default_rng(seed)))


def after(selector: Any, pool: Pool, verified: Sequence[int], seed: int = 0) -> list[int]:
    """The order in which it goes on from what was verified."""
    return list(selector.rank_after(pool, tuple(verified), np.random.default_rng(seed)))


def orders_of_each(selectors: Iterable[Any]) -> list[list[list[int]]]:
    """Three orders by each: another process can import this."""
    return [orders(selector) for selector in selectors]


def assert_law(draw: Callable[[], Hashable], law: Mapping[Any, float], draws: int) -> None:
    """A chi-square test that outcomes come with these probabilities; those that come seldom count together."""
    counts = Counter(draw() for _ in range(draws))
    assert set(counts) <= set(law)
    expected = {outcome: draws * p for outcome, p in law.items()}
    seldom = [outcome for outcome in law if expected[outcome] < 5]
    counts["seldom"] = sum(counts[outcome] for outcome in seldom)
    expected["seldom"] = sum(expected[outcome] for outcome in seldom)
    classes = [outcome for outcome in expected if outcome not in seldom]
    if expected["seldom"] < 5:  # too few for a class of their own
        least = min((outcome for outcome in classes if outcome != "seldom"), key=expected.__getitem__)
        counts[least] += counts["seldom"]
        expected[least] += expected["seldom"]
        classes.remove("seldom")
    assert chisquare([counts[c] for c in classes], [expected[c] for c in classes]).pvalue > 0.001


def assert_equally_often(selector: Any, pool: Pool, orders: Iterable[tuple[int, ...]], draws: int) -> None:
    """A chi-square test that a selector gives each of these orders equally often, and no other."""
    orders, rng = list(orders), np.random.default_rng(99)
    assert_law(lambda: tuple(selector.rank(pool, rng)), {order: 1 / len(orders) for order in orders}, draws)


def recorded(monkeypatch: Any, owner: Any, name: str, note: Callable[..., Any]) -> list[Any]:
    """Record the calls of a function or method: a list that gets `note(result, *arguments)` at each call."""
    notes, function = [], getattr(owner, name)

    def call(*arguments: Any) -> Any:
        result = function(*arguments)
        notes.append(note(result, *arguments))
        return result

    monkeypatch.setattr(owner, name, call)
    return notes
