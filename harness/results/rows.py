"""Rows: all values that a table shows for one selector on one pool, or on the pools of several seeds; their texts.

`row` computes that of a cell. Cells that differ only in their seeds are one row (`rows_of`, `row_of`): seeds and trials
are averaged inside a problem first. Such cells have equal labels except for the seed, the same problems, and equal
inputs of every stage, apart from the seeds (of the pool, the projection and the ranking) and the keys that depend on
them. A component's own parameter named seed counts as a parameter. An imported pool has no seed: two files are two
pools.

`harness run --json` and `leaderboard --json` print `to_json` of rows; docs/schemas/row.json is its schema.
docs/statistics.md explains each metric and how far its interval can be trusted.

Below them stands one list of columns, which the terminal, notebooks and leaderboard.md show in different styles, and
the remarks on the data below a table (what its columns mean: legends.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from harness.records import Floats
from harness.scoring.metrics import Outcomes, budgets, over_seeds, summary
from harness.scoring.stats import difference_interval, false_discovery_rates, ratio_intervals
from harness.system.json_text import canonical_json

from . import cells
from .cells import Cell
from .legends import ordinal

Interval = Sequence[float] | None  # its two ends
ByBudget = Mapping[str, float | None]  # a budget, as text -> the value at this budget
Keyed = tuple[str, Cell]

FALLBACK = "fallback"  # the route of verdicts on answers that were not stated as asked
SEEDS = ("seed", "projection_seed")
HASHED = ("key", "pool", "embedding", "score", "verdict")  # the key of a stage, and those of the stages that it reads
WARNS = 0.05  # share of correct verdicts by a fallback, above which tables warn
BUDGETS = ("1", "4", "16", "64", "256")  # of the tables
ENRICHED = ("hits_at_k", "hits_at_k_ci", "hits_at_k_random", "enrichment_factor", "enrichment_factor_ci")
SPARE = ("no_interval", "seeds", "cells", "version", "learns", "answering", "control", "controls", *ENRICHED)
OF_A_TABLE = ("dist", "conformance", "q_random")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of a table; docs/schemas/row.json says what each field means.

    correct ... no_interval are the values of `scoring.metrics.summary`, under the same names.
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
    correct: int = 1
    n: int
    problems: int
    solvable: int
    errors: int
    flagged: bool
    samples_to_correct: float | None = None
    samples_to_correct_solvable: float | None = None
    improvement: float | None = None
    improvement_ci: Interval = None
    improvement_solvable: float | None = None
    improvement_solvable_ci: Interval = None
    win: float | None = None
    tie: float | None = None
    loss: float | None = None
    p_random: float | None = None
    k95: int | None = None
    calls_saved: int | None = None
    restricted_mean: ByBudget = field(default_factory=dict)
    restricted_improvement: ByBudget = field(default_factory=dict)
    restricted_improvement_ci: Mapping[str, Interval] = field(default_factory=dict)
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
    p_budget: float | None = None
    win_budget: float | None = None
    tie_budget: float | None = None
    loss_budget: float | None = None
    samples_to_correct_oracle: float | None
    pass_at_k_oracle: ByBudget
    samples_to_correct_anti_oracle: float | None
    pass_at_k_anti_oracle: ByBudget
    hits_at_k: ByBudget | None = None
    hits_at_k_ci: Mapping[str, Interval] | None = None
    hits_at_k_random: ByBudget | None = None
    enrichment_factor: ByBudget | None = None
    enrichment_factor_ci: Mapping[str, Interval] | None = None
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
    control: bool | None = None
    controls: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    calls: tuple[Floats, int] | None = field(default=None, repr=False, compare=False)  # by problem; their seed

    def to_json(self) -> dict[str, Any]:
        """The row as JSON values, without those of `SPARE` that are empty, and of `OF_A_TABLE` outside leaderboards."""
        values = {column.name: getattr(self, column.name) for column in fields(self) if column.name != "calls"}
        absent = {name for name in SPARE if values[name] in (None, {})} | (
            set(OF_A_TABLE) if self.dist is None else set()
        )
        absent |= {"correct"} if self.correct == 1 else set()
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


def beside_controls(rows: Sequence[Row]) -> list[Row]:
    """The rows of one table, each that ranks by vectors with `controls`: control -> its cell, calls, and their ratio.

    `ratio` is the row's mean calls by the control's, `ratio_ci` its paired 95 % interval over problems. A control that
    reads vectors is compared with the rows that read the same.
    """
    told: dict[str, dict[str, Any]] = {row.cell: {} for row in rows}
    for control in (row for row in rows if row.control is not None and row.calls):
        alike = [row for row in rows if row.calls and row.control is None and row.embedder != "none"]
        alike = [row for row in alike if control.embedder in (row.embedder, "none")]
        if not alike or not control.calls:
            continue
        others, seed = control.calls
        calls = np.stack([row.calls[0] for row in alike if row.calls], axis=1)
        intervals = ratio_intervals(calls, np.broadcast_to(others[:, None], calls.shape), seed)
        for row, ratio, ends in zip(alike, calls.mean(axis=0) / others.mean(), intervals, strict=True):
            about = {"cell": control.cell, "samples_to_correct": control.samples_to_correct}
            told[row.cell][control.name] = about | {"ratio": float(ratio), "ratio_ci": ends}
    return [replace(row, controls=told[row.cell]) for row in rows]


# From cells to rows.


def row(cell: Mapping[str, Any], key: str | None = None) -> Row:
    """Compute a cell's row. Equal outcomes have equal intervals, because they seed the resampling."""
    return replace(row_of([(key or cells.key_of(cell), dict(cell))]), seeds=None, cells=None)


