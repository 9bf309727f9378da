"""Samples-to-correct, pass@k, win, tie, loss: of a ranking, and of random selection in closed form; maj@k, best-of-k.

Two estimators, never mixed (N responses to a problem, c of them correct), both of the m-th correct response (m = 1: the
first; `--correct` names another):
- random selection without replacement: samples-to-correct m (N+1)/(c+1) (for m = 1 Tuyls et al. 2025, appendix; its
  law is the negative hypergeometric one), and pass@k, the chance of at least m correct responses among the first k (for
  m = 1 1 - C(N-c, k)/C(N, k), Chen et al. 2021, equation 1);
- a ranking: samples-to-correct is the rank of the m-th correct response (1 = first), pass@k the share of (problem,
  trial) with that rank <= k.
A problem is solvable where c >= m. Any other counts N+1 in both means, as the closed form for c = 0 gives; it is never
dropped. Beside this mean there is one over the solvable problems only, and for each budget the restricted mean, of
min(rank, budget + 1): the calls used when stopping after `budget`, which no unsolvable problem can dominate. Every
selector, subset methods too, has the gain at a budget: its pass@k minus that of random selection. Intervals and tests
are in `stats`. A degenerate value is None, never NaN.

hits@k is how many of the first k are correct, and the enrichment factor at x % the share of correct responses among the
first x % of an order by that in the pool: what screens of molecules report. Random selection has k c/N, and 1.

With several seeds a problem has one pool per seed, or more trials on the same pool. Both are averaged inside the
problem before anything is computed over problems.

maj@k and best-of-k are the chance that one answer, chosen from k random responses, is correct: exact expectations over
all subsets of k of the n responses. Neither is pass@k, which asks whether any of the k is correct.

maj@k (self-consistency: Wang et al. 2022, arXiv:2203.11171)
    The answer that most of the k responses have; equally frequent answers have equal chances. A response without an
    answer has no vote, and k responses without any answer count as wrong. Equal answers can have different verdicts:
    an answer that wins counts as the share of its responses that are correct.
best-of-k
    The response with the highest score; equal scores have equal chances. NaN is below every number.

How maj@k is computed: a random subset of k has the counts of independent binomials with p = k/n whose sum happens to
be k. Answer i of size s_i wins with m votes, and shares this with t - 1 others, with a chance of 1/t, which is the
integral of u^(t-1) over u from 0 to 1. With a(x) = P(Binomial(s, p) = x), the chance that answer i wins with m votes is
therefore the coefficient of z^k in

    integral over u of   a_i(m) z^m  *  product over j != i of  ( sum over x < m of a_j(x) z^x  +  u a_j(m) z^m ),

divided by P(Binomial(n, p) = k). A sum over roots of unity takes the coefficient, a Gauss-Legendre sum the integral.
Answers of one size are a power. The error is below 1e-10. Cost for each k: about 1 ms at n = 100, and at most
150 ms at n = 6,400.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, isqrt, sqrt
from typing import Any

import numpy as np
from scipy.special import gammaln

from harness.records import Floats, Ints

from . import stats

CEILING = 0.95
SHARES = (0.01, 0.05)  # of the pool, for enrichment factors: orders are kept up to the largest
NEGLIGIBLE = 1e-15  # a probability

Sizes = tuple[tuple[int, int, float], ...]  # ascending: size, how many answers have it, sum of their correct shares


# Random selection, in closed form.


def random_samples_to_correct(n: Ints, c: Ints, m: int = 1) -> Floats:
    """The expected rank of the m-th correct response in a random order, m (N+1)/(c+1); N+1 where c < m."""
    above = np.asarray(c, float) + 1
    expected: Floats = np.minimum(m, above) * (np.asarray(n, float) + 1) / above
    return expected


def random_hits(n: Ints, c: Ints, k: Ints, hits: int) -> Floats:
    """P(exactly so many `hits` among the first k of a random order) = C(c, hits) C(N-c, k-hits)/C(N, k); broadcasts."""
    n, c, k = np.broadcast_arrays(np.asarray(n, float), np.asarray(c, float), np.asarray(k, float))
    possible = (n - c >= k - hits) & (k >= hits) & (c >= hits)
    left = np.where(possible, n - c - k + hits, 0)
    log = gammaln(n - c + 1) - gammaln(left + 1) - gammaln(n + 1) + gammaln(np.where(possible, n - k, 0) + 1)
    if hits:
        for of in (k, c):
            log = log + gammaln(of + 1) - gammaln(np.where(possible, of - hits, 0) + 1)
        log = log - gammaln(hits + 1)
    chances: Floats = np.where(possible, np.where(c == 0, 1.0, np.exp(np.minimum(log, 0.0))), 0.0)
    return chances


def random_misses(n: Ints, c: Ints, k: Ints, m: int = 1) -> Floats:
    """P(fewer than m correct responses among the first k of a random order), for m = 1 C(N-c, k)/C(N, k); broadcasts.

    For all k at once it is what is left of the law of the m-th correct response's rank: P(rank > k).
    """
    fewer = np.minimum(sum(random_hits(n, c, k, hits) for hits in range(m)), 1.0)
    misses: Floats = np.where((np.asarray(c) < m) | (np.asarray(k) < m), 1.0, fewer)
    return misses


def random_pass_at_k(n: Ints, c: Ints, k: int, m: int = 1) -> Floats:
    """pass@k of random selection on each problem's pool, (problems,)."""
    return 1.0 - random_misses(n, c, np.minimum(k, n), m)


