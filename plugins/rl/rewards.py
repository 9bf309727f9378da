"""Rewards that a policy is trained on: the run's grader, and the bonuses `repexp`, `unlikely` and `none`.

A bonus is a pure function of one step's rollouts, in float64. torch is imported when something is computed.

RepExp adds β·hᵢᵀ(λI + Σhhᵀ)⁻¹hᵢ over the rollouts of a group. Tuyls, Foster, Krishnamurthy, Ash, "Representation-Based
Exploration for Language Models" (2025), arXiv:2510.11686, section 3 and appendix: hidden states of the initial model,
projected to 32 dimensions by a new random matrix at each step, centred in the group (the formula of section 3 shows no
centring; the appendix states it, and the authors' code does it); β = 0.01, no bonus if every rollout of the group is
wrong. The paper does not give λ; 0.01 is from the authors' code. Where we differ: the projection comes from a recorded
seed, and everything after it is float64 (the code projects in float32). `spread` and `gate=mixed` are this project's:
without them the bonus hardly acts where GRPO learns (docs/rl.md).

Unlikeliness: the likelier a correct rollout is in its group, the smaller its reward. Rank 0 is the least likely of n:

    r_i ← r_i (1 - β_rank · rank_i / n)

He, Fried, Welleck, "Rewarding the Unlikely: Lifting GRPO Beyond Distribution Sharpening" (2025), arXiv:2506.02355. The
likelihood is the mean log-probability of the response's tokens, as in their code, and every rollout is ranked, wrong
ones too. As RepExp's baseline (arXiv:2510.11686, table of Unlikeliness hyperparameters): β_rank = 0.25, and groups that
are all correct are left as they are; none of He et al.'s other changes (filtered batches, two epochs, a KL of 0.1).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from harness import HarnessError
from harness.records import Problem, Verdict, error

from .training import Bonus, Rollouts, Shaped, TrainingRun

if TYPE_CHECKING:
    import torch

EPSILON = 1e-6  # as GRPO's: a spread far below it is rounding, of equal responses, and is not scaled up


class Grader:
    """The run's grader as a reward; safe to call from any thread. `errors` counts the verdicts `error` of `rewards`."""

    def __init__(self, run: TrainingRun) -> None:
        self.task = run.part("task", data=run.data.get("train"))
        self.strict = run.reward == "strict"
        self.errors = 0

    def rewards(self, problem: Problem, responses: Sequence[str], finish: Sequence[str]) -> list[float]:
        """Return 1.0 for each correct response, else 0.0; `finish` says how each ended ("": unknown)."""
        verdicts = self.verdicts(problem, responses, finish)
        self.errors += sum(verdict.status == "error" for verdict in verdicts)
        return [float(verdict.status == "correct") for verdict in verdicts]

    def verdicts(self, problem: Problem, responses: Sequence[str], finish: Sequence[str]) -> list[Verdict]:
        if not self.strict:
            return list(self.task.verify_all(problem, responses, finish=finish))
        graded = [self.task.audit(problem, text) for text in responses]
        return [error("the strict grader says nothing") if verdict is None else verdict for verdict in graded]


class Shaping:
    """The run's bonus, and the memory that it keeps between steps."""

    def __init__(self, run: TrainingRun) -> None:
        self.bonus: Bonus = run.part("bonus")
        self.seed = run.seed
        self.memory: dict[str, torch.Tensor] = {}

    def needs(self, column: str) -> bool:
        return column in self.bonus.needs

    def shape(self, rollouts: Rollouts, step: int) -> Shaped:
        import torch

        with torch.no_grad():
            return self.bonus.shape(rollouts, step, self.seed, self.memory)


