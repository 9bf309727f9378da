"""Exact k-DPP sampling: k responses at random; sets of dissimilar responses have higher probability.

    P(S) ∝ det(L_S) over all S of k responses        L = K + ridge · (mean of K's diagonal) · I

Kulesza & Taskar, "k-DPPs: fixed-size determinantal point processes" (ICML 2011): choose k eigenvectors of L with
probability ∝ the product of their eigenvalues, then sample from the projection on their span. Kernels K:

    cosine, linear   x·y, of vectors at length 1 or as they are: a singular value decomposition, n d²
    rbf              exp(-|x - y|² / (2 bandwidth²)), the bandwidth the median distance unless given: an
                     eigendecomposition, n³ and three times n² float64 (6,400 responses: 40 s and 1 GB)
    tanimoto         x·y / (|x|² + |y|² - x·y) of bits or counts, as they were before centring; at the cost of rbf

We differ in the ridge, 1e-6: without it no set of k > rank K responses (cosine: k > d) has a probability above 0. Up to
the rank it changes almost nothing. Beyond the rank, sets span all directions of K, and the rest of a set is nearly
uniform. We also differ in the sums: elementary symmetric polynomials overflow (DPPy 0.3.3 fails at 1,000 of 2,000).

- Eigenvectors: independent coins with the probability p = θ w / (1 + θ w) have the wanted law given k heads, for any θ
  (Chen, Dempster & Liu, "Weighted finite population sampling to maximize entropy", Biometrika 81, 1994). θ is chosen so
  that k heads are expected: then k is the likeliest number, and about 1.3 √n throws at most are needed.
- Rows: one by one, with probability ∝ the squared length of what the picked rows do not explain (Hough et al.,
  "Determinantal processes and independence", Probab. Surveys 3, 2006). These lengths never rise. So a block of
  proposals is sampled by the lengths at its start, and each is accepted with the probability (length now) / (length
  then): nearly all work is in matrix products (Epperly, Tropp & Webber, "Embrace rejection", arXiv:2410.03969).

The decomposition of a pool is cached while the pool lives: all k and all trials share it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar, Literal
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from harness import Pool

from .numerics.columns import Float64s, check_parameters, check_size, squared_norms, vectors_of
from .numerics.similarity import Gaussian, Tanimoto, unit_rows

BLOCK = 64  # proposals at a time
TRIES = 32  # throws of all coins at a time

Spectrum = tuple[Float64s, Float64s]  # eigenvalues (r,), eigenvectors (n, r); the n - r others are 0


def reference_law(kernel: Float64s, ridge: float, k: int) -> dict[tuple[int, ...], float]:
    """Return P(S) of every set S of k ascending indices, by its determinant; kernel (n, n), for small n."""
    n = len(kernel)
    full = kernel + ridge * (np.trace(kernel) / n or 1.0) * np.eye(n)
    weight = {s: float(np.linalg.det(full[np.ix_(s, s)])) for s in combinations(range(n), k)}
    total = sum(weight.values())
    return {s: w / total for s, w in weight.items()}


@dataclass(frozen=True)
class KDPP:
    """k-DPP (Kulesza & Taskar 2011), a subset method: k random responses; dissimilar sets have higher probability.

    `kernel`: "cosine", "linear", "rbf" (with `bandwidth`; none is the median distance), or for bits and counts
    "tanimoto". `ridge`: the share of the kernel's mean diagonal entry that is added to its diagonal.
    """

    reads: ClassVar[tuple[str, ...]] = ()

    kernel: Literal["cosine", "linear", "rbf", "tanimoto"] = "cosine"
    bandwidth: float | None = None
    ridge: float = 1e-6

    def __post_init__(self) -> None:
        check_parameters("k-dpp", self, ridge="> 0", bandwidth="> 0")

    def select(self, pool: Pool, k: int, rng: np.random.Generator) -> list[int]:
        """Return k distinct indices, ascending."""
        n = len(vectors_of(pool, "k-dpp"))
        check_size("k-dpp", k, n)
        if k == n:
            return list(range(n))
        cached = _spectra.setdefault(pool, {})
        if self not in cached:
            cached[self] = self._spectrum(pool)
        values, vectors = cached[self]
        ridge = self.ridge * (values.sum() / n or 1.0)
        weight = np.concatenate([values + ridge, np.full(n - len(values), ridge)])  # all n eigenvalues of L
        chosen = choose_eigenvectors(np.log(weight), k, rng)
        null = rng.normal(size=(n, int(chosen[len(values) :].sum())))  # in random directions, orthogonal to the vectors
        for _ in range(2):  # one pass leaves rounding errors
            null -= vectors @ (vectors.T @ null)
        basis = np.concatenate([vectors[:, chosen[: len(values)]], np.linalg.qr(null)[0]], axis=1)  # (n, k)
        return sorted(sample_rows(basis, rng))

    def _spectrum(self, pool: Pool) -> Spectrum:
        h = vectors_of(pool, "k-dpp")  # (n, d)
        if self.kernel in ("rbf", "tanimoto"):
            kernel = Tanimoto.of(pool, "k-dpp") if self.kernel == "tanimoto" else Gaussian.of(h, self.bandwidth)
            values, vectors = np.linalg.eigh(kernel.block(slice(None), slice(None)))
            return np.maximum(values, 0), vectors
        rows = unit_rows(h) if self.kernel == "cosine" else h.astype(np.float64)
        vectors, root, _ = np.linalg.svd(rows, full_matrices=False)
        nonzero = root > max(rows.shape) * np.finfo(np.float64).eps * root[0]
        return root[nonzero] ** 2, vectors[:, nonzero]


_spectra: WeakKeyDictionary[Pool, dict[KDPP, Spectrum]] = WeakKeyDictionary()


def choose_eigenvectors(log_weight: Float64s, k: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Choose k of the n eigenvectors with probability ∝ the product of their weights; return which, (n,)."""

    def heads(log_odds: Float64s) -> Float64s:
        return np.asarray(np.exp(-np.logaddexp(0, -log_odds)))

    n = len(log_weight)
    if k == n:
        return np.ones(n, np.bool_)
    low, high = -log_weight.max() - np.log(n), -log_weight.min() + np.log(n)  # bounds on log θ
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if heads(log_weight + middle).sum() < k else (low, middle)
    probability = heads(log_weight + high)
    while True:
        thrown = rng.random((TRIES, n)) < probability
        with_k = np.flatnonzero(thrown.sum(axis=1) == k)
        if len(with_k):
            return np.asarray(thrown[with_k[0]])


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
        limit = rng.random(len(proposed)) * weight[proposed]
        rows = basis[proposed]
        rows -= rows @ explained[:t].T @ explained[:t]
        product = rows @ rows.T
        length = product.diagonal().copy()
        factor = np.empty_like(product)  # (accepted, proposals): rows of Lᵀ
        accepted: list[int] = []
        for i in range(len(proposed)):
            if length[i] > limit[i] or not accepted:
                a = len(accepted)
                factor[a] = (product[i] - factor[:a, i] @ factor[:a]) / np.sqrt(length[i])
                length -= factor[a] ** 2
                length[proposed == proposed[i]] = -1.0  # the row itself, despite rounding errors
                accepted.append(i)
        picks += proposed[accepted].tolist()
        lower = np.tril(factor[: len(accepted), accepted].T)
        span = solve_triangular(lower, rows[accepted], lower=True, check_finite=False)
        explained[t : len(picks)] = span
        weight = np.maximum(weight - squared_norms(basis @ span.T), 0)
        weight[picks] = 0
    return picks
