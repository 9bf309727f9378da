"""Samples-to-correct, pass@k, win, tie and loss: a ranking's, and random selection's in closed form.

Two estimators, never mixed (N responses to a problem, c of them correct):
- random selection without replacement: samples-to-correct (N+1)/(c+1) (Tuyls et al. 2025, appendix), and pool pass@k
  = 1 - C(N-c, k)/C(N, k) (Chen et al. 2021, equation 1);
- a ranking: samples-to-correct is the rank of the first correct response (1 = first), pass@k the share of (problem,
  trial) with that rank <= k.
A problem with c = 0 counts N+1 in both means, as the closed form gives; it is never dropped. A second mean over the
solvable problems stands beside. What is degenerate is None, never NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln
from scipy.stats import bootstrap

from .records import Floats, Ints


def random_samples_to_correct(n: Ints, c: Ints) -> Floats:
    """The expected rank of the first correct response in a random order, (N+1)/(c+1); N+1 where c = 0."""
    expected: Floats = (np.asarray(n, float) + 1) / (np.asarray(c, float) + 1)
    return expected


def random_misses(n: Ints, c: Ints, k: Ints) -> Floats:
    """P(no correct one among the first k of a random order) = C(N-c, k)/C(N, k); broadcasts."""
    n, c, k = np.broadcast_arrays(np.asarray(n, float), np.asarray(c, float), np.asarray(k, float))
    possible = n - c >= k
    left = np.where(possible, n - c - k, 0)
    log = gammaln(n - c + 1) - gammaln(left + 1) - gammaln(n + 1) + gammaln(np.where(possible, n - k, 0) + 1)
    misses: Floats = np.where(possible, np.where(c == 0, 1.0, np.exp(np.minimum(log, 0.0))), 0.0)
    return misses


def random_pass_at_k(n: Ints, c: Ints, k: int) -> Floats:
    """Pool pass@k of each problem."""
    return 1.0 - random_misses(n, c, np.minimum(k, n))


def reference_ranks(n: Ints, c: Ints) -> dict[str, Ints]:
    """The rank of the first correct response (problems,) of who knows the verdicts: best possible, worst possible.

    Where c = 0 it is N+1 for both.
    """
    n, c = np.asarray(n), np.asarray(c)
    return {"oracle": np.where(c > 0, 1, n + 1), "anti_oracle": n - c + 1}


def win_tie_loss(ranks: Ints, n: Ints, c: Ints) -> tuple[Floats, Floats, Floats]:
    """P(rank < R), P(rank = R), P(rank > R) for R the rank in a random order, exact, per problem and trial.

    ranks (problems, trials); N+1 means none. For c = 0 both are N+1: a tie. For equal selectors win = loss.
    """
    n, c = np.asarray(n)[:, None], np.asarray(c)[:, None]
    win = random_misses(n, c, ranks)
    loss = 1.0 - random_misses(n, c, ranks - 1)
    never = np.broadcast_to(c == 0, ranks.shape)
    win, loss = np.where(never, 0.0, win), np.where(never, 0.0, loss)
    return win, 1.0 - win - loss, loss


def budgets(n: int) -> list[int]:
    """1, 2, 4, ... up to n, and n."""
    return sorted({1 << power for power in range(n.bit_length())} | {n})


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What a cell's metrics are computed from.

    n, c, errors  (problems,) pool sizes, correct responses, verifier errors
    ranks         (problems, trials) rank of the first correct response, N+1 where there is none; None for subsets
    hits          k -> (problems, trials) whether a subset of size k held a correct one; None for rankers
    """

    n: Ints
    c: Ints
    errors: Ints
    ranks: Ints | None = None
    hits: dict[int, Floats] | None = None


def summary(outcomes: Outcomes, seed: int = 0) -> dict[str, Any]:
    """The figures of one row of the table; interval: 95 %, percentile bootstrap over problems of the ratio of means."""
    n, c = outcomes.n, outcomes.c
    solvable = c > 0
    random = random_samples_to_correct(n, c)
    ks = budgets(int(n.min())) if n.size else []
    row: dict[str, Any] = {
        "n": int(n.max()) if n.size else 0,
        "problems": int(n.size),
        "solvable": int(solvable.sum()),
        "errors": int(outcomes.errors.sum()),
        "flagged": bool(outcomes.errors.sum() > 0.01 * n.sum()),
        "samples_to_correct": None,
        "samples_to_correct_solvable": None,
        "samples_to_correct_random": _mean(random),
        "samples_to_correct_random_solvable": _mean(random[solvable]),
        "improvement": None,
        "improvement_ci": None,
        "improvement_solvable": None,
        "win": None,
        "tie": None,
        "loss": None,
        "pass_at_k": pass_at_k(outcomes, ks),
        "pass_at_k_random": {str(k): _mean(random_pass_at_k(n, c, k)) for k in ks},
    }
    for name, ranks in reference_ranks(n, c).items():
        row[f"samples_to_correct_{name}"] = _mean(ranks)
        row[f"pass_at_k_{name}"] = pass_at_k(Outcomes(n, c, outcomes.errors, ranks[:, None]), ks)
    if outcomes.ranks is not None and n.size:
        ours = outcomes.ranks.mean(axis=1)
        row["samples_to_correct"] = _mean(ours)
        row["samples_to_correct_solvable"] = _mean(ours[solvable])
        row["improvement"] = float(random.mean() / ours.mean())
        row["improvement_ci"] = ratio_interval(random, ours, seed)
        row["improvement_solvable"] = float(random[solvable].mean() / ours[solvable].mean()) if solvable.any() else None
        row["win"], row["tie"], row["loss"] = (_mean(p) for p in win_tie_loss(outcomes.ranks, n, c))
    return row


def pass_at_k(outcomes: Outcomes, ks: Sequence[int]) -> dict[str, float | None]:
    """k -> share of (problem, trial) whose first k hold a correct response (subset methods: whose subset of size k)."""
    if outcomes.hits is not None:
        return {str(k): _mean(hits) for k, hits in sorted(outcomes.hits.items())}
    if outcomes.ranks is None:
        return {}
    found = np.where(outcomes.c[:, None] > 0, outcomes.ranks, np.iinfo(np.int64).max)  # N+1 <= k must not count
    return {str(k): _mean(found <= k) for k in ks}


def ratio_interval(random: Floats, ours: Floats, seed: int) -> list[float] | None:
    """[low, high] for mean(random)/mean(ours), problems resampled in pairs; None for fewer than two problems."""
    if len(ours) < 2:
        return None
    if np.allclose(random, random[0], rtol=0, atol=0) and np.allclose(ours, ours[0], rtol=0, atol=0):
        ratio = float(random[0] / ours[0])
        return [ratio, ratio]

    def ratio_of_means(a: Floats, b: Floats, axis: int = -1) -> Floats:
        quotient: Floats = a.mean(axis=axis) / b.mean(axis=axis)
        return quotient

    result = bootstrap(
        (random, ours),
        ratio_of_means,
        paired=True,
        vectorized=True,
        n_resamples=2000,
        batch=500,
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    return [float(result.confidence_interval.low), float(result.confidence_interval.high)]


def _mean(values: Any) -> float | None:
    values = np.asarray(values, float)
    return float(values.mean()) if values.size else None