def group_metrics(rollouts: Rollouts, added: torch.Tensor, gated: int) -> dict[str, float]:
    """Return metrics of a step by their names in `training.METRICS`: means over rollouts or groups, shares of groups.

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


# RepExp


@functools.lru_cache(maxsize=2)
def sparse_projection(width: int, dim: int, seed: int, step: int) -> torch.Tensor:
    """Return a random matrix (width, dim) float64 that depends only on the arguments.

    scikit-learn's, as the authors': entries ±√(√width / dim) with probability 1/√width, else 0 (Li et al. 2006).
    """
    import torch
    from sklearn.random_projection import SparseRandomProjection

    stream = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, step])))
    matrix = SparseRandomProjection(n_components=dim, random_state=int(stream.integers(2**31)))
    return torch.from_numpy(matrix.fit(np.zeros((1, width))).components_.toarray().T.copy()).double()


def projected(hidden: torch.Tensor, dim: int, seed: int, step: int) -> torch.Tensor:
    """Return hidden (m, width) in float64, projected to (m, dim) if width > dim; HarnessError for NaN or inf."""
    if not hidden.isfinite().all():
        raise HarnessError("bonus: the hidden states hold NaN or inf")
    h, width = hidden.double(), hidden.shape[1]
    return h if width <= dim else h @ sparse_projection(width, dim, seed, step).to(h.device)


def leverage(h: torch.Tensor, lam: float, memory: torch.Tensor | None = None) -> torch.Tensor:
    """Return the ridge leverages (n,) of a group's h (n, k), float64: how novel each rollout is in its group.

        l_i = hᵢᵀ (λI + M + Σⱼ hⱼhⱼᵀ)⁻¹ hᵢ         j over the whole group, i itself included

    `memory` M (k, k) is Σ hhᵀ of earlier rollouts. Without it, singular values are used, so that a tiny λ costs no
    accuracy: l_i = Σⱼ Uᵢⱼ² sⱼ²/(sⱼ² + λ). Σ l_i = trace of S(S + λI)⁻¹ for S = Σ hhᵀ.
    """
    import torch

    if memory is None:
        u, s, _ = torch.linalg.svd(h, full_matrices=False)
        return (u**2 * (s**2 / (s**2 + lam))).sum(1)
    covariance = h.T @ h + memory + lam * torch.eye(h.shape[1], dtype=h.dtype, device=h.device)
    half = torch.linalg.solve_triangular(torch.linalg.cholesky(covariance), h.T, upper=False)
    return (half**2).sum(0)


@dataclass(frozen=True)
class RepExpBonus:
    """Add to each rollout's reward its leverage in its group.

    beta     factor of the leverage
    spread   takes beta's place in a group with right and wrong rollouts: the bonus is the leverage minus its mean, and
             its standard deviation this fraction of the rewards'. A group of equal rewards has no scale and keeps beta.
    lam      the ridge; hidden states are not normalised, so it is on their scale
    dim      features after the projection (the paper: 32, and 128 for AIME)
    gate     no bonus in a group whose rollouts are all wrong; "mixed": nor in one whose rollouts are all correct
    figure   "leverage", or "leave-one-out": the rollout itself left out of the sum, l / (1 - l) by Sherman and Morrison
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
        if not 0 <= self.beta < math.inf:
            raise HarnessError(f"repexp: beta must be >= 0, got {self.beta}")
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
        assert rollouts.hidden is not None  # requested by `needs`
        h = projected(rollouts.hidden, self.dim, seed, 0 if self.persist else step)
        added, gated = rollouts.rewards.new_zeros(len(rollouts.rewards)), 0
        for problem, rows in rollouts.groups().items():
            centred = h[rows] - h[rows].mean(0)
            values = leverage(centred, self.lam, memory.get(problem) if self.persist else None)
            if self.persist:
                memory[problem] = centred.T @ centred + memory.get(problem, 0)
            if self.figure == "leave-one-out":
                values = values / (1 - values)
            rewards = rollouts.rewards[rows]
            if (self.gate and not rewards.any()) or (self.gate == "mixed" and rewards.all()):
                gated += 1
            elif self.spread is None or not rewards.any() or rewards.all():
                added[rows] = self.beta * values
            else:
                added[rows] = self.spread * rewards.std() / (values.std() + EPSILON) * (values - values.mean())
        return Shaped(rollouts.rewards + added, group_metrics(rollouts, added, gated))


# Unlikeliness, and plain GRPO


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
        rewards = rollouts.rewards.clone()
        return Shaped(rewards, group_metrics(rollouts, rewards - rollouts.rewards, 0))
