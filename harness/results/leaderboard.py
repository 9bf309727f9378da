"""Leaderboards: the cells of any folders as tables, in Markdown and CSV (and JSON), the same bytes from the same cells.

There is one table for each combination of task, data revision, split, model, engine, sampler, n, problems, grader and
set of pools. Cells that differ only in their seeds form one row; rows with the fewest calls come first. Rows with
other seeds rank other pools, so they are in another table. The tables do not depend on when, where or in which order
the files were read. Values have four significant digits; the outcomes seed the resampling. Files that cannot be
counted are listed, and the others still count.

`across` joins the tables: each selector's mean over the pools. `publish` copies cells from a store to such a folder,
and records beside them, in one file of badges, what the conformance kit says of their selectors.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtrit

from harness.errors import HarnessError
from harness.plugin_system.calls import information
from harness.plugin_system.component import Spec, build, described
from harness.plugin_system.registry import Registry, load_registry
from harness.system import json_text
from harness.system.files import write_atomically
from harness.system.json_text import canonical_json, digest

from . import cells, published
from . import rows as all_rows
from .cells import Cell
from .inert_text import csv_table, without_folders
from .inert_text import markdown as inert
from .legends import below, ordinal
from .published import Place
from .rows import (
    Interval,
    Keyed,
    Row,
    answer_remarks,
    beside_controls,
    columns,
    lines,
    not_told,
    remarks,
    sizes,
    verdict_remarks,
    with_q,
)

NAMES = ("leaderboard.md", "leaderboard.csv")

# What the conformance kit says of a selector: how many checks pass, and the messages of those that fail.
Badge = dict[str, Any]
_BADGE = {"passed": int, "failed": [str], "selector?": {"*": object}, "kit?": str}


@dataclass
class Gathered:
    """The content of folders: cells by their keys, badges by the hash of the selector."""

    measured: dict[str, Cell] = field(default_factory=dict)
    failed: dict[str, Cell] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)  # why files are not counted, one line each
    badges: dict[str, Badge] = field(default_factory=dict)


@dataclass(frozen=True)
class Board:
    """One table: what its rows share, the rows, selector and reason of each cell that failed, the rows of controls."""

    about: Mapping[str, Any]
    rows: Sequence[Row]
    failed: Sequence[tuple[str, str]]
    controls: Sequence[Row] = ()

    @property
    def lines(self) -> Sequence[Row]:
        """The rows, then those of the controls."""
        return [*self.rows, *self.controls]


def gather(folders: Sequence[Path], orders: bool = False, random_weights: bool = False) -> Gathered:
    """Read every cell in the folders and below; HarnessError for a missing folder.

    orders          keep the cells' orders
    random_weights  count tests too: cells that were made with random weights
    """
    content = Gathered()
    for folder in folders:
        if not folder.is_dir():
            raise HarnessError(f"results {folder}: no such folder; `harness run` keeps its cells in runs/cells")
        for place in published.places([folder]):
            add(content, place, orders, random_weights)
        for path in sorted(folder.rglob(published.REPORTS)):
            content.badges |= _badges(path)
    content.faults.sort()
    return content


def add(content: Gathered, place: Place, orders: bool = False, random_weights: bool = False) -> None:
    """Read one cell into the content; one that cannot be counted becomes a fault."""
    try:
        cell = cells.as_published(published.read(place))
    except HarnessError as fault:
        content.faults.append(str(fault))
        return
    if cells.is_random(cell) and not random_weights:
        content.faults.append(f"cell {place}: was made with random weights: it is a test, no result")
        return
    if not orders:
        cell["problems"] = [cells.without_orders(entry) for entry in cell["problems"]]
    (content.failed if "failed" in cell else content.measured)[place.key] = cell


def _badges(path: Path) -> dict[str, Badge]:
    """The badges in a file, by the hash of the selector; {} if there is no such file."""
    remedy = "delete it; `harness results publish` makes it again"
    badges: dict[str, Badge] = json_text.read(path, "badges", remedy) if path.exists() else {}
    if fault := cells.misfit(badges, {"*": _BADGE}):
        raise HarnessError(f"badges {path}: {fault}; {remedy}")
    return badges


def _conformance(badge: Badge | None) -> str | None:
    if badge is None:
        return None
    return f"fails {len(badge['failed'])}" if badge["failed"] else f"passes {badge['passed']}"


def unresolved(content: Gathered) -> dict[str, Cell]:
    """The failed cells of which no other cell has a result: the same selector on the same pool, with other code."""

    def of_what(cell: Cell) -> str:
        return canonical_json([cell["labels"], cell["inputs"]["pool"].get("key"), cell["inputs"]["ranking"]["n"]])

    measured = set(map(of_what, content.measured.values()))
    return {key: cell for key, cell in content.failed.items() if of_what(cell) not in measured}


_made: dict[tuple[tuple[str, str], ...], Row] = {}  # rows by keys and checksums: `make results` needs each many times


def boards(content: Gathered) -> list[Board]:
    """The tables, in the order of what their rows share."""
    groups: dict[str, list[Row]] = {}
    failed: dict[str, list[tuple[str, str]]] = {}
    for group in all_rows.rows_of(content.measured):
        selector = group[0][1]["inputs"]["ranking"]["selector"]
        checked = _conformance(content.badges.get(digest(selector)))
        of = tuple((key, cell["checksum"]) for key, cell in group)
        _made[of] = _made.get(of) or all_rows.row_of(group)
        row = replace(_made[of], dist=selector["dist"], conformance=checked)
        groups.setdefault(_shared(group), []).append(row)
    for key, cell in unresolved(content).items():
        failed.setdefault(_shared([(key, cell)]), []).append((cell["labels"]["selector"], cell["failed"]))
    tables = []
    for about in sorted({*groups, *failed}):
        made = groups.get(about, [])
        counts = Counter((row.selector, row.embedder) for row in made)
        told = [replace(row, version=row.cell[:8]) if counts[row.selector, row.embedder] > 1 else row for row in made]
        told = beside_controls(sorted(told, key=_place))
        rows, controls = ([row for row in told if bool(row.control) == wanted] for wanted in (False, True))
        controls.sort(key=lambda row: (row.selector, row.embedder))
        if not rows:  # nothing to stand beside
            rows, controls = controls, []
        tables.append(Board(json.loads(about), with_q(rows), sorted(failed.get(about, ())), controls))
    return tables


def _shared(group: Sequence[Keyed]) -> str:
    """What the rows of one table have in common. `n` is None if the problems of an imported pool differ in it."""
    cell, m = group[0][1], cells.correct(group[0][1])
    pool, verdict, ns = cell["inputs"]["pool"], cell["inputs"]["verdict"], {e.get("n") for e in cell["problems"]}
    task = pool.get("task")
    shared = {
        **{name: cell["labels"][name] for name in ("task", "split", "model", "engine", "sampler")},
        "revision": task.get("revision") if isinstance(task, dict) else pool.get("revision"),
        "grader": cells.grader(cell),
        "graded": digest(all_rows.unseeded(verdict)),
        "pools": sorted(all_rows.by_pool(group)),
        "n": cell["inputs"]["ranking"]["n"] or pool.get("n") or (ns.pop() if len(ns) == 1 else None),
        "problems": digest([entry["id"] for entry in cell["problems"]]),
        **({"correct": m} if m > 1 else {}),
    }
    return canonical_json(shared)


def _place(row: Row) -> tuple[Any, ...]:
    """Sort key: rankers by calls, the fewest first; then subset methods, which have no calls, by gain at the budget."""
    gain, calls = row.gain_at_k.get(str(row.budget)) or 0.0, row.samples_to_correct
    return (calls or float("inf"), 0.0 if calls else -gain, row.selector, row.embedder, row.cells)


# Files.


def write(folder: Path, content: Gathered, tables: Sequence[Board]) -> list[Path]:
    """Write leaderboard.md, .csv and .json and return their paths."""
    for name, text in texts(content, tables).items():
        write_atomically(folder / name, text)
    return [folder / name for name in NAMES]


def texts(content: Gathered, tables: Sequence[Board]) -> dict[str, bytes]:
    """Each of `NAMES` -> the content of that file."""
    made = (markdown(tables, content.faults), as_csv(tables))
    return {name: text.encode() for name, text in zip(NAMES, made, strict=True)}


def as_json(tables: Iterable[Board]) -> str:
    """The tables as JSON; numbers have four significant digits."""
    value = [
        {"about": each.about, "rows": [row.to_json() for row in each.rows], "failed": each.failed}
        | ({"controls": [row.to_json() for row in each.controls]} if each.controls else {})
        for each in tables
    ]
    return json.dumps(_rounded(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def as_csv(tables: Iterable[Board]) -> str:
    """The rows of all tables as CSV, one line each; texts that a spreadsheet would run as a formula are marked."""
    return csv_table([flat(_rounded({**table.about, **row.to_json()})) for table in tables for row in table.lines])


def flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with one plain value a column: `pass_at_k_16`, `improvement_ci_low`; one of seeds, cells, pools."""
    columns: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            columns |= flat({f"{name}_{key}": entry for key, entry in value.items() if not isinstance(entry, list)})
        elif name in ("seeds", "cells", "pools"):
            columns[name] = " ".join(map(str, value))
        elif isinstance(value, list):
            columns |= {f"{name}_{end}": entry for end, entry in zip(("low", "high"), value, strict=False)}
        else:
            columns[name] = value
    return columns


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, Mapping):
        return {name: _rounded(entry) for name, entry in value.items()}
    return [_rounded(entry) for entry in value] if isinstance(value, (list, tuple)) else value


