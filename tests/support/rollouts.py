"""Rollouts of a training step, made from a seed, and the bonuses' leverages by brute force."""

from __future__ import annotations

import numpy as np
import torch

from harness_plugins.rl.training import Rollouts


def random_rows(seed: int, n: int, d: int, scale: float = 1.0) -> torch.Tensor:
    """(n, d) float64."""
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, d)) * scale)


def rollouts(seed: int = 0, groups: int = 4, n: int = 8, d: int = 96, correct: float = 0.5) -> Rollouts:
    """`n` rollouts of each problem, in a random order."""
    rng = np.random.default_rng(seed)
    rows = rng.permutation(np.repeat(np.arange(groups), n))
    return Rollouts(
        problems=[f"problem-{row}" for row in rows],
        rewards=torch.from_numpy((rng.random(groups * n) < correct).astype(float)),
        hidden=random_rows(seed + 1, groups * n, d, 3.0) + 5,
        logprobs=torch.from_numpy(-rng.random(groups * n)),
    )


def with_rewards(given: Rollouts, rewards: dict[str, list[float]]) -> Rollouts:
    """The same rollouts with the rewards of each problem's, in their order."""
    values = given.rewards.clone()
    for problem, rows in given.groups().items():
        values[rows] = torch.tensor(rewards[problem], dtype=torch.float64)
    return Rollouts(given.problems, values, given.hidden, given.logprobs)


def brute_force_leverage(h: np.ndarray, lam: float, memory: np.ndarray | float = 0.0) -> list[float]:
    """Sherman and Morrison's update for each rollout in turn, then the quadratic forms: as the authors' code."""
    cov_inv = np.linalg.inv(np.eye(h.shape[1]) * lam + memory)
    for row in h:
        u = cov_inv @ row
        cov_inv -= np.outer(u, u) / (1 + row @ u)
    return [float(row @ cov_inv @ row) for row in h]
