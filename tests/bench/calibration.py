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

    def mean(self, budget: int) -> Array:
        """E min(rank, budget + 1) by c: one, and the chance of a further call after each of the first `budget`."""
        return 1 + (1 - self.p_correct[:, :budget]).sum(axis=1)

    def ranks(self, c: Array, trials: int, rng: np.random.Generator) -> Array:
        """Ranks (*c.shape, trials): the law's inverse at uniform draws, for all c in one ascending table."""
        table = (self.p_correct + np.arange(len(self.p_correct))[:, None]).ravel()
        draws = c[..., None] + rng.random((*c.shape, trials))
        return np.searchsorted(table, draws, side="right") - c[..., None] * self.p_correct.shape[1] + 1


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


def true_mean(n: int, shape: str, selector: str, budget: int) -> float:
    """Mean samples-to-correct, restricted at a budget (N: not at all)."""
    return float(law_of_c(n, shape) @ law(n, selector).mean(budget))


def sample(n: int, shape: str, repeats: int, seed: Sequence[int], problems: int = max(PROBLEMS)) -> tuple[Any, Array]:
    """A generator, and c (problems, repeats), drawn anew for each repetition."""
    rng = np.random.default_rng(seed)
    return rng, rng.choice(n + 1, p=law_of_c(n, shape), size=(problems, repeats))


def covers(intervals: Sequence[list[float] | None], truth: float) -> Array:
    """Which intervals hold the truth; no interval holds nothing."""
    return np.array([ends is not None and ends[0] <= truth <= ends[1] for ends in intervals])


def rejected(p: Sequence[float | None]) -> float:
    """Per cent of tests that reject at 0.05."""
    return 100 * float(np.mean([value is not None and value <= 0.05 for value in p]))


# The tables


class Covered(dict[tuple[Any, ...], list[Array]]):
    """By N, shape and problems: an array an experiment, of which of its repetitions' intervals hold the truth."""

    def add(self, *key: Any, value: Array) -> None:
        self.setdefault(key, []).append(value)

    def show(self) -> None:
        header(["N", "shape", *(f"{m} problems" for m in PROBLEMS)])
        for n, shape in dict.fromkeys(key[:2] for key in self):
            row(n, shape, *(mean_and_range([100 * c.mean() for c in self[n, shape, m]]) for m in PROBLEMS))


def header(names: Sequence[str]) -> None:
    print(f"\n| {' | '.join(names)} |\n|{'---|' * len(names)}")


def row(*cells: object) -> None:
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def mean_and_range(shares: Sequence[float]) -> str:
    return f"{np.mean(shares):.1f} ({min(shares):.1f} to {max(shares):.1f})"


def ratio_table(shapes: Sequence[str], repeats: int, unrestricted: bool = True) -> None:
    """Coverage of `improvement_ci`, or of the restricted one, by N, shape and problems; by `trust`."""
    covering, labelled = Covered(), Covered()
    for place, (n, shape, selector) in enumerate((n, s, e) for n in SIZES for s in shapes for e in SELECTORS):
        budget = n if unrestricted else BUDGET
        truth = true_mean(n, shape, "random", budget) / true_mean(n, shape, selector, budget)
        rng, all_c = sample(n, shape, repeats, [place, 0])
        all_ranks = np.minimum(law(n, selector).ranks(all_c, 5, rng), budget + 1)
        for problems, trials in ((problems, trials) for problems in PROBLEMS for trials in (1, 5)[not unrestricted :]):
            c, ranks = all_c[:problems], all_ranks[:problems, :, :trials]
            sizes_of = np.full(c.shape, n)
            intervals = stats.ratio_intervals(random_restricted_mean(sizes_of, c, budget), ranks.mean(axis=2), seed=1)
            covering.add(n, shape, problems, value=covers(intervals, truth))
            labels = [stats.trust(n, each) for n, each in zip(sizes_of.T, c.T, strict=True)]
            labelled.add(n, shape, problems, value=np.array(labels))
    covering.show()
    if unrestricted:  # by label: its share of all repetitions, its coverage, that of experiments that got it mostly
        header(
            ["problems", "trust", "share of rows", "coverage", "experiments mostly so: range", "of them in 93 to 97 %"]
        )
        for problems in PROBLEMS:
            pairs = [zip(covering[key], labelled[key], strict=True) for key in covering if key[2] == problems]
            rows = [pair for each in pairs for pair in each]
            covered, labels = np.concatenate([r[0] for r in rows]), np.concatenate([r[1] for r in rows])
            for label in ("nominal", "rough", "few problems"):
                if mostly := [100 * c[s == label].mean() for c, s in rows if (s == label).mean() > 0.5]:
                    own, inside = labels == label, sum(93 <= share <= 97 for share in mostly)
                    shares = f"{100 * own.mean():.0f} %", f"{100 * covered[own].mean():.1f}"
                    row(
                        problems,
                        label,
                        *shares,
                        f"{min(mostly):.1f} to {max(mostly):.1f}",
                        f"{inside} of {len(mostly)}",
                    )


