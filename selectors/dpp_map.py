"""Greedy MAP of a determinantal point process: each pick adds most to the log-determinant of the kernel.

    pick the x with the largest log det(K_{S+x} + ridge I) - log det(K_S + ridge I)

Chen, Zhang & Zhou, "Fast greedy MAP inference for determinantal point process to improve recommendation diversity"
(NeurIPS 2018), arXiv:1709.05135, without quality. Kernels:

    rbf         exp(-|x - y|² / (2 bandwidth²)); the bandwidth is the median distance unless given (see `similarity`)
    cosine      x·y / (|x| |y|); a zero vector is unlike all others

There is no linear kernel: greedy MAP with I + H Hᵀ / lam *is* RepExp, pick for pick. The cosine kernel is RepExp on
vectors of length 1, as lam goes to 0.

We differ in the ridge, 1e-6. Chen et al. stop where K has no rank left (cosine: after d picks); K + ridge I orders all
n. Up to the rank of K, the picks are theirs. After it each pick has the largest kernel bonus, which is RepExp's with
lam = ridge, and copies of picks come last. We also differ in cost: `elliptical` for the cosine kernel,
`kernel_cholesky` for rbf, which stores n²/4 float64 (82 MB for 6,400 responses).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from harness import HarnessError, Pool, hookimpl

from .numerics.elliptical import elliptical_order
from .numerics.kernel_cholesky import log_determinant_order
from .numerics.similarity import Gaussian, check_bandwidth, unit_rows
from .numerics.vectors import Copies, farthest_from_mean, vectors_of

if TYPE_CHECKING:
    from .numerics.vectors import Float64s, Floats


def reference_order(kernel: Float64s, ridge: float, picked: Sequence[int]) -> list[int]:
    """Return all n indices by Chen et al. 2018, Algorithm 1, on kernel + ridge I and to the last row: O(n³).

    kernel (n, n). `picked`: the first pick, or all earlier picks; they come first.

    `kernel_cholesky` (rbf) and `elliptical` (cosine) must return the same, except where gains are nearly equal: each of
    their picks has the largest residual left by `reference_residuals`, within 1e-7 of it and 1e-11.
    """
    n = len(kernel)
    kernel = kernel + ridge * np.eye(n)
    factor = np.empty((n, 0))  # c_i of the paper, one row each
    gain = kernel.diagonal().copy()  # d_i² of the paper; the logarithm of it is what the row adds
    order: list[int] = []
    while len(order) < n:
        j = picked[len(order)] if len(order) < len(picked) else int(gain.argmax())
        order.append(j)
        e = (kernel[j] - factor @ factor[j]) / np.sqrt(gain[j])
        factor = np.column_stack([factor, e])
        gain -= e**2
        gain[j] = -np.inf
    return order


def reference_residuals(kernel: Float64s, ridge: float, picked: Sequence[int]) -> Float64s:
    """Return k(x, x) - k(x, S) (K_S + ridge I)⁻¹ k(S, x) for every x, (n,), where S is `picked`.

    Plus the ridge, it is the factor by which x multiplies the determinant. For an x in S it is that of a copy of x.
    """
    some = list(picked)
    explained = np.linalg.solve(kernel[np.ix_(some, some)] + ridge * np.eye(len(some)), kernel[some])
    return np.asarray(kernel.diagonal() - (kernel[some] * explained).sum(axis=0))


@dataclass(frozen=True)
class DPPMap:
    """Greedy DPP MAP (Chen et al. 2018): each pick adds most to the log-determinant of the kernel.

    `kernel`: "rbf" (with `bandwidth`; none is the median distance) or "cosine". `ridge`: added to its diagonal.
    `first`: "random" (uniform) or "max" (the response farthest from the pool's mean, no randomness).
    """

    needs: ClassVar[tuple[str, ...]] = ("embeddings",)
    reads: ClassVar[tuple[str, ...]] = ()

    kernel: Literal["rbf", "cosine"] = "rbf"
    bandwidth: float | None = None
    ridge: float = 1e-6
    first: Literal["random", "max"] = "random"

    def __post_init__(self) -> None:
        if self.kernel not in ("rbf", "cosine"):
            raise HarnessError(f"dpp-map: kernel must be 'rbf' or 'cosine', got {self.kernel!r}")
        if self.first not in ("random", "max"):
            raise HarnessError(f"dpp-map: first must be 'random' or 'max', got {self.first!r}")
        if not 1e-10 <= self.ridge < np.inf:
            raise HarnessError(f"dpp-map: ridge must be >= 1e-10 and finite, got {self.ridge}")
        check_bandwidth("dpp-map", self.bandwidth)

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """Return all n indices, lazily. Equal rows come by index; other ties as in `elliptical`, `kernel_cholesky`."""
        h = vectors_of(pool, "dpp-map")  # (n, d)
        n = len(h)
        if n == 0:
            return iter(())
        first = int(rng.integers(n)) if self.first == "random" else farthest_from_mean(h)
        return elliptical_order(unit_rows(h), self.ridge, first) if self.kernel == "cosine" else self._rbf(h, first)

    def rank_after(self, pool: Pool, verified: Sequence[int], rng: np.random.Generator) -> Iterator[int]:
        """Return the indices not in `verified`, by what each adds to the log-determinant of verified ones and picks."""
        h = vectors_of(pool, "dpp-map")
        if self.kernel == "cosine":
            return elliptical_order(unit_rows(h), self.ridge, None, picked=verified)
        return self._rbf(h, None, verified)

    def _rbf(self, h: Floats, first: int | None, picked: Sequence[int] = ()) -> Iterator[int]:
        copies = Copies(h)
        kernel = Gaussian.of(h[copies.first], self.bandwidth)
        yield from log_determinant_order(kernel, copies, self.ridge, first, picked)


@hookimpl
def register_selectors(register: Callable[[str, str], None]) -> None:
    register("dpp-map", "harness_selectors.dpp_map:DPPMap")
