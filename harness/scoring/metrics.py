"""Samples-to-correct, pass@k, win, tie and loss: of a ranking, and in closed form of random selection.

Two estimators, never mixed (N responses to a problem, c of them correct):
- random selection without replacement: samples-to-correct (N+1)/(c+1) (Tuyls et al. 2025, appendix), and pool pass@k
  = 1 - C(N-c, k)/C(N, k) (Chen et al. 2021, equation 1);
- a ranking: samples-to-correct is the rank of the first correct response (1 = first), pass@k the share of (problem,
  trial) with that rank <= k.
A problem with c = 0 counts N+1 in both means, as the closed form gives; it is never dropped. Beside this mean there is
one over the solvable problems only, and for each budget the restricted mean, of min(rank, budget + 1): the calls used
when stopping after `budget`, which no unsolvable problem can dominate. Every selector, subset methods too, has the gain
at a budget: its pass@k minus that of random selection. Intervals and tests are in `stats`. A degenerate value is None,
never NaN.

With several seeds a problem has one pool per seed, or more trials on the same pool. Both are averaged inside the
problem before anything is computed over problems.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from scipy.special import gammaln

from harness.records import Floats, Ints

from . import stats

CEILING = 0.95

OF_RANKS = (
    *("samples_to_correct", "samples_to_correct_solvable"),
    *("improvement", "improvement_ci", "improvement_solvable", "improvement_solvable_ci"),
    *("win", "tie", "loss", "p_random", "k95", "calls_saved"),
)
AT_BUDGET = ("p_budget", "win_budget", "tie_budget", "loss_budget")
RESTRICTED = ("restricted_mean", "restricted_improvement", "restricted_improvement_ci")


def random_samples_to_correct(n: Ints, c: Ints) -> Floats:
    """The expected rank of the first correct response in a random order, (N+1)/(c+1); N+1 where c = 0."""
    expected: Floats = (np.asarray(n, float) + 1) / (np.asarray(c, float) + 1)
    return expected


def random_misses(n: Ints, c: Ints, k: Ints) -> Floats:
    """P(no correct response among the first k of a random order) = C(N-c, k)/C(N, k); arguments broadcast."""
    n, c, k = np.broadcast_arrays(np.asarray(n, float), np.asarray(c, float), np.asarray(k, float))
    possible = n - c >= k
    left = np.where(possible, n - c - k, 0)
    log = gammaln(n - c + 1) - gammaln(left + 1) - gammaln(n + 1) + gammaln(np.where(possible, n - k, 0) + 1)
    misses: Floats = np.where(possible, np.where(c == 0, 1.0, np.exp(np.minimum(log, 0.0))), 0.0)
    return misses


def random_pass_at_k(n: Ints, c: Ints, k: int) -> Floats:
    """pass@k of random selection on each problem's pool, (problems,)."""
    return 1.0 - random_misses(n, c, np.minimum(k, n))


def restricted(ranks: Ints, budget: int) -> Ints:
    """min(rank, budget + 1): calls used when stopping after `budget`, and one more if none of them was correct."""
    cut: Ints = np.minimum(ranks, budget + 1)
    return cut


def random_restricted_mean(n: Ints, c: Ints, budget: int) -> Floats:
    """The expected restricted rank in a random order: the sum over k = 0 ... budget of C(N-c, k)/C(N, k).

    In closed form (N + 1 - (N - budget - c) C(N-c, budget)/C(N, budget)) / (c + 1).
    """
    n, c = np.asarray(n, float), np.asarray(c, float)
    at = np.minimum(budget, n)
    mean: Floats = (n + 1 - np.maximum(n - at - c, 0) * random_misses(n, c, at)) / (c + 1)
    return mean


def budget_for(share: float, ranks: Ints, c: Ints) -> int | None:
    """The smallest k at which pass@k reaches `share` of the ceiling; the ceiling is the share of solvable problems.

    ranks (problems, trials); a problem is solvable where c > 0. None where no problem is solvable.
    """
    solvable = np.sort(ranks[c > 0], axis=None)
    return int(solvable[ceil(share * solvable.size - 1e-9) - 1]) if solvable.size else None


