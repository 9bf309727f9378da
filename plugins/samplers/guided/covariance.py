"""Σ⁻¹ over the token states of a prompt's earlier responses, and the bonus that it gives a candidate; in float64.

    Σ = λI + Σ_t (h_t − μ)(h_t − μ)ᵀ,    b(h) = √((h − μ)ᵀ Σ⁻¹ (h − μ))

over the H token states h_t of all earlier responses, μ their mean (Tuyls et al. 2025, arXiv:2510.11686, section on
token-level exploration and its appendix). Kept are the inverse P of the uncentred matrix, the states' sum and H.
Centring is one rank-one correction: Σ = P⁻¹ − H μμᵀ, hence

    Σ⁻¹ = P + vvᵀ/s,    v = Pμ,    s = 1/H − μᵀv

so that b² = gᵀPg + (gᵀv)²/s for g = h − μ, and no second d x d matrix is made.

Where we differ, in numbers only: states are counted from the mean of the first response's, not from 0. Σ does not
change when all states are moved by one vector, and s is then no difference of two almost equal numbers: hidden states
of real models have a large common part. A response's T states come in by one blocked update, not T rank-one ones.
"""

from __future__ import annotations

import torch


def sherman_morrison(inverse: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
    """Return (A + Σ_t h_t h_tᵀ)⁻¹ (d, d) from A⁻¹ and states (T, d), by T rank-one updates as in the paper, O(T d²)."""
    for state in states:
        moved = inverse @ state
        inverse = inverse - torch.outer(moved, moved) / (1 + state @ moved)
    return inverse


def woodbury(inverse: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
    """Return what `sherman_morrison` returns, by a single update with matrix products instead of T passes.

    A⁻¹ − A⁻¹Gᵀ (I + G A⁻¹ Gᵀ)⁻¹ G A⁻¹ for the states G (T, d).
    """
    moved = states @ inverse
    inner = moved @ states.T
    inner.diagonal().add_(1)
    half = torch.linalg.solve_triangular(torch.linalg.cholesky(inner), moved, upper=False)
    return inverse - half.T @ half


def centred(inverse: torch.Tensor, mean: torch.Tensor, count: int) -> torch.Tensor:
    """Return Σ⁻¹ (d, d) over centred states, from the uncentred inverse, the mean (d,) and the number of states."""
    moved = inverse @ mean
    return inverse + torch.outer(moved, moved) / (1 / count - mean @ moved)


class TokenCovariance:
    """Σ⁻¹ for Σ = λI + Σ_t (h_t − μ)(h_t − μ)ᵀ over the token states of a prompt's earlier responses.

    λ is `lam`, μ the states' mean. Memory: d² float64.
    """

    def __init__(self, lam: float) -> None:
        self.lam, self.count = lam, 0
        self.inverse = self.origin = self.total = self.moved = torch.empty(0)
        self.slack = 1.0

    def add(self, states: torch.Tensor) -> None:
        """Add a finished response's token states (T, d)."""
        states = states.double()
        if not self.count:
            self.origin, self.total = states.mean(0), torch.zeros_like(states[0])
            self.inverse = torch.eye(states.shape[1], dtype=torch.float64, device=states.device) / self.lam
        shifted = states - self.origin
        self.inverse = woodbury(self.inverse, shifted)
        self.total, self.count = self.total + shifted.sum(0), self.count + len(states)
        mean = self.total / self.count
        self.moved = self.inverse @ mean
        self.slack = max(float(1 / self.count - mean @ self.moved), torch.finfo(torch.float64).tiny)

    def bonus(self, states: torch.Tensor) -> torch.Tensor:
        """Return the bonus b(h) = √((h − μ)ᵀ Σ⁻¹ (h − μ)) of each state h of states (c, d), (c,) float64.

        Only after a call of `add`. Takes O(c d²).
        """
        from_mean = states.double() - (self.origin + self.total / self.count)
        squares = (from_mean @ self.inverse * from_mean).sum(1) + (from_mean @ self.moved) ** 2 / self.slack
        return squares.clamp(min=0).sqrt()