MADE = (
    "Made by `harness leaderboard` from the cells beside it, and from nothing else. All values are in leaderboard.csv; "
    "docs/statistics.md says what each one means."
)


def markdown(tables: Sequence[Board], faults: Sequence[str]) -> str:
    """The tables as Markdown, and below them the faults, as "Not counted"."""
    counted_to = [table.rows[0].correct for table in tables if table.rows]
    parts = [
        "# Leaderboard",
        MADE,
        *(["\n".join(below(counted_to))] if counted_to else []),
        *(part for table in tables for part in _section(table)),
    ]
    if faults:
        parts.append("Not counted:\n\n" + "\n".join(f"- {inert(fault)}" for fault in faults))
    return "\n\n".join(parts) + "\n"


def _section(table: Board) -> list[str]:
    about, rows = table.about, table.rows
    told = sizes(rows[0]) if rows else f"n = {about['n'] or '?'}, ? problems (? solvable)"
    names = [about[name] for name in ("split", "model", "sampler") if about[name] not in ("pool", None)]
    title = f"## {inert(about['task'])}: {inert(', '.join(dict.fromkeys(names)))}"
    # Letters, digits and `._-` only, so that an edited cell cannot inject Markdown into a code span.
    keys = ["".join(char for char in str(key) if char.isalnum() or char in "._-") for key in about["pools"]]
    pools = f"pool{'s' if len(keys) > 1 else ''} " + ", ".join(f"`{key}`" for key in keys)
    revision = f"data revision {inert(about['revision'])}, " if about["revision"] else ""
    sentences = [f"{told}; {revision}graded by {inert(about['grader'])}, {pools}."]
    failing = [row for row in rows if (row.conformance or "").startswith("fails")]
    faults = [f"- {inert(row.name)} {row.conformance} of the conformance kit's checks" for row in failing]
    faults += [f"- failed: {inert(name)}: {inert(reason)}" for name, reason in table.failed]
    listed = ["\n".join(dict.fromkeys(faults))] if faults else []
    if not rows:
        return [title, *sentences, *listed]
    listed += ["\n".join(f"- {inert(line)}" for line in not_told(rows))] if any(not_told(rows)) else []
    sentences.append(f"Intervals: {rows[0].trust}.")
    of_pools = [f"{line}." for line in (*verdict_remarks(rows[0]), *answer_remarks(rows))]
    sentences += [inert(line[:1].upper() + line[1:]) for line in (*remarks(table.lines), *of_pools)]
    if any(row.conformance for row in rows):
        passing = sum(row.conformance is not None for row in rows) - len(failing)
        sentences.append(f"Conformance kit: {passing} of {len(rows)} rows pass.")
    # The eight most important, since these fit the width of a page on GitHub.
    if (m := rows[0].correct) > 1:
        sentences.append(f"All is counted to the {ordinal(m)} correct response: pass@k is {m} or more of the first k.")
    last = "seeds" if any(len(row.seeds or ()) > 1 for row in rows) else "k95"
    heads = ("selector", "embedder", "samples-to", "improvement", "q", "gain", "win", last, "EF")
    shown = [column for column in columns(table.lines, in_file=True) if column.head.startswith(heads)]
    first, *others = lines(table.lines, shown)
    written = [
        [inert(text) if column.is_text else text for column, text in zip(shown, line, strict=True)]
        for line in (*others[0], *others[1])
    ]
    head = [[column.one_line for column in shown], ["---" if column.is_text else "---:" for column in shown]]
    cells_of = "\n".join(f"| {' | '.join(line)} |" for line in [*head, *first, *written])
    return [title, " ".join(sentences), cells_of, *listed]


