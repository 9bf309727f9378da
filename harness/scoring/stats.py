"""Statistical inference: intervals over problems, tests against random and between two selectors, false discoveries.

The unit is the problem: trials are averaged inside a problem first, and intervals and tests are over problems. The
methods with the best coverage were chosen by simulation on pools with known truth (`tests/bench/calibration.py`,
docs/statistics.md):

- ratio of means: the symmetric bootstrap-t (Hall, On symmetric bootstrap confidence intervals, JRSS B 50, 1988) on the
  log ratio, never narrower than Student's t. Percentile, BCa, equal-tailed bootstrap-t and delta method cover less;
  Fieller's interval covers as often, but has no upper end in 8 % of samples of 30 problems. scipy has no bootstrap-t.
- mean of paired differences: the same bootstrap-t on the difference; the test is scipy's sign-flip permutation test.
- one selector against random: no sampling model is needed. (N, c) determine the distribution of a random order's ranks,
  and that of how many random subsets of a budget hold a correct response.

All randomness comes from the caller's seed. Interval ends and p-values are rounded to `DIGITS` significant digits, so
that the last bit, which differs between machines, does not show. A degenerate value is None, never NaN.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.fft import next_fast_len
from scipy.signal import zoom_fft
from scipy.stats import false_discovery_control, permutation_test, t

from harness.errors import HarnessError
from harness.records import Floats, Ints

LEVEL = 0.95
RESAMPLES = 2_000
FLIPS = 9_999
DIGITS = 6
BLOCK = 2**18  # random numbers that a bootstrap makes at once: bounds the memory for any number of problems
FLIPPED = 2**20  # signs that a test flips at once: with fewer, scipy's loop takes most of the time

FEW_PROBLEMS = 100
LARGEST_SHARE = 0.03

P_FLOOR = 1e-10  # a smaller tail may be a rounding error
# The factor from the estimate to an end of a ratio's interval. At ten the half width on the log scale is 2.3: a mean's
# standard error is then that mean's own size, and the delta method, on which the interval depends, does not hold
# (Fieller's has no upper end); the resamples that miss the few varying problems then decide the ends.
WIDEST = 10.0
ONE_PROBLEM = "one problem has no spread"
TOO_WIDE = "too few problems, or too few that differ: it would reach a factor of ten or more either way"
BEYOND_RANGE = "too few problems, or too few that differ: it would reach over all that is possible"

Trust = Literal["nominal", "rough", "few problems"]


def trust(n: Ints, c: Ints) -> Trust:
    """How far `improvement_ci` on a pool can be trusted; equal for all its selectors, since it depends on (N, c) only.

    n, c (problems,), or (problems, seeds) where a problem has one pool per seed: expected calls are averaged over them.

    "few problems": fewer than 100. "rough": one problem holds more than 3 % of all calls that random selection is
    expected to make, so that the tail of hard problems is too thinly sampled. Else "nominal": measured coverage is in
    docs/statistics.md.
    """
    if len(n) < FEW_PROBLEMS:
        return "few problems"
    expected = (np.asarray(n, float) + 1) / (np.asarray(c, float) + 1)
    expected = expected.reshape(len(expected), -1).mean(axis=1)
    return "rough" if expected.max() > LARGEST_SHARE * expected.sum() else "nominal"


# Intervals


def ratio_interval(a: Floats, b: Floats, seed: int) -> list[float] | None:
    """[low, high], 95 %, for mean(a)/mean(b); a, b (problems,) positive, paired. None as in `ratio_intervals`."""
    return ratio_intervals(np.asarray(a)[:, None], np.asarray(b)[:, None], seed)[0]


def ratio_intervals(a: Floats, b: Floats, seed: int) -> list[list[float] | None]:
    """A 95 % interval [low, high] for mean(a)/mean(b) of each column; a, b (problems, columns), positive.

    None for fewer than two problems, or where it would reach a factor of ten or more either way (`WIDEST`). All columns
    share one set of resamples; making them is most of the cost, about 35 ms for 400 problems.
    """
    a, b = np.asarray(a, float), np.asarray(b, float)
    if len(a) < 2:
        return [None] * a.shape[1]
    ratio = a.mean(axis=0) / b.mean(axis=0)
    a, b = a / a.mean(axis=0), b / b.mean(axis=0)  # means are 1: the estimate is log 1 = 0
    error = _log_ratio_error(1.0, 1.0, (a * a).mean(axis=0), (a * b).mean(axis=0), (b * b).mean(axis=0), len(a))
    pivots = []
    for weights in resamples(len(a), seed):
        mean_a, mean_b = weights @ a, weights @ b
        errors = _log_ratio_error(mean_a, mean_b, weights @ (a * a), weights @ (a * b), weights @ (b * b), len(a))
        pivots.append(_pivot(np.log(mean_a / mean_b), errors))
    half = _critical(np.concatenate(pivots), len(a)) * error
    return [
        _ends(r / w, r * w) if w < WIDEST else None for r, w in zip(ratio, np.exp(np.minimum(half, 700)), strict=True)
    ]


def _log_ratio_error(
    mean_a: Floats | float, mean_b: Floats | float, aa: Floats, ab: Floats, bb: Floats, n: int
) -> Floats:
    """The delta method's standard error of log(mean a / mean b), from the means of a, b and their products."""
    spread = aa / mean_a**2 - 2 * ab / (mean_a * mean_b) + bb / mean_b**2
    errors: Floats = np.sqrt(_without_noise(spread, aa / mean_a**2) / (n - 1))
    return errors


