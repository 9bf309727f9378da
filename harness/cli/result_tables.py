"""Print the results of `harness run`, `leaderboard`, `compare` and `results`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.results.columns import (
    TERMINAL,
    Column,
    answer_remarks,
    chance,
    columns,
    embedders,
    lines,
    remarks,
    verdict_remarks,
)
from harness.results.rows import Row
from harness.system.console import Heading, console, put, short, word_table

if TYPE_CHECKING:
    from harness.results.leaderboard import Board


TRUST = {
    "rough": "rough, one problem has more than 3 % of the expected calls (docs/statistics.md)",
    "few problems": "rough, fewer than 100 problems (docs/statistics.md)",
}
BUDGETS = 6  # that a comparison shows of k = 1, 2, 4, ..., N: the last ones
POOL = ("task", "split", "model", "engine", "sampler", "n")  # rows that share these are in one table


def results(rows: Sequence[Row], store: Path) -> None:
    """Print a table for each pool: random selection in closed form, oracle, anti-oracle, and a row a selector."""
    pools: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        pools.setdefault(tuple(getattr(row, name) for name in POOL), []).append(row)
    legend = dict.fromkeys(column.legend for pool in pools.values() for column in of_one_pool(pool))
    if rows:
        put(_caption(rows, [line for line in legend if line], store))
        paths = [f"cell: {store / 'cells' / row.cell}.json" for row in rows]
        for path in paths if len(rows) <= 8 else [f"cells: {store / 'cells'}, {len(rows)} of them"]:
            put(path)


def of_one_pool(rows: Sequence[Row]) -> list[Column]:
    """Print one table, with as many columns as fit the console, and return these; --json has all columns."""
    every = [column for column in columns(rows, TERMINAL) if column.kept]
    first, measured = lines(rows, every)
    headings = [Heading(column.head, column.kept, right=not column.is_text) for column in every]
    table, shown = word_table(headings, [*first, *measured], console().width, ends=[len(first) - 1])
    put(_title(rows))
    put(table)
    for remark in (*verdict_remarks(rows[0]), *answer_remarks(rows)):
        put(f"{remark}.")
    return [every[at] for at in shown]


def _title(rows: Sequence[Row]) -> str:
    row, names = rows[0], embedders(rows)
    parts = [row.task, row.split, row.model, row.sampler, *(names if len(names) == 1 else ())]
    sizes = f"n = {row.n}, {row.problems} problems ({row.solvable} solvable), {row.trials} trials"
    seeds = sorted({len(each.seeds or (0,)) for each in rows})
    if seeds[-1] > 1:
        sizes += f", {'-'.join(map(str, dict.fromkeys((seeds[0], seeds[-1]))))} seeds"
    return " · ".join(dict.fromkeys(parts)) + " · " + sizes


def _caption(rows: Sequence[Row], legend: Sequence[str], store: Path) -> str:
    explained = [*legend, "oracle, anti-oracle: they know the verdicts and take a correct response first, or last."]
    for trust in dict.fromkeys(row.trust for row in rows if row.trust != "nominal"):
        explained.append(f"intervals: {TRUST[trust]}.")
    explained += remarks(rows)
    if not any(row.solvable for row in rows):
        explained.append("no response is correct: no selector can differ here; `harness report` shows them all.")
    if rows[0].errors:
        mark = ", over 1 %: the verifier needs a look" if rows[0].flagged else ""
        explained.append(f"verifier errors (counted as not correct): {rows[0].errors}{mark}{_reason(rows[0], store)}")
    return "\n".join(explained)


def _reason(row: Row, store: Path) -> str:
    """The first reason of a run whose verdicts are all errors; "" for another run, or if it is not there."""
    if row.errors < row.n * row.problems:
        return ""
    from harness.columns.stored import first_reason
    from harness.results import cells

    path = store / "cells" / f"{row.cell}.json"
    reason = first_reason(store, cells.read(path)) if path.exists() else ""
    return f"; the first: {short(reason, 200)}" if reason else ""


def leaderboard(boards: Sequence[Board], written: Sequence[Path]) -> None:
    """Print the leaderboards, their failed selectors, what the columns say, and the paths of the files written."""
    legend: dict[str, None] = {}
    for board in boards:
        if board.rows:
            legend |= dict.fromkeys(column.legend for column in of_one_pool(board.rows) if column.legend)
            put("\n".join([f"intervals: {TRUST.get(board.rows[0].trust, board.rows[0].trust)}.", *remarks(board.rows)]))
        for name, reason in board.failed:
            put(f"failed: {name}: {reason}")
    for line in legend:
        put(line)
    if written:
        put(f"written: {', '.join(map(str, written))}")


def across(lines: Sequence[Mapping[str, Any]]) -> None:
    """Print selectors across pools, and what the intervals bear."""
    names = ["selector", "embedder"] if len({line["embedder"] for line in lines}) > 1 else ["selector"]
    headings = [
        *map(Heading, names),
        Heading("reads"),
        Heading("pools", kept=8, right=True),
        Heading("improvement\n(problems)", right=True),
    ]
    headings += [Heading("(pools)", kept=8, right=True), Heading("solvable", kept=5, right=True)]
    headings += [Heading("worst", kept=7, right=True)]
    headings += [Heading("win/loss\n%", kept=4, right=True), Heading("worst pool", kept=3)]
    rows = []
    for line in lines:
        shares = f"{100 * line['win']:.0f}/{100 * line['loss']:.0f}"
        mean = f"{line['improvement']:.2f} {_interval(line['improvement_ci'])}"
        solvable = "-" if line["solvable"] is None else f"{line['solvable']:.2f}"
        worst = (f"{line['worst']:.2f}", shares, line["worst_pool"])
        named = [*(line[name] for name in names), _beside_vectors(line["reads"])]
        rows.append((*named, str(line["pools"]), mean, _interval(line["pools_ci"]), solvable, *worst))
    put(word_table(headings, rows, console().width)[0])
    put(
        "reads: `answers` are extracted from the responses, or programs are run for them; ?: not installed or not said."
    )
    put("improvement: geometric mean over pools of random's mean / the selector's; above 1 = fewer calls.")
    put("(problems): 95 % if the problems of these very pools were sampled anew.")
    put("(pools): 95 % of the mean over pools like these, by Student's t: they are few, and no random sample.")
    put("solvable: the same mean over problems with a correct response; no order finds one in the others.")


def _beside_vectors(reads: Sequence[str] | None) -> str:
    """What tells selectors apart; the first of several, so that the column is narrow."""
    told = None if reads is None else [name for name in reads if name not in ("vectors", "outcomes")]
    return "?" if told is None else (told[0] if told else "-")


def _interval(ends: Sequence[float] | None) -> str:
    return "[-]" if ends is None else f"[{ends[0]:.2f}, {ends[1]:.2f}]"


def comparison(value: Mapping[str, Any]) -> None:
    """Print the comparison of two cells."""
    lines = [
        f"{_side(value, 0)}; {_side(value, 1)}; {value['problems']} problems{_left_out(value)}",
        *(_against_random(value[side]) for side in ("first", "second")),
        _difference(value),
        f"the first {'needs fewer' if value['budget'] is None else 'hits more'} on {_flipped(value['fewer'])}",
        f"the first {'needs more' if value['budget'] is None else 'hits less'} on {_flipped(value['more'])}",
    ]
    if value["difference_ci"] is None:
        lines.append(f"difference [-]: {value['no_interval']['difference_ci']}")
    trust = value["first"]["trust"]
    if trust != "nominal":
        lines.append(f"intervals: {TRUST[trust]}")
    for line in lines:
        put(line)
    _efficiency(value)


def _efficiency(value: Mapping[str, Any]) -> None:
    """Print how many times fewer calls the first needs for the second's pass@k, at the last budgets of the table."""
    shown = value["efficiency"][-BUDGETS:]
    put("calls for the pass@k that the second has at k; above 1 the first needs fewer")
    heads = ("k", "pass@k %", "second", "first", "times fewer [95 %]")
    rows = [(str(at["k"]), f"{100 * at['pass_at_k']:.1f}", str(at["calls_behind"]), *_times_fewer(at)) for at in shown]
    put(word_table([Heading(head, right=True) for head in heads], rows, console().width)[0])
    largest = value["largest_efficiency"]
    if largest:
        put(f"largest factor: {largest['times']:.2f}, at k = {largest['k']}")
    for reason in dict.fromkeys(at["no_interval"] for at in shown if at["no_interval"] and at["times"]):
        put(f"times fewer [-]: {reason}")