def random_budget_for(share: float, n: Ints, c: Ints) -> int | None:
    """The smallest k at which random selection's expected pass@k reaches `share` of the ceiling; see `budget_for`."""
    n, c = n[c > 0], c[c > 0]
    if not n.size:
        return None
    target = share * n.size - 1e-9
    return 1 + bisect_left(range(1, int(n.max()) + 1), target, key=lambda k: float(random_pass_at_k(n, c, k).sum()))


def reference_ranks(n: Ints, c: Ints) -> dict[str, Ints]:
    """The rank of the first correct response, (problems,), in the best ("oracle") and worst ("anti_oracle") order.

    Where c = 0 both are N+1.
    """
    n, c = np.asarray(n), np.asarray(c)
    return {"oracle": np.where(c > 0, 1, n + 1), "anti_oracle": n - c + 1}


def telling_budget(n: Ints, c: Ints) -> int | None:
    """The budget at which random selection solves about half of the solvable problems: a power of two or the least N.

    It is the one that comes nearest to half: there the hit of a subset varies most. It depends on (N, c)
    alone, so no selector can influence it. None where no problem is solvable.
    """
    if not (np.asarray(c) > 0).any():
        return None
    half = float((c > 0).mean()) / 2
    return min(budgets(int(n.min())), key=lambda k: (abs(round(float(random_pass_at_k(n, c, k).mean()) - half, 12)), k))


def win_tie_loss(ranks: Ints, n: Ints, c: Ints) -> tuple[Floats, Floats, Floats]:
    """The exact P(rank < R), P(rank = R), P(rank > R) per problem and trial, where R is the rank in a random order.

    ranks (problems, trials); N+1 means that no response is correct. For c = 0 both ranks are N+1: a tie. Random
    selection itself has win = loss in expectation.
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
    """The values that a row's metrics are computed from. An entry is one pool; the `pools` of a problem are adjacent.

    n, c, errors  (entries,) pool sizes, correct responses, verifier errors
    ranks         (entries, trials) rank of the first correct response, N+1 where there is none; None for subsets
    hits          k -> (entries, trials) whether a subset of size k held a correct response; None for rankers. If some
                  entries have no subset of size k, the array has rows for the others only
    pools         how many pools each problem has: one per seed
    """

    n: Ints
    c: Ints
    errors: Ints
    ranks: Ints | None = None
    hits: dict[int, Floats] | None = None
    pools: int = 1

    def inside(self, values: Floats) -> Floats:
        """The mean over each problem's pools, (problems, ...); values (entries, ...)."""
        values = np.asarray(values, float)
        mean: Floats = values.reshape(-1, self.pools, *values.shape[1:]).mean(axis=1)
        return mean

    def inside_solvable(self, values: Floats) -> Floats:
        """The mean over each problem's pools with c > 0, for the problems that have one; values (entries,)."""
        solvable = (self.c > 0).reshape(-1, self.pools)
        some = solvable.any(axis=1)
        kept = np.where(solvable, np.asarray(values, float).reshape(-1, self.pools), 0.0)
        mean: Floats = kept[some].sum(axis=1) / solvable[some].sum(axis=1)
        return mean

    def hits_within(self, k: int) -> Floats | None:
        """Whether the first k picks, or the subset of size k, hold a correct response: (entries, trials) of 0 and 1.

        None if there are neither ranks nor, for each entry, a subset of size k.
        """
        if self.hits is not None:
            hits = self.hits.get(k)
            return None if hits is None or len(hits) < len(self.n) else np.asarray(hits, float)
        if self.ranks is None:
            return None
        within: Floats = ((self.c[:, None] > 0) & (self.ranks <= k)).astype(float)  # N+1 <= k must not count
        return within


def over_seeds(groups: Sequence[Sequence[Outcomes]]) -> Outcomes:
    """Join the outcomes of several cells. A group holds the cells of one pool, all with the same problems in one order.

    The cells of a group become further trials on its pool. All groups must have the same size and the same problems.
    """

    def joined(parts: Sequence[Sequence[Any]]) -> Any:
        """The arrays of the cells, by group: trials side by side, and the pools of a problem adjacent."""
        stacked = np.stack([np.concatenate(part, axis=-1) for part in parts], axis=1)
        return stacked.reshape(-1, *stacked.shape[2:])

    first = groups[0][0]
    n, c, errors = (joined([[getattr(cells[0], name)] for cells in groups]) for name in ("n", "c", "errors"))
    ranks = joined([[cell.ranks for cell in cells] for cells in groups]) if first.ranks is not None else None
    hits = None
    if first.hits is not None:
        hits = {k: joined([[(cell.hits or {})[k] for cell in cells] for cells in groups]) for k in first.hits}
    return Outcomes(n, c, errors, ranks, hits, len(groups))


