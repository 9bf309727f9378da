"""`strength`: improvement over random selection against the model's pass@1, a point a pool, over tasks and samplers.

The paper's figure of model strength (`models`) has ranks of one task's models on its x axis. This one has pass@1
itself, so that pools of different tasks stand in one picture: what gain goes with what share of correct responses?
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.results.leaderboard import across, boards, gather

from . import style
from .chosen import NO_EMBEDDER, at_most, measured
from .request import PAPERS_SELECTOR, Request, Row

BEST = 2
PANELS = 12
KINDS = 24  # models and tasks


def strength_rows(request: Request) -> list[Row]:
    """Return a row per pool of each panel: the pool's pass@1, and the selector's improvement with its 95 % interval.

    A panel is a selector with an embedder. Without a selector given: the paper's, with each embedder that at least half
    of the pools have, and the two that are best of those on the most pools. Where nothing is correct there is no point.
    """
    cells = {cell.key: cell for cell in measured(request)}
    tables = [board for board in boards(gather(request.folders)) if any(row.cell in cells for row in board.rows)]
    lines = across(tables)
    if not lines:
        raise request.refused("cells of selectors that choose sets, not orders: they have no samples-to-correct")
    wanted = [
        (line.selector, line.embedder)
        for line in lines
        if line.selector.partition(" ")[0] == (request.selector or PAPERS_SELECTOR)
        and (request.selector or 2 * line.pools >= len(tables))
    ]
    if not request.selector:
        best = {line.selector: line for line in reversed(lines) if line.pools == lines[0].pools}
        ordered = sorted(best.values(), key=lambda line: -line.improvement)
        wanted += [(line.selector, line.embedder) for line in ordered[:BEST] if line.selector != PAPERS_SELECTOR]
    at_most(request, len(wanted), PANELS, "selectors and embedders")
    rows = [
        {**cells[row.cell].columns, "panel": selector if embedder == NO_EMBEDDER else f"{selector} · {embedder}"}
        | {"series": f"{row.model}, {row.task}", "pass_at_1": row.pass_at_k_random["1"]}
        | {"improvement": row.improvement, "improvement_low": low, "improvement_high": high}
        for selector, embedder in wanted
        for table in tables
        for row in table.rows
        if (row.name, row.embedder) == (selector, embedder) and row.cell in cells
        if row.improvement and row.pass_at_k_random["1"]
        for low, high in [row.improvement_ci or (None, None)]
    ]
    if not rows:
        raise request.refused("no pool has a correct response: there is no improvement to draw")
    at_most(request, len({row["series"] for row in rows}), KINDS, "models and tasks")
    return rows


def draw_strength(rows: Sequence[Row]) -> Any:
    """Return the figure of `strength_rows`: a panel per selector, a mark per model and task, on two log axes."""
    panels, series = (list(dict.fromkeys(row[name] for row in rows)) for name in ("panel", "series"))
    tasks = {name.partition(", ")[2] for name in series}
    looks = {name: style.look(place) | {"linestyle": "none"} for place, name in enumerate(series)}
    figure, grid = style.panels("Gain over random selection, by the model's pass@1", len(panels))
    shares = [100 * row["pass_at_1"] for row in rows]
    ends = [row[name] for row in rows for name in ("improvement", "improvement_low", "improvement_high") if row[name]]
    for axes, panel in zip(grid, panels, strict=True):
        style.log_axis(axes.xaxis, min(shares), max(shares))
        style.log_axis(axes.yaxis, min(ends), max(ends))
        for row in (row for row in rows if row["panel"] == panel):
            look, at = looks[row["series"]], 100 * row["pass_at_1"]
            if row["improvement_low"] is not None:
                interval = [row["improvement_low"], row["improvement_high"]]
                axes.plot([at, at], interval, color=look["color"], linewidth=0.8)
            axes.plot(at, row["improvement"], **look)
        axes.axhline(1, color=style.GREY, linewidth=0.8, linestyle=style.LINES[1], zorder=1)
        axes.set(xlabel="pass@1 (%)", ylabel="random's calls / the selector's")
        style.name_panel(axes, panel)
    names = style.short(series) if len(tasks) > 1 else {name: name.partition(", ")[0] for name in series}
    style.legend(figure, [style.mark(names[name], **look) for name, look in looks.items()])
    return figure


class Strength:
    """Improvement over random against the model's pass@1: every pool, over tasks and samplers."""

    rows, draw = staticmethod(strength_rows), staticmethod(draw_strength)
