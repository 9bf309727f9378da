"""Sparse random projection to at most `dim` features, from a recorded seed (Li, Hastie & Church 2006)."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from harness.errors import HarnessError
from harness.records import Floats

BLOCK = 512  # rows at once: 6,400 x 4,096 take a quarter of the time and memory, with the same result bit for bit


def project(vectors: Any, dim: int, seed: int, giver: str = "embedder") -> Floats:
    """Vectors (n, d), dense or scipy-sparse, as (n, min(d, dim)) float32: projected if d > dim, else unchanged.

    The matrix depends on (d, dim, seed) alone, so every problem and every run with that seed shares it. HarnessError if
    vectors hold NaN or infinity; `giver` names their source.
    """
    width = vectors.shape[1]
    if width <= dim:
        result = _dense(vectors)
    else:
        _require_finite(vectors, giver)  # scikit-learn's own error is ten lines long and does not name the source
        projection, blocks = _projection(width, dim, seed), range(0, max(1, vectors.shape[0]), BLOCK)
        result = np.concatenate([_dense(projection.transform(vectors[start : start + BLOCK])) for start in blocks])
    _require_finite(result, giver)
    return result


def _require_finite(vectors: Any, giver: str) -> None:
    """HarnessError for a row, dense or sparse, that holds NaN or infinity."""
    if isinstance(vectors, np.ndarray):
        finite = np.isfinite(vectors).all(axis=1)  # (n,)
    else:
        entries = vectors.tocoo()
        finite = np.ones(vectors.shape[0], bool)
        finite[entries.row[~np.isfinite(entries.data)]] = False
    if not finite.all():
        raise HarnessError(f"{giver}: its vector of response {finite.argmin()} holds NaN or infinity")


def _dense(vectors: Any) -> Floats:
    dense: Floats = np.asarray(vectors if isinstance(vectors, np.ndarray) else vectors.toarray(), np.float32)
    return dense


@functools.lru_cache(maxsize=4)
def _projection(width: int, dim: int, seed: int) -> Any:
    from sklearn.random_projection import SparseRandomProjection  # takes a second to import; most models do not need it

    return SparseRandomProjection(n_components=dim, random_state=seed).fit(np.zeros((1, width), np.float32))