def summary(outcomes: Outcomes, seed: int = 0) -> dict[str, Any]:
    """The metrics of one row of a table. docs/statistics.md explains each one and how far its interval can be trusted.

    A subset method has pass@k, its gain and the values at the telling budget; metrics that need a rank are None, or {}
    where there would be one for each budget. `seed` seeds the bootstrap resamples.
    """
    n, c, pools = outcomes.n, outcomes.c, outcomes.pools
    ks = budgets(int(n.min())) if n.size else []
    row: dict[str, Any] = {
        "n": int(n.max()) if n.size else 0,
        "problems": n.size // pools,
        "solvable": int((c > 0).reshape(-1, pools).any(axis=1).sum()),
        "errors": int(outcomes.errors.sum()),
        "flagged": bool(outcomes.errors.sum() > 0.01 * n.sum()),
        **_of_ranks(outcomes, ks, seed),
        **_of_random(outcomes, ks),
        "pass_at_k": pass_at_k(outcomes, ks),
        **_gains(outcomes, ks, seed),
        **_at_budget(outcomes),
    }
    for name, ranks in reference_ranks(n, c).items():
        row[f"samples_to_correct_{name}"] = _mean(ranks)
        row[f"pass_at_k_{name}"] = pass_at_k(Outcomes(n, c, outcomes.errors, ranks[:, None]), ks)
    absent = _no_intervals(row)
    return row | ({"no_interval": absent} if absent else {})


def _no_intervals(row: Mapping[str, Any]) -> dict[str, str]:
    """Key of each interval that is null although its metric has a value -> the reason, with the budgets concerned."""
    absent = {}
    for name in ("improvement", "improvement_solvable"):
        if row[name] is not None and row[f"{name}_ci"] is None:
            problems = row["solvable" if name == "improvement_solvable" else "problems"]
            absent[f"{name}_ci"] = stats.why_none(problems, stats.TOO_WIDE)
    for name, reason in (("restricted_improvement_ci", stats.TOO_WIDE), ("gain_at_k_ci", stats.BEYOND_RANGE)):
        ks = [k for k, ends in row[name].items() if ends is None]
        if ks:
            absent[name] = f"k = {', '.join(ks)}: {stats.why_none(row['problems'], reason)}"
    return absent


def _of_random(outcomes: Outcomes, ks: Sequence[int]) -> dict[str, Any]:
    """The metrics of random selection, and how far an interval on these pools can be trusted."""
    n, c, shape = outcomes.n, outcomes.c, (-1, outcomes.pools)
    random = random_samples_to_correct(n, c)
    return {
        "samples_to_correct_random": _mean(random),
        "samples_to_correct_random_solvable": _mean(outcomes.inside_solvable(random)),
        "pass_at_k_random": {str(k): _mean(random_pass_at_k(n, c, k)) for k in ks},
        "restricted_mean_random": {str(k): _mean(random_restricted_mean(n, c, k)) for k in ks},
        "k95_random": random_budget_for(CEILING, n, c),
        "trust": stats.trust(n.reshape(shape), c.reshape(shape)),
    }


def _of_ranks(outcomes: Outcomes, ks: Sequence[int], seed: int) -> dict[str, Any]:
    """The metrics, intervals and test that need a ranker's ranks; None or {} for a subset method."""
    ranks, n, c = outcomes.ranks, outcomes.n, outcomes.c
    row: dict[str, Any] = {**dict.fromkeys(OF_RANKS), **{name: {} for name in RESTRICTED}}
    if ranks is None or not n.size:
        return row
    row |= _improvements(outcomes, ranks, ks, seed)
    row["win"], row["tie"], row["loss"] = (_mean(p) for p in win_tie_loss(ranks, n, c))
    row["p_random"] = stats.random_order_test(ranks, n, c)
    row["k95"], random_k95 = budget_for(CEILING, ranks, c), random_budget_for(CEILING, n, c)
    if row["k95"] is not None and random_k95 is not None:
        row["calls_saved"] = random_k95 - row["k95"]
    return row


