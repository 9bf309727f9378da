"""What the statistics are worth: coverage and error rates by simulation on pools whose truth is known.

    python tests/bench/calibration.py [--repeats 1000] [--only ratio|restricted|equal|paired|random|gain|efficiency]

A pool shape is a mixture of beta laws of p, the share of correct responses; c is binomial(N, p). A selector of known
law draws the next response with odds w for each correct one against each wrong one (Wallenius' noncentral
hypergeometric law): P(rank > k) is a product, so that the true mean samples-to-correct, hence the true improvement, is
a sum over c. w = 1 is a random order; a mixed selector has odds that depend on c/N. Trials are independent given the
problem, or one trial repeated, as from a ranker that draws nothing.

Prints Markdown tables, those of docs/statistics.md.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from scipy.stats import betabinom

from harness.scoring import curves, stats
from harness.scoring.metrics import random_restricted_mean, telling_budget

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.benches import sizes

Array = NDArray[Any]

# Weights and parameters of the beta laws of p; the last three have about the means of the log's pools.
SHAPES: dict[str, list[tuple[float, float, float]]] = {
    "easy": [(1, 6, 2)],
    "mixed": [(1, 1.2, 2)],
    "hard": [(1, 0.5, 8)],
    "heavy": [(0.95, 4, 4), (0.05, 0.3, 30)],
    "like tiny24": [(1, 1.6, 2.6)],
    "like GPT-4": [(0.7, 0.02, 3), (0.3, 0.4, 0.8)],
    "like CodeGen": [(0.25, 0.05, 5), (0.75, 0.6, 1.6)],
}
SELECTORS: dict[str, Callable[[Array], Array]] = {
    "random": np.ones_like,
    "w = 2": lambda share: np.full_like(share, 2),
    "w = 1/2": lambda share: np.full_like(share, 0.5),
    "w = 3 if hard, else 1/2": lambda share: np.where(share < 0.1, 3.0, 0.5),
}
PAIRS = (("w = 2", "random"), ("w = 2", "w = 1/2"), ("w = 3 if hard, else 1/2", "random"))
SIZES = (64, 1_000)
PROBLEMS = (30, 100, 400)
BUDGET = 16


@dataclass(frozen=True, eq=False)
class Law:
    """p_correct[c, k]: P(rank <= k + 1) of a selector on a pool of N with c correct; 1 only at k = N where c = 0."""

    p_correct: Array

    @property
    def n(self) -> int:
        return self.p_correct.shape[1]

    def mean(self, budget: int) -> Array:
        """E min(rank, budget + 1) by c: one, and the chance of a further call after each of the first `budget`."""
        return 1 + (1 - self.p_correct[:, : min(budget, self.n)]).sum(axis=1)

    def ranks(self, c: Array, trials: int, rng: np.random.Generator) -> Array:
        """Ranks (*c.shape, trials): the law's inverse at uniform draws, for all c in one ascending table."""
        table = (self.p_correct + np.arange(len(self.p_correct))[:, None]).ravel()
        draws = c[..., None] + rng.random((*c.shape, trials))
        return np.searchsorted(table, draws, side="right") - c[..., None] * self.n + 1


@cache
def law(n: int, selector: str) -> Law:
    """P(rank > k + 1) = the product over j <= k of (N - c - j) / (N - c - j + w c)."""
    c, drawn = np.arange(n + 1)[:, None], np.arange(n)
    wrong = np.maximum(n - c - drawn, 0)
    odds = SELECTORS[selector](c / n)
    missed = np.divide(wrong, wrong + odds * c, out=np.zeros(wrong.shape), where=wrong > 0)
    missed[0] = 1
    return Law(1 - np.cumprod(missed, axis=1))


@cache
def law_of_c(n: int, shape: str) -> Array:
    """P(c = 0), ..., P(c = N)."""
    chances = sum(weight * betabinom.pmf(np.arange(n + 1), n, a, b) for weight, a, b in SHAPES[shape])
    return np.asarray(chances / np.sum(chances))


def true_ratio(n: int, shape: str, selector: str, budget: int) -> float:
    """Random's mean over the selector's, restricted at a budget (N: not at all)."""
    chances = law_of_c(n, shape)
    return float(chances @ law(n, "random").mean(budget) / (chances @ law(n, selector).mean(budget)))


@dataclass(frozen=True, eq=False)
class Sample:
    """Repetitions of one experiment: c (problems, repeats), ranks (problems, repeats, trials) on pools of n."""

    n: int
    c: Array
    ranks: Array

    @property
    def sizes(self) -> Array:
        return np.full(self.c.shape, self.n)

    def part(self, problems: int, trials: int) -> Sample:
        """The same with fewer problems and trials."""
        return Sample(self.n, self.c[:problems], self.ranks[:problems, :, :trials])

    def figures(self, budget: int) -> tuple[Array, Array]:
        """Random's expectation and the selector's mean over trials (problems, repeats), stopped at a budget."""
        return random_restricted_mean(self.sizes, self.c, budget), np.minimum(self.ranks, budget + 1).mean(axis=2)