def random_restricted_mean(n: Ints, c: Ints, budget: int, m: int = 1) -> Floats:
    """The expected min(rank, budget + 1) in a random order: the sum over k = 0 ... budget of P(rank > k).

    In closed form: with i < m correct responses among the first `budget`, the rank lies (m - i) (N - budget + 1) /
    (c - i + 1) beyond the budget on average, and 1 of that counts. For m = 1 it comes to
    (N + 1 - (N - budget - c) C(N-c, budget)/C(N, budget)) / (c + 1).
    """
    n, c = np.asarray(n, float), np.asarray(c, float)
    at = np.minimum(budget, n)
    beyond: Floats = np.zeros(np.shape(n))  # times c + 1
    for i in range(m):
        further = (m - i) * (n - at + 1) * ((c + 1) / np.maximum(c - i + 1, 1)) - (c + 1)
        beyond = beyond + further * random_hits(n, c, at, i)
    mean: Floats = np.where(c < m, at + 1, (m * (n + 1) - beyond) / (c + 1))
    return mean


def random_budget_for(share: float, n: Ints, c: Ints, m: int = 1) -> int | None:
    """The smallest k at which random selection's pass@k reaches `share` of the ceiling; as `budget_for`."""
    n, c = np.asarray(n)[np.asarray(c) >= m], np.asarray(c)[np.asarray(c) >= m]
    if not n.size:
        return None
    target = share * n.size - 1e-9
    return 1 + bisect_left(range(1, int(n.max()) + 1), target, key=lambda k: float(random_pass_at_k(n, c, k, m).sum()))


def telling_budget(n: Ints, c: Ints, m: int = 1) -> int | None:
    """The budget, of those that all pools have, at which random selection solves about half of the solvable problems.

    There the hit of a subset varies most, and no selector can influence it. None where no problem is solvable.
    """
    if not (np.asarray(c) >= m).any():
        return None
    half = float((c >= m).mean()) / 2
    shared = set.intersection(*(set(budgets(size)) for size in np.unique(n).tolist()))
    off = {k: round(float(random_pass_at_k(n, c, k, m).mean()) - half, 12) for k in shared}
    return min(off, key=lambda k: (abs(off[k]), k))


# A ranking, or subsets.


def budgets(n: int) -> list[int]:
    """1, 2, 4, ... up to n, and n."""
    return sorted({1 << power for power in range(n.bit_length())} | {n})


def size_of(share: float, n: int) -> int:
    """How many responses that share of n is, rounded up, as RDKit counts (`rdkit.ML.Scoring`)."""
    return ceil(n * share)


def budget_for(share: float, ranks: Ints, c: Ints, m: int = 1) -> int | None:
    """The smallest k at which pass@k reaches `share` of the ceiling; the ceiling is the share of solvable problems.

    ranks (problems, trials); a problem is solvable where c >= m. None where no problem is solvable.
    """
    solvable = np.sort(ranks[c >= m], axis=None)
    return int(solvable[ceil(share * solvable.size - 1e-9) - 1]) if solvable.size else None


