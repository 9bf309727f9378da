"""Leaderboards: the cells of any folders as tables, in Markdown, CSV and JSON, the same bytes from the same cells.

A table for each pool setting (task and its data's revision, split, model, engine, sampler, n, which problems, grader)
and set of pools; in it a row for all cells that differ only in their seeds, the fewest calls first. Rows that were run
with other seeds are on other pools, hence in another table. Nothing depends on when, where or in which order the files
were found; figures have four significant digits; resampling is seeded by the cells. What cannot be counted is named,
and the rest still counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.scoring import stats
from harness.stages import chance
from harness.store import shards

from . import cells, inert, seed_groups
from .cells import Cell

BUDGETS = ("1", "4", "16", "64", "256")
REFERENCES = {"random": "random (exact)", "oracle": "oracle", "anti_oracle": "anti-oracle"}
NAMES = tuple(f"{cells.TABLES}.{kind}" for kind in ("md", "csv", "json"))

Row = dict[str, Any]


@dataclass
class Found:
    """What lies in some folders: cells by key, those that failed, what cannot be counted, and badges by selector."""

    measured: dict[str, Cell] = field(default_factory=dict)
    failed: dict[str, Cell] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    badges: dict[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Board:
    """One table: what its rows share, the rows, and the cells that failed."""

    about: Mapping[str, Any]
    rows: Sequence[Row]
    failed: Sequence[tuple[str, str]]


def gather(folders: Sequence[Path], orders: bool = False) -> Found:
    """Every cell in the folders and below them, its orders only where asked for; HarnessError for no such folder."""
    found = Found()
    for folder in folders:
        if not folder.is_dir():
            raise HarnessError(f"results {folder}: no such folder; `harness results publish` fills results/")
        for path in cells.files([folder]):
            _take(found, path, orders)
        for path in sorted(folder.rglob(f"{cells.BADGES}/*.json")):
            found.badges[path.stem] = shards.read_json(path)
    found.faults.sort()
    return found


def _take(found: Found, path: Path, orders: bool) -> None:
    try:
        cell = cells.read(path)
    except HarnessError as fault:
        found.faults.append(str(fault))
        return
    if cells.is_random(cell):
        found.faults.append(f"cell {path}: was made with random weights: it is a test, no result")
        return
    if not orders:
        cell["problems"] = [cells.without_orders(entry) for entry in cell["problems"]]
    (found.failed if "failed" in cell else found.measured)[path.stem] = cell


def boards(found: Found) -> list[Board]:
    """The tables, by task, model and sampler."""
    rows: dict[str, list[list[seed_groups.Keyed]]] = {}
    failed: dict[str, list[Cell]] = {}
    for group in seed_groups.rows_of(found.measured):
        rows.setdefault(shards.canonical_json(_shared(group)), []).append(group)
    for key, cell in sorted(found.failed.items()):
        failed.setdefault(shards.canonical_json(_shared([(key, cell)])), []).append(cell)
    abouts = sorted({*rows, *failed})
    return [_board(found, json.loads(about), rows.get(about, []), failed.get(about, [])) for about in abouts]


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
        "graded": shards.digest(seed_groups.unseeded(verdict)),
        "pools": sorted(seed_groups.pools_of(group)),
        "n": cell["inputs"]["ranking"]["n"] or cell["inputs"]["pool"].get("n"),
        "problems": shards.digest(problems),
    }


def _board(found: Found, about: Mapping[str, Any], groups: Sequence[Any], failed: Sequence[Cell]) -> Board:
    rows = sorted((_row(found, group) for group in groups), key=_place)
    _add_q(rows)
    return Board(about, rows, sorted((cell["labels"]["selector"], cell["failed"]) for cell in failed))


def _place(row: Row) -> tuple[Any, ...]:
    """The fewest calls first; subset methods, which have no such figure, after them by their gain at the budget."""
    gain = row["gain_at_k"].get(str(row["budget"]), 0.0)
    calls = row["samples_to_correct"]
    return (calls or float("inf"), 0.0 if calls else -gain, row["selector"], row["embedder"], row["cells"])


def _row(found: Found, group: Sequence[seed_groups.Keyed]) -> Row:
    selector = group[0][1]["inputs"]["ranking"]["selector"]
    badge = found.badges.get(shards.digest(selector))
    return {**seed_groups.row(group), "dist": selector["dist"], "conformance": badge and _badge(badge)}


def _badge(badge: Mapping[str, Any]) -> str:
    return f"fails {len(badge['failed'])}" if badge["failed"] else f"passes {badge['passed']}"


def _add_q(rows: Sequence[Row]) -> None:
    """The share of false discoveries if this row is called different from random, over the rows of its table.

    A ranker is tested by its mean rank; a subset method, which has none, by its hits at the budget.
    """
    tested = [row["p_budget"] if row["samples_to_correct"] is None else row["p_random"] for row in rows]
    for row, q in zip(rows, stats.false_discovery_rates(tested), strict=True):
        row["q_random"] = q


# Files.


def place(folder: Path, out: Path | None) -> Path | None:
    """Where the tables of the cells in `folder` go: `out`, else the folder; never among cells unasked.

    For the cells of a store (STORE/cells) that is STORE. Of any other folder with cells right in it, such as one task's
    in results/, the tables would be a part of those above: None, unless it is said where they go.
    """
    if out or not _holds_cells(folder):
        return out or folder
    return folder.parent if folder.name == "cells" and not _holds_cells(folder.parent) else None


def _holds_cells(folder: Path) -> bool:
    """Whether cells lie right in it."""
    return any(path.parent == folder for path in cells.files([folder]))


def write(folder: Path, found: Found, made: Sequence[Board] | None = None) -> list[Path]:
    """Write leaderboard.md, .csv and .json of what was found; returns their paths. `made`: its `boards`, if at hand."""
    tables = boards(found) if made is None else made
    texts = (markdown(tables, found.faults), as_csv(tables), as_json(tables))
    for name, text in zip(NAMES, texts, strict=True):
        shards.write_atomically(folder / name, text.encode())
    return [folder / name for name in NAMES]


def as_json(tables: Iterable[Board]) -> str:
    """The tables as JSON; numbers have four significant digits."""
    value = [
        {"about": dict(table.about), "rows": table.rows, "failed": [list(one) for one in table.failed]}
        for table in tables
    ]
    return json.dumps(_rounded(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def as_csv(tables: Iterable[Board]) -> str:
    """One line a row of any table; lists and objects are spread over columns of their own.

    Texts that a spreadsheet would run are marked (`inert.csv_cell`).
    """
    return inert.csv_table([_flat({**table.about, **row}) for table in tables for row in table.rows])


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in _rounded(row).items():
        if isinstance(value, dict):
            flat |= {f"{name}_{key}": entry for key, entry in value.items() if not isinstance(entry, (dict, list))}
        elif name in ("seeds", "cells", "pools"):
            flat[name] = " ".join(map(str, value))
        elif isinstance(value, list):
            flat |= {f"{name}_{place}": entry for place, entry in zip(("low", "high"), value, strict=False)}
        else:
            flat[name] = value
    return flat


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, Mapping):
        return {name: _rounded(entry) for name, entry in value.items()}
    return [_rounded(entry) for entry in value] if isinstance(value, (list, tuple)) else value


def markdown(tables: Sequence[Board], faults: Sequence[str]) -> str:
    """The tables as Markdown."""
    parts = ["# Leaderboard", EXPLAINED]
    parts += [part for table in tables for part in _section(table)]
    if faults:
        parts.append("Not counted:\n\n" + "\n".join(f"- {inert.markdown(fault)}" for fault in faults))
    return "\n\n".join(parts) + "\n"


EXPLAINED = """\
Made by `harness leaderboard` from the cells beside it, and from nothing else. samples-to-correct is the mean number of
verifier calls up to the first correct response (n + 1 where there is none), improvement random's mean by the
selector's with a 95 % interval over problems, q the share of false discoveries among rows called different from random,
k95 the calls after which 95 % of the solvable problems are solved (in brackets those saved against random). The gain is
pass@k less random's in points, with a 95 % interval, at the budget where random solves about half of what can be
solved; a subset method has no rank, so its q and its win / tie / loss (marked @k) are those of that budget. How they
are computed: docs/statistics.md."""


def _section(table: Board) -> list[str]:
    about, rows = table.about, table.rows
    first = rows[0] if rows else {}
    sizes = f"n = {about['n']}, {first.get('problems', '?')} problems ({first.get('solvable', '?')} solvable)"
    names = [about[name] for name in ("split", "model", "sampler") if about[name] not in ("pool", None)]
    title = f"## {inert.markdown(about['task'])}: {inert.markdown(', '.join(dict.fromkeys(names)))}"
    worth = f" Intervals: {first['trust']}." if rows else ""
    pools = f"pool{'s' * (len(about['pools']) > 1)} " + ", ".join(f"`{_code(pool)}`" for pool in about["pools"])
    made = f"data revision {inert.markdown(about['revision'])}, graded by {inert.markdown(about['grader'])}, {pools}"
    absent = "".join(f" {inert.markdown(line[0].upper() + line[1:])}" for line in absent_intervals(rows))
    parts = [title, f"{sizes}; {made}.{worth}{absent}{_disputed(rows)}{_remarks(rows)}"]
    if rows:
        parts.append(_table(rows))
    if table.failed:
        parts.append(
            "\n".join(f"- failed: {inert.markdown(name)}: {inert.markdown(reason)}" for name, reason in table.failed)
        )
    return parts


def _disputed(rows: Sequence[Row]) -> str:
    """How many grades a second grader disputes: a figure of the pool, not of a row."""
    counts = [row["disputed"] for row in rows if row["disputed"] is not None]
    return f" Disputed grades: {max(counts)}." if counts else ""


def _remarks(rows: Sequence[Row]) -> str:
    """How many correct verdicts came by a fallback, and the chance level: of the pools, as disputed grades are."""
    return "".join(
        f" {inert.markdown(remark[:1].upper() + remark[1:])}." for row in rows[:1] for remark in chance.remarks(row)
    )


def _table(rows: Sequence[Row]) -> str:
    ks = [k for k in BUDGETS if k in rows[0]["pass_at_k_random"]]
    several = any(len(row["seeds"]) > 1 for row in rows)
    gain = f"gain@{rows[0]['budget']} points [95 %]" if rows[0]["budget"] else "gain"
    head = ["selector", "embedder", *(["seeds"] if several else [])]
    head += ["samples-to-correct", "improvement [95 %]", "q", "win / tie / loss %", gain]
    head += [f"pass@{k} %" for k in ks] + ["k95", "conformance"]
    lines = [head, ["---", "---", *["---:"] * (len(head) - 3), "---"]]
    lines += [_reference(rows[0], name, ks, several) for name in REFERENCES]
    lines += [_line(row, ks, several) for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _reference(row: Row, name: str, ks: Sequence[str], several: bool) -> list[str]:
    mean = row[f"samples_to_correct_{name}"]
    ratio = figure(row["samples_to_correct_random"] / mean)
    passed = [percent(row[f"pass_at_k_{name}"][k]) for k in ks]
    k95 = figure(row.get(f"k95_{name}"))
    return [REFERENCES[name], "", *[""] * several, figure(mean), ratio, "", "", "", *passed, k95, ""]


def _line(row: Row, ks: Sequence[str], several: bool) -> list[str]:
    interval = row["improvement_ci"]
    improvement = figure(row["improvement"])
    if interval:
        improvement += f" [{figure(interval[0])}, {figure(interval[1])}]"
    elif row["improvement"] is not None:
        improvement += " [-]"
    return [
        inert.markdown(row["selector"]),
        inert.markdown(row["embedder"]),
        *([str(len(row["seeds"]))] if several else []),
        figure(row["samples_to_correct"]),
        improvement,
        figure(row.get("q_random")),
        shares(row, " / "),
        gain(row),
        *(percent(row["pass_at_k"].get(k)) for k in ks),
        k95(row),
        row["conformance"] or "-",
    ]


def _code(key: str) -> str:
    """A pool's key, which no cell that anybody edited can make more than one word."""
    return "".join(sign for sign in str(key) if sign.isalnum() or sign in "._-")


