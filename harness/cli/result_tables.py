"""What `harness run`, `leaderboard`, `compare` and `results` print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from harness.system.console import console, plain_table, put, text

if TYPE_CHECKING:
    from harness.results.leaderboard import Board


REFERENCES = ("random", "oracle", "anti_oracle")


TRUST = {
    "rough": "rough, one problem holds more than 3 % of the calls that are to be expected (docs/statistics.md)",
    "few problems": "rough, fewer than 100 problems (docs/statistics.md)",
}


BUDGETS_SHOWN = ("1", "4", "16", "64", "256")


NARROWING: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (BUDGETS_SHOWN, ("k95", "chance", "gain")),
    (BUDGETS_SHOWN, ("k95", "chance")),
    (BUDGETS_SHOWN, ("k95",)),
    (BUDGETS_SHOWN, ()),
    (BUDGETS_SHOWN[::2], ("k95",)),
    (BUDGETS_SHOWN[::2], ()),
    (BUDGETS_SHOWN[:3:2], ()),
    (BUDGETS_SHOWN[:1], ()),
)


def results(rows: Sequence[Mapping[str, Any]], store: Path) -> None:
    """A table for each pool: a row a selector, and above them random selection in closed form and who knows all."""
    pools: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        pools.setdefault(tuple(row[name] for name in ("task", "split", "model", "engine", "sampler", "n")), []).append(
            row
        )
    for pool in pools.values():
        _results(pool)
    if not rows:
        return
    paths = [f"cell: {store / 'cells' / (row['cell'] + '.json')}" for row in rows]
    for line in [_caption(rows), *(paths if len(rows) <= 8 else [f"cells: {store / 'cells'}, {len(rows)} of them"])]:
        put(line)


def _results(rows: Sequence[Mapping[str, Any]]) -> None:
    """One table, with the columns that the console is wide enough for; what is left out is in --json."""
    from harness.stages import chance

    out, tables = console(), [_table(rows, budgets, extra) for budgets, extra in NARROWING]
    unbounded = out.options.update_width(10_000)
    fitting = [table for table in tables if out.measure(table, options=unbounded).maximum <= out.width]
    put(_title(rows))
    put(fitting[0] if fitting else tables[-1])
    for remark in chance.remarks(rows[0]):
        put(f"{remark}.")


def _table(rows: Sequence[Mapping[str, Any]], budgets: Sequence[str], extra: Sequence[str]) -> Table:
    from harness.results.leaderboard import (  # and with it scipy.stats, which `harness select` does without
        gain,
        k95,
        shares,
    )

    first, crossed = rows[0], len(_embedders(rows)) > 1
    ks = [k for k in budgets if k in first["pass_at_k_random"]]
    table = plain_table()
    for name in ("selector", "embedder")[: 1 + crossed]:
        table.add_column(name, overflow="fold", min_width=min(20, max(len(row[name]) for row in rows)))
    at_budget = "gain" if first["budget"] is None else f"gain@{first['budget']}"
    heads = {"k95": "k95\n(saved)", "chance": f"{_chance(rows)}\n", "gain": f"{at_budget}\npoints"}
    main = ("samples-to-\ncorrect", "improvement\n[95 %]", "win/tie/loss\n%", *(f"pass@{k}\n%" for k in ks))
    for head in (*main, *(heads[name] for name in extra)):
        table.add_column(head, justify="right", no_wrap=True)
    for name in REFERENCES:
        table.add_row(*_reference(first, name, ks, crossed, extra), end_section=name == REFERENCES[-1])
    for row in rows:
        names = [text(row[name]) for name in ("selector", "embedder")[: 1 + crossed]]
        passed = [_percent(row["pass_at_k"].get(k)) for k in ks]
        shown = {"k95": k95(row), "chance": _shown_chance(row.get(f"{_chance(rows)}_random")), "gain": gain(row)}
        if _chance(rows) == "p" and row["samples_to_correct"] is None:
            shown["chance"] = _shown_chance(row["p_budget"])
        figures = [_number(row["samples_to_correct"]), _improvement(row), shares(row, digits=0), *passed]
        table.add_row(*names, *figures, *(shown[name] for name in extra))
    return table


def _chance(rows: Sequence[Mapping[str, Any]]) -> str:
    """What says whether a row differs from random: q where rows were corrected for one another, else p."""
    return "q" if "q_random" in rows[0] else "p"


def _shown_chance(value: float | None) -> str:
    """A p or q, two significant digits; what is at most 1e-9 is that."""
    return "-" if value is None else "<1e-9" if value < 1e-9 else f"{value:.2g}"


def _reference(row: Mapping[str, Any], name: str, ks: Sequence[str], crossed: bool, extra: Sequence[str]) -> list[str]:
    """The line of a selection that no selector is measured for: by chance, or by who knows the verdicts."""
    mean = row[f"samples_to_correct_{name}"]
    ratio = _number(row["samples_to_correct_random"] / mean) if name != "random" else "1"
    label = {"random": "random (exact)", "oracle": "oracle", "anti_oracle": "anti-oracle"}[name]
    passed = [_percent(row[f"pass_at_k_{name}"][k]) for k in ks]
    known = {"k95": str(row["k95_random"] or "")} if name == "random" else {}
    line = [label, *([""] if crossed else []), _number(mean), ratio, "", *passed]
    return line + [known.get(one, "") for one in extra]


def _embedders(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The embedders whose vectors were read."""
    return list(dict.fromkeys(row["embedder"] for row in rows if row["embedder"] != "none"))