# Selectors across pools.

LEAST_POOLS = 3  # for an interval over pools


@dataclass(frozen=True)
class Across:
    """A selector, with the vectors that it reads, on several pools (tables), by its improvement on each.

    Two intervals, both 95 %. `improvement_ci` is that of the mean over these very pools, if their problems were sampled
    anew (the pools' own intervals, which are symmetric on the log scale, combined as independent). `pools_ci` is that
    of the mean over pools like these (Student's t on the log improvements; none for fewer than three pools): the one
    for "which selector should I use on my pool?", and wide, since pools are few and no random sample. Tables of the
    same problems (other seeds, samplers or models) are not independent: give folders with one of each.

    reads        what it is given: "answers", "texts", "vectors", ...; None if not installed here, or not said
    improvement  geometric mean over these pools, since 2 and 1/2 cancel; `worst` of them, in `worst_pool`
    solvable     the same mean over problems with a correct response; None if a pool has no such value
    win, loss    mean chance of a lower, and of a higher, rank than in a random order
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


def across(boards: Sequence[Board]) -> list[Across]:
    """A line for each ranker and embedder: those on most pools first, then by falling improvement."""
    grouped: dict[tuple[str, str], list[tuple[str, Row]]] = {}
    for board in boards:
        for row in board.rows:
            if row.improvement is not None:
                name = row.name if row.correct == 1 else f"{row.name}, to the {ordinal(row.correct)}"
                grouped.setdefault((name, row.embedder), []).append((pool_name(board), row))
    registry, joined = load_registry(), []
    for (selector, embedder), named in grouped.items():
        pools, rows = len(named), [row for _, row in named]
        reads = None
        with suppress(HarnessError):  # a plugin of others: its cells are read without it
            reads = information(build(registry, "selector", rows[0].selector))
        logs = [math.log(row.improvement or 1) for row in rows]
        mean, worst = float(np.mean(logs)), min(range(pools), key=lambda place: logs[place])
        solvable = [math.log(row.improvement_solvable) for row in rows if row.improvement_solvable]
        halves = [math.log(row.improvement_ci[1] / row.improvement_ci[0]) / 2 for row in rows if row.improvement_ci]
        of_problems, of_pools = None, None
        if len(halves) == pools:
            of_problems = _around(mean, math.sqrt(sum(half**2 for half in halves)) / pools)
        if pools >= LEAST_POOLS:
            error = float(np.std(logs, ddof=1)) / math.sqrt(pools)
            of_pools = _around(mean, float(stdtrit(pools - 1, 0.975)) * error)
        line = Across(
            selector=selector,
            embedder=embedder,
            reads=reads,
            pools=pools,
            improvement=math.exp(mean),
            improvement_ci=of_problems,
            pools_ci=of_pools,
            solvable=math.exp(float(np.mean(solvable))) if len(solvable) == pools else None,
            worst=math.exp(logs[worst]),
            worst_pool=named[worst][0],
            win=float(np.mean([row.win or 0 for row in rows])),
            loss=float(np.mean([row.loss or 0 for row in rows])),
        )
        joined.append(line)
    return sorted(joined, key=lambda line: (-line.pools, -line.improvement, line.selector, line.embedder))


def _around(mean: float, half: float) -> list[float]:
    """The ends of an interval that is symmetric on the log scale."""
    return [float(f"{math.exp(mean + side * half):.6g}") for side in (-1, 1)]


def pool_name(board: Board) -> str:
    """A pool's name: task, model and sampler, and n."""
    parts = [board.about[name] for name in ("task", "model", "sampler") if board.about[name] not in ("pool", None)]
    return ", ".join([*dict.fromkeys(map(str, parts)), sizes(board.rows[0]).partition(" (")[0].partition(", ")[0]])


