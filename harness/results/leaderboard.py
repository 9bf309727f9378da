"""Leaderboards: the cells of any folders as tables, in Markdown, CSV and JSON, the same bytes from the same cells.

There is one table for each combination of task, data revision, split, model, engine, sampler, n, problems, grader and
set of pools. Cells that differ only in their seeds form one row; rows with the fewest calls come first. Rows with
other seeds rank other pools, so they are in another table. The tables do not depend on when, where or in which order
the files were read. Values have four significant digits; the outcomes seed the resampling. Files that cannot be
counted are listed, and the others still count.

`across` joins the tables: each selector's mean over the pools.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NotRequired

import numpy as np
from scipy.stats import t
from typing_extensions import TypedDict

from harness.errors import HarnessError
from harness.plugin_system.calls import information
from harness.plugin_system.component import build
from harness.plugin_system.registry import load_registry
from harness.system import json_text
from harness.system.files import write_atomically
from harness.system.json_text import canonical_json, digest

from . import cells
from . import rows as all_rows
from .cells import Cell
from .columns import answer_remarks, lines, published, remarks, verdict_remarks
from .inert_text import csv_table
from .inert_text import markdown as inert
from .rows import Interval, Keyed, Row, with_q

NAMES = tuple(f"{cells.TABLES}.{kind}" for kind in ("md", "csv", "json"))


class Badge(TypedDict):
    """What the conformance kit says of a selector: how many checks pass, and the messages of those that fail."""

    selector: NotRequired[dict[str, Any]]
    kit: NotRequired[str]
    passed: int
    failed: list[str]


@dataclass
class Gathered:
    """The content of folders.

    measured, failed  key -> cell
    faults            why files are not counted, one line each
    badges            hash of a selector -> its conformance badge
    """

    measured: dict[str, Cell] = field(default_factory=dict)
    failed: dict[str, Cell] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    badges: dict[str, Badge] = field(default_factory=dict)


@dataclass(frozen=True)
class Board:
    """One table: what its rows share, the rows, and selector and reason of each cell that failed."""

    about: Mapping[str, Any]
    rows: Sequence[Row]
    failed: Sequence[tuple[str, str]]


def gather(folders: Sequence[Path], orders: bool = False) -> Gathered:
    """Read every cell in the folders and below, with its orders only if `orders`; HarnessError for a missing folder."""
    content = Gathered()
    for folder in folders:
        if not folder.is_dir():
            raise HarnessError(f"results {folder}: no such folder; `harness run` keeps its cells in runs/cells")
        for path in cells.files([folder]):
            add(content, path, orders)
        for path in sorted(folder.rglob(f"{cells.BADGES}/*.json")):
            content.badges[path.stem] = read_badge(path)
    content.faults.sort()
    return content


def add(content: Gathered, path: Path, orders: bool = False) -> None:
    """Read one cell into the content; a file that cannot be counted becomes a fault."""
    try:
        cell = cells.as_published(cells.read(path))
    except HarnessError as fault:
        content.faults.append(str(fault))
        return
    if cells.is_random(cell):
        content.faults.append(f"cell {path}: was made with random weights: it is a test, no result")
        return
    if not orders:
        cell["problems"] = [cells.without_orders(entry) for entry in cell["problems"]]
    (content.failed if "failed" in cell else content.measured)[path.stem] = cell


def read_badge(path: Path) -> Badge:
    """The badge in a file; HarnessError if there is none."""
    remedy = "delete it; `harness results publish` makes it again"
    return json_text.shaped(json_text.read(path, "badge", remedy), Badge, f"badge {path}", remedy)


def conformance(badge: Badge) -> str:
    """A badge in two words."""
    return f"fails {len(badge['failed'])}" if badge["failed"] else f"passes {badge['passed']}"


def unresolved(content: Gathered) -> dict[str, Cell]:
    """The failed cells of which no other cell has a result: the same selector on the same pool, with other code."""

    def of_what(cell: Cell) -> str:
        return canonical_json([cell["labels"], cell["inputs"]["pool"].get("key"), cell["inputs"]["ranking"]["n"]])

    measured = set(map(of_what, content.measured.values()))
    return {key: cell for key, cell in content.failed.items() if of_what(cell) not in measured}


def boards(content: Gathered) -> list[Board]:
    """The tables, in the order of what their rows share."""
    groups: dict[str, list[list[Keyed]]] = {}
    failed: dict[str, list[tuple[str, str]]] = {}
    for group in all_rows.rows_of(content.measured):
        groups.setdefault(canonical_json(_shared(group)), []).append(group)
    for key, cell in unresolved(content).items():
        shared = canonical_json(_shared([(key, cell)]))
        failed.setdefault(shared, []).append((cell["labels"]["selector"], cell["failed"]))
    tables = []
    for about in sorted({*groups, *failed}):
        made = [_row(content, group) for group in groups.get(about, ())]
        names = [(row.selector, row.embedder) for row in made]
        told = [
            replace(row, version=row.cell[:8]) if names.count(name) > 1 else row
            for name, row in zip(names, made, strict=True)
        ]
        tables.append(Board(json.loads(about), with_q(sorted(told, key=_place)), sorted(failed.get(about, ()))))
    return tables


def _shared(group: Sequence[Keyed]) -> dict[str, Any]:
    """What the rows of one table have in common. `n` is None if the problems of an imported pool differ in it."""
    cell = group[0][1]
    pool, verdict, sizes = cell["inputs"]["pool"], cell["inputs"]["verdict"], {e.get("n") for e in cell["problems"]}
    task = pool.get("task")
    return {
        **{name: cell["labels"][name] for name in ("task", "split", "model", "engine", "sampler")},
        "revision": task.get("revision") if isinstance(task, dict) else pool.get("revision"),
        "grader": cells.grader(cell),
        "graded": digest(all_rows.unseeded(verdict)),
        "pools": sorted(all_rows.pools_of(group)),
        "n": cell["inputs"]["ranking"]["n"] or pool.get("n") or (sizes.pop() if len(sizes) == 1 else None),
        "problems": digest([entry["id"] for entry in cell["problems"]]),
    }


def _row(content: Gathered, group: Sequence[Keyed]) -> Row:
    selector = group[0][1]["inputs"]["ranking"]["selector"]
    badge = content.badges.get(digest(selector))
    return replace(all_rows.row_of(group), dist=selector["dist"], conformance=conformance(badge) if badge else None)


def _place(row: Row) -> tuple[Any, ...]:
    """Sort key: rankers by calls, the fewest first; then subset methods, which have no calls, by gain at the budget."""
    gain, calls = row.gain_at_k.get(str(row.budget)) or 0.0, row.samples_to_correct
    return (calls or float("inf"), 0.0 if calls else -gain, row.selector, row.embedder, row.cells)


# Files.


def write(folder: Path, content: Gathered, tables: Sequence[Board] | None = None) -> list[Path]:
    """Write leaderboard.md, .csv and .json and return their paths. `tables`: `boards(content)`, if already computed."""
    for name, text in texts(content, boards(content) if tables is None else tables).items():
        write_atomically(folder / name, text)
    return [folder / name for name in NAMES]


def texts(content: Gathered, tables: Sequence[Board]) -> dict[str, bytes]:
    """Each of `NAMES` -> the content of that file."""
    made = (markdown(tables, content.faults), as_csv(tables), as_json(tables))
    return {name: text.encode() for name, text in zip(NAMES, made, strict=True)}


def as_json(tables: Iterable[Board]) -> str:
    """The tables as JSON; numbers have four significant digits."""
    value = [
        {"about": table.about, "rows": [row.to_json() for row in table.rows], "failed": table.failed}
        for table in tables
    ]
    return json.dumps(_rounded(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def as_csv(tables: Iterable[Board]) -> str:
    """The rows of all tables as CSV, one line each.

    An interval and an object (its values that are no lists) become several columns; seeds, cells and pools one column
    with blanks between. Texts that a spreadsheet would run as a formula are marked
    (`inert_text.csv_cell`).
    """
    return csv_table([flat(_rounded({**table.about, **row.to_json()})) for table in tables for row in table.rows])


def flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with one plain value a column: `pass_at_k_16`, `best_of_k_NAME_16`, `improvement_ci_low`."""
    columns: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            columns |= flat({f"{name}_{key}": entry for key, entry in value.items() if not isinstance(entry, list)})
        elif name in ("seeds", "cells", "pools"):
            columns[name] = " ".join(map(str, value))
        elif isinstance(value, list):
            columns |= {f"{name}_{place}": entry for place, entry in zip(("low", "high"), value, strict=False)}
        else:
            columns[name] = value
    return columns


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, Mapping):
        return {name: _rounded(entry) for name, entry in value.items()}
    return [_rounded(entry) for entry in value] if isinstance(value, (list, tuple)) else value


