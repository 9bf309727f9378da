"""Measure how novel each rollout is in its group: ridge leverage scores, in float64.

    l_i = hᵢᵀ (λI + M + Σⱼ hⱼhⱼᵀ)⁻¹ hᵢ         j over the whole group, i itself included

Σ l_i = trace of S(S + λI)⁻¹ for S = Σ hhᵀ (without M), which tends to the rank of S as λ tends to 0.
"""

from __future__ import annotations

import functools

import numpy as np
import torch

from harness import HarnessError


def sparse_projection(width: int, dim: int, seed: int, step: int) -> torch.Tensor | None:
    """Return a random matrix (width, dim) float64 that depends only on the arguments; None if width <= dim.

    scikit-learn's, as the authors': entries ±√(√width / dim) with probability 1/√width, else 0 (Li et al. 2006).
    """
    return None if width <= dim else _random_matrix(width, dim, seed, step)


@functools.lru_cache(maxsize=2)
def _random_matrix(width: int, dim: int, seed: int, step: int) -> torch.Tensor:
    from sklearn.random_projection import SparseRandomProjection

    stream = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, step])))
    matrix = SparseRandomProjection(n_components=dim, random_state=int(stream.integers(2**31)))
    return torch.from_numpy(matrix.fit(np.zeros((1, width))).components_.toarray().T.copy()).double()


def projected(hidden: torch.Tensor, dim: int, seed: int, step: int) -> torch.Tensor:
    """Return hidden (m, width) in float64, projected to (m, dim) if width > dim; HarnessError for NaN or inf."""
    if not torch.isfinite(hidden).all():
        raise HarnessError("bonus: the hidden states hold NaN or inf")
    matrix = sparse_projection(hidden.shape[1], dim, seed, step)
    h = hidden.double()
    return h if matrix is None else h @ matrix.to(h.device)


def centred(h: torch.Tensor) -> torch.Tensor:
    """Return the group's h (n, k) minus its mean."""
    return h - h.mean(0)


def leverage(h: torch.Tensor, lam: float, memory: torch.Tensor | None = None) -> torch.Tensor:
    """Return the leverages (n,) of a group's h (n, k), float64; `memory` (k, k) is Σ hhᵀ of earlier rollouts.

    Without memory it uses singular values, so that a tiny λ costs no accuracy: l_i = Σⱼ Uᵢⱼ² sⱼ²/(sⱼ² + λ).
    """
    if memory is None:
        u, s, _ = torch.linalg.svd(h, full_matrices=False)
        return (u**2 * (s**2 / (s**2 + lam))).sum(1)
    covariance = h.T @ h + memory + lam * torch.eye(h.shape[1], dtype=h.dtype, device=h.device)
    half = torch.linalg.solve_triangular(torch.linalg.cholesky(covariance), h.T, upper=False)
    return (half**2).sum(0)


def leave_one_out(leverages: torch.Tensor) -> torch.Tensor:
    """Return each leverage with the rollout itself left out of the sum: l / (1 - l), by Sherman and Morrison."""
    return leverages / (1 - leverages)
