"""Print the results of `harness run`, `leaderboard`, `compare` and `results`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.results.legends import RESTRICTED, TRUST, below, below_across
from harness.results.rows import (
    Row,
    answer_remarks,
    columns,
    embedders,
    lines,
    not_told,
    remarks,
    sizes,
    verdict_remarks,
)
from harness.system.console import Heading, console, put, short, word_table

if TYPE_CHECKING:
    from harness.results.leaderboard import Board

BUDGETS = 6  # that a comparison shows of k = 1, 2, 4, ..., N: the last ones


def results(rows: Sequence[Row], store: Path, explain: bool = False) -> None:
    """Print a table for each pool: random selection in closed form, oracle, anti-oracle, and a row a selector.

    Below them: what columns mean (two lines, or with `explain` all), remarks on the data, the cells' keys.
    """
    if not rows:
        return
    pools: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        pools.setdefault((row.task, row.split, row.model, row.engine, row.sampler, row.n, row.correct), []).append(row)
    for pool in pools.values():
        of_one_pool(pool)
    notes = below((row.correct for row in rows), explain)
    trusts = dict.fromkeys(row.trust for row in rows if row.trust != "nominal")
    notes += [*(f"intervals: {TRUST[trust]}." for trust in trusts), *remarks(rows), *not_told(rows)]
    if not any(row.solvable for row in rows):
        notes.append("no response is correct: no selector can differ here; `harness report` shows them all.")
    first, cells = rows[0], store / "cells"
    if first.errors:
        mark = ", over 1 %: the verifier needs a look" if first.flagged else ""
        reason = _reason(first, store) if first.errors == first.n * first.problems else ""
        notes.append(f"verifier errors (counted as not correct): {first.errors}{mark}{reason}")
    keys = [row.cell[:8] for row in rows if not row.control]
    put("\n".join([*notes, f"cells in {cells}: {', '.join(keys) if len(keys) <= 8 else len(keys)}"]))


def _reason(row: Row, store: Path) -> str:
    """The first reason of a run whose verdicts are all errors; "" if its cell is not there."""
    from harness.columns.stored import first_reason
    from harness.results import cells

    path = store / "cells" / f"{row.cell}.json"
    reason = first_reason(store, cells.read(path)) if path.exists() else ""
    return f"; the first: {short(reason, 200)}" if reason else ""


def of_one_pool(rows: Sequence[Row]) -> None:
    """Print one table, with as many columns as fit the console; --json has all columns."""
    every = [column for column in columns(rows) if column.kept]
    first, controls, measured = lines(rows, every)
    headings = [Heading(column.head, column.kept, right=not column.is_text) for column in every]
    first += controls
    table, _ = word_table(headings, [*first, *measured], console().width, ends=[len(first) - 1])
    row, names = rows[0], embedders(rows)
    about = dict.fromkeys([row.task, row.split, row.model, row.sampler, *(names if len(names) == 1 else ())])
    about_pools = f"{sizes(row)}, {row.trials} trials"
    seeds = sorted({len(each.seeds or (0,)) for each in rows})
    if seeds[-1] > 1:
        about_pools += f", {'-'.join(map(str, dict.fromkeys((seeds[0], seeds[-1]))))} seeds"
    put(" · ".join([*about, about_pools]))
    put(table)
    for remark in (*verdict_remarks(rows[0]), *answer_remarks(rows)):
        put(f"{remark}.")


def leaderboard(boards: Sequence[Board], written: Sequence[Path], explain: bool = False) -> None:
    """Print the leaderboards, their failed selectors, what the columns mean, and the paths of the files written."""
    for board in boards:
        if board.rows:
            of_one_pool(board.lines)
            trust = board.rows[0].trust
            intervals = [] if trust == "nominal" else [f"intervals: {TRUST[trust]}."]
            for line in (*intervals, *remarks(board.lines), *not_told(board.rows)):
                put(line)
        for name, reason in board.failed:
            put(f"failed: {name}: {reason}")
    if counted_to := {board.rows[0].correct for board in boards if board.rows}:
        put("\n".join(below(counted_to, explain)))
    if written:
        put(f"written: {', '.join(map(str, written))}")


def across(lines: Sequence[Mapping[str, Any]], explain: bool = False) -> None:
    """Print selectors across pools, and what the intervals bear."""
    headings = {name: Heading(name) for name in ("selector", "embedder", "reads")}
    if len({line["embedder"] for line in lines}) == 1:
        del headings["embedder"]
    rows = []
    for line in lines:
        # what tells selectors apart; the first of several, so that the column is narrow
        told = [name for name in line["reads"] or () if name not in ("vectors", "outcomes")]
        texts = {**line, "reads": "?" if line["reads"] is None else told[0] if told else "-"}
        mean = f"{line['improvement']:.2f} {_interval(line['improvement_ci'])}"
        solvable = "-" if line["solvable"] is None else f"{line['solvable']:.2f}"
        counts = (str(line["pools"]), mean, _interval(line["pools_ci"]), solvable, f"{line['worst']:.2f}")
        shares = f"{100 * line['win']:.0f}/{100 * line['loss']:.0f}"
        rows.append((*(texts[name] for name in headings), *counts, shares, line["worst_pool"]))
    kept = {"pools": 8, "improvement\n(problems)": 9, "(pools)": 8, "solvable": 5, "worst": 7, "win/loss\n%": 4}
    numbers = [Heading(head, value, right=True) for head, value in kept.items()]
    put(word_table([*headings.values(), *numbers, Heading("worst pool", kept=3)], rows, console().width)[0])
    put("\n".join(below_across(explain)))


def _interval(ends: Sequence[float | None] | None, digits: str = ".2f") -> str:
    return f"[{', '.join('...' if end is None else f'{end:{digits}}' for end in ends) if ends else '-'}]"


def _numbers(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table of texts that are aligned to the right."""
    put(word_table([Heading(head, right=True) for head in heads], rows, console().width)[0])