def sample(n: int, shape: str, selector: str, repeats: int, seed: Sequence[int]) -> Sample:
    """400 problems and five trials, drawn anew for each repetition."""
    rng = np.random.default_rng(seed)
    c = rng.choice(n + 1, p=law_of_c(n, shape), size=(max(PROBLEMS), repeats))
    return Sample(n, c, law(n, selector).ranks(c, 5, rng))


def covers(intervals: Sequence[list[float] | None], truth: float) -> Array:
    """Which intervals hold the truth; no interval holds nothing."""
    return np.array([ends is not None and ends[0] <= truth <= ends[1] for ends in intervals])


# The tables


Covered = dict[tuple[int, str, int], list[Array]]  # by N, shape and problems: one array an experiment


def ratio_table(shapes: Sequence[str], repeats: int, unrestricted: bool = True) -> None:
    """Coverage of `improvement_ci`, or of the restricted one, by N, shape and problems; by `trust`."""
    covering: Covered = {}
    labelled: Covered = {}
    tried = (1, 5) if unrestricted else (5,)
    batches = [min(1_000, repeats - start) for start in range(0, repeats, 1_000)]  # for memory
    for place, (n, shape, selector) in enumerate((n, s, e) for n in SIZES for s in shapes for e in SELECTORS):
        budget = n if unrestricted else BUDGET
        truth = true_ratio(n, shape, selector, budget)
        drawn = [sample(n, shape, selector, size, [place, at]) for at, size in enumerate(batches)]
        for problems, trials in ((problems, trials) for problems in PROBLEMS for trials in tried):
            parts = [batch.part(problems, trials) for batch in drawn]
            figures = [part.figures(budget) for part in parts]
            covered = [covers(stats.ratio_intervals(*pair, seed=1), truth) for pair in figures]
            covering.setdefault((n, shape, problems), []).append(np.concatenate(covered))
            labelled.setdefault((n, shape, problems), []).append(np.concatenate([trusted(part) for part in parts]))
    _coverage(covering)
    if unrestricted:
        _trust(covering, labelled)


def trusted(part: Sample) -> Array:
    """What `trust` says of each repetition."""
    return np.array([stats.trust(n, c) for n, c in zip(part.sizes.T, part.c.T, strict=True)])


def _coverage(covering: Covered) -> None:
    print(f"\n| N | shape | {' | '.join(f'{m} problems' for m in PROBLEMS)} |\n|---|---|{'---|' * len(PROBLEMS)}")
    for n, shape in dict.fromkeys(key[:2] for key in covering):
        cells = [_mean_and_range(covering[n, shape, problems]) for problems in PROBLEMS]
        print(f"| {n} | {shape} | {' | '.join(cells)} |")


def _mean_and_range(covered: Sequence[Array]) -> str:
    shares = [100 * row.mean() for row in covered]
    return f"{np.mean(shares):.1f} ({min(shares):.1f} to {max(shares):.1f})"


def _trust(covering: Covered, labelled: Covered) -> None:
    """By label: its share of all repetitions, its coverage, and that of each experiment that got it mostly."""
    print("\n| problems | trust | share of rows | coverage | experiments mostly so: range | of them in 93 to 97 % |")
    print("|---|---|---|---|---|---|")
    for problems in PROBLEMS:
        keys = [key for key in covering if key[2] == problems]
        rows = [pair for key in keys for pair in zip(covering[key], labelled[key], strict=True)]
        covered, labels = np.concatenate([r[0] for r in rows]), np.concatenate([r[1] for r in rows])
        for label in ("nominal", "rough", "few problems"):
            mostly = [100 * c[s == label].mean() for c, s in rows if (s == label).mean() > 0.5]
            if not mostly:
                continue
            inside = sum(93 <= share <= 97 for share in mostly)
            own = labels == label
            print(
                f"| {problems} | {label} | {100 * own.mean():.0f} % | {100 * covered[own].mean():.1f} "
                f"| {min(mostly):.1f} to {max(mostly):.1f} | {inside} of {len(mostly)} |"
            )


