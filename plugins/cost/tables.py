"""Print what a paper's table costs, for `harness run --paper --dry-run`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.system.console import plain_table, put, text


def costs(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print what a paper's table costs: its rows, a total for each kind of device, and every assumption."""
    table = plain_table()
    for head in ("task", "model", "sampler, embedder"):
        table.add_column(head, overflow="fold")
    measures = (
        "responses\n1e6",
        "tokens, 1e9\n(at most)",
        "on",
        "device-hours\n(at most)",
        "disk\nGB",
        "verifier\nhours",
    )
    for head in measures:
        table.add_column(head, justify="right", no_wrap=True)
    totals = [row for row in rows if row["row"] == "total"]
    for row in rows:
        if row["row"] != "total":
            how = row["sampler"] + f", {row['embedder']}" * (row["embedder"] != rows[0]["embedder"])
            names = map(text, (row["task"], row["model"].rpartition("/")[2], how))
            on = row["device"] + f" x {row['devices']}" * (row["devices"] > 1)
            table.add_row(*names, *_cost(row, on), end_section=row is rows[-1 - len(totals)])
    for row in totals:
        table.add_row("total", f"{row['rows']} rows", "", *_cost(row, row["device"]))
    put(table, 134)
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
