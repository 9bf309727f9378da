"""Leaderboards: the cells of any folders as tables, in Markdown, CSV and JSON, the same bytes from the same cells.

There is one table for each combination of task, data revision, split, model, engine, sampler, n, problems, grader and
set of pools. Cells that differ only in their seeds form one row; rows with the fewest calls come first. Rows with
other seeds rank other pools, so they are in another table. The tables do not depend on when, where or in which order
the files were read. Values have four significant digits; the outcomes seed the resampling. Files that cannot be
counted are listed, and the others still count.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.store.json_files import read_json
from harness.store.keys import canonical_json, digest
from harness.system.files import write_atomically
from harness.system.json_text import shaped

from . import cells, one_answer, seed_groups, verdict_quality
from .cells import Cell
from .columns import absent_intervals, learning, lines, published, versions
from .inert_text import csv_table
from .inert_text import markdown as inert
from .rows import Row, with_q
from .schemas import Badge

AGAIN = "`harness results publish` makes it again"
NAMES = tuple(f"{cells.TABLES}.{kind}" for kind in ("md", "csv", "json"))


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
    badges: dict[str, Mapping[str, Any]] = field(default_factory=dict)


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
            content.badges[path.stem] = shaped(read_json(path), Badge, f"badge {path}", f"delete it; {AGAIN}")
    content.faults.sort()
    return content


def add(content: Gathered, path: Path, orders: bool = False) -> None:
    """Read one cell into the content; a file that cannot be counted becomes a fault."""
    try:
        cell = cells.without_folders(cells.read(path))
    except HarnessError as fault:
        content.faults.append(str(fault))
        return
    if cells.is_random(cell):
        content.faults.append(f"cell {path}: was made with random weights: it is a test, no result")
        return
    if not orders:
        cell["problems"] = [cells.without_orders(entry) for entry in cell["problems"]]
    (content.failed if "failed" in cell else content.measured)[path.stem] = cell


def unresolved(content: Gathered) -> dict[str, Cell]:
    """The failed cells of which no other cell has a result: the same selector on the same pool, with other code."""
    measured = {_of_what(cell) for cell in content.measured.values()}
    return {key: cell for key, cell in content.failed.items() if _of_what(cell) not in measured}


def _of_what(cell: Cell) -> str:
    return canonical_json([cell["labels"], cell["inputs"]["pool"].get("key"), cell["inputs"]["ranking"]["n"]])


def boards(content: Gathered) -> list[Board]:
    """The tables, in the order of what their rows share."""
    rows: dict[str, list[list[seed_groups.Keyed]]] = {}
    failed: dict[str, list[Cell]] = {}
    for group in seed_groups.rows_of(content.measured):
        rows.setdefault(canonical_json(_shared(group)), []).append(group)
    for key, cell in sorted(unresolved(content).items()):
        failed.setdefault(canonical_json(_shared([(key, cell)])), []).append(cell)
    abouts = sorted({*rows, *failed})
    return [_board(content, json.loads(about), rows.get(about, []), failed.get(about, [])) for about in abouts]


def _shared(group: Sequence[seed_groups.Keyed]) -> dict[str, Any]:
    """What the rows of one table have in common."""
    cell = group[0][1]
    labels, task = cell["labels"], cell["inputs"]["pool"].get("task")
    revision = task.get("revision") if isinstance(task, dict) else cell["inputs"]["pool"].get("revision")
    names = ("task", "split", "model", "engine", "sampler")
    verdict, problems = cell["inputs"]["verdict"], [entry["id"] for entry in cell["problems"]]
    return {
        **{name: labels[name] for name in names},
        "revision": revision,
        "grader": cells.grader(cell),
        "graded": digest(seed_groups.unseeded(verdict)),
        "pools": sorted(seed_groups.pools_of(group)),
        "n": cell["inputs"]["ranking"]["n"] or cell["inputs"]["pool"].get("n") or _common_n(cell),
        "problems": digest(problems),
    }


def _common_n(cell: Cell) -> int | None:
    """The number of responses to each problem of a pool made elsewhere; None if they differ, or the cell failed."""
    sizes = {entry.get("n") for entry in cell["problems"]}
    return sizes.pop() if len(sizes) == 1 else None


def _board(content: Gathered, about: Mapping[str, Any], groups: Sequence[Any], failed: Sequence[Cell]) -> Board:
    made = [replace(_row(content, group), version=each) for group, each in zip(groups, _versions(groups), strict=True)]
    rows = with_q(sorted(made, key=_place))
    return Board(about, rows, sorted((cell["labels"]["selector"], cell["failed"]) for cell in failed))


def _versions(groups: Sequence[Sequence[seed_groups.Keyed]]) -> list[str | None]:
    """For each row the beginning of its first cell's key if another row has its selector and embedder, else None."""
    names = [(group[0][1]["labels"]["selector"], group[0][1]["labels"]["embedder"]) for group in groups]
    keys = [group[0][0][:8] for group in groups]
    return [key if names.count(name) > 1 else None for name, key in zip(names, keys, strict=True)]


def _place(row: Row) -> tuple[Any, ...]:
    """Sort key: rankers by calls, the fewest first; then subset methods, which have no calls, by gain at the budget."""
    gain, calls = row.gain_at_k.get(str(row.budget)) or 0.0, row.samples_to_correct
    return (calls or float("inf"), 0.0 if calls else -gain, row.selector, row.embedder, row.cells)


