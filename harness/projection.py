"""Sparse random projection to at most `dim` features, drawn from a recorded seed (Li, Hastie & Church 2006)."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .errors import HarnessError
from .records import Floats


def project(vectors: Any, dim: int, seed: int) -> Floats:
    """(n, min(d, dim)) float32: the vectors themselves where they are no wider, else projected. Dense or scipy-sparse.

    The matrix depends on (d, dim, seed) alone, so every problem and every run with that seed shares it.
    """
    width = vectors.shape[1]
    projected = vectors if width <= dim else _projection(width, dim, seed).transform(vectors)
    dense = projected if isinstance(projected, np.ndarray) else projected.toarray()
    result: Floats = np.asarray(dense, np.float32)
    if not np.isfinite(result).all():
        raise HarnessError("embedder: gave vectors with NaN or inf")
    return result


@functools.lru_cache(maxsize=4)
def _projection(width: int, dim: int, seed: int) -> Any:
    from sklearn.random_projection import SparseRandomProjection  # a second to import; most models need none of it

    return SparseRandomProjection(n_components=dim, random_state=seed).fit(np.zeros((1, width), np.float32))