def row_of(group: Sequence[Keyed]) -> Row:
    """The row of cells that differ only in their seeds. With several `seed` is None."""
    keys, members = [key for key, _ in group], [cell for _, cell in group]
    seed = cells.resampling_seed(*members)
    cell, entries = members[0], [entry for pool in by_pool(group).values() for entry in pool[0][1]["problems"]]
    conditions: dict[str, set[str]] = {}
    for each in members:
        for name, values in each["conditions"].items():
            conditions.setdefault(name, set()).update(values)
    disputed = [entry["disputed"] for entry in entries if entry["disputed"] is not None]
    measured, control = outcomes(group), [each.get("control") for each in members]
    return Row(
        **{**cell["labels"], "seed": cell["labels"]["seed"] if len(group) == 1 else None},
        cell=keys[0],
        grader=cells.grader(cell),
        conditions={name: sorted(values) for name, values in sorted(conditions.items())},
        disputed=sum(disputed) if disputed else None,
        **trust_in(entries, seed),
        **one_answer_of([entries]).metrics(),
        **summary(measured, seed),
        seeds=[each["labels"]["seed"] for each in members],
        cells=keys,
        learns=cell["inputs"]["ranking"].get("learns"),
        control=None if None in control else all(control),
        calls=None if measured.ranks is None else (measured.inside(measured.ranks.mean(axis=1)), seed),
    )


def rows_of(measured: Mapping[str, Cell]) -> list[list[Keyed]]:
    """Group the cells into rows, sorted by seed inside a row, whatever the order of the cells.

    Where the pools of a row have unequal numbers of cells (one was ranked with several seeds), each is a row.
    """
    groups: dict[str, list[Keyed]] = {}
    for key in sorted(measured, key=lambda key: (measured[key]["labels"]["seed"], key)):
        groups.setdefault(shared_inputs(measured[key]), []).append((key, measured[key]))
    rows = []
    for name in sorted(groups):
        pools = list(by_pool(groups[name]).values())
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


def by_pool(group: Iterable[Keyed]) -> dict[str, list[Keyed]]:
    """The cells of one row by the key of the pool that they ranked; pools in order of their first cell."""
    pools: dict[str, list[Keyed]] = {}
    for key, cell in group:
        pools.setdefault(cell["inputs"]["pool"]["key"], []).append((key, cell))
    return pools


def outcomes(group: Sequence[Keyed]) -> Outcomes:
    """A row's outcomes: those of its cells, with their pools and trials joined inside each problem."""
    return over_seeds([[cells.outcomes(cell) for _, cell in pool] for pool in by_pool(group).values()])