def win_tie_loss(ranks: Ints, n: Ints, c: Ints, m: int = 1) -> tuple[Floats, Floats, Floats]:
    """The exact P(rank < R), P(rank = R), P(rank > R) per problem and trial, where R is the rank in a random order.

    For c < m both are N+1: a tie. Random selection itself has win = loss in expectation.
    """
    n, c = np.asarray(n)[:, None], np.asarray(c)[:, None]
    win = np.where(c < m, 0.0, random_misses(n, c, ranks, m))
    loss = np.where(c < m, 0.0, 1.0 - random_misses(n, c, ranks - 1, m))
    return win, 1.0 - win - loss, loss


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The values that a row's metrics are computed from. An entry is one pool; the `pools` of a problem are adjacent.

    n, c, errors  (entries,) pool sizes, correct responses, verifier errors
    ranks         (entries, trials) rank of the m-th correct response, N+1 where there are fewer; None for subsets
    hits          k -> (entries, trials) whether a subset of size k held m correct responses; None for rankers. If some
                  entries have no subset of size k, the array has rows for the others only
    pools         how many pools each problem has: one per seed
    correct       m: which correct response is counted to
    counts        k -> (entries, trials) how many of the first k are correct, a k below 1 being a share of the pool;
                  None if orders were not kept for that
    """

    n: Ints
    c: Ints
    errors: Ints
    ranks: Ints | None = None
    hits: dict[int, Floats] | None = None
    pools: int = 1
    correct: int = 1
    counts: dict[float, Ints] | None = None

    @property
    def solvable(self) -> Any:
        """Whether a pool has as many correct responses as are counted to, (entries,)."""
        return self.c >= self.correct

    def inside(self, values: Floats) -> Floats:
        """The mean over each problem's pools, (problems, ...); values (entries, ...)."""
        values = np.asarray(values, float)
        mean: Floats = values.reshape(-1, self.pools, *values.shape[1:]).mean(axis=1)
        return mean

    def inside_solvable(self, values: Floats) -> Floats:
        """The mean over each problem's solvable pools, for the problems that have one; values (entries,)."""
        solvable = self.solvable.reshape(-1, self.pools)
        some = solvable.any(axis=1)
        kept = np.where(solvable, np.asarray(values, float).reshape(-1, self.pools), 0.0)
        mean: Floats = kept[some].sum(axis=1) / solvable[some].sum(axis=1)
        return mean

    def hits_within(self, k: int) -> Floats | None:
        """Whether the first k picks, or the subset of size k, hold m correct ones: (entries, trials) of 0 and 1.

        None if there are neither ranks nor, for each entry, a subset of size k.
        """
        if self.hits is not None:
            hits = self.hits.get(k)
            return None if hits is None or len(hits) < len(self.n) else np.asarray(hits, float)
        if self.ranks is None:
            return None
        within: Floats = (self.solvable[:, None] & (self.ranks <= k)).astype(float)  # N+1 <= k must not count
        return within


def over_seeds(groups: Sequence[Sequence[Outcomes]]) -> Outcomes:
    """Join cells of the same problems; a group holds the cells of one pool, as further trials, in equal numbers."""

    def joined(parts: Sequence[Sequence[Any]]) -> Any:
        """The arrays of the cells, by group: trials side by side, and the pools of a problem adjacent."""
        stacked = np.stack([np.concatenate(part, axis=-1) for part in parts], axis=1)
        return stacked.reshape(-1, *stacked.shape[2:])

    first = groups[0][0]

    def by_k(name: str) -> dict[Any, Any] | None:
        """The tables of hits or counts, at the k that all cells have."""
        tables = [[getattr(cell, name) or {} for cell in cells] for cells in groups]
        shared = [k for k in getattr(first, name) or () if all(k in table for cells in tables for table in cells)]
        return {k: joined([[table[k] for table in cells] for cells in tables]) for k in shared}

    n, c, errors = (joined([[getattr(cells[0], name)] for cells in groups]) for name in ("n", "c", "errors"))
    ranks = joined([[cell.ranks for cell in cells] for cells in groups]) if first.ranks is not None else None
    hits, counts = (None if getattr(first, name) is None else by_k(name) for name in ("hits", "counts"))
    return Outcomes(n, c, errors, ranks, hits, len(groups), first.correct, counts)


# The metrics of a row.