def why_none(problems: int, reason: str) -> str:
    """Why an interval is missing: `reason`, or with fewer than two problems that one problem has no spread."""
    return ONE_PROBLEM if problems < 2 else reason


def difference_interval(differences: Floats, seed: int, widest: float = np.inf) -> list[float] | None:
    """[low, high], 95 %, for the mean of paired differences (problems,). None as in `difference_intervals`."""
    return difference_intervals(np.asarray(differences)[:, None], seed, widest)[0]


def difference_intervals(differences: Floats, seed: int, widest: float = np.inf) -> list[list[float] | None]:
    """A 95 % interval [low, high] for the mean of each column; differences (problems, columns).

    None for fewer than two problems, or where it would reach `widest`, the largest possible difference, or more either
    way.
    """
    d, n = np.asarray(differences, float), len(differences)
    if n < 2:
        return [None] * d.shape[1]
    mean = d.mean(axis=0)
    d = d - mean
    pivots = []
    for weights in resamples(n, seed):
        means, squares = weights @ d, weights @ (d * d)
        pivots.append(_pivot(means, np.sqrt(_without_noise(squares - means**2, squares) / (n - 1))))
    half = _critical(np.concatenate(pivots), n) * d.std(axis=0) / np.sqrt(n - 1)
    return [_ends(m - h, m + h) if h < widest else None for m, h in zip(mean, half, strict=True)]