def equal_table(shapes: Sequence[str], repeats: int) -> None:
    """How often two equal selectors are told apart, 100 problems of N = 64, by test and by interval."""
    print("\n| shape | told apart at p <= 0.05 | interval without 0 |\n|---|---|---|")
    total = np.zeros(2, int)
    for place, shape in enumerate(shapes):
        rng = np.random.default_rng([3, place])
        c = rng.choice(65, p=law_of_c(64, shape), size=(100, repeats))
        a, b = (law(64, "w = 2").ranks(c, 5, rng).mean(axis=2) for _ in range(2))
        p = np.array([stats.sign_flip_test((a - b)[:, i], seed=i, flips=999) for i in range(repeats)])
        apart = int((p <= 0.05).sum()), int((~covers(stats.difference_intervals(a - b, seed=1), 0.0)).sum())
        total += apart
        print(f"| {shape} | {apart[0]} of {repeats} | {apart[1]} of {repeats} |")
    print(f"| all | {total[0]} of {len(shapes) * repeats} | {total[1]} of {len(shapes) * repeats} |")


def paired_table(shapes: Sequence[str], repeats: int) -> None:
    """Coverage of the intervals of the paired difference and ratio, five trials, three pairs of unequal selectors."""
    differences: Covered = {}
    ratios: Covered = {}
    for place, (n, shape) in enumerate((n, shape) for n in SIZES for shape in shapes):
        rng = np.random.default_rng([5, place])
        c = rng.choice(n + 1, p=law_of_c(n, shape), size=(max(PROBLEMS), repeats))
        for pair in PAIRS:
            a, b = (law(n, name).ranks(c, 5, rng).mean(axis=2) for name in pair)
            true_a, true_b = (float(law_of_c(n, shape) @ law(n, name).mean(n)) for name in pair)
            for problems in PROBLEMS:
                x, y, key = a[:problems], b[:problems], (n, shape, problems)
                difference = covers(stats.difference_intervals(x - y, seed=1), true_a - true_b)
                ratio = covers(stats.ratio_intervals(y, x, seed=1), true_b / true_a)
                differences.setdefault(key, []).append(difference)
                ratios.setdefault(key, []).append(ratio)
    print("\nDifference:")
    _coverage(differences)
    print("\nRatio:")
    _coverage(ratios)


def random_table(shapes: Sequence[str], repeats: int, problems: int = 100, n: int = 64) -> None:
    """How often `p_random` <= 0.05 where the truth is random, by how trials depend on each other."""
    kinds = ("five independent", "one repeated", "each of five repeats the first by halves")
    print(f"\n| shape | {' | '.join(kinds)} |\n|---|{'---|' * len(kinds)}")
    for place, shape in enumerate(shapes):
        rng = np.random.default_rng([4, place])
        c = rng.choice(n + 1, p=law_of_c(n, shape), size=(problems, repeats))
        fresh = law(n, "random").ranks(c, 5, rng)
        repeated = np.repeat(fresh[..., :1], 5, axis=2)
        halves = np.where(rng.random(fresh.shape) < 0.5, fresh, repeated)
        cells = []
        for ranks in (fresh, repeated, halves):
            p = [stats.random_order_test(ranks[:, i], np.full(problems, n), c[:, i]) for i in range(repeats)]
            cells.append(f"{100 * np.mean([value is not None and value <= 0.05 for value in p]):.1f} %")
        print(f"| {shape} | {' | '.join(cells)} |")


def gain_table(shapes: Sequence[str], repeats: int) -> None:
    """Coverage of `gain_at_k_ci` (three selectors that differ from random), and `p_budget` <= 0.05 for random subsets.

    Five trials, N = 64, at the budget that the pools tell. The first k of a law's order serve as its subset.
    """
    covering: Covered = {}
    wrongly: dict[str, list[float]] = {}
    n, trials = 64, 5
    for place, shape in enumerate(shapes):
        rng = np.random.default_rng([6, place])
        c = rng.choice(n + 1, p=law_of_c(n, shape), size=(max(PROBLEMS), repeats))
        k = telling_budget(np.full(c.size, n), c.ravel())
        assert k is not None
        chance = {name: law(n, name).p_correct[:, k - 1] * (np.arange(n + 1) > 0) for name in SELECTORS}
        for name in list(SELECTORS)[1:]:
            hits = rng.binomial(trials, chance[name][c]) / trials
            truth = float(law_of_c(n, shape) @ (chance[name] - chance["random"]))
            for problems in PROBLEMS:
                gains = (hits - chance["random"][c])[:problems]
                key = (n, f"{shape}, k = {k}", problems)
                covering.setdefault(key, []).append(covers(stats.difference_intervals(gains, seed=1), truth))
        drawn = (rng.random((100, repeats, trials)) < chance["random"][c[:100]][..., None]).astype(float)
        for kind, hits in (("five independent", drawn), ("one repeated", np.repeat(drawn[..., :1], trials, axis=2))):
            p = [stats.random_subset_test(hits[:, i], chance["random"][c[:100, i]]) for i in range(repeats)]
            wrongly.setdefault(kind, []).append(100 * np.mean([value is not None and value <= 0.05 for value in p]))
    _coverage(covering)
    print(f"\n| trials | {' | '.join(shapes)} |\n|---|{'---|' * len(shapes)}")
    for kind, shares in wrongly.items():
        print(f"| {kind} | {' | '.join(f'{share:.1f} %' for share in shares)} |")