def summary(outcomes: Outcomes, seed: int = 0) -> dict[str, Any]:
    """The metrics of one row of a table. docs/statistics.md explains each one and how far its interval can be trusted.

    A subset method has pass@k, its gain and the values at the telling budget; it lacks what needs a rank. What lacks a
    value is None, or absent. `seed` seeds the bootstrap resamples.
    """
    n, c, m, shape = outcomes.n, outcomes.c, outcomes.correct, (-1, outcomes.pools)
    ks = budgets(int(n.min())) if n.size else []
    random = random_samples_to_correct(n, c, m)
    row: dict[str, Any] = {
        "correct": m,
        "n": int(n.max()) if n.size else 0,
        "problems": n.size // outcomes.pools,
        "solvable": int(outcomes.solvable.reshape(shape).any(axis=1).sum()),
        "errors": int(outcomes.errors.sum()),
        "flagged": bool(outcomes.errors.sum() > 0.01 * n.sum()),
        "samples_to_correct_random": _mean(random),
        "samples_to_correct_random_solvable": _mean(outcomes.inside_solvable(random)),
        "pass_at_k_random": {str(k): _mean(random_pass_at_k(n, c, k, m)) for k in ks},
        "restricted_mean_random": {str(k): _mean(random_restricted_mean(n, c, k, m)) for k in ks},
        "k95_random": random_budget_for(CEILING, n, c, m),
        "trust": stats.trust(n.reshape(shape), c.reshape(shape), m),
        "pass_at_k": _pass_at_k(outcomes, ks),
        **_gains(outcomes, ks, seed),
        **_at_budget(outcomes),
        **_hits(outcomes, seed),
    }
    # The rank of the m-th correct response in the best and in the worst order; N+1 where c < m.
    for name, best in (("oracle", m), ("anti_oracle", n - c + m)):
        ranks = np.where(outcomes.solvable, best, n + 1)
        row[f"samples_to_correct_{name}"] = _mean(ranks)
        row[f"pass_at_k_{name}"] = _pass_at_k(Outcomes(n, c, outcomes.errors, ranks[:, None], correct=m), ks)
    if outcomes.ranks is not None and n.size:
        row |= _of_ranks(outcomes, outcomes.ranks, ks, seed)
        if row["k95"] is not None:
            row["calls_saved"] = row["k95_random"] - row["k95"]
    absent = _no_intervals(row)
    return row | ({"no_interval": absent} if absent else {})


def _no_intervals(row: Mapping[str, Any]) -> dict[str, str]:
    """Key of each interval that is null although its metric has a value -> the reason, with the budgets concerned."""
    absent = {}
    for name, count in (("improvement", "problems"), ("improvement_solvable", "solvable")):
        if row.get(name) is not None and row[f"{name}_ci"] is None:
            absent[f"{name}_ci"] = stats.why_none(row[count], stats.TOO_WIDE)
    beyond = dict.fromkeys(("gain_at_k_ci", "hits_at_k_ci"), stats.BEYOND_RANGE)
    for name, reason in {"restricted_improvement_ci": stats.TOO_WIDE, **beyond}.items():
        if ks := [k for k, ends in row.get(name, {}).items() if ends is None]:
            absent[name] = f"k = {', '.join(ks)}: {stats.why_none(row['problems'], reason)}"
    return absent


def _of_ranks(outcomes: Outcomes, ranks: Ints, ks: Sequence[int], seed: int) -> dict[str, Any]:
    """What needs a ranker's ranks: of all problems, of solvable ones, and stopped at each k."""
    n, c, m, names = outcomes.n, outcomes.c, outcomes.correct, [str(k) for k in ks]
    # Columns (problems, 1 + budgets): without a budget, then stopped at each.
    expected = [random_samples_to_correct(n, c, m), *(random_restricted_mean(n, c, k, m) for k in ks)]
    observed = [ranks.mean(axis=1), *(np.minimum(ranks, k + 1).mean(axis=1) for k in ks)]
    random, selected = (outcomes.inside(np.stack(columns, axis=1)) for columns in (expected, observed))
    intervals = stats.ratio_intervals(random, selected, seed)
    ratios = random.mean(axis=0) / selected.mean(axis=0)
    win, tie, loss = map(_mean, win_tie_loss(ranks, n, c, m))
    row: dict[str, Any] = {
        "samples_to_correct": _mean(selected[:, 0]),
        "improvement": float(ratios[0]),
        "improvement_ci": intervals[0],
        "restricted_mean": dict(zip(names, selected.mean(axis=0)[1:].tolist(), strict=True)),
        "restricted_improvement": dict(zip(names, ratios[1:].tolist(), strict=True)),
        "restricted_improvement_ci": dict(zip(names, intervals[1:], strict=True)),
        **{"win": win, "tie": tie, "loss": loss},
        "p_random": stats.random_order_test(ranks, n, c, m),
        "k95": budget_for(CEILING, ranks, c, m),
    }
    if outcomes.solvable.any():
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
    n, c, m, names = outcomes.n, outcomes.c, outcomes.correct, [str(k) for k in hits_at]
    columns = [outcomes.inside(hits.mean(axis=1) - random_pass_at_k(n, c, k, m)) for k, hits in hits_at.items()]
    gains = np.round(np.stack(columns, axis=1), 12)  # a rounding error of a certain hit is no gain
    intervals = stats.difference_intervals(gains, seed, widest=1.0)
    return {
        "gain_at_k": dict(zip(names, np.round(gains.mean(axis=0), 12).tolist(), strict=True)),
        "gain_at_k_ci": dict(zip(names, intervals, strict=True)),
    }