def equal_table(shapes: Sequence[str], repeats: int) -> None:
    """How often two equal selectors are told apart, 100 problems of N = 64, by test and by interval."""
    header(["shape", "told apart at p <= 0.05", "interval without 0"])
    total = np.zeros(2, int)
    for place, shape in enumerate(shapes):
        rng, c = sample(64, shape, repeats, [3, place], problems=100)
        a, b = (law(64, "w = 2").ranks(c, 5, rng).mean(axis=2) for _ in range(2))
        p = np.array([stats.sign_flip_test((a - b)[:, i], seed=i, flips=999) for i in range(repeats)])
        apart = int((p <= 0.05).sum()), int((~covers(stats.difference_intervals(a - b, seed=1), 0.0)).sum())
        total += apart
        row(shape, *(f"{count} of {repeats}" for count in apart))
    row("all", *(f"{count} of {len(shapes) * repeats}" for count in total))


def paired_table(shapes: Sequence[str], repeats: int) -> None:
    """Coverage of the intervals of the paired difference and ratio, five trials, three pairs of unequal selectors."""
    differences, ratios = Covered(), Covered()
    for place, (n, shape) in enumerate((n, shape) for n in SIZES for shape in shapes):
        rng, c = sample(n, shape, repeats, [5, place])
        for pair in PAIRS:
            a, b = (law(n, name).ranks(c, 5, rng).mean(axis=2) for name in pair)
            true_a, true_b = (true_mean(n, shape, name, n) for name in pair)
            for m in PROBLEMS:
                intervals = stats.difference_intervals(a[:m] - b[:m], seed=1)
                differences.add(n, shape, m, value=covers(intervals, true_a - true_b))
                ratios.add(n, shape, m, value=covers(stats.ratio_intervals(b[:m], a[:m], seed=1), true_b / true_a))
    for name, covering in (("Difference", differences), ("Ratio", ratios)):
        print(f"\n{name}:")
        covering.show()


def random_table(shapes: Sequence[str], repeats: int, problems: int = 100, n: int = 64) -> None:
    """How often `p_random` <= 0.05 where the truth is random, by how trials depend on each other."""
    header(["shape", "five independent", "one repeated", "each of five repeats the first by halves"])
    for place, shape in enumerate(shapes):
        rng, c = sample(n, shape, repeats, [4, place], problems)
        fresh = law(n, "random").ranks(c, 5, rng)
        repeated = np.repeat(fresh[..., :1], 5, axis=2)
        halves = np.where(rng.random(fresh.shape) < 0.5, fresh, repeated)
        sizes_of, kinds = np.full(problems, n), (fresh, repeated, halves)
        p = [[stats.random_order_test(ranks[:, i], sizes_of, c[:, i]) for i in range(repeats)] for ranks in kinds]
        row(shape, *(f"{rejected(each):.1f} %" for each in p))


