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

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from scipy.fft import fft, ifft, next_fast_len
from scipy.special import stdtrit  # scipy.stats and scipy.signal take 0.3 s to import: only where nothing else will do

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


def trust(n: Ints, c: Ints, m: int = 1) -> Literal["nominal", "rough", "few problems"]:
    """How far `improvement_ci` on a pool can be trusted; n, c (problems,), or (problems, seeds).

    "few problems": fewer than 100. "rough": one problem holds more than 3 % of all calls that random selection is
    expected to make, so that the tail of hard problems is too thinly sampled. Else "nominal" (docs/statistics.md).
    """
    if len(n) < FEW_PROBLEMS:
        return "few problems"
    expected = np.minimum(m, np.asarray(c, float) + 1) * (np.asarray(n, float) + 1) / (np.asarray(c, float) + 1)
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
    a, b, n = np.asarray(a, float), np.asarray(b, float), len(a)
    if n < 2:
        return [None] * a.shape[1]
    ratio = a.mean(axis=0) / b.mean(axis=0)
    a, b = a / a.mean(axis=0), b / b.mean(axis=0)  # means are 1: the estimate is log 1 = 0

    def log_ratio(mean: Callable[[Floats], Floats]) -> tuple[Floats, Floats]:
        """log(mean a / mean b), and its standard error by the delta method."""
        mean_a, mean_b = mean(a), mean(b)
        square = mean(a * a) / mean_a**2
        spread = square - 2 * mean(a * b) / (mean_a * mean_b) + mean(b * b) / mean_b**2
        return np.log(mean_a / mean_b), np.sqrt(_without_noise(spread, square) / (n - 1))

    factor = np.exp(np.minimum(_half_width(log_ratio, n, seed), 700))
    pairs = zip(ratio, factor, strict=True)
    return [[rounded(r / f), rounded(r * f)] if f < WIDEST else None for r, f in pairs]


def difference_interval(differences: Floats, seed: int, widest: float = np.inf) -> list[float] | None:
    """[low, high], 95 %, for the mean of paired differences (problems,). None as in `difference_intervals`."""
    return difference_intervals(np.asarray(differences)[:, None], seed, widest)[0]


def difference_intervals(differences: Floats, seed: int, widest: float = np.inf) -> list[list[float] | None]:
    """A 95 % interval [low, high] for the mean of each column; differences (problems, columns).

    None for fewer than two problems, or where it would reach `widest`, the largest possible difference.
    """
    d, n = np.asarray(differences, float), len(differences)
    if n < 2:
        return [None] * d.shape[1]
    center = d.mean(axis=0)
    d = d - center

    def difference(mean: Callable[[Floats], Floats]) -> tuple[Floats, Floats]:
        means, squares = mean(d), mean(d * d)
        return means, np.sqrt(_without_noise(squares - means**2, squares) / (n - 1))

    pairs = zip(center, _half_width(difference, n, seed), strict=True)
    return [[rounded(m - h), rounded(m + h)] if h < widest else None for m, h in pairs]


def _half_width(estimate: Callable[[Callable[[Floats], Floats]], tuple[Floats, Floats]], n: int, seed: int) -> Floats:
    """Half of a 95 % interval, (columns,). `estimate(mean)`: estimates, 0 on the sample itself, and their errors."""
    pivots = []
    for weights in resamples(n, seed):
        estimates, errors = estimate(lambda values, weights=weights: weights @ values)  # type: ignore[misc]
        with np.errstate(divide="ignore", invalid="ignore"):
            pivots.append(np.where(errors > 0, np.abs(estimates) / errors, 0.0))
    _, error = estimate(lambda values: values.mean(axis=0))
    critical = np.maximum(np.quantile(np.concatenate(pivots), LEVEL, axis=0), stdtrit(n - 1, (1 + LEVEL) / 2))
    half: Floats = critical * error
    return half


def resamples(n: int, seed: int) -> Iterable[Floats]:
    """Weights (resamples, n), each row summing to 1, in blocks."""
    return _few(n, seed) if RESAMPLES * n <= 4 * BLOCK else _blocks(n, seed)