EXPLAINED = """\
Made by `harness leaderboard` from the cells beside it, and from nothing else. samples-to-correct is the mean number of
verifier calls up to the first correct response (n + 1 where there is none), improvement random's mean by the
selector's with a 95 % interval over problems, q the share of false discoveries among rows called different from random,
k95 the calls after which 95 % of the solvable problems are solved (in brackets those saved against random). The gain is
pass@k less random's in points, with a 95 % interval, at the budget where random solves about half of what can be
solved; a subset method has no rank, so its q and its win / tie / loss (marked @k) are those of that budget. All other
values (pass@k, the oracles, conformance) are in leaderboard.csv, and docs/statistics.md says how they are computed."""


def markdown(tables: Sequence[Board], faults: Sequence[str]) -> str:
    """The tables as Markdown, and below them the faults, as "Not counted"."""
    parts = ["# Leaderboard", EXPLAINED]
    parts += [part for table in tables for part in _section(table)]
    if faults:
        parts.append("Not counted:\n\n" + "\n".join(f"- {inert(fault)}" for fault in faults))
    return "\n\n".join(parts) + "\n"


def _section(table: Board) -> list[str]:
    about, rows = table.about, table.rows
    problems, solvable = (rows[0].problems, rows[0].solvable) if rows else ("?", "?")
    sizes = f"n = {about['n']}, {problems} problems ({solvable} solvable)"
    names = [about[name] for name in ("split", "model", "sampler") if about[name] not in ("pool", None)]
    title = f"## {inert(about['task'])}: {inert(', '.join(dict.fromkeys(names)))}"
    trust = f" Intervals: {rows[0].trust}." if rows else ""
    pools = f"pool{'s' if len(about['pools']) > 1 else ''} " + ", ".join(f"`{_code(pool)}`" for pool in about["pools"])
    revision = f"data revision {inert(about['revision'])}, " if about["revision"] else ""
    source = f"{revision}graded by {inert(about['grader'])}, {pools}"
    of_pools = [f"{line}." for row in rows[:1] for line in (*verdict_remarks(row), *answer_remarks(rows))]
    remarked = "".join(f" {inert(line[:1].upper() + line[1:])}" for line in (*remarks(rows), *of_pools))
    failing = [row for row in rows if (row.conformance or "").startswith("fails")]
    if any(row.conformance for row in rows):
        passing = sum(row.conformance is not None for row in rows) - len(failing)
        remarked += f" Conformance kit: {passing} of {len(rows)} rows pass."
    parts = [title, f"{sizes}; {source}.{trust}{remarked}"]
    if rows:
        parts.append(_table(rows))
    faults = [f"- {inert(row.name)} {row.conformance} of the conformance kit's checks" for row in failing]
    faults += [f"- failed: {inert(name)}: {inert(reason)}" for name, reason in table.failed]
    return [*parts, "\n".join(dict.fromkeys(faults))] if faults else parts


