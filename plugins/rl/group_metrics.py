"""Compute the logged metrics of a step's groups (see `harness_plugins.rl.training.METRICS`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .training import Rollouts

if TYPE_CHECKING:
    import torch


def group_metrics(rollouts: Rollouts, added: torch.Tensor, gated: int) -> dict[str, float]:
    """Return metrics of a step by their names in `METRICS`: means over rollouts or groups, and shares of groups.

    `added` (m,) is the change of each reward by the bonus, `gated` the number of groups that the bonus skipped.
    """
    groups = list(rollouts.groups().values())
    correct = [rollouts.rewards[rows] > 0 for rows in groups]
    spreads = [float(added[rows].std(correction=min(1, len(rows) - 1))) for rows in groups]  # as GRPO's
    return {
        "reward": float(rollouts.rewards.mean()),
        "bonus": float(added.mean()),
        "bonus_spread": sum(spreads) / len(groups),
        "gated": gated / len(groups),
        "all_correct": sum(bool(each.all()) for each in correct) / len(groups),
        "all_wrong": sum(not bool(each.any()) for each in correct) / len(groups),
    }
