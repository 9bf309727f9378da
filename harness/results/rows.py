"""Rows: all values that a table shows for one selector on one pool, or on the pools of several seeds.

`row` computes that of a cell. Cells that differ only in their seeds are one row (`rows_of`, `row_of`): seeds and trials
are averaged inside a problem first. Such cells have equal labels except for the seed, the same problems, and equal
inputs of every stage, apart from the seeds (of the pool, the projection and the ranking) and the keys that depend on
them. A component's own parameter named seed counts as a parameter. An imported pool has no seed: two files are two
pools.

`harness run --json` and leaderboard.json hold `to_json` of rows; docs/schemas/row.json is its schema.
docs/statistics.md explains each metric and how far its interval can be trusted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from harness.records import Floats
from harness.scoring.metrics import Outcomes, budgets, over_seeds, summary
from harness.scoring.stats import difference_interval, false_discovery_rates
from harness.system.json_text import canonical_json

from . import cells
from .cells import Cell

Interval = Sequence[float] | None  # its two ends
ByBudget = Mapping[str, float | None]  # a budget, as text -> the value at this budget

FALLBACK = "fallback"  # the route of verdicts on answers that were not stated as asked


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of a table.

    seed                of the cell; None if the row joins several
    version             the beginning of its cell's key, if other versions of the selector are in the table
    routes              route of the grader -> correct verdicts by it; `fallback_share` of them by a fallback
    chance              how many responses are correct by chance (`chance_level`)
    answering           if answers cost runs of the responses: the `responses` of the pools, and the `cpu_s` of the runs
    n ... no_interval   the values of `scoring.metrics.summary`, under the same names; the last says why one is null
    avg_at_k            what a random response is worth: the same for every k (`OneAnswer`)
    maj_at_k            the most frequent answer of k; None if no response has an answer
    best_of_k           name of a score -> the response of k with the highest score
    seeds, cells        seeds and keys of the joined cells; None if the row was made from one cell alone
    dist, conformance   the selector's distribution, and how many checks of the conformance kit it passes
    q_random            the share of false discoveries if this row is called different from random
    learns              True if the selector learns from the outcomes of its own picks
    """

    task: str
    split: str
    model: str
    engine: str
    sampler: str
    embedder: str
    selector: str
    trials: int
    seed: int | None
    version: str | None = None
    cell: str
    grader: str
    conditions: Mapping[str, Sequence[str]]
    disputed: int | None
    routes: Mapping[str, int] | None = None
    fallback_share: float | None = None
    chance: Mapping[str, Any] | None = None
    answering: Mapping[str, float] | None = None
    n: int
    problems: int
    solvable: int
    errors: int
    flagged: bool
    samples_to_correct: float | None
    samples_to_correct_solvable: float | None
    improvement: float | None
    improvement_ci: Interval
    improvement_solvable: float | None
    improvement_solvable_ci: Interval
    win: float | None
    tie: float | None
    loss: float | None
    p_random: float | None
    k95: int | None
    calls_saved: int | None
    restricted_mean: ByBudget
    restricted_improvement: ByBudget
    restricted_improvement_ci: Mapping[str, Interval]
    samples_to_correct_random: float | None
    samples_to_correct_random_solvable: float | None
    pass_at_k_random: ByBudget
    restricted_mean_random: ByBudget
    k95_random: int | None
    trust: str
    pass_at_k: ByBudget
    gain_at_k: ByBudget
    gain_at_k_ci: Mapping[str, Interval]
    budget: int | None
    p_budget: float | None
    win_budget: float | None
    tie_budget: float | None
    loss_budget: float | None
    samples_to_correct_oracle: float | None
    pass_at_k_oracle: ByBudget
    samples_to_correct_anti_oracle: float | None
    pass_at_k_anti_oracle: ByBudget
    no_interval: Mapping[str, str] = field(default_factory=dict)
    avg_at_k: float | None = None
    maj_at_k: ByBudget | None = None
    best_of_k: Mapping[str, ByBudget] | None = None
    seeds: Sequence[int] | None = None
    cells: Sequence[str] | None = None
    dist: str | None = None
    conformance: str | None = None
    q_random: float | None = None
    learns: bool | None = None

    def to_json(self) -> dict[str, Any]:
        """The row as JSON values, without what says nothing of it.

        Left out are `no_interval` if it is empty, `seeds`, `cells`, `version`, `learns` and `answering` if they are
        None, and outside leaderboards `dist`, `conformance` and `q_random`.
        """
        values = {column.name: getattr(self, column.name) for column in fields(self)}
        absent = {name for name in ("seeds", "cells", "version", "learns", "answering") if values[name] is None}
        absent |= {"no_interval"} if not self.no_interval else set()
        absent |= {"dist", "conformance", "q_random"} if self.dist is None else set()
        return {name: value for name, value in values.items() if name not in absent}

    @property
    def name(self) -> str:
        """The selector, with its version if there are several, and a mark if it learns from outcomes."""
        versioned = self.selector if self.version is None else f"{self.selector} [{self.version}]"
        return f"{versioned} (learns)" if self.learns else versioned

    @property
    def p(self) -> float | None:
        """The p against random: for a ranker by its mean rank, for a subset method by its hits."""
        return self.p_budget if self.samples_to_correct is None else self.p_random


