"""Exact k-DPP sampling: k responses at random; sets of dissimilar responses have higher probability.

    P(S) ∝ det(L_S) over all S of k responses        L = K + ridge · (mean of K's diagonal) · I

Kulesza & Taskar, "k-DPPs: fixed-size determinantal point processes" (ICML 2011): choose k eigenvectors of L with
probability ∝ the product of their eigenvalues, then sample from the projection on their span. Kernels K:

    cosine, linear   x·y, of vectors at length 1 or as they are: a singular value decomposition, n d²
    rbf              exp(-|x - y|² / (2 bandwidth²)), the bandwidth the median distance unless given: an
                     eigendecomposition, n³ and three times n² float64 (6,400 responses: 40 s and 1 GB)

We differ in the ridge, 1e-6: without it no set of k > rank K responses (cosine: k > d) has a probability above 0. Up to
the rank it changes almost nothing. Beyond the rank, sets span all directions of K, and the rest of a set is nearly
uniform. We also differ in the sums: elementary symmetric polynomials overflow (DPPy 0.3.3 fails at 1,000 of 2,000).
Instead, the eigenvectors are chosen by coins with k expected heads, thrown until they show k (`projection_sampling`).

The decomposition of a pool is cached while the pool lives: all k and all trials share it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, ClassVar, Literal
from weakref import WeakKeyDictionary

import numpy as np

from harness import HarnessError, Pool, hookimpl

from .numerics.projection_sampling import choose_eigenvectors, null_directions, sample_rows
from .numerics.similarity import Gaussian, check_bandwidth, unit_rows
from .numerics.vectors import check_size, vectors_of

if TYPE_CHECKING:
    from .numerics.vectors import Float64s, Floats

    Spectrum = tuple[Float64s, Float64s]  # eigenvalues (r,), eigenvectors (n, r); the n - r others are 0

_spectra: WeakKeyDictionary[Pool, dict[KDPP, Spectrum]] = WeakKeyDictionary()


def reference_law(kernel: Float64s, ridge: float, k: int) -> dict[tuple[int, ...], float]:
    """Return P(S) of every set S of k ascending indices, by its determinant; kernel (n, n), for small n.

    `KDPP.select` must return each set with this probability.
    """
    n = len(kernel)
    full = kernel + ridge * (np.trace(kernel) / n or 1.0) * np.eye(n)
    weight = {s: float(np.linalg.det(full[np.ix_(s, s)])) for s in combinations(range(n), k)}
    total = sum(weight.values())
    return {s: w / total for s, w in weight.items()}


@dataclass(frozen=True)
class KDPP:
    """k-DPP (Kulesza & Taskar 2011), a subset method: k random responses; dissimilar sets have higher probability.

    `kernel`: "cosine", "linear" or "rbf" (with `bandwidth`; none is the median distance). `ridge`: the share of the
    kernel's mean diagonal entry that is added to its diagonal.
    """

    needs: ClassVar[tuple[str, ...]] = ("embeddings",)
    reads: ClassVar[tuple[str, ...]] = ()

    kernel: Literal["cosine", "linear", "rbf"] = "cosine"
    bandwidth: float | None = None
    ridge: float = 1e-6

    def __post_init__(self) -> None:
        if self.kernel not in ("cosine", "linear", "rbf"):
            raise HarnessError(f"k-dpp: kernel must be 'cosine', 'linear' or 'rbf', got {self.kernel!r}")
        if not 0 < self.ridge < np.inf:
            raise HarnessError(f"k-dpp: ridge must be > 0 and finite, got {self.ridge}")
        check_bandwidth("k-dpp", self.bandwidth)

    def select(self, pool: Pool, k: int, rng: np.random.Generator) -> list[int]:
        """Return k distinct indices, ascending."""
        h = vectors_of(pool, "k-dpp")  # (n, d)
        n = len(h)
        check_size("k-dpp", k, n)
        if k == n:
            return list(range(n))
        cached = _spectra.setdefault(pool, {})
        if self not in cached:
            cached[self] = self._spectrum(h)
        values, vectors = cached[self]
        ridge = self.ridge * (values.sum() / n or 1.0)
        weight = np.concatenate([values + ridge, np.full(n - len(values), ridge)])  # all n eigenvalues of L
        chosen = choose_eigenvectors(np.log(weight), k, rng)
        in_span, null = chosen[: len(values)], int(chosen[len(values) :].sum())
        basis = np.concatenate([vectors[:, in_span], null_directions(vectors, null, rng)], axis=1)  # (n, k)
        return sorted(sample_rows(basis, rng))

    def _spectrum(self, h: Floats) -> Spectrum:
        if self.kernel == "rbf":
            values, vectors = np.linalg.eigh(Gaussian.of(h, self.bandwidth).block(slice(None), slice(None)))
            return np.maximum(values, 0), vectors
        rows = unit_rows(h) if self.kernel == "cosine" else h.astype(np.float64)
        vectors, root, _ = np.linalg.svd(rows, full_matrices=False)
        nonzero = root > max(rows.shape) * np.finfo(np.float64).eps * root[0]
        return root[nonzero] ** 2, vectors[:, nonzero]


@hookimpl
def register_selectors(register: Callable[[str, str], None]) -> None:
    register("k-dpp", "harness_selectors.k_dpp:KDPP")