# Publishing.


def publish(keys: Sequence[str], from_store: Path, to: Path, plugin_files: Sequence[Path]) -> list[dict[str, Any]]:
    """Add cells of a store, or of a folder, to TO/TASK.parquet, and badges; "cell", "file", "conformance" of each cell.

    `keys`: beginnings of keys; [] means all. Without `keys` failed cells are skipped, with `keys` they are an error.
    An absolute path in a cell is published as its last part: the key of such a cell, a hash of its inputs, changes. All
    cells are read and their selectors checked before the first file is written.
    """
    places = list(published.places([from_store]))
    if not places:
        raise HarnessError(f"results publish: {from_store} holds no cells: `harness run` makes them")
    for key in keys:
        if not any(place.key.startswith(key) for place in places):
            raise HarnessError(f"results publish: no cell {key!r} in {from_store} ({len(places)} are there)")
    reports = next((each for each in (to, *to.parents) if (each / published.REPORTS).is_file()), to) / published.REPORTS
    badges, registry = _badges(reports), load_registry(plugin_files)
    files: dict[Path, dict[str, Cell]] = {}
    rows: list[dict[str, Any]] = []
    for place in (place for place in places if not keys or place.key.startswith(tuple(keys))):
        cell = published.read(place)
        if "failed" in cell and not keys:
            continue
        fault = f"failed ({cell['failed']}): nothing to publish" if "failed" in cell else ""
        fault = fault or ("was made with random weights: it is a test, no result" if cells.is_random(cell) else "")
        if fault:
            raise HarnessError(f"results publish: cell {place.key} {fault}")
        checked = _checked(cell["inputs"]["ranking"]["selector"], badges, registry)
        cell = cells.as_published(cell)
        cell["checksum"] = cells.checksum(cell)
        key, task = cells.key_of(cell), cell["labels"]["task"]
        name = "".join(char if char.isalnum() or char in "._=,+-" else "_" for char in task)[:80]
        if not name.strip("."):
            raise HarnessError(f"results publish: task {name!r} cannot name a file")
        target = to / f"{name}{published.SUFFIX}"
        if target not in files:
            files[target] = {each.key: published.read(each) for each in published.places([target]) if target.exists()}
        files[target][key] = cell
        rows.append({"cell": key, "file": str(target), "conformance": checked})
    for path, several in files.items():
        published.write(path, several)
    lines = ",\n".join(f'"{name}":{canonical_json(badge)}' for name, badge in sorted(badges.items()))
    if badges:
        write_atomically(reports, f"{{\n{lines}\n}}\n".encode("utf-8", "surrogatepass"))
    return rows


