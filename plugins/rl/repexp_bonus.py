"""RepExp's bonus on the rewards of GRPO: r_i + β·hᵢᵀ(λI + Σhhᵀ)⁻¹hᵢ over the rollouts of a group.

Tuyls, Foster, Krishnamurthy, Ash, "Representation-Based Exploration for Language Models" (2025), arXiv:2510.11686,
section 3 and appendix: hidden states of the initial model, projected to 32 dimensions by a new random matrix at each
step, centred in the group; β = 0.01, no bonus if every rollout of the group is wrong. The paper does not give λ;
λ = 0.01 is from the authors' code.

The formula of section 3 shows no centring; the appendix ("Algorithm details") states it, over the rollouts of the
group, and the authors' code does it. Where we differ: the projection comes from a recorded seed, and everything after
it is float64 (the code projects in float32).

`spread` and `gate=mixed` are this project's: without them the bonus hardly acts where GRPO learns (docs/rl-bonus.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from harness import HarnessError

from .group_metrics import group_metrics
from .training import Rollouts, Shaped

if TYPE_CHECKING:
    import torch


EPSILON = 1e-6  # as GRPO's: a spread far below it is rounding, of equal responses, and is not scaled up


@dataclass(frozen=True)
class RepExpBonus:
    """Add to each rollout's reward its leverage in its group.

    beta     factor of the leverage
    spread   takes beta's place in a group with right and wrong rollouts: the bonus is the leverage minus its mean, and
             its standard deviation this fraction of the rewards'. A group of equal rewards has no scale and keeps beta.
    lam      the ridge; hidden states are not normalised, so it is on their scale
    dim      features after the projection (the paper: 32, and 128 for AIME)
    gate     no bonus in a group whose rollouts are all wrong; "mixed": nor in one whose rollouts are all correct
    figure   "leverage", or "leave-one-out": the rollout itself left out of the sum
    persist  the sum includes all earlier rollouts of the problem; the projection is then the same at every step
    """

    needs: ClassVar[tuple[str, ...]] = ("hidden",)

    beta: float = 0.01
    lam: float = 0.01
    dim: int = 32
    gate: bool | Literal["mixed"] = True
    figure: Literal["leverage", "leave-one-out"] = "leverage"
    persist: bool = False
    spread: float | None = None

    def __post_init__(self) -> None:
        if not self.lam > 0:
            raise HarnessError(f"repexp: lam must be > 0, got {self.lam}")
        if self.dim < 1:
            raise HarnessError(f"repexp: dim must be at least 1, got {self.dim}")
        if self.spread is not None and not self.spread > 0:
            raise HarnessError(f"repexp: spread must be > 0, got {self.spread}")

    def shape(self, rollouts: Rollouts, step: int, seed: int, memory: dict[str, torch.Tensor]) -> Shaped:
        """Return the rewards of one step's rollouts with the bonus added, and the step's metrics.

        With `persist`, read and update `memory`: problem id -> Σ hhᵀ of its earlier rollouts, (k, k).
        """
        from .leverage import centred, projected  # torch; listing bonuses imports none of it

        assert rollouts.hidden is not None  # requested by `needs`
        h = projected(rollouts.hidden, self.dim, seed, 0 if self.persist else step)
        added, gated = rollouts.rewards.new_zeros(len(rollouts.rewards)), 0
        for problem, rows in rollouts.groups().items():
            values = self._leverages(centred(h[rows]), problem, memory)
            if self._gates(rollouts.rewards[rows]):
                gated += 1
            else:
                added[rows] = self._scaled(values, rollouts.rewards[rows])
        return Shaped(rollouts.rewards + added, group_metrics(rollouts, added, gated))

    def _gates(self, rewards: torch.Tensor) -> bool:
        if self.gate == "mixed" and rewards.all():
            return True
        return bool(self.gate) and not rewards.any()

    def _scaled(self, leverages: torch.Tensor, rewards: torch.Tensor) -> torch.Tensor:
        if self.spread is None or not rewards.any() or rewards.all():
            return self.beta * leverages
        scale = self.spread * rewards.std() / (leverages.std() + EPSILON)
        return scale * (leverages - leverages.mean())

    def _leverages(self, h: torch.Tensor, problem: str, memory: dict[str, torch.Tensor]) -> torch.Tensor:
        from .leverage import leave_one_out, leverage

        before = memory.get(problem) if self.persist else None
        values = leverage(h, self.lam, before)
        if self.persist:
            memory[problem] = h.T @ h if before is None else before + h.T @ h
        return leave_one_out(values) if self.figure == "leave-one-out" else values
