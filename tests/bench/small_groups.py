"""What RepExp's bonus does to GRPO's advantages in groups of 8, or of 16, as docs/rl.md reports it.

    python tests/bench/small_groups.py [--problems 145] [--rollouts 8]

Hidden states: the embedded model's own responses to game24's dev puzzles (d = 128), and Gaussian ones of given length.
Advantages as verl's GRPO: (r - mean) / (std + eps) inside the group, std unbiased.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import torch

from harness.records import Sampler, SampleRequest
from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.rl.rewards import leverage, projected
from harness_tasks.game24 import Game24

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.bench_sizes import parsed

BETA = 0.01


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--problems", type=int, default=145)
    options.add_argument("--rollouts", type=int, default=8)
    torch.set_num_threads(1)
    given = parsed(options, problems=2)
    n = given.rollouts
    groups, correct = embedded_groups(given.problems, n)
    mixed = [group for group, count in zip(groups, correct, strict=True) if 0 < count < n]
    print(f"embedded model tiny24, {len(groups)} groups of {n}: {len(mixed)} mixed,", end=" ")
    print(f"{correct.count(n)} all correct, {correct.count(0)} all wrong")
    print(f"{'states':24} {'|h|':>7} {'dim':>4} {'lam':>8} {'leverage':>9} {'spread':>9} {'mixed 1e-6':>11} "
          f"{'correct 1e-6':>13} {'correct 1e-4':>13}")  # fmt: skip
    for dim, lam in ((32, 0.01), (n // 2, 0.01), (32, 1.0), (32, 100.0)):
        report("tiny24's", [projected(group, dim, 0, step) for step, group in enumerate(groups)], dim, lam)
    for length in (10.0, 1.0, 0.1):
        for dim in (32, n // 2):
            states = np.random.default_rng(0).normal(size=(200, n, dim)) * length / np.sqrt(dim)
            report("Gaussian", list(torch.from_numpy(states)), dim, 0.01)


def embedded_groups(problems: int, n: int) -> tuple[list[torch.Tensor], list[int]]:
    """Hidden states of n responses to each puzzle, (n, 128) each, and how many of the n are correct."""
    task, engine = Game24(), Transformers(model="tiny24")
    puzzles = task.problems("dev")[:problems]
    drawn = engine.sample(
        SampleRequest(
            [task.messages(puzzle) for puzzle in puzzles],
            n=n,
            sampler=Sampler(),
            max_tokens=96,
            seeds=list(range(len(puzzles))),
            states=["mean"],
        )
    )
    states = [torch.from_numpy(responses.states["mean"]).double() for responses in drawn]
    verdicts = [task.verify_all(puzzle, each.texts) for puzzle, each in zip(puzzles, drawn, strict=True)]
    return states, [sum(verdict.status == "correct" for verdict in each) for each in verdicts]


def report(name: str, groups: list[torch.Tensor], dim: int, lam: float) -> None:
    """Means over groups; the effect on advantages is the largest change of any rollout's."""
    length = float(np.mean([float((h - h.mean(0)).norm(dim=1).mean()) for h in groups]))
    figures = [leverage((h - h.mean(0)), lam) for h in groups]
    n = len(groups[0])
    half = torch.tensor([1.0] * (n // 2) + [0.0] * (n // 2), dtype=torch.float64)
    ones = torch.ones(n, dtype=torch.float64)
    mixed = np.mean([effect(half, each, 1e-6) for each in figures])
    correct = [np.mean([effect(ones, each, eps) for each in figures]) for eps in (1e-6, 1e-4)]
    mean = np.mean([float(each.mean()) for each in figures])
    spread = np.mean([float(each.std()) for each in figures])
    print(f"{name:24} {length:7.2f} {dim:4} {lam:8.4g} {mean:9.4f} {spread:9.2e} {mixed:11.2e} "
          f"{correct[0]:13.3f} {correct[1]:13.3f}")  # fmt: skip


def effect(rewards: torch.Tensor, figures: torch.Tensor, eps: float) -> float:
    """How much the bonus changes the advantage of the rollout that it changes most."""
    return float((advantages(rewards + BETA * figures, eps) - advantages(rewards, eps)).abs().max())


def advantages(rewards: torch.Tensor, eps: float) -> torch.Tensor:
    """GRPO's, of one group."""
    return (rewards - rewards.mean()) / (rewards.std() + eps)


if __name__ == "__main__":
    main()