def with_q(rows: Sequence[Row]) -> list[Row]:
    """The rows of one table, each with its `q_random`."""
    qs = false_discovery_rates([row.p for row in rows])
    return [replace(row, q_random=q) for row, q in zip(rows, qs, strict=True)]


@dataclass(frozen=True)
class Reference:
    """Random selection in closed form, or an oracle, which knows the verdicts, on a row's pools.

    k95 of an oracle is None.
    """

    label: str
    samples_to_correct: float
    improvement: float
    pass_at_k: ByBudget
    k95: int | None = None


def references(row: Row) -> list[Reference]:
    """The first lines of every table: random selection, oracle, anti-oracle."""
    random, best, worst = (
        row.samples_to_correct_random,
        row.samples_to_correct_oracle,
        row.samples_to_correct_anti_oracle,
    )
    assert random is not None
    assert best is not None
    assert worst is not None
    return [
        Reference("random (exact)", random, 1.0, row.pass_at_k_random, row.k95_random),
        Reference("oracle", best, random / best, row.pass_at_k_oracle),
        Reference("anti-oracle", worst, random / worst, row.pass_at_k_anti_oracle),
    ]


# From cells to rows.

SEEDS = ("seed", "projection_seed")
HASHED = ("key", "pool", "embedding", "score", "verdict")  # the key of a stage, and those of the stages that it reads

Keyed = tuple[str, Cell]


def row(cell: Mapping[str, Any], key: str | None = None) -> Row:
    """Compute a cell's row. Equal outcomes have equal intervals, because they seed the resampling.

    key  the cell's key, if known; None: it is computed
    """
    return replace(row_of([(key or cells.key_of(cell), dict(cell))]), seeds=None, cells=None)


def row_of(group: Sequence[Keyed]) -> Row:
    """The row of cells that differ only in their seeds. With several `seed` is None."""
    keys, members = [key for key, _ in group], [cell for _, cell in group]
    seed = cells.resampling_seed(*members)
    cell, entries = members[0], [entry for pool in by_pool(group) for entry in pool[0][1]["problems"]]
    conditions: dict[str, set[str]] = {}
    for each in members:
        for name, values in each["conditions"].items():
            conditions.setdefault(name, set()).update(values)
    disputed = [entry["disputed"] for entry in entries if entry["disputed"] is not None]
    labels = {**cell["labels"], "seed": cell["labels"]["seed"] if len(group) == 1 else None}
    return Row(
        **labels,
        cell=keys[0],
        grader=cells.grader(cell),
        conditions={name: sorted(values) for name, values in sorted(conditions.items())},
        disputed=sum(disputed) if disputed else None,
        **trust_in(entries, seed),
        **one_answer(entries).metrics(),
        **summary(outcomes(group), seed),
        seeds=[each["labels"]["seed"] for each in members],
        cells=keys,
        learns=cell["inputs"]["ranking"].get("learns"),
    )


def rows_of(measured: Mapping[str, Cell]) -> list[list[Keyed]]:
    """Group the cells into rows, sorted by seed inside a row. The result does not depend on the order of the cells.

    All pools of a row have the same number of cells. Where they differ (one pool ranked with several seeds, another
    with one), each pool becomes a separate row.
    """
    groups: dict[str, list[Keyed]] = {}
    for key in sorted(measured, key=lambda key: (measured[key]["labels"]["seed"], key)):
        groups.setdefault(shared_inputs(measured[key]), []).append((key, measured[key]))
    rows = []
    for name in sorted(groups):
        pools = by_pool(groups[name])
        rows += [groups[name]] if len({len(pool) for pool in pools}) == 1 else pools
    return rows


def unseeded(stage: Mapping[str, Any]) -> dict[str, Any]:
    """A stage's inputs without its seeds and without the keys that depend on a seed."""
    return {name: value for name, value in stage.items() if name not in SEEDS + HASHED}


def shared_inputs(cell: Mapping[str, Any]) -> str:
    """The labels, inputs and problem ids that are equal in all cells of one row, as canonical JSON."""
    labels = {name: value for name, value in cell["labels"].items() if name != "seed"}
    inputs = {name: unseeded(stage) for name, stage in cell["inputs"].items()}
    return canonical_json([labels, inputs, [entry["id"] for entry in cell["problems"]]])


def by_pool(group: Iterable[Keyed]) -> list[list[Keyed]]:
    """The cells of one row grouped by the pool they ranked; pools in order of their first cell."""
    pools: dict[str, list[Keyed]] = {}
    for key, cell in group:
        pools.setdefault(cell["inputs"]["pool"]["key"], []).append((key, cell))
    return list(pools.values())


def pools_of(group: Iterable[Keyed]) -> list[str]:
    """The keys of the pools that a row's cells ranked."""
    return [pool[0][1]["inputs"]["pool"]["key"] for pool in by_pool(group)]


