"""Pools for selectors on any column."""

from __future__ import annotations

import numpy as np

from harness import Pool


def pool_of(texts=None, answers=None, lengths=None, logprobs=None, embeddings=None) -> Pool:
    """A pool with these columns; the others are the same for every response."""
    given = next(column for column in (texts, answers, lengths, logprobs, embeddings) if column is not None)
    n = len(given)
    return Pool(
        texts=["x"] * n if texts is None else texts,
        embeddings=np.zeros((n, 0), np.float32) if embeddings is None else embeddings,
        logprobs=np.zeros(n) if logprobs is None else np.asarray(logprobs, np.float64),
        lengths=np.ones(n, np.int64) if lengths is None else np.asarray(lengths, np.int64),
        answers=[None] * n if answers is None else answers,
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