def trust_in(entries: Sequence[Mapping[str, Any]], seed: int) -> dict[str, Any]:
    """`routes`, `fallback_share`, `chance` and `answering` of a row: how far its verdicts can be trusted."""
    routes: Counter[str] = Counter()
    by_chance: dict[str, tuple[int, int]] = {}
    for entry in entries:
        routes.update(entry["routes"])
        correct, gradings = entry.get("chance") or (0, 0)
        before = by_chance.get(entry["id"], (0, 0))
        by_chance[entry["id"]] = before[0] + correct, before[1] + gradings
    costs = [entry["answering"] for entry in entries if "answering" in entry]
    return {
        "routes": dict(sorted(routes.items(), key=lambda item: (-item[1], item[0]))),
        "fallback_share": routes[FALLBACK] / routes.total() if routes.total() else None,
        "chance": chance_level([both for both in by_chance.values() if both[1]], seed),
        "answering": {"responses": sum(n for n, _ in costs), "cpu_s": sum(s for _, s in costs)} if costs else None,
    }


def chance_level(counts: Sequence[tuple[int, int]], seed: int) -> dict[str, Any] | None:
    """The share of responses graded correct against other problems' references: mean, and 95 % interval over problems.

    counts  each problem's (correct, gradings); None is returned if there are none
    """
    if not counts:
        return None
    correct, gradings = (sum(column) for column in zip(*counts, strict=True))
    shares = np.array([hits / tried for hits, tried in counts])
    ends = difference_interval(shares, seed) if correct else None
    limits = [max(0.0, ends[0]), min(1.0, ends[1])] if ends else None
    return {"correct": correct, "gradings": gradings, "share": float(shares.mean()), "share_ci": limits}


@dataclass(frozen=True)
class OneAnswer:
    """The chance that one answer, taken from k random responses, is correct; the same for all selectors on these pools.

    ks        the budgets that all pools have, ascending
    average   (pools,) of a random response, c/n
    majority  (pools, ks) of the most frequent answer, 0 for a pool without any; None if no response has an answer
    best      name of a score -> (pools, ks) of the response with the highest score; c/n where all are unknown
    """

    ks: Sequence[int]
    average: Floats
    majority: Floats | None
    best: Mapping[str, Floats]

    def curves(self) -> dict[str, Floats]:
        """Each metric's name in plots -> (pools, ks); {} if there are neither answers nor scores."""
        chosen = {} if self.majority is None else {"maj@k": self.majority}
        chosen |= {f"best of k by {name}": values for name, values in self.best.items()}
        return {"avg@k": np.repeat(self.average[:, None], len(self.ks), axis=1), **chosen} if chosen else {}

    def metrics(self) -> dict[str, Any]:
        """`avg_at_k`, `maj_at_k` and `best_of_k` of a row: means over its pools."""
        tables = {**self.best, "": self.majority} if self.majority is not None else dict(self.best)
        means = {name: dict(zip(map(str, self.ks), t.mean(axis=0).tolist(), strict=True)) for name, t in tables.items()}
        return {"avg_at_k": float(self.average.mean()), "maj_at_k": means.pop("", None), "best_of_k": means}


def one_answer_of(several: Iterable[Sequence[Mapping[str, Any]]]) -> OneAnswer:
    """The values of cells of the same pools, each given by its problems; best-of-k by the scores of all of them."""
    first, *others = several
    ks = sorted(set.intersection(*(set(budgets(entry["n"])) for entry in first)))
    average = np.array([entry["c"] / entry["n"] for entry in first])

    def table(values: Sequence[Mapping[str, float] | None], unknown: Floats) -> Floats:
        pairs = zip(values, unknown, strict=True)
        return np.array([[other] * len(ks) if by_k is None else [by_k[str(k)] for k in ks] for by_k, other in pairs])

    votes = [entry.get("maj_at_k") for entry in first]
    best = {}
    for entries in (first, *others):
        for name in dict.fromkeys(name for entry in entries for name in entry["best_of_k"]):
            best[name] = table([entry["best_of_k"].get(name) for entry in entries], average)
    return OneAnswer(ks, average, table(votes, np.zeros(len(votes))) if any(votes) else None, best)