def _title(rows: Sequence[Mapping[str, Any]]) -> str:
    row, embedders = rows[0], _embedders(rows)
    parts = [row["task"], row["split"], row["model"], row["sampler"], *embedders[: len(embedders) == 1]]
    sizes = f"n = {row['n']}, {row['problems']} problems ({row['solvable']} solvable), {row['trials']} trials"
    several = sorted({len(one.get("seeds", [0])) for one in rows})
    if several[-1] > 1:
        sizes += f", {'-'.join(map(str, dict.fromkeys((several[0], several[-1]))))} seeds"
    return " · ".join(dict.fromkeys(parts)) + " · " + sizes


def _caption(rows: Sequence[Mapping[str, Any]]) -> str:
    from harness.results.leaderboard import absent_intervals

    lines = [
        "samples-to-correct: mean rank of the first correct response (n + 1 where there is none).",
        "improvement: random's mean / the selector's; above 1 = fewer verifier calls. Interval over problems.",
        "win/tie/loss: chance of a lower, equal, higher rank than a random order has (subsets: of a hit at @k).",
        "k95: calls to 95 % of the ceiling (saved against random); p: could a random order do this on these pools?",
        "oracle, anti-oracle: who knows the verdicts and takes a correct response first, or last.",
    ]
    for trust in dict.fromkeys(row["trust"] for row in rows if row["trust"] != "nominal"):
        lines.append(f"intervals: {TRUST[trust]}.")
    lines += absent_intervals(rows)
    if rows[0]["errors"]:
        mark = ", over 1 %: the verifier needs a look" if rows[0]["flagged"] else ""
        lines.append(f"verifier errors (counted as not correct): {rows[0]['errors']}{mark}")
    return "\n".join(lines)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def _improvement(row: Mapping[str, Any]) -> str:
    if row["improvement"] is None:
        return "-"
    low_high = row["improvement_ci"]
    interval = f" [{low_high[0]:.2f}, {low_high[1]:.2f}]" if low_high else " [-]"
    return f"{row['improvement']:.2f}{interval}"


def leaderboard(boards: Sequence[Board], written: Sequence[Path]) -> None:
    """The tables that were written."""
    for board in boards:
        if board.rows:
            _results(board.rows)
            put(_worth(board.rows))
        for name, reason in board.failed:
            put(f"failed: {name}: {reason}")
    if written:
        put(f"written: {', '.join(map(str, written))}")


def _worth(rows: Sequence[Mapping[str, Any]]) -> str:
    """What the intervals of a table are worth, and what a second grader said."""
    from harness.results.leaderboard import absent_intervals

    lines = [f"intervals: {TRUST.get(rows[0]['trust'], rows[0]['trust'])}.", *absent_intervals(rows)]
    counts = [row["disputed"] for row in rows if row["disputed"] is not None]
    return "\n".join(lines + ([f"disputed grades: {max(counts)}."] if counts else []))


def comparison(value: Mapping[str, Any]) -> None:
    """Two rows, side by side."""
    lines = [
        f"{_side(value, 0)}; {_side(value, 1)}; {value['problems']} problems{_left_out(value)}",
        *(_against_random(value[side]) for side in ("first", "second")),
        _difference(value),
        f"the first {'needs fewer' if value['budget'] is None else 'hits more'} on {_flipped(value['fewer'])}",
        f"the first {'needs more' if value['budget'] is None else 'hits less'} on {_flipped(value['more'])}",
    ]
    if value["difference_ci"] is None:
        lines.append(f"difference [-]: {value['no_interval']['difference_ci']}")
    worth = value["first"]["trust"]
    if worth != "nominal":
        lines.append(f"intervals: {TRUST[worth]}")
    for line in lines:
        put(line)