def _hits(outcomes: Outcomes, seed: int) -> dict[str, Any]:
    """hits@k by k, and the enrichment factor by per cent, with intervals over problems; {} if orders were not kept.

    A pool without a correct response has no enrichment factor, and is left out there.
    """
    if not outcomes.counts or not outcomes.n.size:
        return {}
    n, c = outcomes.n, outcomes.c
    ks = [int(k) for k in outcomes.counts if k >= 1]
    shares = np.stack([outcomes.inside(outcomes.counts[k].mean(axis=1) / k) for k in ks], axis=1)
    intervals = stats.difference_intervals(shares, seed, widest=1.0)
    limits = [ends and [k * max(ends[0], 0.0), k * min(ends[1], 1.0)] for k, ends in zip(ks, intervals, strict=True)]
    row: dict[str, Any] = {
        "hits_at_k": {str(k): float(k * mean) for k, mean in zip(ks, shares.mean(axis=0), strict=True)},
        "hits_at_k_ci": {str(k): ends and [*map(stats.rounded, ends)] for k, ends in zip(ks, limits, strict=True)},
        "hits_at_k_random": {str(k): _mean(k * c / n) for k in ks},
        **{"enrichment_factor": {}, "enrichment_factor_ci": {}},
    }
    with_any = replace(outcomes, correct=1)
    for share in SHARES:
        of_share = outcomes.counts[share].mean(axis=1) / [size_of(share, size) for size in n.tolist()]
        values = with_any.inside_solvable(of_share * n / np.maximum(c, 1))
        ends = stats.difference_interval(values, seed) if values.size else None
        row["enrichment_factor"][f"{100 * share:g}"] = _mean(values)
        row["enrichment_factor_ci"][f"{100 * share:g}"] = ends and [stats.rounded(max(ends[0], 0.0)), ends[1]]
    return row


def _at_budget(outcomes: Outcomes) -> dict[str, Any]:
    """At the telling budget: the test against random subsets, and the chances of win, tie and loss against one."""
    n, c, m = outcomes.n, outcomes.c, outcomes.correct
    budget = telling_budget(n, c, m) if n.size else None
    hits = None if budget is None else outcomes.hits_within(budget)
    if budget is None or hits is None:
        return {"budget": budget}
    chances = random_pass_at_k(n, c, budget, m)
    win, loss = float((hits * (1 - chances[:, None])).mean()), float(((1 - hits) * chances[:, None]).mean())
    p = stats.random_subset_test(hits, chances)
    return {"budget": budget, "p_budget": p, "win_budget": win, "tie_budget": 1.0 - win - loss, "loss_budget": loss}


def _pass_at_k(outcomes: Outcomes, ks: Sequence[int]) -> dict[str, float | None]:
    """k, as text -> share of (entry, trial) pairs whose first k picks, or subset of size k, hold m correct responses.

    A subset method has its own budgets: `ks` is ignored, and pools without a subset of size k are left out at k.
    """
    if outcomes.hits is not None:
        return {str(k): _mean(hits) for k, hits in sorted(outcomes.hits.items())}
    return {str(k): _mean(outcomes.hits_within(k)) for k in ks} if outcomes.ranks is not None else {}


def _mean(values: Any) -> float | None:
    values = np.asarray(values, float)
    return float(values.mean()) if values.size else None


# What one answer chosen from k random responses is worth.


def best_of_k(scores: Floats, correct: Sequence[bool], ks: Sequence[int]) -> list[float]:
    """The chance that the highest score of k random responses is a correct response's, for each k of `ks`.

    scores (n,), the larger the better; 1 <= k <= n
    """
    known = np.where(np.isnan(scores), -np.inf, scores)
    _, level, size = np.unique(-known, return_inverse=True, return_counts=True)
    share = np.bincount(level, np.asarray(correct, float)) / size
    at_least = np.append(0, size.cumsum())  # responses above the first level, above the second, ...
    none_of = random_misses(np.array(len(scores)), at_least[:, None], np.asarray(ks))
    chances: list[float] = (share @ (none_of[:-1] - none_of[1:])).tolist()
    return chances


