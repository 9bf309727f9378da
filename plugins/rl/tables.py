"""Print the tables of `harness rl`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from harness.system.console import Heading, console, put, word_table, write

if TYPE_CHECKING:
    from .training_run import Prepared

TRAINED = ("task", "bonus", "trainer", "seed", "steps", "best_step", "dev_pass_at_1", "hours", "folder")

PLAIN = "none"  # the bonus that is none: plain GRPO
GRADERS = {
    "strict": "graded strictly: the answer must stand in the form that the prompt asks for",
    "lenient": "graded leniently: any form of the answer counts",
    "verifier": "graded by the task's verifier",
}


def launch(prepared: Prepared) -> None:
    """Print what `--dry-run` shows: configuration, remarks of the checks, and the command. Nothing is started."""
    print(prepared.launch.config.rstrip())
    for remark in (*prepared.remarks, f"folder: {prepared.run.folder}"):
        print(f"# {remark}")
    added = [f"{name}={shlex.quote(value)}" for name, value in prepared.launch.environment.items()]
    print("#", " ".join([*added, shlex.join(prepared.launch.command)]))


def trained(rows: Sequence[Mapping[str, Any]], as_json: bool) -> None:
    """Print a row per run as a table, or all columns as JSON."""
    show(rows, TRAINED, as_json)


def evaluated(rows: Sequence[Mapping[str, Any]], as_json: bool) -> None:
    """Print a table per grader, with a row per method: pass@k in per cent and its 95 % interval; or all rows as JSON.

    Below a table: the differences from plain GRPO, if that is a row; and how many times fewer samples than another
    method a method needs for that method's pass@n.
    """
    if as_json:
        return show(rows, (), as_json)
    for grader in dict.fromkeys(row["grader"] for row in rows):
        _evaluated([row for row in rows if row["grader"] == grader])


def _evaluated(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the rows of one grader."""
    first = rows[0]
    seeds = ", ".join(f"{row['bonus']} {row['seeds']}" for row in rows)
    put(f"{first['task']} · {first['split']} · {first['problems']} problems, n = {first['n']}: pass@k in per cent,")
    put(f"± 95 % interval over problems and seeds ({seeds}; with 1, over problems); {GRADERS[first['grader']]}")
    _by_budget("bonus", rows, _level)
    others = [row for row in rows if PLAIN in row["gain_over"]]
    if others:
        _by_budget("minus GRPO", others, _gain)
    unsolved = [row["bonus"] for row in rows if not any(row["pass_at_k"].values())]
    if unsolved:
        put(f"no response was correct: {', '.join(unsolved)}; nothing is compared with what solves no problem")
    for row in rows:
        ahead = [
            f"{_fewer(at)} times fewer than {other}" for other, at in row["fewer_samples"].items() if _is_ahead(at)
        ]
        if ahead:
            put(f"samples for another's pass@{first['n']}: {row['bonus']} needs {', '.join(ahead)}")
    compared = [at for row in rows for at in row["fewer_samples"].values() if _is_ahead(at)]
    if compared:
        put("[95 %]: over problems, for these trained models; other trainings would vary more")
    for reason in dict.fromkeys(at["no_interval"] for at in compared if at["no_interval"]):
        put(f"[-]: {reason}")


def _is_ahead(at: Mapping[str, Any]) -> bool:
    return at["times"] is not None and at["times"] >= 1


def _fewer(at: Mapping[str, Any]) -> str:
    """The factor and its interval; an open end is "..."."""
    ends = ", ".join("..." if end is None else f"{end:.1f}" for end in at["times_ci"] or ())
    return f"{at['times']:.1f} [{ends or '-'}]"


def _by_budget(head: str, rows: Sequence[Mapping[str, Any]], cell: Callable[[Mapping[str, Any], str], str]) -> None:
    """Print a table with a row per method and a column per budget k, whose cells are `cell(row, k)`."""
    first = rows[0]
    ks = [k for k in first["pass_at_k"] if k in ("1", "4", "16", "64", "256") or int(k) == first["n"]]
    budgets = [Heading(f"pass@{k}", kept=8 if k == ks[-1] else 7 - at, right=True) for at, k in enumerate(ks)]
    cells = [[row["bonus"], *(cell(row, k) for k in ks)] for row in rows]
    put(word_table([Heading(head), *budgets], cells, console().width)[0])


def _level(row: Mapping[str, Any], k: str) -> str:
    return f"{100 * row['pass_at_k'][k]:.1f}" + _half(row["pass_at_k_ci"][k])


def _gain(row: Mapping[str, Any], k: str) -> str:
    return f"{100 * row['gain_over'][PLAIN][k]:+.1f}" + _half(row["gain_over_ci"][PLAIN][k])


def _half(interval: Sequence[float] | None) -> str:
    return f"±{50 * (interval[1] - interval[0]):.1f}" if interval else ""


def show(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], as_json: bool) -> None:
    """Print rows as JSON with all columns, or as a table of some columns."""
    if as_json:
        write(json.dumps(list(rows), indent=1, ensure_ascii=False, allow_nan=False) + "\n")
        return
    heads = [name.replace("_", " ").replace("pass at ", "pass@") for name in columns]
    headings = [Heading(head, kept=1 if head == "folder" else 9 - at) for at, head in enumerate(heads)]
    put(word_table(headings, [[_text(row.get(name)) for name in columns] for row in rows], console().width)[0])


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)