EFFICIENCY_AT = (2, 4, 8, 16, 32)


def efficiency_table(shapes: Sequence[str], repeats: int, n: int = 64) -> None:
    """Coverage of the interval of an efficiency factor at `EFFICIENCY_AT`, where it is given; five trials.

    An experiment is a pair of selectors at one k. It counts if half of its repetitions or more have an interval.
    """
    weights = {problems: list(stats.resamples(problems, 1)) for problems in PROBLEMS}
    print(f"\n| shape | {' | '.join(f'{m} problems: covered; given' for m in PROBLEMS)} |")
    print(f"|---|{'---|' * len(PROBLEMS)}")
    for place, shape in enumerate(shapes):
        rng = np.random.default_rng([7, place])
        covered = np.stack(
            [[efficiency_covers(n, shape, pair, weights, rng) for _ in range(repeats)] for pair in PAIRS]
        )
        cells = [_where_given(np.swapaxes(each, 0, 1).reshape(repeats, -1)) for each in np.moveaxis(covered, 2, 0)]
        print(f"| {shape} | {' | '.join(cells)} |", flush=True)


def efficiency_covers(
    n: int, shape: str, pair: Sequence[str], weights: dict[int, list[Array]], rng: np.random.Generator
) -> Array:
    """1 where the interval holds the factor of the two laws' own curves, nan where there is none, (sizes, budgets)."""
    chances, ks = law_of_c(n, shape), range(1, n + 1)
    laws = [law(n, name).p_correct * (np.arange(n + 1) > 0)[:, None] for name in pair]  # c = 0: never, not at k = N
    exact = [curves.Curve(np.array(ks), np.stack([chances @ each] * 2), 10**9) for each in laws]
    truth = [factor.times for factor in curves.factors(*exact, EFFICIENCY_AT)]
    c = rng.choice(n + 1, p=chances, size=max(PROBLEMS))
    sides = [p[c] if name == "random" else hits(n, name, c, rng) for name, p in zip(pair, laws, strict=True)]
    rows = []
    for problems in PROBLEMS:
        with mock.patch.object(stats, "resamples", lambda size, _: weights[size]):  # the same for all repetitions
            both = [curves.curve(ks, side[:problems], 1) for side in sides]
        ends = [factor.times_ci for factor in curves.factors(*both, EFFICIENCY_AT)]
        rows.append([(e[0] or 0) <= true <= e[1] if e else np.nan for e, true in zip(ends, truth, strict=True)])
    return np.array(rows, float)


def hits(n: int, selector: str, c: Array, rng: np.random.Generator) -> Array:
    """The share of five trials with a correct response among the first k, (problems, n)."""
    within = law(n, selector).ranks(c, 5, rng)[..., None] <= np.arange(1, n + 1)
    return within.mean(axis=1) * (c > 0)[:, None]


def _where_given(covered: Array) -> str:
    """The coverage of the experiments (repeats, experiments) that count, and the share of all that have an interval."""
    given = ~np.isnan(covered)
    counted = [100 * column[has].mean() for column, has in zip(covered.T, given.T, strict=True) if has.mean() >= 0.5]
    shown = f"{np.mean(counted):.1f} ({min(counted):.1f} to {max(counted):.1f})" if counted else "-"
    return f"{shown}; {100 * given.mean():.0f} %"


def main() -> None:
    options = sizes(__doc__, repeats=(1_000, 2), only=("", ""))
    shapes, repeats = ["easy"] if options.smallest else list(SHAPES), options.repeats
    tables: dict[str, Callable[[], None]] = {
        "ratio": lambda: ratio_table(shapes, repeats),
        "restricted": lambda: ratio_table(shapes, repeats, unrestricted=False),
        "equal": lambda: equal_table(shapes, repeats),
        "paired": lambda: paired_table(shapes, repeats),
        "random": lambda: random_table(shapes, repeats),
        "gain": lambda: gain_table(shapes, repeats),
        "efficiency": lambda: efficiency_table(shapes, repeats),
    }
    for name, table in tables.items():
        if options.only in ("", name):
            start = time.process_time()
            print(f"\n## {name}, {repeats} repetitions")
            table()
            print(f"\n({time.process_time() - start:.0f} s)")


if __name__ == "__main__":
    main()
