"""Unlikeliness: the likelier a correct rollout is in its group, the smaller its reward.

    r_i ← r_i (1 - β_rank · rank_i / n)         rank 0 = the least likely of the group's n

He, Fried, Welleck, "Rewarding the Unlikely: Lifting GRPO Beyond Distribution Sharpening" (2025), arXiv:2506.02355. The
likelihood is the mean log-probability of the response's tokens, as in their code, and every rollout is ranked, wrong
ones too. As RepExp's baseline (arXiv:2510.11686, table of Unlikeliness hyperparameters): β_rank = 0.25, and groups that
are all correct are left as they are; none of He et al.'s other changes (filtered batches, two epochs, a KL of 0.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import HarnessError

from .group_metrics import group_metrics
from .training import Rollouts, Shaped

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Unlikeliness:
    """Scale each reward down by the rank of the rollout's likelihood in its group.

    beta_rank  the likeliest rollout's reward loses (n - 1)/n of this share
    gate       leave groups unchanged whose rollouts are all correct
    """

    needs: ClassVar[tuple[str, ...]] = ("logprobs",)

    beta_rank: float = 0.25
    gate: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.beta_rank <= 1:
            raise HarnessError(f"unlikely: beta_rank must be from 0 to 1, got {self.beta_rank}")

    def shape(self, rollouts: Rollouts, step: int, seed: int, memory: dict[str, torch.Tensor]) -> Shaped:
        """Return the scaled rewards of one step's rollouts; ties in likelihood are ordered by row."""
        assert rollouts.logprobs is not None  # requested by `needs`
        rewards, gated = rollouts.rewards.clone(), 0
        for rows in rollouts.groups().values():
            if self.gate and bool((rollouts.rewards[rows] > 0).all()):
                gated += 1
                continue
            ranks = rollouts.logprobs[rows].argsort(stable=True).argsort()
            rewards[rows] *= 1 - self.beta_rank * ranks.double() / len(rows)
        return Shaped(rewards, group_metrics(rollouts, rewards - rollouts.rewards, gated))


@dataclass(frozen=True)
class NoBonus:
    """Leave the verifier's rewards unchanged: plain GRPO."""

    needs: ClassVar[tuple[str, ...]] = ()

    def shape(self, rollouts: Rollouts, step: int, seed: int, memory: dict[str, torch.Tensor]) -> Shaped:
        """Return the rewards unchanged."""
        nothing = rollouts.rewards.new_zeros(len(rollouts.rewards))
        return Shaped(rollouts.rewards.clone(), group_metrics(rollouts, nothing, 0))
