"""A row: all values that a table shows for one selector on one pool, or on the pools of several seeds.

`harness run --json` and leaderboard.json hold `to_json` of rows; docs/schemas/row.json is its schema.
docs/statistics.md explains each metric and how far its interval can be trusted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

Interval = Sequence[float] | None  # its two ends
ByBudget = Mapping[str, float | None]  # a budget, as text -> the value at this budget


@dataclass(frozen=True, kw_only=True)
class Labels:
    """What was run together, by name."""

    task: str
    split: str
    model: str
    engine: str
    sampler: str
    embedder: str
    selector: str
    trials: int
    seed: int | None  # None if the row joins several seeds
    version: str | None = None  # the beginning of its cell's key, if other versions of the selector are in the table


@dataclass(frozen=True, kw_only=True)
class Quality:
    """How far the verdicts can be trusted: the grader, disputed grades, fallbacks, the chance level.

    answering   if answers cost runs of the responses: the `responses` of the pools, and the `cpu_s` of all these runs
    """

    cell: str
    grader: str
    conditions: Mapping[str, Sequence[str]]
    disputed: int | None
    routes: Mapping[str, int] | None = None
    fallback_share: float | None = None
    chance: Mapping[str, Any] | None = None
    answering: Mapping[str, float] | None = None


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """What one answer chosen from k responses is worth (`one_answer.metrics`); None if a cell is of an older version.

    avg_at_k   of a random response: the same for every k
    maj_at_k   of the most frequent answer; None if no response has an answer
    best_of_k  name of a score -> of the response with the highest score
    """

    avg_at_k: float | None = None
    maj_at_k: ByBudget | None = None
    best_of_k: Mapping[str, ByBudget] | None = None


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """The values of `scoring.metrics.summary`, under the same names."""

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
    no_interval: Mapping[str, str] = field(default_factory=dict)  # why an interval is null, by its name


@dataclass(frozen=True, kw_only=True)
class Row(Chosen, Metrics, Quality, Labels):
    """One row of a table.

    seeds, cells        seeds and keys of the joined cells; None if the row was made from one cell alone
    dist, conformance   the selector's distribution, and how many checks of the conformance kit it passes
    q_random            the share of false discoveries if this row is called different from random
    learns              True if the selector learns from the outcomes of its own picks
    """

    seeds: Sequence[int] | None = None
    cells: Sequence[str] | None = None
    dist: str | None = None
    conformance: str | None = None
    q_random: float | None = None
    learns: bool | None = None

    def to_json(self) -> dict[str, Any]:
        """The row as JSON values, without fields that nothing has filled.

        Left out are `no_interval` if it is empty, `seeds`, `cells`, `version`, `learns` and `answering` if they are
        None, the fields of `Chosen` if a cell is of an older version, and outside leaderboards `dist`, `conformance`
        and `q_random`.
        """
        values = {column.name: getattr(self, column.name) for column in fields(self)}
        absent = {"no_interval"} if not self.no_interval else set()
        absent |= {"seeds", "cells"} if self.seeds is None else set()
        absent |= {"avg_at_k", "maj_at_k", "best_of_k"} if self.avg_at_k is None else set()
        absent |= {name for name in ("version", "learns", "answering") if values[name] is None}
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
    from harness.scoring.stats import false_discovery_rates  # imports scipy.stats, which `harness select` avoids

    qs = false_discovery_rates([row.p for row in rows])
    return [replace(row, q_random=q) for row, q in zip(rows, qs, strict=True)]


# References: random selection and the oracles.


@dataclass(frozen=True)
class Reference:
    """Random selection in closed form, or an oracle, which knows the verdicts: the first lines of every table."""

    name: str
    label: str

    def calls(self, row: Row) -> float:
        """The mean samples-to-correct of the reference on the row's pools."""
        mean: float = getattr(row, f"samples_to_correct_{self.name}")
        return mean

    def ratio(self, row: Row) -> float:
        """Random selection's mean samples-to-correct / that of the reference."""
        assert row.samples_to_correct_random is not None
        return row.samples_to_correct_random / self.calls(row)

    def passed(self, row: Row) -> ByBudget:
        """The pass@k of the reference on the row's pools."""
        shares: ByBudget = getattr(row, f"pass_at_k_{self.name}")
        return shares

    def k95(self, row: Row) -> int | None:
        """The calls after which random selection solves 95 % of the solvable problems; None for the oracles."""
        return row.k95_random if self.name == "random" else None


REFERENCES = (
    Reference("random", "random (exact)"),
    Reference("oracle", "oracle"),
    Reference("anti_oracle", "anti-oracle"),
)