def _improvements(outcomes: Outcomes, ranks: Ints, ks: Sequence[int], seed: int) -> dict[str, Any]:
    """Means, random's mean / the selector's, and intervals: of all and solvable problems, and restricted at each k."""
    n, c, names = outcomes.n, outcomes.c, [str(k) for k in ks]
    # Columns (problems, 1 + budgets): without a budget, then stopped at each.
    expected = [random_samples_to_correct(n, c), *(random_restricted_mean(n, c, k) for k in ks)]
    observed = [ranks.mean(axis=1), *(restricted(ranks, k).mean(axis=1) for k in ks)]
    random, selected = (outcomes.inside(np.stack(columns, axis=1)) for columns in (expected, observed))
    intervals = stats.ratio_intervals(random, selected, seed)
    ratios = random.mean(axis=0) / selected.mean(axis=0)
    row: dict[str, Any] = {
        "samples_to_correct": _mean(selected[:, 0]),
        "improvement": float(ratios[0]),
        "improvement_ci": intervals[0],
        "restricted_mean": dict(zip(names, selected.mean(axis=0)[1:].tolist(), strict=True)),
        "restricted_improvement": dict(zip(names, ratios[1:].tolist(), strict=True)),
        "restricted_improvement_ci": dict(zip(names, intervals[1:], strict=True)),
    }
    if (c > 0).any():
        a, b = outcomes.inside_solvable(expected[0]), outcomes.inside_solvable(observed[0])
        row["samples_to_correct_solvable"] = _mean(b)
        row["improvement_solvable"] = float(a.mean() / b.mean())
        row["improvement_solvable_ci"] = stats.ratio_interval(a, b, seed)
    return row


def _gains(outcomes: Outcomes, ks: Sequence[int], seed: int) -> dict[str, Any]:
    """pass@k minus that of random selection, averaged over problems, and its interval, by k."""
    hits_at = {k: hits for k in ks if (hits := outcomes.hits_within(k)) is not None}
    if not hits_at:
        return {"gain_at_k": {}, "gain_at_k_ci": {}}
    n, c, names = outcomes.n, outcomes.c, [str(k) for k in hits_at]
    columns = [outcomes.inside(hits.mean(axis=1) - random_pass_at_k(n, c, k)) for k, hits in hits_at.items()]
    gains = np.round(np.stack(columns, axis=1), 12)  # a rounding error of a certain hit is no gain
    intervals = stats.difference_intervals(gains, seed, widest=1.0)
    return {
        "gain_at_k": dict(zip(names, np.round(gains.mean(axis=0), 12).tolist(), strict=True)),
        "gain_at_k_ci": dict(zip(names, intervals, strict=True)),
    }


def _at_budget(outcomes: Outcomes) -> dict[str, Any]:
    """At the telling budget: the test against random subsets, and the chances of win, tie and loss against one."""
    n, c = outcomes.n, outcomes.c
    budget = telling_budget(n, c) if n.size else None
    row: dict[str, Any] = {"budget": budget, **dict.fromkeys(AT_BUDGET)}
    hits = None if budget is None else outcomes.hits_within(budget)
    if budget is None or hits is None:
        return row
    chances = random_pass_at_k(n, c, budget)
    row["p_budget"] = stats.random_subset_test(hits, chances)
    row["win_budget"] = _mean(hits * (1 - chances[:, None]))
    row["loss_budget"] = _mean((1 - hits) * chances[:, None])
    row["tie_budget"] = 1.0 - row["win_budget"] - row["loss_budget"]
    return row


def pass_at_k(outcomes: Outcomes, ks: Sequence[int]) -> dict[str, float | None]:
    """k, as text -> share of (entry, trial) pairs whose first k picks, or subset of size k, hold a correct response.

    A subset method has its own budgets: `ks` is ignored, and pools without a subset of size k are left out at k.
    """
    if outcomes.hits is not None:
        return {str(k): _mean(hits) for k, hits in sorted(outcomes.hits.items())}
    if outcomes.ranks is None:
        return {}
    return {str(k): _mean(outcomes.hits_within(k)) for k in ks}


def _mean(values: Any) -> float | None:
    values = np.asarray(values, float)
    return float(values.mean()) if values.size else None
