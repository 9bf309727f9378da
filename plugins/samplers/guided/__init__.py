"""Sampler `repexp-guided`: exploration while decoding, token by token (Tuyls et al. 2025, arXiv:2510.11686, RF5).

The responses to a prompt are sampled one after another. From the second on, every step adds β·b to the logit of each
token that passes the filters (top_p 0.95, top_k 128). b is the elliptical bonus of the state that the token would get,
over the token states of all earlier responses to the prompt (`covariance`). The first response has no bonus (our
choice: the paper starts from I/λ, where no mean is defined). A response's states are added only when it has ended. See
docs/guided.md.

torch is not imported before the first token is sampled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import HarnessError, hookimpl
from harness.hookspecs import Register

from ..plain import Vanilla

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class RepExpGuided(Vanilla):
    """Add a bonus β·b to the logit of each token that passes top_p and top_k; beta=0 is plain sampling.

    b is the elliptical bonus of the state that the token would get, over the token states of the prompt's earlier
    responses; the first response gets none.

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


class Guide:
    """One prompt's steering (`harness.contracts.Steering`)."""

    def __init__(self, beta: float, lam: float) -> None:
        from .covariance import TokenCovariance

        self.beta, self.seen = beta, TokenCovariance(lam)

    @property
    def adds(self) -> bool:
        """Return whether the next response gets a bonus: False for the first one."""
        return self.seen.count > 0

    def added(self, states: torch.Tensor) -> torch.Tensor:
        """Return β·b (c,) float64 for the states (c, d) of a step's candidates."""
        return self.beta * self.seen.bonus(states)

    def learn(self, states: torch.Tensor) -> None:
        """Add the token states (T, d) of a finished response."""
        self.seen.add(states)


@hookimpl
def register_samplers(register: Register) -> None:
    """Register `repexp-guided`."""
    register(RepExpGuided.name, RepExpGuided)
