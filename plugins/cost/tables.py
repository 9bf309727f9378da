"""Print what a paper's table costs, for `harness run --paper --dry-run`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.system.console import Heading, console, put, word_table


def costs(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print what a paper's table costs: its rows, a total for each kind of device, and every assumption."""
    heads = {"task": 9, "model": 9, "sampler, embedder": 8, "responses\n1e6": 4, "tokens, 1e9\n(at most)": 5, "on": 6}
    heads |= {"device-hours\n(at most)": 9, "disk\nGB": 2, "verifier\nhours": 3}
    totals = [row for row in rows if row["row"] == "total"]
    lines = []
    for row in rows:
        if row["row"] != "total":
            how = row["sampler"] + f", {row['embedder']}" * (row["embedder"] != rows[0]["embedder"])
            on = row["device"] + f" x {row['devices']}" * (row["devices"] > 1)
            lines.append([row["task"], row["model"].rpartition("/")[2], how, *_cost(row, on)])
    ends = [len(lines) - 1]
    lines += [["total", f"{row['rows']} rows", "", *_cost(row, row["device"])] for row in totals]
    words = ("task", "model", "sampler, embedder")
    headings = [Heading(head, kept, right=head not in words) for head, kept in heads.items()]
    put(word_table(headings, lines, console(134).width, ends)[0], 134)
    vectors = f"embedder {rows[0]['embedder']} where no other is named"
    legend = f"{vectors}; device-hours: m = measured here, a = assumed, + = a second pass over a pool above"
    for line in [legend, *(line for row in totals for line in [*row["assumptions"], *row["remarks"]])]:
        put(line)


def _cost(row: Mapping[str, Any], on: str) -> list[str]:
    """The values of a row as text; device-hours are marked m if measured, a if assumed, + if of a second pass."""
    mark = "" if row["row"] == "total" else f" {row['speed'][0]}{'+' * row['second_pass']}"
    hours = "-"
    if row["device_hours"] is not None:
        hours = f"{_figure(row['device_hours'])} ({_figure(row['device_hours_at_most'])}){mark}"
    tokens = f"{_figure(row['tokens_expected'] / 1e9)} ({_figure(row['tokens_at_most'] / 1e9)})"
    responses, disk = _figure(row["responses"] / 1e6), _figure(row["disk_bytes"] / 1e9)
    return [responses, tokens, on, hours, disk, _figure(row["verifier_hours"])]


def _figure(value: float) -> str:
    """The value with three significant digits; from 100 on, as a whole number."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