def _table(rows: Sequence[Row]) -> str:
    shown = published(rows)
    first, measured = lines(rows, shown)
    written = [
        [inert(text) if column.from_plugin else text for column, text in zip(shown, line, strict=True)]
        for line in measured
    ]
    head = [[column.one_line for column in shown], ["---" if column.is_text else "---:" for column in shown]]
    return "\n".join(f"| {' | '.join(line)} |" for line in [*head, *first, *written])


def _code(key: str) -> str:
    """A pool's key for a code span: letters, digits and `._-` only, so that an edited cell cannot inject Markdown."""
    return "".join(char for char in str(key) if char.isalnum() or char in "._-")


# Selectors across pools.

LEAST_POOLS = 3  # for an interval over pools


@dataclass(frozen=True)
class Across:
    """A selector, with the vectors that it reads, on several pools (tables), by its improvement on each.

    The mean is geometric, since 2 and 1/2 cancel. Two intervals, both 95 %: `improvement_ci` is that of the mean over
    these very pools, if their problems were sampled anew (the pools' own intervals, which are symmetric on the log
    scale, combined as independent). `pools_ci` is that of the mean over pools like these (Student's t on the log
    improvements; none for fewer than three pools). The second is the one for "which selector should I use on my pool?",
    and it is wide, since pools are few and were not sampled at random from anything. Tables of the same problems (other
    seeds, samplers or models) are not independent: give folders with one of each.

    reads                     what it is given: "answers", "texts", "vectors", ...; None if it is not installed here, or
                              does not say
    pools                     how many of them it ranked
    improvement               geometric mean over these pools
    solvable                  the same mean over problems with a correct response; None if a pool has no such value
    worst, worst_pool         the smallest improvement, and where
    win, loss                 mean chance of a lower, and of a higher, rank than in a random order
    """

    selector: str
    embedder: str
    reads: Sequence[str] | None
    pools: int
    improvement: float
    improvement_ci: Interval
    pools_ci: Interval
    solvable: float | None
    worst: float
    worst_pool: str
    win: float
    loss: float

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return asdict(self)