def _blocks(n: int, seed: int) -> Iterator[Floats]:
    rng, step = np.random.default_rng(seed), max(1, BLOCK // n)
    sizes = [min(step, RESAMPLES - start) for start in range(0, RESAMPLES, step)]
    return (rng.multinomial(n, np.full(n, 1 / n), size=size) / n for size in sizes)


@lru_cache(maxsize=2)  # a row's intervals share their resamples, of all problems and of the solvable ones
def _few(n: int, seed: int) -> list[Floats]:
    return list(_blocks(n, seed))


def _without_noise(variance: Floats, scale: Floats) -> Floats:
    """A variance computed by subtraction, with 0 where rounding errors alone could have left it."""
    cleaned: Floats = np.where(variance > 1e-12 * scale, variance, 0.0)
    return cleaned


def why_none(problems: int, reason: str) -> str:
    """Why an interval is missing: `reason`, or with fewer than two problems that one problem has no spread."""
    return ONE_PROBLEM if problems < 2 else reason


def rounded(value: float) -> float:
    """The value with `DIGITS` significant digits."""
    return float(f"{value:.{DIGITS}g}")


# One selector against random


def random_order_test(ranks: Ints, n: Ints, c: Ints, m: int = 1) -> float | None:
    """Two-sided p of the mean rank of the m-th correct response if all orders were random; None if no rank can vary.

    ranks (problems, trials). The null distribution is exact: given (N, c) the ranks of random orders are independent
    and negative hypergeometric, and their sum follows the convolution. Trials that agree are not independent evidence:
    they count as `independent_trials`. Problems with c < m or c = N have one possible rank and drop out. p >= 1e-10.
    """
    ranks, n, c = np.asarray(ranks), np.asarray(n), np.asarray(c)
    varies = (c >= m) & (c < n)
    ranks, n, c = ranks[varies], n[varies], c[varies]
    if not ranks.size:
        return None
    trials = independent_trials(ranks, m * (n + 1) / (c + 1))
    first, law = _rank_sum_law(n, c, trials, m)
    return _two_sided(law, float(trials * ranks.mean(axis=1).sum()) - first)


def independent_trials(values: Ints | Floats, expected: Floats) -> int:
    """The effective number of independent trials, 1 to T: T / (1 + (T - 1) r) rounded down.

    values (problems, trials), ranks say; expected (problems,): their means in random orders. r >= 0 is the trials'
    intraclass correlation around the expected values, which are first scaled to the observed mean: 1 for a
    deterministic ranker, near 0 for random orders.
    """
    trials = values.shape[1]
    excess = values - (expected * values.mean(axis=1).sum() / expected.sum())[:, None]
    squares = float((excess**2).sum())
    if trials == 1 or squares == 0:
        return 1
    agreement = (float((excess.sum(axis=1) ** 2).sum()) - squares) / ((trials - 1) * squares)
    return max(1, int(trials / (1 + (trials - 1) * max(0.0, agreement))))


def _two_sided(law: Floats, value: float) -> float:
    """Two-sided p of a value whose law is P(0), P(1), ..."""
    tails = law[: max(0, int(np.floor(value + 1e-9)) + 1)].sum(), law[max(0, int(np.ceil(value - 1e-9))) :].sum()
    return rounded(min(1.0, max(P_FLOOR, 2 * float(min(tails)))))


def _rank_sum_law(n: Ints, c: Ints, trials: int, m: int = 1) -> tuple[int, Floats]:
    """The law of the sum of `trials` random orders' ranks of each problem, m <= c < N: `first`, and P(first), ...

    It is the inverse transform of the product of the problems' characteristic functions, which is 0 except at the
    lowest frequencies. Only these are computed, four times as many in each step, until the highest ones are 0.
    """
    mean = trials * float((m * (n + 1) / (c + 1)).sum())
    variance = trials * float((m * (c + 1 - m) * (n + 1) * (n - c) / ((c + 1) ** 2 * (c + 2))).sum())
    # A sum of ranks has tails no heavier than a geometric law's: beyond the window less than 1e-7 in the worst case.
    first = max(trials * len(n) * m, int(mean - 12 * variance**0.5))
    last = min(trials * int((n - c + m).sum()), int(mean + 16 * variance**0.5) + 1)

    kinds, counts = np.unique(np.stack([n, c]), axis=1, return_counts=True)
    n_of, c_of, before = kinds[0][:, None], kinds[1][:, None], np.arange(int((kinds[0] - kinds[1]).max()) + 1)
    missed = np.cumprod(np.maximum(n_of - c_of - before, 0) / np.maximum(n_of - before, 1), axis=1)
    steps = -np.diff(missed, axis=1, prepend=1.0)  # P(the first one has rank 1), rank 2, ... (kinds, longest)
    for i in range(1, m):  # P(the m-th one has rank m), m + 1, ...: C(before + m - 1, m - 1) orders of what comes first
        steps = steps * ((c_of - i) / np.maximum(n_of - i - before, 1) * ((before + i) / i))

    length = next_fast_len(last - first + 1, real=True)
    most, computed = length // 2 + 1, 0
    while computed < most:
        computed = min(most, max(128, 4 * computed))
        spectrum = np.prod(_lowest_frequencies(steps, computed, length) ** (trials * counts)[:, None], axis=0)
        if np.abs(spectrum[-computed // 4 :]).max() < 1e-14:
            break
    # Ranks are counted from m and the window begins at `first`.
    spectrum *= np.exp(2j * np.pi * np.arange(computed) * ((first - trials * len(n) * m) / length))
    return first, np.maximum(np.fft.irfft(spectrum, length), 0.0)


def _lowest_frequencies(rows: Floats, count: int, length: int) -> Any:
    """The sum over i of rows[:, i] exp(-2 pi j i f / length) for f = 0 ... count - 1, by Bluestein's algorithm.

    It is scipy.signal's `zoom_fft`, to the last bit, whose import takes a third of a second.
    """
    width = rows.shape[1]
    chirp = np.exp(-(1j * np.pi * (count / length) * np.arange(max(count, width)) ** 2) / count)
    padded = next_fast_len(width + count - 1)
    kernel = fft(1 / np.concatenate([chirp[width - 1 : 0 : -1], chirp[:count]]), padded)
    waves = ifft(kernel * fft(rows * chirp[:width], padded))
    return waves[:, width - 1 : width + count - 1] * chirp[:count]


def random_subset_test(hits: Floats, chances: Floats) -> float | None:
    """Two-sided p of the number of subsets with a correct response if all subsets were random; None if it cannot vary.

    hits (problems, trials) of 0 and 1; chances (problems,) that a random subset of this budget holds a correct one. The
    null distribution is exact: given (N, c) random subsets are independent, and the number of hits is Poisson
    binomial. Trials count as `independent_trials`.
    """
    hits, chances = np.asarray(hits, float), np.asarray(chances, float)
    varies = (chances > 0) & (chances < 1)
    hits, chances = hits[varies], chances[varies]
    if not hits.size:
        return None
    trials = independent_trials(hits, chances)
    most = trials * len(chances)
    length = next_fast_len(most + 1, real=True)
    waves = np.exp(-2j * np.pi * np.arange(length // 2 + 1) / length)
    spectrum = np.ones(len(waves), complex)  # the product of the subsets' characteristic functions
    for chance, count in zip(*np.unique(chances, return_counts=True), strict=True):
        spectrum *= (1 - chance + chance * waves) ** int(count * trials)
    law = np.maximum(np.fft.irfft(spectrum, length), 0.0)[: most + 1]
    return _two_sided(law, float(trials * hits.mean(axis=1).sum()))


# Two selectors, and many rows


def sign_flip_test(differences: Floats, seed: int, flips: int = FLIPS) -> float:
    """Two-sided p of the mean of paired differences (problems,), from flips of their signs.

    All combinations of signs are tried if there are at most `flips`, else `flips` random ones. The test is exact where
    the two selectors are exchangeable, which equal ones are. 1 where at most one problem differs.
    """
    from scipy.stats import permutation_test

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


def false_discovery_rates(p_values: Sequence[float | None]) -> list[float | None]:
    """The Benjamini-Hochberg adjusted p of each row of one table, in the order given; None stays None.

    Among the rows at or below 0.05 at most 5 % on average are false discoveries, if the tests are independent or
    positively dependent (Benjamini and Yekutieli 2001). Rows of one table share problems. Whether two-sided p-values
    then have that kind of dependence is not known: read the rate as approximate.
    """
    from scipy.stats import false_discovery_control

    tested = [p for p in p_values if p is not None]
    adjusted = iter(false_discovery_control(tested).tolist() if tested else [])
    return [None if p is None else rounded(next(adjusted)) for p in p_values]