def _checked(selector: Mapping[str, Any], badges: dict[str, Badge], registry: Registry) -> str | None:
    """What the conformance kit says of a cell's selector: "passes 31", "not tried: ...". New ones go into `badges`.

    It runs once for each version of selector and kit, and only if exactly that selector is installed.
    """
    from harness.testing import checks, findings

    known = without_folders(dict(selector))
    name, kit = digest(known), digest([check.name for check in checks("selector")])
    badge = badges.get(name)
    if badge and badge.get("kit") == kit:
        return _conformance(badge)
    params = {
        name: str(value).lower() if value is None or isinstance(value, bool) else str(value)
        for name, value in selector["params"].items()
    }
    try:
        component = build(registry, "selector", Spec(selector["name"], params))
        if described(registry.find("selector", selector["name"]), component) != selector:
            raise HarnessError("another version of it is installed here")
    except HarnessError as reason:
        return _conformance(badge) or f"not tried: {reason}"
    results = list(findings("selector", component))
    failed = [finding["what"] for finding in results if finding["outcome"] == "failed"]
    passed = sum(finding["outcome"] == "passed" for finding in results)
    badges[name] = {"selector": known, "kit": kit, "passed": passed, "failed": without_folders(failed)}
    return _conformance(badges[name])


def validate(folders: Sequence[Path]) -> list[str]:
    """Return a line for each file that is no cell, or cannot be trusted; one if the folders hold no cells at all."""
    content = gather(folders)
    if not (content.measured or content.failed or content.faults):
        where = ", ".join(map(str, folders))
        return [f"results {where}: holds no cells; `harness results publish` copies them there"]
    return content.faults