@dataclass(frozen=True)
class Reference:
    """Random selection in closed form, or an oracle, which knows the verdicts, on a row's pools."""

    label: str
    samples_to_correct: float
    improvement: float
    pass_at_k: ByBudget
    k95: int | None = None
    hits_at_k: ByBudget = field(default_factory=dict)
    enrichment_factor: float | None = None


def references(row: Row) -> list[Reference]:
    """The first lines of every table: random selection, oracle, anti-oracle."""
    random, best, worst = (getattr(row, f"samples_to_correct_{name}") for name in ("random", "oracle", "anti_oracle"))
    return [
        Reference("random (exact)", random, 1.0, row.pass_at_k_random, row.k95_random, row.hits_at_k_random or {}, 1.0),
        Reference("oracle", best, random / best, row.pass_at_k_oracle),
        Reference("anti-oracle", worst, random / worst, row.pass_at_k_anti_oracle),
    ]


# The columns of a table.


def sizes(row: Row) -> str:
    """What a table says of its pools: n, or from where to where it goes, how many problems, and what is counted to."""
    least = int([*row.pass_at_k_random][-1])
    n = f"n = {row.n}" if least == row.n else f"n = {least:,} to {row.n:,} (budgets up to {least:,})"
    told = "" if row.correct == 1 else f", samples to the {ordinal(row.correct)} correct"
    return f"{n}, {row.problems} problems ({row.solvable} solvable){told}"


@dataclass(frozen=True)
class Column:
    """A column of a table: its heading, and the text that it shows for each row.

    head         its heading; a narrow heading wraps at the line break
    text         row -> text
    reference    reference -> text in the line of a `Reference`
    kept         narrow tables drop the columns with the lowest value first; 0: not shown in the terminal
    is_text      whether it is aligned to the left; such texts come from plugins, and may hold any character
    """

    head: str
    text: Callable[[Row], str]
    reference: Callable[[Reference], str] = lambda reference: ""
    kept: int = 10
    is_text: bool = False

    @property
    def one_line(self) -> str:
        """Its heading without line breaks."""
        return self.head.replace("-\n", "-").replace("\n", " ").strip()


def percent(value: float | None) -> str:
    """A share in per cent; a dash for None."""
    return "-" if value is None else f"{100 * value:.1f}"


def chance(value: float | None) -> str:
    """A p or q with two significant digits; `<1e-9` for smaller ones, a dash for None."""
    return "-" if value is None else "<1e-9" if value < 1e-9 else f"{value:.2g}"