def majority_at_k(answers: Sequence[str | None], correct: Sequence[bool], ks: Sequence[int]) -> list[float]:
    """The chance that the most frequent answer of k random responses is correct, for each k of `ks`; 1 <= k <= n."""
    verdicts: dict[str, list[bool]] = defaultdict(list)
    for answer, is_correct in zip(answers, correct, strict=True):
        if answer is not None:
            verdicts[answer].append(is_correct)
    shares: dict[int, list[float]] = defaultdict(list)
    for votes in verdicts.values():
        shares[len(votes)].append(sum(votes) / len(votes))
    sizes = tuple((size, len(shares[size]), sum(shares[size])) for size in sorted(shares))
    return [_majority(sizes, len(answers), k) for k in ks]


@lru_cache(maxsize=2**16)  # all selectors of a run have cells of the same pools
def _majority(sizes: Sizes, n: int, k: int) -> float:
    """maj@k of n responses whose answers have these sizes; the others have no answer."""
    if not sizes:
        return 0.0
    if k == n:
        _, count, share = sizes[-1]
        return share / count
    from scipy.stats import binom  # 0.3 s to import

    size, count = np.array([group[:2] for group in sizes]).T
    pmf = binom.pmf(np.arange(min(k, sizes[-1][0]) + 1), size[:, None], k / n)  # (sizes, votes)
    reached = count[:, None] * pmf[:, ::-1].cumsum(axis=1)[:, ::-1]  # expected answers with so many votes or more
    within = (pmf.cumsum(axis=1) ** count[:, None]).prod(axis=0)  # P(no answer has more votes)
    total = float(binom.pmf(k, n, k / n))
    able = reached >= NEGLIGIBLE * total
    likely = np.flatnonzero(able.any(axis=0) & (within >= NEGLIGIBLE * total))
    z, weights = _circle(n, k)
    fewer = pmf[:, : likely[0]] @ z ** np.arange(likely[0])[:, None]  # (sizes, points), of counts below m
    won = 0.0
    for m in range(likely[0], likely[-1] + 1):
        level = pmf[:, m, None] * z**m
        if m > 0:
            voting = [(*sizes[place][1:], fewer[place], level[place]) for place in np.flatnonzero(able[:, m])]
            others = (1 + k / n * (z - 1)) ** (n - int((size * count)[able[:, m]].sum()))
            won += float((_won(voting, others, k // m) @ weights).real)
        fewer += level
    return min(max(won / total, 0.0), 1.0)


def _won(voting: Sequence[tuple[int, float, Any, Any]], others: Any, most: int) -> Any:
    """The generating function of the chance that a correct answer wins with m votes, at the points z.

    voting  for each size that can have m votes: how many answers have it, the sum of their correct shares, and the
            generating functions of counts below m, and of m; `others`: that of all other responses
    most    how many answers at once can have m votes
    """
    u, tie_weights = _nodes(min(sum(count for count, *_ in voting), most))
    product = np.tile(others, (len(u), 1))
    winning = np.zeros_like(product)
    for count, correct_share, fewer, level in voting:
        factor = fewer + u[:, None] * level
        twins = factor ** (count - 1)
        winning = (winning * factor + product * correct_share * level) * twins
        product = product * factor * twins
    return tie_weights @ winning


@lru_cache(maxsize=64)
def _circle(n: int, k: int) -> tuple[Any, Any]:
    """Points z on half the unit circle, and weights: the real part of sum(F(z) weights) is F's coefficient of z^k.

    F's coefficients are below the probabilities of Binomial(n, k/n): those ten standard deviations from k do not count.
    """
    points = min(n + 1, 28 + int(10 * sqrt(k * (1 - k / n))))
    place = np.arange(points // 2 + 1)
    z = np.exp(2j * np.pi * place / points)
    twice = np.where((place == 0) | (2 * place == points), 1, 2)  # the other half is the complex conjugate
    return z, twice * z**-k / points


@lru_cache(maxsize=256)
def _nodes(ties: int) -> tuple[Floats, Floats]:
    """Nodes and weights of a Gauss-Legendre sum over 0 to 1, for polynomials of degree < `ties`: within 1e-10."""
    nodes, weights = np.polynomial.legendre.leggauss(min((ties + 1) // 2, 16 + 3 * isqrt(ties)))
    return (nodes + 1) / 2, weights / 2