def _row(content: Gathered, group: Sequence[seed_groups.Keyed]) -> Row:
    selector = group[0][1]["inputs"]["ranking"]["selector"]
    badge = content.badges.get(digest(selector))
    return replace(seed_groups.row(group), dist=selector["dist"], conformance=_badge(badge) if badge else None)


def _badge(badge: Mapping[str, Any]) -> str:
    return f"fails {len(badge['failed'])}" if badge["failed"] else f"passes {badge['passed']}"


# Files.


def place(folder: Path, out: Path | None) -> Path | None:
    """The folder for the tables of the cells in `folder`: `out` if given, else `folder` unless it holds cells itself.

    For the cells of a store (STORE/cells) it is then STORE. For any other folder that holds cells itself, such as one
    task in results/, it is None: its tables would be only a part of the tables one level up.
    """
    if out or not _holds_cells(folder):
        return out or folder
    return folder.parent if folder.name == "cells" and not _holds_cells(folder.parent) else None


def _holds_cells(folder: Path) -> bool:
    """Whether the folder itself, not a folder below it, holds cells."""
    return any(path.parent == folder for path in cells.files([folder]))


def write(folder: Path, content: Gathered, tables: Sequence[Board] | None = None) -> list[Path]:
    """Write leaderboard.md, .csv and .json and return their paths. `tables`: `boards(content)`, if already computed."""
    tables = boards(content) if tables is None else tables
    texts = (markdown(tables, content.faults), as_csv(tables), as_json(tables))
    for name, text in zip(NAMES, texts, strict=True):
        write_atomically(folder / name, text.encode())
    return [folder / name for name in NAMES]


def as_json(tables: Iterable[Board]) -> str:
    """The tables as JSON; numbers have four significant digits."""
    value = [
        {
            "about": dict(table.about),
            "rows": [row.to_json() for row in table.rows],
            "failed": [list(failure) for failure in table.failed],
        }
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


def markdown(tables: Sequence[Board], faults: Sequence[str]) -> str:
    """The tables as Markdown, and below them the faults, as "Not counted"."""
    parts = ["# Leaderboard", EXPLAINED]
    parts += [part for table in tables for part in _section(table)]
    if faults:
        parts.append("Not counted:\n\n" + "\n".join(f"- {inert(fault)}" for fault in faults))
    return "\n\n".join(parts) + "\n"


EXPLAINED = """\
Made by `harness leaderboard` from the cells beside it, and from nothing else. samples-to-correct is the mean number of
verifier calls up to the first correct response (n + 1 where there is none), improvement random's mean by the
selector's with a 95 % interval over problems, q the share of false discoveries among rows called different from random,
k95 the calls after which 95 % of the solvable problems are solved (in brackets those saved against random). The gain is
pass@k less random's in points, with a 95 % interval, at the budget where random solves about half of what can be
solved; a subset method has no rank, so its q and its win / tie / loss (marked @k) are those of that budget. All other
values (pass@k, the oracles, conformance) are in leaderboard.csv, and docs/statistics.md says how they are computed."""


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
    remarks = "".join(f" {inert(line[:1].upper() + line[1:])}" for line in remarks_on(rows))
    parts = [title, f"{sizes}; {source}.{trust}{remarks}{_conformance(rows)}"]
    if rows:
        parts.append(_table(rows))
    faults = [f"- {inert(row.name)} {row.conformance} of the conformance kit's checks" for row in rows if _fails(row)]
    faults += [f"- failed: {inert(name)}: {inert(reason)}" for name, reason in table.failed]
    return [*parts, "\n".join(dict.fromkeys(faults))] if faults else parts


def _conformance(rows: Sequence[Row]) -> str:
    """How many rows have selectors that pass all checks of the conformance kit; "" if none was checked."""
    if not any(row.conformance for row in rows):
        return ""
    passing = sum(row.conformance is not None and not _fails(row) for row in rows)
    return f" Conformance kit: {passing} of {len(rows)} rows pass."


def _fails(row: Row) -> bool:
    """Whether the selector's badge says that it fails checks of the conformance kit."""
    return (row.conformance or "").startswith("fails")


def remarks_on(rows: Sequence[Row]) -> list[str]:
    """Remarks on a table, one sentence each: missing intervals, disputed grades, fallbacks, the chance level."""
    counts = [row.disputed for row in rows if row.disputed is not None]
    disputed = [f"disputed grades: {max(counts)}."] if counts else []
    return [
        *absent_intervals(rows),
        *versions(rows),
        *learning(rows),
        *disputed,
        *(f"{line}." for row in rows[:1] for line in (*verdict_quality.remarks(row), *one_answer.remarks(rows))),
    ]


def _table(rows: Sequence[Row]) -> str:
    shown = published(rows)
    heads = [column.head.replace("-\n", "-").replace("\n", " ").strip() for column in shown]
    marks = ["---" if column.is_text else "---:" for column in shown]
    references, measured = lines(rows, shown)
    written = [
        [inert(text) if column.from_plugin else text for column, text in zip(shown, line, strict=True)]
        for line in measured
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in [heads, marks, *references, *written])


def _code(key: str) -> str:
    """A pool's key for a code span: letters, digits and `._-` only, so that an edited cell cannot inject Markdown."""
    return "".join(char for char in str(key) if char.isalnum() or char in "._-")