def gain_table(shapes: Sequence[str], repeats: int) -> None:
    """Coverage of `gain_at_k_ci` (three selectors that differ from random), and `p_budget` <= 0.05 for random subsets.

    Five trials, N = 64, at the budget that the pools tell. The first k of a law's order serve as its subset.
    """
    covering, wrongly = Covered(), {"five independent": [], "one repeated": []}
    n, trials = 64, 5
    for place, shape in enumerate(shapes):
        rng, c = sample(n, shape, repeats, [6, place])
        k = telling_budget(np.full(c.size, n), c.ravel())
        assert k is not None
        chance = {name: law(n, name).p_correct[:, k - 1] * (np.arange(n + 1) > 0) for name in SELECTORS}
        for name in list(SELECTORS)[1:]:
            gains = rng.binomial(trials, chance[name][c]) / trials - chance["random"][c]
            truth = float(law_of_c(n, shape) @ (chance[name] - chance["random"]))
            for m in PROBLEMS:
                intervals = stats.difference_intervals(gains[:m], seed=1)
                covering.add(n, f"{shape}, k = {k}", m, value=covers(intervals, truth))
        at_random = chance["random"][c[:100]]
        drawn = (rng.random((100, repeats, trials)) < at_random[..., None]).astype(float)
        for shares, hits in zip(wrongly.values(), (drawn, np.repeat(drawn[..., :1], trials, axis=2)), strict=True):
            shares.append(rejected([stats.random_subset_test(hits[:, i], at_random[:, i]) for i in range(repeats)]))
    covering.show()
    header(["trials", *shapes])
    for kind, shares in wrongly.items():
        row(kind, *(f"{share:.1f} %" for share in shares))


EFFICIENCY_AT = (2, 4, 8, 16, 32)


def efficiency_table(shapes: Sequence[str], repeats: int, n: int = 64) -> None:
    """Coverage of the interval of an efficiency factor at `EFFICIENCY_AT`, where it is given; five trials.

    An experiment is a pair of selectors at one k. It counts if half of its repetitions or more have an interval.
    """
    weights = {problems: list(stats.resamples(problems, 1)) for problems in PROBLEMS}
    header(["shape", *(f"{m} problems: covered; given" for m in PROBLEMS)])
    for place, shape in enumerate(shapes):
        rng = np.random.default_rng([7, place])
        turns = [[efficiency_covers(n, shape, pair, weights, rng) for _ in range(repeats)] for pair in PAIRS]
        cells = []
        for each in np.moveaxis(np.array(turns), 2, 0):  # (pairs, repeats, budgets) of so many problems
            covered = np.swapaxes(each, 0, 1).reshape(repeats, -1)
            given = ~np.isnan(covered)
            pairs = zip(covered.T, given.T, strict=True)
            counted = [100 * column[has].mean() for column, has in pairs if has.mean() >= 0.5]
            cells.append(f"{mean_and_range(counted) if counted else '-'}; {100 * given.mean():.0f} %")
        row(shape, *cells)


def efficiency_covers(
    n: int, shape: str, pair: Sequence[str], weights: dict[int, list[Array]], rng: np.random.Generator
) -> Array:
    """1 where the interval holds the factor of the two laws' own curves, nan where there is none, (sizes, budgets)."""
    chances, ks = law_of_c(n, shape), range(1, n + 1)
    laws = [law(n, name).p_correct * (np.arange(n + 1) > 0)[:, None] for name in pair]  # c = 0: never, not at k = N
    exact = [curves.Curve(np.array(ks), np.stack([chances @ each] * 2), 10**9) for each in laws]
    truth = [factor.times for factor in curves.factors(*exact, EFFICIENCY_AT)]
    c = rng.choice(n + 1, p=chances, size=max(PROBLEMS))
    sides = []  # the chance of a correct response among the first k, or its share in five trials, (problems, n)
    for name, p in zip(pair, laws, strict=True):
        within = law(n, name).ranks(c, 5, rng)[..., None] <= np.arange(1, n + 1) if name != "random" else None
        sides.append(p[c] if within is None else within.mean(axis=1) * (c > 0)[:, None])
    rows = []
    for problems in PROBLEMS:
        with mock.patch.object(stats, "resamples", lambda size, _: weights[size]):  # the same for all repetitions
            both = [curves.curve(ks, side[:problems], 1) for side in sides]
        ends = [factor.times_ci for factor in curves.factors(*both, EFFICIENCY_AT)]
        rows.append([(e[0] or 0) <= true <= e[1] if e else np.nan for e, true in zip(ends, truth, strict=True)])
    return np.array(rows, float)


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