def across(boards: Sequence[Board]) -> list[Across]:
    """A line for each selector and embedder: those on most pools first, then by falling improvement.

    Subset methods have no samples-to-correct and are left out.
    """
    grouped: dict[tuple[str, str], list[tuple[str, Row]]] = {}
    for board in boards:
        for row in board.rows:
            if row.improvement is not None:
                grouped.setdefault((row.name, row.embedder), []).append((pool_name(board), row))
    registry = load_registry()
    joined = []
    for (selector, embedder), rows in grouped.items():
        try:
            reads = information(build(registry, "selector", rows[0][1].selector))
        except HarnessError:  # a plugin of others: its cells are read without it
            reads = None
        joined.append(_joined(selector, embedder, reads, rows))
    return sorted(joined, key=lambda line: (-line.pools, -line.improvement, line.selector, line.embedder))


def pool_name(board: Board) -> str:
    """A pool's name: task, model and sampler, and n."""
    parts = [board.about[name] for name in ("task", "model", "sampler") if board.about[name] not in ("pool", None)]
    return ", ".join([*dict.fromkeys(map(str, parts)), f"n = {board.about['n']}"])


def _joined(selector: str, embedder: str, reads: Sequence[str] | None, rows: Sequence[tuple[str, Row]]) -> Across:
    logs = [math.log(row.improvement or 1) for _, row in rows]
    mean, pools = float(np.mean(logs)), len(rows)
    worst = min(range(pools), key=lambda place: logs[place])
    solvable = [math.log(row.improvement_solvable) for _, row in rows if row.improvement_solvable]
    halves = [math.log(row.improvement_ci[1] / row.improvement_ci[0]) / 2 for _, row in rows if row.improvement_ci]

    def interval(half: float) -> list[float]:
        return [float(f"{math.exp(mean + side * half):.6g}") for side in (-1, 1)]

    over_problems = math.sqrt(sum(half**2 for half in halves)) / pools
    error = float(np.std(logs, ddof=1)) / math.sqrt(pools) if pools >= LEAST_POOLS else None
    return Across(
        selector=selector,
        embedder=embedder,
        reads=reads,
        pools=pools,
        improvement=math.exp(mean),
        improvement_ci=interval(over_problems) if len(halves) == pools else None,
        pools_ci=None if error is None else interval(float(t.ppf(0.975, pools - 1)) * error),
        solvable=math.exp(float(np.mean(solvable))) if len(solvable) == pools else None,
        worst=math.exp(logs[worst]),
        worst_pool=rows[worst][0],
        win=float(np.mean([row.win or 0 for _, row in rows])),
        loss=float(np.mean([row.loss or 0 for _, row in rows])),
    )
