"""Exact samples from a determinantal point process: first which eigenvectors, then which rows.

Together they must give every set of k rows with the probability of `k_dpp.reference_law`, exactly.

- k of m eigenvectors with probability ∝ the product of their weights: independent coins with the probability
  p = θ w / (1 + θ w) have this law given k heads, for any θ (Chen, Dempster & Liu, "Weighted finite population sampling
  to maximize entropy", Biometrika 81, 1994). θ is chosen so that k heads are expected: then k is the likeliest number,
  and about 1.3 √m throws at most are needed.
- Rows from the projection on the span of k orthonormal columns: one by one, with probability ∝ the squared length of
  what the picked rows do not explain (Hough et al., "Determinantal processes and independence", Probab. Surveys 3,
  2006). These lengths never rise. So a block of proposals is sampled by the lengths at its start, and each is accepted
  with the probability (length now) / (length then): nearly all work is in matrix products (Epperly, Tropp & Webber,
  "Embrace rejection", arXiv:2410.03969).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import solve_triangular

from .vectors import squared_norms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .vectors import Float64s, Ints

BLOCK = 64  # proposals at a time
TRIES = 32  # throws of all coins at a time


def choose_eigenvectors(log_weight: Float64s, k: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Choose k of the m eigenvectors with probability ∝ the product of their weights; return which, (m,)."""
    m = len(log_weight)
    if k == m:
        return np.ones(m, np.bool_)
    low, high = -log_weight.max() - np.log(m), -log_weight.min() + np.log(m)  # bounds on log θ
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _heads(log_weight + middle).sum() < k else (low, middle)
    probability = _heads(log_weight + high)
    while True:
        heads = rng.random((TRIES, m)) < probability
        with_k = np.flatnonzero(heads.sum(axis=1) == k)
        if len(with_k):
            return np.asarray(heads[with_k[0]])


def _heads(log_odds: Float64s) -> Float64s:
    """Return the probability of heads."""
    return np.asarray(np.exp(-np.logaddexp(0, -log_odds)))


def null_directions(vectors: Float64s, count: int, rng: np.random.Generator) -> Float64s:
    """Return `count` orthonormal columns (n, count), orthogonal to vectors (n, r), in uniformly random directions."""
    random = rng.normal(size=(len(vectors), count))
    for _ in range(2):  # one pass leaves rounding errors of the vectors
        random -= vectors @ (vectors.T @ random)
    return np.asarray(np.linalg.qr(random)[0])


def sample_rows(basis: Float64s, rng: np.random.Generator) -> list[int]:
    """Sample k rows from the projection on the span of the basis, (n, k) with orthonormal columns.

    A set S of k rows has the probability det(basis[S])².
    """
    k = basis.shape[1]
    weight = squared_norms(basis)  # (n,)
    explained = np.empty((k, k))  # (picks, k) orthonormal: the span of the picked rows
    picks: list[int] = []
    while (t := len(picks)) < k:
        proposed = rng.choice(len(weight), min(BLOCK, 1 + (k - t) // 2), p=weight / weight.sum())
        rows = basis[proposed]
        rows -= rows @ explained[:t].T @ explained[:t]
        accepted, lower = _accept(rows, proposed, rng.random(len(proposed)) * weight[proposed])
        picks += proposed[accepted].tolist()
        span = solve_triangular(lower, rows[accepted], lower=True, check_finite=False)
        explained[t : len(picks)] = span
        weight = np.maximum(weight - squared_norms(basis @ span.T), 0)
        weight[picks] = 0
    return picks


def _accept(rows: Float64s, proposed: Ints, limit: Float64s) -> tuple[list[int], Float64s]:
    """Accept proposals (b, k) one after another if their unexplained squared length is above the limit.

    Return which are accepted, at least the first, and the Cholesky factor of their products.
    """
    product = rows @ rows.T
    length = product.diagonal().copy()
    factor = np.empty_like(product)  # (accepted, b): rows of Lᵀ
    accepted: list[int] = []
    for i in range(len(proposed)):
        if length[i] > limit[i] or not accepted:
            t = len(accepted)
            factor[t] = (product[i] - factor[:t, i] @ factor[:t]) / np.sqrt(length[i])
            length -= factor[t] ** 2
            length[proposed == proposed[i]] = -1.0  # the row itself, despite rounding errors
            accepted.append(i)
    return accepted, np.tril(factor[: len(accepted), accepted].T)
