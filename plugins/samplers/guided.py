"""Sampler `repexp-guided`: exploration while decoding, token by token (Tuyls et al. 2025, arXiv:2510.11686, RF5).

The responses to a prompt are sampled one after another. From the second on, every step adds β·b to the logit of each
token that passes the filters (top_p 0.95, top_k 128). b is the elliptical bonus of the token's state h:

    Σ = λI + Σ_t (h_t − μ)(h_t − μ)ᵀ,    b(h) = √((h − μ)ᵀ Σ⁻¹ (h − μ))

over the H token states h_t of all earlier responses to the prompt, μ their mean (section on token-level exploration and
its appendix). The first response has no bonus (our choice: the paper starts from I/λ, where no mean is defined). A
response's states are added only when it has ended. Kept are, in float64, the inverse P of the uncentred matrix, the
states' sum and H. Centring is one rank-one correction: Σ = P⁻¹ − H μμᵀ, hence

    Σ⁻¹ = P + vvᵀ/s,    v = Pμ,    s = 1/H − μᵀv

so that b² = gᵀPg + (gᵀv)²/s for g = h − μ, and no second d x d matrix is made.

Where we differ, in numbers only: states are counted from the mean of the first response's, not from 0. Σ does not
change when all states are moved by one vector, and s is then no difference of two almost equal numbers: hidden states
of real models have a large common part. A response's T states come in by one blocked update, not T rank-one ones. See
docs/engines.md. torch is not imported before the first token is sampled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from harness import HarnessError, hookimpl
from harness.hookspecs import Register

from .plain import Vanilla

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class RepExpGuided(Vanilla):
    """Add a bonus β·b to the logit of each token that passes top_p and top_k; beta=0 is plain sampling.

    beta    weight of the bonus (the paper: 0.5 and 1.0)
    lam     λ of Σ = λI + ... (the paper: 0.1)
    """

    name: ClassVar[str] = "repexp-guided"
    top_p: float = 0.95
    top_k: int = 128
    beta: float = 0.5
    lam: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.beta < 0:
            raise HarnessError(f"{self.name}: beta must be >= 0, got {self.beta}")
        if self.lam <= 0:
            raise HarnessError(f"{self.name}: lam must be > 0, got {self.lam}")
        if self.steers and not self.top_k:
            raise HarnessError(f"{self.name}: top_k must be >= 1: every candidate passes the model at every step")

    @property
    def steers(self) -> bool:  # type: ignore[override]
        """Return whether there is a bonus; without one any engine can sample."""
        return self.beta > 0

    def steering(self) -> Guide:
        """Return a new `Guide`, which steers the responses to one prompt."""
        return Guide(self.beta, self.lam)


def sherman_morrison(inverse: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
    """Return (A + Σ_t h_t h_tᵀ)⁻¹ (d, d) from A⁻¹ and states (T, d), by T rank-one updates as in the paper, O(T d²)."""
    for state in states:
        moved = inverse @ state
        inverse = inverse - moved[:, None] * moved / (1 + state @ moved)
    return inverse


def woodbury(inverse: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
    """Return what `sherman_morrison` returns, by a single update with matrix products instead of T passes.

    A⁻¹ − A⁻¹Gᵀ (I + G A⁻¹ Gᵀ)⁻¹ G A⁻¹ for the states G (T, d).
    """
    import torch

    moved = states @ inverse
    inner = moved @ states.T
    inner.diagonal().add_(1)
    half = torch.linalg.solve_triangular(torch.linalg.cholesky(inner), moved, upper=False)
    return inverse - half.T @ half


class Guide:
    """One prompt's steering (`harness.contracts.Steering`). Memory: d² float64."""

    def __init__(self, beta: float, lam: float) -> None:
        self.beta, self.lam, self.count = beta, lam, 0
        self.inverse: Any = None
        self.origin: Any = None
        self.total: Any = None

    @property
    def adds(self) -> bool:
        """Return whether the next response gets a bonus: False for the first one."""
        return self.count > 0

    def added(self, states: torch.Tensor) -> torch.Tensor:
        """Return β·b (c,) float64 for the states (c, d) of a step's candidates, in O(c d²)."""
        from_mean = states.double() - (self.origin + self.total / self.count)
        squares = (from_mean @ self.inverse * from_mean).sum(1) + (from_mean @ self.moved) ** 2 / self.slack
        return self.beta * squares.clamp(min=0).sqrt()

    def learn(self, states: torch.Tensor) -> None:
        """Add the token states (T, d) of a finished response."""
        import torch

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


@hookimpl
def register_samplers(register: Register) -> None:
    """Register `repexp-guided`."""
    register(RepExpGuided.name, RepExpGuided)