def outcomes(group: Sequence[Keyed]) -> Outcomes:
    """A row's outcomes: those of its cells, with their pools and trials joined inside each problem."""
    return over_seeds([[cells.outcomes(cell) for _, cell in pool] for pool in by_pool(group)])


# How far correct verdicts can be trusted.


def trust_in(entries: Sequence[Mapping[str, Any]], seed: int) -> dict[str, Any]:
    """`routes`, `fallback_share`, `chance` and `answering` of a row, from the entries of its pools."""
    counts: Counter[str] = Counter()
    by_chance: dict[str, tuple[int, int]] = {}
    for entry in entries:
        counts.update(entry["routes"])
        correct, gradings = entry.get("chance") or (0, 0)
        before = by_chance.get(entry["id"], (0, 0))
        by_chance[entry["id"]] = before[0] + correct, before[1] + gradings
    costs = [entry["answering"] for entry in entries if "answering" in entry]
    return {
        "routes": dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))),
        "fallback_share": counts[FALLBACK] / counts.total() if counts.total() else None,
        "chance": chance_level([both for both in by_chance.values() if both[1]], seed),
        "answering": {"responses": sum(n for n, _ in costs), "cpu_s": sum(s for _, s in costs)} if costs else None,
    }


def chance_level(counts: Sequence[tuple[int, int]], seed: int) -> dict[str, Any] | None:
    """The share of responses graded correct against other problems' references: the mean over problems.

    counts             each problem's (correct, gradings); None is returned if there are none
    correct, gradings  sums over the problems
    share, share_ci    the level, and its 95 % interval over problems; None if no such grading was correct
    """
    if not counts:
        return None
    correct, gradings = (sum(column) for column in zip(*counts, strict=True))
    shares = np.array([hits / tried for hits, tried in counts])
    ends = difference_interval(shares, seed) if correct else None
    return {
        "correct": correct,
        "gradings": gradings,
        "share": float(shares.mean()),
        "share_ci": [max(0.0, ends[0]), min(1.0, ends[1])] if ends else None,
    }


# What one answer chosen from k random responses is worth.


@dataclass(frozen=True)
class OneAnswer:
    """The chance that one answer, taken from k random responses, is correct, for each pool (rows) and budget (columns).

    It is a property of the pools: all selectors on a pool have the same values. A problem without any answer counts 0
    in `majority`; one whose scores are all unknown counts c/n in `best`.

    ks        the budgets that all pools have, ascending
    average   (pools,) of a random response, c/n
    majority  (pools, ks) of the most frequent answer; None if no response has an answer
    best      name of a score -> (pools, ks) of the response with the highest score
    """

    ks: Sequence[int]
    average: Floats
    majority: Floats | None
    best: Mapping[str, Floats]

    def curves(self) -> dict[str, Floats]:
        """Each metric's name in plots -> (pools, ks); {} if there are neither answers nor scores."""
        majority = {} if self.majority is None else {"maj@k": self.majority}
        chosen = majority | {f"best of k by {name}": values for name, values in self.best.items()}
        average = np.repeat(self.average[:, None], len(self.ks), axis=1)
        return {"avg@k": average, **chosen} if chosen else {}

    def metrics(self) -> dict[str, Any]:
        """`avg_at_k`, `maj_at_k` and `best_of_k` of a row: means over its pools."""

        def mean(table: Floats) -> dict[str, float]:
            return dict(zip(map(str, self.ks), table.mean(axis=0).tolist(), strict=True))

        return {
            "avg_at_k": float(self.average.mean()),
            "maj_at_k": None if self.majority is None else mean(self.majority),
            "best_of_k": {name: mean(table) for name, table in self.best.items()},
        }


def one_answer(entries: Sequence[Mapping[str, Any]]) -> OneAnswer:
    """The values of the pools of these problems."""
    ks = sorted(set.intersection(*(set(budgets(entry["n"])) for entry in entries)))
    average = np.array([entry["c"] / entry["n"] for entry in entries])

    def table(values: Sequence[Mapping[str, float] | None], unknown: Floats) -> Floats:
        pairs = zip(values, unknown, strict=True)
        return np.array([[other] * len(ks) if by_k is None else [by_k[str(k)] for k in ks] for by_k, other in pairs])

    votes = [entry.get("maj_at_k") for entry in entries]
    names = dict.fromkeys(name for entry in entries for name in entry["best_of_k"])
    return OneAnswer(
        ks,
        average,
        table(votes, np.zeros(len(votes))) if any(votes) else None,
        {name: table([entry["best_of_k"].get(name) for entry in entries], average) for name in names},
    )


def one_answer_of(several: Iterable[Sequence[Mapping[str, Any]]]) -> OneAnswer:
    """The values of cells of one pool, each given by its problems; best-of-k by the scores of all of them."""
    values = list(map(one_answer, several))
    return replace(values[0], best={name: table for each in values for name, table in each.best.items()})