def _times_fewer(at: Mapping[str, Any]) -> tuple[str, str]:
    """The calls of the first, and the factor with its interval; an open end is "..."."""
    if at["times"] is None:
        return ("never", "-") if at["pass_at_k"] else ("-", "-")
    ends = ", ".join("..." if end is None else f"{end:.2f}" for end in at["times_ci"] or ())
    return f"{at['calls']:.1f}", f"{at['times']:.2f} [{ends or '-'}]"


def _named(side: Mapping[str, Any]) -> str:
    seeds = f", {len(side['seeds'])} seeds" if len(side["seeds"]) > 1 else ""
    return f"{side['selector']} ({side['embedder']}{seeds})"


def _side(value: Mapping[str, Any], place: int) -> str:
    name = _named(value[("first", "second")[place]])
    if value["budget"] is None:
        return f"{name}: {value['samples_to_correct'][place]:.2f} calls"
    return f"{name}: pass@{value['budget']} {100 * value['pass_at_budget'][place]:.1f} %"


def _left_out(value: Mapping[str, Any]) -> str:
    remark = f", {value['left_out']} that only one has left out" if value["left_out"] else ""
    if value["seeds_left_out"]:
        remark += f"; {value['seeds_left_out']} cells of a seed that only one has left out"
    return remark + ("" if value["same_pool"] else "; the pools differ")


