"""What a person sees: results, listings and summaries as rich tables on stdout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

BUDGETS_SHOWN = ("1", "4", "16", "64", "256")


def _console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=max(console.width, 110))


def _text(value: Any) -> Text:
    """Text as text, whatever markup it seems to hold."""
    return Text(str(value))


def results(rows: Sequence[Mapping[str, Any]], store: Path) -> None:
    """One table a run: a row a selector, random selection in closed form above them."""
    if not rows:
        return
    console, first = _console(), rows[0]
    shown = BUDGETS_SHOWN if console.width >= 100 else BUDGETS_SHOWN[::2]
    ks = [k for k in shown if k in first["pass_at_k_random"]]
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("selector", overflow="fold")
    for name in ("samples-to-\ncorrect", "improvement\n[95 %]", "win/tie/loss\n%", *(f"pass@{k}\n%" for k in ks)):
        table.add_column(name, justify="right", no_wrap=True)
    exact = [_percent(first["pass_at_k_random"][k]) for k in ks]
    table.add_row("random (exact)", _number(first["samples_to_correct_random"]), "1", "", *exact, end_section=True)
    for row in rows:
        budgets = [_percent(row["pass_at_k"].get(k)) for k in ks]
        table.add_row(
            _text(row["selector"]), _number(row["samples_to_correct"]), _improvement(row), _shares(row), *budgets
        )
    console.print(_text(_title(first)), soft_wrap=True)
    console.print(table)
    console.print(_text(_caption(rows)), soft_wrap=True)
    for row in rows:
        console.print(_text(f"cell: {store / 'cells' / (row['cell'] + '.json')}"), soft_wrap=True)


def _title(row: Mapping[str, Any]) -> str:
    parts = [row["task"], row["split"], row["model"], row["sampler"], row["embedder"]]
    sizes = f"n = {row['n']}, {row['problems']} problems ({row['solvable']} solvable), {row['trials']} trials"
    return " · ".join(dict.fromkeys(parts)) + " · " + sizes


def _caption(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        "samples-to-correct: mean rank of the first correct response (n + 1 where there is none).",
        "improvement: random's mean / the selector's; above 1 = fewer verifier calls. Interval over problems.",
        "win/tie/loss: chance of a lower, equal, higher rank than a random order has.",
    ]
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
    interval = f" [{low_high[0]:.2f}, {low_high[1]:.2f}]" if low_high else ""
    return f"{row['improvement']:.2f}{interval}"


def _shares(row: Mapping[str, Any]) -> str:
    return "-" if row["win"] is None else "/".join(f"{100 * row[name]:.0f}" for name in ("win", "tie", "loss"))


def preview(stages: Sequence[Mapping[str, Any]]) -> None:
    """What a run would make."""
    table = Table("stage", "there", "to make", "key")
    for stage in stages:
        table.add_row(_text(stage["stage"]), str(stage["there"]), str(stage["to_make"]), stage["key"])
    _console().print(table)


def listing(rows: Sequence[Mapping[str, str]]) -> None:
    """What is installed."""
    table = Table("kind", "name", "from", "what")
    for row in rows:
        table.add_row(*[_text(row[key]) for key in ("kind", "name", "from", "what")])
    _console().print(table)


def details(value: Mapping[str, Any]) -> None:
    """One component."""
    console = _console()
    console.print(_text(f"{value['kind']} {value['name']}, from {value['from']} ({value['full_name']})"))
    for name, parameter in value["parameters"].items():
        console.print(_text(f"  {name}: {parameter['type']} = {parameter['default']}"))
    console.print(_text(f"\n{value['doc']}"), soft_wrap=True)


def example(value: Mapping[str, Any]) -> None:
    """A task's first prompt."""
    console = _console()
    console.print(_text(f"id: {value['id']}\nprompt: {value['prompt']}"))
    for message in value["messages"]:
        console.print(_text(f"\n[{message['role']}]\n{message['content']}"), soft_wrap=True)
    if value["plain"] != "\n".join(message["content"] for message in value["messages"]):
        console.print(_text(f"\n[a model without a chat template]\n{value['plain']}"), soft_wrap=True)


def diagnosis(value: Mapping[str, Any]) -> None:
    """What is wrong with the plugins."""
    console = _console()
    console.print(_text("registered: " + ", ".join(f"{count} {kind}s" for kind, count in value["registered"].items())))
    for task, remark in value["graders"].items():
        console.print(_text(f"{task}: {remark}"), soft_wrap=True)
    for fault in value["faults"]:
        console.print(_text(f"\n{fault['fault']}"))
        if fault["trace"]:
            console.print(_text(fault["trace"].rstrip()))
    console.print(_text(f"\n{len(value['faults'])} faults" if value["faults"] else "no faults"))


def audit(value: Mapping[str, Any], listed: int) -> None:
    """What the graders found, and the first responses that need a look."""
    counts = {name: entry for name, entry in value.items() if name not in ("routes", "reasons", "listed")}
    pool_summary(counts)
    console = _console()
    for name in ("routes", "reasons"):
        if value[name]:
            shares = ", ".join(f"{key}: {count}" for key, count in value[name].items())
            console.print(_text(f"{name}: {shares}"), soft_wrap=True)
    if not value["listed"]:
        return
    table = Table("problem", "index", "why", "answer", "reference", "verdict", "route", "second")
    for entry in value["listed"][:listed]:
        verdict = f"{entry['verdict']} ({entry['reason']})" if entry["reason"] else entry["verdict"]
        shown = [entry["problem_id"], entry["index"], entry["why"], entry["answer"], entry["reference"], verdict]
        second = f"{entry['second'] or '-'} {entry['second_reason']}"
        table.add_row(*[_text(_short(part)) for part in (*shown, entry["route"], second)])
    console.print(table)
    if len(value["listed"]) > listed:
        console.print(f"{len(value['listed']) - listed} more: --listed N, or --json for all")


def _short(value: Any) -> str:
    text = "-" if value is None else " ".join(str(value).split())
    return text if len(text) <= 40 else f"{text[:37]}..."


def pool_summary(value: Mapping[str, Any]) -> None:
    """A pool in a few lines."""
    table = Table(show_header=False)
    for key, entry in value.items():
        shown = f"{entry:.4g}" if isinstance(entry, float) else "-" if entry is None else str(entry)
        table.add_row(key.replace("_", " "), _text(shown))
    _console().print(table)