def comparison(value: Mapping[str, Any]) -> None:
    """Print the comparison of two cells: in calls, or at a budget in percentage points of hits."""
    budget, scale = value["budget"], 1 if value["budget"] is None else -100  # `value` has the difference in misses
    reads, more, less = "below 0 the first needs fewer", "needs fewer", "needs more"
    if budget is not None:
        reads, more, less = "points; above 0 the first hits more", "hits more", "hits less"
    told = ""
    for place, side in enumerate((value["first"], value["second"])):
        seeds = f", {len(side['seeds'])} seeds" if len(side["seeds"]) > 1 else ""
        result = f"{value['samples_to_correct'][place]:.2f} calls" if budget is None else ""
        result = result or f"pass@{budget} {100 * value['pass_at_budget'][place]:.1f} %"
        told += f"{side['selector']} ({side['embedder']}{seeds}): {result}; "
    told += f"{value['problems']} problems"
    told += f", {value['left_out']} that only one has left out" if value["left_out"] else ""
    if value["seeds_left_out"]:
        told += f"; {value['seeds_left_out']} cells of a seed that only one has left out"
    told += "" if value["same_pool"] else "; the pools differ"
    interval = _interval(sorted(scale * end for end in value["difference_ci"] or ()), "+.2f")
    put(told)
    put(f"difference {scale * value['difference'] + 0.0:+.2f} {interval}, p = {value['p']:.4g}; {reads}")
    put(f"the first {more} on {_differing(value['fewer'])}\nthe first {less} on {_differing(value['more'])}")
    if value["difference_ci"] is None:
        put(f"difference [-]: {value['no_interval']['difference_ci']}")
    if value["first"]["trust"] != "nominal":
        put(f"intervals: {TRUST[value['first']['trust']]}")
    put("calls for the pass@k that the second has at k; above 1 the first needs fewer")
    rows, shown = [], value["efficiency"][-BUDGETS:]
    for at in shown:
        calls = ("never" if at["pass_at_k"] else "-", "-")
        if at["times"] is not None:
            calls = (f"{at['calls']:.1f}", f"{at['times']:.2f} {_interval(at['times_ci'])}")
        rows.append((str(at["k"]), f"{100 * at['pass_at_k']:.1f}", str(at["calls_behind"]), *calls))
    _numbers(("k", "pass@k %", "second", "first", "times fewer [95 %]"), rows)
    if largest := value["largest_efficiency"]:
        put(f"largest factor: {largest['times']:.2f}, at k = {largest['k']}")
    for reason in dict.fromkeys(at["no_interval"] for at in shown if at["no_interval"] and at["times"]):
        put(f"times fewer [-]: {reason}")


def _differing(problems: Sequence[Mapping[str, Any]]) -> str:
    """The number of problems, and for the five that differ most the calls of the first and of the second cell."""
    shown = [f"{problem['id']} ({problem['first']:.1f} for {problem['second']:.1f})" for problem in problems[:5]]
    shown += ["..."] if len(problems) > 5 else []
    return f"{len(problems)} problems" + (f": {', '.join(shown)}" if shown else "")


def sequences(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print runs that stopped at the first correct response: share solved and restricted mean, with standard errors."""
    for row in rows:
        put(" · ".join((row["task"], row["split"], row["model"], row["sampler"], "until correct", f"n = {row['n']}")))
        shares = []
        for k, share in row["share_solved"].items():
            solved, mean = "-", "-"
            if share is not None:
                solved = f"{100 * share:.1f} ± {100 * row['share_solved_se'][k]:.1f} %"
                mean = f"{row['restricted_mean'][k]:.2f} ± {row['restricted_mean_se'][k]:.2f}"
            shares.append((k, solved, mean))
        _numbers(("budget k", "solved within k", "restricted mean at k"), shares)
        counts = f"{row['problems']} problems, {row['solved']} solved, {row['censored']} censored"
        put(f"{counts}; {row['responses']:,} responses. Kaplan-Meier, ± one standard error over problems.")
        put(f"restricted mean: {RESTRICTED}")


def preview(stages: Sequence[Mapping[str, Any]]) -> None:
    """Print for each stage how many problems are there, and how many a run would make."""
    headings = [Heading("stage"), Heading("exist", right=True), Heading("to make", right=True), Heading("key", kept=1)]
    texts = [
        [row["stage"], "?" if row["there"] is None else str(row["there"]), str(row["to_make"]), row["key"] or "?"]
        for row in stages
    ]
    if any(row.get("run") for row in stages):  # a grid
        headings, texts = (
            [Heading("run"), *headings],
            [[row["run"], *text] for row, text in zip(stages, texts, strict=True)],
        )
    put(word_table(headings, texts, console().width)[0])