def _against_random(side: Mapping[str, Any]) -> str:
    """The metrics of one side against random selection, over all its problems."""
    if side["k95"] is None:
        return f"{_named(side)} against random at {side['budget']}: p = {chance(side['p_budget'])}"
    saved = f"k95 {side['k95']} ({side['calls_saved']:+d} calls saved)"
    return f"{_named(side)} against random: {saved}, p = {chance(side['p_random'])}"


def _difference(value: Mapping[str, Any]) -> str:
    """The paired difference: in calls, or at a budget in percentage points of hits (`value` has it in misses)."""
    at_budget = value["budget"] is not None
    scale = -100 if at_budget else 1
    ends = sorted(scale * end for end in value["difference_ci"] or ())
    interval = f" [{ends[0]:+.2f}, {ends[1]:+.2f}]" if ends else " [-]"
    reads = "points; above 0 the first hits more" if at_budget else "below 0 the first needs fewer"
    return f"difference {scale * value['difference'] + 0.0:+.2f}{interval}, p = {value['p']:.4g}; {reads}"


def _flipped(problems: Sequence[Mapping[str, Any]]) -> str:
    """The number of problems, and for the five that differ most the calls of the first and of the second cell."""
    shown = [f"{problem['id']} ({problem['first']:.1f} for {problem['second']:.1f})" for problem in problems[:5]]
    if len(problems) > 5:
        shown.append("...")
    return f"{len(problems)} problems" + (f": {', '.join(shown)}" if shown else "")


def published(rows: Sequence[Mapping[str, str]]) -> None:
    """Print the copied cells, and whether their selectors pass the conformance kit."""
    for row in rows:
        put(f"{row['file']}: conformance {row['conformance']}")


def sequences(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print runs that stopped at the first correct response: share solved and restricted mean, with standard errors."""
    for row in rows:
        names = (row["task"], row["split"], row["model"], row["sampler"], "until correct", f"n = {row['n']}")
        counts = f"{row['problems']} problems, {row['solved']} solved, {row['censored']} censored"
        put(" · ".join(names))
        shares = [(k, *_with_error(row, k, share)) for k, share in row["share_solved"].items()]
        heads = ("budget k", "solved within k", "restricted mean at k")
        put(word_table([Heading(head, right=True) for head in heads], shares, console().width)[0])
        put(f"{counts}; {row['responses']:,} responses. Kaplan-Meier, ± one standard error over problems.")
        put("restricted mean: verifier calls when stopping after k (k + 1 if none was correct).")


def _with_error(row: Mapping[str, Any], k: str, share: float | None) -> tuple[str, str]:
    if share is None:
        return "-", "-"
    solved = f"{100 * share:.1f} ± {100 * row['share_solved_se'][k]:.1f} %"
    return solved, f"{row['restricted_mean'][k]:.2f} ± {row['restricted_mean_se'][k]:.2f}"


def preview(stages: Sequence[Mapping[str, Any]]) -> None:
    """Print for each stage how many shards exist, and how many a run would make."""
    headings = [Heading("stage"), Heading("exist", right=True), Heading("to make", right=True), Heading("key", kept=1)]
    rows = []
    for stage in stages:
        there, key = "?" if stage["there"] is None else str(stage["there"]), stage["key"] or "?"
        rows.append((stage["stage"], there, str(stage["to_make"]), key))
    put(word_table(headings, rows, console().width)[0])