def columns(rows: Sequence[Row], in_file: bool = False) -> list[Column]:
    """The columns of a table of these rows, which share their pools; `in_file`: of leaderboard.md, with more digits."""
    first, digits = rows[0], ".4g" if in_file else ".2f"
    corrected = first.q_random is not None or any(row.dist is not None for row in rows)  # for multiple tests
    gain_head = "gain" if first.budget is None else f"gain@{first.budget}"

    def number(value: float | None) -> str:
        return "-" if value is None else f"{value:{digits}}"

    def gain(row: Row) -> str:
        return _with_interval(row.gain_at_k.get(str(row.budget)), row.gain_at_k_ci.get(str(row.budget)), "+.1f", 100)

    def shares(row: Row) -> str:
        """Win, tie, loss in per cent: by rank, or for subset methods by hit at the telling budget."""
        values = (row.win, row.tie, row.loss)
        if row.win is None:
            values = (row.win_budget, row.tie_budget, row.loss_budget)
        if None in values:
            return "-"
        written = [f"{100 * (value or 0):{'.1f' if in_file else '.0f'}}" for value in values]
        return (" / " if in_file else "/").join(written) + ("" if row.win is not None else f" @{row.budget}")

    def passed(k: str, kept: int) -> Column:
        head = f"pass@{k}\n%"
        return Column(head, lambda row: percent(row.pass_at_k.get(k)), lambda line: percent(line.pass_at_k[k]), kept)

    q_or_p = Column("p\n", lambda row: chance(row.p), kept=3)
    if corrected:
        q_or_p = Column("q\n", lambda row: (number if in_file else chance)(row.q_random), kept=3)
    budgets = [k for k in BUDGETS if k in first.pass_at_k_random]
    kept_hits = next((row for row in rows if row.hits_at_k), first)  # subset methods have none

    def hits(k: str) -> Column:
        return Column(
            f"hits@{k}",
            lambda row: number((row.hits_at_k or {}).get(k)),
            lambda line: number(line.hits_at_k.get(k)) if line.hits_at_k else "",
            4,
        )

    def enriched(share: str) -> Column:
        def text(row: Row) -> str:
            values, intervals = row.enrichment_factor or {}, row.enrichment_factor_ci or {}
            return _with_interval(values.get(share), intervals.get(share), digits)

        return Column(
            f"EF{share}%\n[95 %]", text, lambda line: "1" if line.enrichment_factor else "", 10 if share == "5" else 8
        )

    return [
        Column("selector", lambda row: row.name, lambda line: line.label, is_text=True),
        Column("embedder", lambda row: row.embedder, kept=10 if len(embedders(rows)) > 1 else 0, is_text=True),
        Column("seeds", lambda row: str(len(row.seeds or (0,))), kept=0),
        Column(
            "samples-to-\n" + ("correct" if first.correct == 1 else f"{ordinal(first.correct)} correct"),
            lambda row: number(row.samples_to_correct),
            lambda line: number(line.samples_to_correct),
        ),
        Column(
            "improvement\n[95 %]",
            lambda row: _with_interval(row.improvement, row.improvement_ci, digits),
            lambda line: "1" if line.improvement == 1 else number(line.improvement),
        ),
        q_or_p,
        Column("win / tie / loss\n%" if in_file else "win/tie/loss\n%", shares, kept=9),
        Column(f"{gain_head}\npoints [95 %]", gain, kept=2),
        *(passed(k, kept) for k, kept in zip(budgets, (8, 5, 7, 4, 6), strict=False)),
        Column(
            "k95" if in_file else "k95\n(saved)",
            lambda row: "-" if row.k95 is None else f"{row.k95} ({row.calls_saved:+d})",
            lambda line: str(line.k95 or ("-" if in_file else "")),
            5,
        ),
        *(hits(k) for k in BUDGETS if k in (kept_hits.hits_at_k or {})),
        *(enriched(share) for share in kept_hits.enrichment_factor or {}),
    ]


def lines(rows: Sequence[Row], shown: Sequence[Column]) -> tuple[list[list[str]], list[list[str]], list[list[str]]]:
    """A table's texts: the lines of the references, of the controls, and of the rows; a line has a text a column."""
    told = next((row for row in rows if row.hits_at_k), rows[0])
    first = [[column.reference(reference) for column in shown] for reference in references(told)]
    texts = [(bool(row.control), [column.text(row) for column in shown]) for row in rows]
    return first, [text for control, text in texts if control], [text for control, text in texts if not control]


def embedders(rows: Sequence[Row]) -> list[str]:
    """The embedders whose vectors were read."""
    return list(dict.fromkeys(row.embedder for row in rows if row.embedder != "none"))


def _with_interval(value: float | None, ends: Interval, digits: str, scale: int = 1) -> str:
    if value is None:
        return "-"
    low_high = ", ".join(f"{scale * end:{digits}}" for end in ends) if ends else "-"
    return f"{scale * value:{digits}} [{low_high}]"


# The remarks below a table.


def remarks(rows: Sequence[Row]) -> list[str]:
    """A sentence for each reason why intervals are a dash, for each selector with several versions, and on marks."""
    reasons: dict[str, dict[str, None]] = {}
    for row in rows:
        if reason := row.no_interval.get("improvement_ci"):
            reasons.setdefault(f"improvement [-]: {reason}", {})[row.name] = None
        reason = row.no_interval.get("gain_at_k_ci", "").partition(": ")[2]  # without the budgets
        if reason and row.gain_at_k_ci.get(str(row.budget)) is None:
            reasons.setdefault(f"gain [-]: {reason}", {})[row.name] = None
    sentences = [f"{line} ({', '.join(selectors)})." for line, selectors in reasons.items()]
    sentences += [
        f"{count} versions of {selector} (code or settings changed), in brackets the cells that `harness run` named."
        for selector, count in Counter(row.selector for row in rows if row.version is not None).items()
    ]
    counts = [row.disputed for row in rows if row.disputed is not None]
    return [*sentences, f"disputed grades: {max(counts)}."] if counts else sentences