def absent_intervals(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why intervals are shown as a dash, each reason once."""
    named = {"improvement_ci": "improvement", "gain_at_k_ci": "gain"}
    reasons: dict[str, list[str]] = {}
    for row in rows:
        for name, reason in row.get("no_interval", {}).items():
            if name in named and (name != "gain_at_k_ci" or row["gain_at_k_ci"][str(row["budget"])] is None):
                reasons.setdefault(f"{named[name]} [-]: {reason.partition(': ')[2] or reason}", []).append(
                    row["selector"]
                )
    return [f"{reason} ({', '.join(dict.fromkeys(selectors))})." for reason, selectors in reasons.items()]


def shares(row: Mapping[str, Any], between: str = "/", digits: int = 1) -> str:
    """Win, tie, loss in per cent: of the rank, or of the hit at a budget for what has no rank; a dash for neither."""
    of_rank = row["win"] is not None
    values = [row[name if of_rank else f"{name}_budget"] for name in ("win", "tie", "loss")]
    if None in values:
        return "-"
    return between.join(f"{100 * value:.{digits}f}" for value in values) + ("" if of_rank else f" @{row['budget']}")


def gain(row: Mapping[str, Any]) -> str:
    """The gain at the budget that tells most, in points, with its interval; a dash where there is none."""
    k = str(row["budget"])
    if k not in row["gain_at_k"]:
        return "-"
    ends = row["gain_at_k_ci"][k]
    interval = f" [{100 * ends[0]:+.1f}, {100 * ends[1]:+.1f}]" if ends else " [-]"
    return f"{100 * row['gain_at_k'][k]:+.1f}{interval}"


def k95(row: Mapping[str, Any]) -> str:
    """The calls to 95 % of the ceiling, and in brackets those saved against random; a dash where there is none."""
    return "-" if row["k95"] is None else f"{row['k95']} ({row['calls_saved']:+d})"


def figure(value: float | None) -> str:
    """Four significant digits; a dash for what there is not."""
    return "-" if value is None else f"{value:.4g}"


def percent(value: float | None) -> str:
    """A share in per cent."""
    return "-" if value is None else f"{100 * value:.1f}"