def resamples(n: int, seed: int) -> Iterator[Floats]:
    """Weights (resamples, n), each row summing to 1, in blocks."""
    rng, step = np.random.default_rng(seed), max(1, BLOCK // n)
    sizes = [min(step, RESAMPLES - start) for start in range(0, RESAMPLES, step)]
    return (rng.multinomial(n, np.full(n, 1 / n), size=size) / n for size in sizes)


def _without_noise(variance: Floats, scale: Floats) -> Floats:
    """A variance computed by subtraction, with 0 where rounding errors alone could have left it."""
    cleaned: Floats = np.where(variance > 1e-12 * scale, variance, 0.0)
    return cleaned


def _pivot(estimates: Floats, errors: Floats) -> Floats:
    """|t| of each resample; 0 where all values in the resample are equal."""
    with np.errstate(divide="ignore", invalid="ignore"):
        pivots: Floats = np.where(errors > 0, np.abs(estimates) / errors, 0.0)
    return pivots


def _critical(pivots: Floats, n: int) -> Floats:
    """The half width of a 95 % interval in standard errors, (columns,); pivots (resamples, columns)."""
    critical: Floats = np.maximum(np.quantile(pivots, LEVEL, axis=0), t.ppf((1 + LEVEL) / 2, n - 1))
    return critical


def _ends(low: float, high: float) -> list[float]:
    return [rounded(low), rounded(high)]


def rounded(value: float) -> float:
    """The value with `DIGITS` significant digits."""
    return float(f"{value:.{DIGITS}g}")


# One selector against random


def random_order_test(ranks: Ints, n: Ints, c: Ints) -> float | None:
    """Two-sided p of the mean rank of the first correct response if all orders were random; None if no rank can vary.

    ranks (problems, trials). The null distribution is exact: given (N, c) the ranks of random orders are independent
    and negative hypergeometric, and their sum follows the convolution. Trials that agree are not independent evidence:
    they count as `independent_trials`. Problems with c = 0 or c = N have one possible rank and drop out. p >= 1e-10.
    """
    ranks, n, c = np.asarray(ranks), np.asarray(n), np.asarray(c)
    varies = (c > 0) & (c < n)
    ranks, n, c = ranks[varies], n[varies], c[varies]
    if not ranks.size:
        return None
    trials = independent_trials(ranks, (n + 1) / (c + 1))
    lower, upper = _rank_sum_tails(n, c, trials, float(trials * ranks.mean(axis=1).sum()))
    return rounded(min(1.0, max(P_FLOOR, 2 * min(lower, upper))))


def independent_trials(values: Ints | Floats, expected: Floats) -> int:
    """The effective number of independent trials, 1 to T: T / (1 + (T - 1) r) rounded down.

    values (problems, trials), ranks say, of which each problem can have several; expected (problems,): their means in
    random orders. r is the trials' intraclass correlation around the expected values, which are first scaled to the
    observed mean; r is at least 0. A deterministic ranker repeats one trial: r = 1, one trial. Random orders: r is near
    0.
    """
    trials = values.shape[1]
    excess = values - (expected * values.mean(axis=1).sum() / expected.sum())[:, None]
    squares = float((excess**2).sum())
    if trials == 1 or squares == 0:
        return 1
    agreement = (float((excess.sum(axis=1) ** 2).sum()) - squares) / ((trials - 1) * squares)
    return max(1, int(trials / (1 + (trials - 1) * max(0.0, agreement))))


def _rank_sum_tails(n: Ints, c: Ints, trials: int, total: float) -> tuple[float, float]:
    """P(S <= total) and P(S >= total) for S the sum of `trials` random orders' ranks of each problem; 0 < c < N."""
    mean = trials * float(((n + 1) / (c + 1)).sum())
    variance = trials * float((c * (n + 1) * (n - c) / ((c + 1) ** 2 * (c + 2))).sum())
    least, most = trials * len(n), trials * int((n - c + 1).sum())
    # A sum of ranks has tails no heavier than a geometric law's: beyond the window less than 1e-7 in the worst case.
    first = max(least, int(mean - 12 * variance**0.5))
    last = min(most, int(mean + 16 * variance**0.5) + 1)
    law = _rank_sum_law(n, c, trials, first, last)
    at, before = int(np.floor(total + 1e-9)) - first, int(np.ceil(total - 1e-9)) - first
    return float(law[: max(0, at + 1)].sum()), float(law[max(0, before) :].sum())


def _rank_sum_law(n: Ints, c: Ints, trials: int, first: int, last: int) -> Floats:
    """P(S = first), ..., P(S = last): the inverse transform of the product of the problems' characteristic functions.

    The distribution of a sum of many ranks is smooth: its characteristic function is 0 except at the lowest
    frequencies. Only these are computed, four times as many in each step, until the highest computed ones are 0.
    """
    kinds, counts = np.unique(np.stack([n, c]), axis=1, return_counts=True)
    steps = _first_correct_law(kinds[0], kinds[1])
    length = next_fast_len(last - first + 1, real=True)
    most, computed = length // 2 + 1, 0
    while computed < most:
        computed = min(most, max(128, 4 * computed))
        waves = zoom_fft(steps, [0, computed / length], m=computed, fs=1, endpoint=False)
        spectrum = np.prod(waves ** (trials * counts)[:, None], axis=0)
        if np.abs(spectrum[-computed // 4 :]).max() < 1e-14:
            break
    # Ranks are counted from 1 and the window begins at `first`.
    spectrum *= np.exp(2j * np.pi * np.arange(computed) * ((first - trials * len(n)) / length))
    law: Floats = np.maximum(np.fft.irfft(spectrum, length), 0.0)
    return law


def _first_correct_law(n: Ints, c: Ints) -> Floats:
    """P(rank = 1), P(rank = 2), ... of the first correct response in a random order, (pools, longest); all c > 0."""
    before = np.arange(int((n - c).max()) + 1)
    n, c = n[:, None], c[:, None]
    left = np.maximum(n - before, 1)
    missed = np.cumprod(np.maximum(n - c - before, 0) / left, axis=1)  # P(rank > 1), P(rank > 2), ...
    law: Floats = -np.diff(missed, axis=1, prepend=1.0)
    return law


def random_subset_test(hits: Floats, chances: Floats) -> float | None:
    """Two-sided p of the number of subsets with a correct response if all subsets were random; None if it cannot vary.

    hits (problems, trials) of 0 and 1; chances (problems,) that a random subset of this budget holds a correct one. The
    null distribution is exact: given (N, c) random subsets are independent, and the number of hits is Poisson
    binomial, as permuting the responses' labels in every pool would give. Trials that agree are not independent
    evidence: an effective number of them counts, as in `independent_trials`.
    """
    hits, chances = np.asarray(hits, float), np.asarray(chances, float)
    varies = (chances > 0) & (chances < 1)
    hits, chances = hits[varies], chances[varies]
    if not hits.size:
        return None
    trials = independent_trials(hits, chances)
    law = _hit_count_law(chances, trials)
    total = float(trials * hits.mean(axis=1).sum())
    lower, upper = law[: int(np.floor(total + 1e-9)) + 1].sum(), law[int(np.ceil(total - 1e-9)) :].sum()
    return rounded(min(1.0, max(P_FLOOR, 2 * min(float(lower), float(upper)))))


def _hit_count_law(chances: Floats, trials: int) -> Floats:
    """P(0 hits), P(1 hit), ... of `trials` random subsets of each problem: the product of characteristic functions."""
    most = trials * len(chances)
    length = next_fast_len(most + 1, real=True)
    waves = np.exp(-2j * np.pi * np.arange(length // 2 + 1) / length)
    spectrum = np.ones(len(waves), complex)
    for chance, count in zip(*np.unique(chances, return_counts=True), strict=True):
        spectrum *= (1 - chance + chance * waves) ** int(count * trials)
    law: Floats = np.maximum(np.fft.irfft(spectrum, length), 0.0)[: most + 1]
    return law


# Two selectors


@dataclass(frozen=True)
class Paired:
    """The comparison of two selectors on the same problems; trials are averaged inside a problem.

    difference  mean samples-to-correct of the first minus the second: below 0 the first needs fewer; 95 % interval
    ratio       mean of the second / mean of the first: above 1 the first needs fewer; None if a mean is 0; 95 %
                interval, None also if the value of any problem is 0
    p           two-sided, sign-flip permutation test of the difference
    fewer, more the indices of the problems where the first needs fewer, or more, calls; largest difference first
    """

    difference: float
    difference_ci: list[float] | None
    ratio: float | None
    ratio_ci: list[float] | None
    p: float
    fewer: list[int]
    more: list[int]


def paired_difference(
    ours: Ints | Floats, theirs: Ints | Floats, seed: int, flips: int = FLIPS, widest: float = np.inf
) -> Paired:
    """Compare two selectors on the same problems in the same order; HarnessError if their numbers of problems differ.

    ours, theirs  their ranks, or other values of which less is better, (problems, trials)
    seed, flips   of the bootstrap and of `sign_flip_test`
    widest        the largest possible difference: an interval that would reach so far is None
    """
    if len(ours) != len(theirs):
        raise HarnessError(f"paired difference: {len(ours)} and {len(theirs)} problems; compare the same ones")
    a, b = np.asarray(ours, float).mean(axis=1), np.asarray(theirs, float).mean(axis=1)
    d = a - b
    order = np.argsort(-np.abs(d), kind="stable")
    divides = bool(a.mean() > 0 and b.mean() > 0)
    return Paired(
        difference=float(d.mean()),
        difference_ci=difference_interval(d, seed, widest),
        ratio=float(b.mean() / a.mean()) if divides else None,
        ratio_ci=ratio_interval(b, a, seed) if divides and min(a.min(), b.min()) > 0 else None,
        p=sign_flip_test(d, seed, flips),
        fewer=[int(place) for place in order if d[place] < 0],
        more=[int(place) for place in order if d[place] > 0],
    )


def sign_flip_test(differences: Floats, seed: int, flips: int = FLIPS) -> float:
    """Two-sided p of the mean of paired differences (problems,), from flips of their signs.

    All combinations of signs are tried if there are at most `flips`, else `flips` random ones. The test is exact where
    the two selectors are exchangeable, which equal ones are. 1 where at most one problem differs.
    """
    d = np.asarray(differences, float)
    d = d[d != 0]  # a sign does not change a zero
    if d.size < 2:
        return 1.0
    test = permutation_test(
        (d,),
        np.mean,
        permutation_type="samples",
        vectorized=True,
        n_resamples=flips,
        batch=max(1, FLIPPED // d.size),
        rng=np.random.default_rng(seed),
    )
    return rounded(float(test.pvalue))


# Many rows


def false_discovery_rates(p_values: Sequence[float | None]) -> list[float | None]:
    """The Benjamini-Hochberg adjusted p of each row of one table, in the order given; None stays None.

    Among the rows at or below 0.05 at most 5 % on average are false discoveries, if the tests are independent or
    positively dependent (Benjamini and Yekutieli 2001). Rows of one table share problems. Whether two-sided p-values
    then have that kind of dependence is not known: read the rate as approximate.
    """
    tested = [p for p in p_values if p is not None]
    adjusted = iter(false_discovery_control(tested).tolist() if tested else [])
    return [None if p is None else rounded(next(adjusted)) for p in p_values]