def not_told(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a sentence for each control: the selectors whose paired interval of calls by its own includes 1."""
    alike: dict[str, list[tuple[str, str]]] = {}
    several = len(embedders(rows)) > 1
    for row in rows if rows[0].problems > 1 and rows[0].solvable else ():
        for control, told in row.controls.items():
            low, high = told["ratio_ci"] or (0.0, np.inf)
            if low <= 1 <= high:
                name = f"{row.name} · {row.embedder}" if several else row.name
                alike.setdefault(control, []).append((name, _with_interval(told["ratio"], told["ratio_ci"], ".2f")))
    for control, told_of in alike.items():
        names, ratios = zip(*told_of, strict=True)
        of = names[0] if len(names) == 1 else "each"
        yield f"{', '.join(names)}: not told from {control} (calls, {of} / {control}: {', '.join(ratios)})."


def verdict_remarks(row: Row) -> Iterator[str]:
    """Yield remarks on a row's verdicts: how many a fallback made correct, the chance level, the cost of answers."""
    routes = row.routes or {}
    if set(routes) - {"-"}:  # a grader with only one route has "-" alone
        share, count = row.fallback_share or 0.0, routes.get(FALLBACK, 0)
        warning = f", over {100 * WARNS:.0f} %: read them before you trust this table" if share > WARNS else ""
        counts = f"{count:,} of {sum(routes.values()):,} verdicts"
        yield f"correct by a fallback, not stated as asked: {counts}, {100 * share:.1f} %{warning}"
    if row.chance:
        line, share_correct = f"chance level: {chance_text(row.chance)}", row.pass_at_k_random.get("1")
        if share_correct is not None:
            line += f", {100 * share_correct:.2f} % for their own"
        if row.chance["correct"]:
            by_luck = f"{100 * (1 - (1 - row.chance['share']) ** row.n):.0f} %"
            line += f"; at that level one of {row.n:,} responses is correct with a probability of {by_luck}"
        yield line
    if row.answering:
        responses, cpu_s = int(row.answering["responses"]), row.answering["cpu_s"]
        a_problem = f"{cpu_s / responses * row.n:.2f} s for the {row.n:,} of a problem"
        yield f"{answers_line(responses, cpu_s)}, {a_problem}, to set against the calls saved"


def answer_remarks(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a remark on the pools that the rows share, without a full stop: avg@k, maj@k and best-of-k at some k."""
    row, best = rows[0], {name: by_k for row in rows for name, by_k in (row.best_of_k or {}).items()}
    if row.maj_at_k or best:
        parts = [f"a random one (avg@k): {100 * (row.avg_at_k or 0.0):.1f}"]
        parts += [_at_budgets("the commonest answer (maj@", row.maj_at_k)] if row.maj_at_k else []
        parts += [_at_budgets(f"the highest {name} (best of ", by_k) for name, by_k in best.items()]
        yield f"one answer taken from k responses, % correct: {'; '.join(parts)}"


def chance_text(level: Mapping[str, Any]) -> str:
    """The text of a chance level (as `chance_level` returns it) in per cent, with its interval and counts."""
    ends = level["share_ci"]
    interval = f" [{100 * ends[0]:.2f}, {100 * ends[1]:.2f}]" if ends else ""
    hits = f"{level['correct']:,} of {level['gradings']:,} gradings against other problems' answers are correct"
    return f"{100 * level['share']:.2f} %{interval}, {hits}"


def answers_line(responses: int, cpu_s: float) -> str:
    """Say what it cost to run so many responses for their answers."""
    return (
        f"answers by running {responses:,} responses: {cpu_s:.1f} CPU-seconds, {1000 * cpu_s / responses:.1f} ms each"
    )


def _at_budgets(name: str, by_k: ByBudget) -> str:
    """The values at the tables' budgets above 1, where all are the average; for tiny pools at the largest one."""
    ks = [k for k in BUDGETS[1:] if k in by_k] or list(by_k)[-1:]
    return f"{name}{', '.join(ks)}): {', '.join(f'{100 * (by_k[k] or 0.0):.1f}' for k in ks)}"