def _named(about: Mapping[str, Any]) -> str:
    count = len(about["seeds"])
    return f"{about['selector']} ({about['embedder']}{f', {count} seeds' * (count > 1)})"


def _side(value: Mapping[str, Any], place: int) -> str:
    name = _named(value[("first", "second")[place]])
    if value["budget"] is None:
        return f"{name}: {value['samples_to_correct'][place]:.2f} calls"
    return f"{name}: pass@{value['budget']} {100 * value['pass_at_budget'][place]:.1f} %"


def _left_out(value: Mapping[str, Any]) -> str:
    said = f", {value['left_out']} that only one has left out" if value["left_out"] else ""
    if value["seeds_left_out"]:
        said += f"; {value['seeds_left_out']} cells of a seed that only one has left out"
    return said + ("" if value["same_pool"] else "; the pools differ")


def _against_random(about: Mapping[str, Any]) -> str:
    """A side's own figures, over all its problems."""
    if about["k95"] is None:
        return f"{_named(about)} against random at {about['budget']}: p = {_shown_chance(about['p_budget'])}"
    saved = f"k95 {about['k95']} ({about['calls_saved']:+d} calls saved)"
    return f"{_named(about)} against random: {saved}, p = {_shown_chance(about['p_random'])}"


def _difference(value: Mapping[str, Any]) -> str:
    """The paired difference: in calls, or at a budget (where it is one of misses) turned into points of hits."""
    at_budget = value["budget"] is not None
    scale = -100 if at_budget else 1
    ends = sorted(scale * end for end in value["difference_ci"] or ())
    interval = f" [{ends[0]:+.2f}, {ends[1]:+.2f}]" if ends else " [-]"
    reads = "points; above 0 the first hits more" if at_budget else "below 0 the first needs fewer"
    return f"difference {scale * value['difference'] + 0.0:+.2f}{interval}, p = {value['p']:.4g}; {reads}"


def _flipped(problems: Sequence[Mapping[str, Any]]) -> str:
    """How many problems, and the five that differ most: the first's calls for the second's."""
    shown = [f"{one['id']} ({one['first']:.1f} for {one['second']:.1f})" for one in problems[:5]]
    return f"{len(problems)} problems" + (f": {', '.join(shown)}" + ", ..." * (len(problems) > 5)) * bool(shown)


def published(rows: Sequence[Mapping[str, str]]) -> None:
    """What was copied, and whether the selectors conform."""
    for row in rows:
        put(f"{row['file']}: conformance {row['conformance']}")


def sequences(rows: Sequence[Mapping[str, Any]]) -> None:
    """Runs that stopped at the first correct response: share solved by budget and restricted mean, each ± its error."""
    for row in rows:
        names = (row["task"], row["split"], row["model"], row["sampler"], "until correct", f"n = {row['n']}")
        counts = f"{row['problems']} problems, {row['solved']} solved, {row['censored']} censored"
        table = Table(title=text(" · ".join(names)), box=SIMPLE_HEAD, min_width=96)
        for name in ("budget k", "solved within k", "restricted mean at k"):
            table.add_column(name, justify="right")
        for k, share in row["share_solved"].items():
            table.add_row(k, *_with_error(row, k, share))
        put(table)
        put(f"{counts}; {row['responses']:,} responses. Kaplan-Meier, ± one standard error over problems.")
        put("restricted mean: verifier calls of who stops at k (k + 1 where none was correct).")


def _with_error(row: Mapping[str, Any], k: str, share: float | None) -> tuple[str, str]:
    if share is None:
        return "-", "-"
    solved = f"{100 * share:.1f} ± {100 * row['share_solved_se'][k]:.1f} %"
    return solved, f"{row['restricted_mean'][k]:.2f} ± {row['restricted_mean_se'][k]:.2f}"


def preview(stages: Sequence[Mapping[str, Any]]) -> None:
    """What a run would make."""
    table = Table("stage", "there", "to make", "key")
    for stage in stages:
        table.add_row(text(stage["stage"]), str(stage["there"]), str(stage["to_make"]), stage["key"])
    put(table)
