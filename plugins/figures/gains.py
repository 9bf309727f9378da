"""`gains`: improvement over random selection by how hard a problem is for the model, a panel a pool.

A problem's hardness is the share of its pool's responses that are correct, in five classes that are the same for all
pools. Improvement is that of the tables: random's mean samples-to-correct divided by the selector's, over the problems
of the class. Problems without a correct response are left out, since no order is better there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from harness.records import Floats
from harness.results.leaderboard import Board, across, boards, gather, pool_name
from harness.scoring import stats
from harness.scoring.metrics import random_samples_to_correct

from . import style
from .chosen import NO_EMBEDDER, Chosen, at_most, measured
from .request import PAPERS_SELECTOR, Request, Row

CLASSES = (0.0, 0.02, 0.05, 0.2, 0.5, 1.0)  # shares of correct responses: above one, up to the next
BEST = 5
PANELS = 12
LEAST = 5  # problems of a class for a point


def gain_rows(request: Request) -> list[Row]:
    """Return a row per pool, selector and class of hardness: random's mean, the selector's, their ratio, its interval.

    Without a selector given: the five that are best over all pools of the folders, each with the vectors that serve it
    best, and RepExp. HarnessError if no selector has ranked every pool.
    """
    cells = {cell.key: cell for cell in measured(request)}
    tables = [board for board in boards(gather(request.folders)) if any(row.cell in cells for row in board.rows)]
    at_most(request, len(tables), PANELS, "pools")
    wanted = _wanted(request, tables)
    return [
        {**cells[row.cell].columns, "panel": pool_name(table), "series": _series(*series)} | values
        for table in tables
        for series in wanted
        for row in table.rows
        if (row.name, row.embedder) == series and row.cell in cells
        for values in _classes(cells[row.cell])
    ]


def _wanted(request: Request, tables: Sequence[Board]) -> list[tuple[str, str]]:
    """Selector and embedder of each series, in the order of their mean improvement over the pools."""
    everywhere = [line for line in across(tables) if line.pools == len(tables)]
    names = dict.fromkeys(line.selector for line in everywhere)  # the best first
    shown = [name for place, name in enumerate(names) if place < BEST or name == PAPERS_SELECTOR]
    if request.selector:
        shown = [name for name in names if name.partition(" ")[0] == request.selector]
    series = [next(line for line in everywhere if line.selector == name) for name in shown]
    if not series:
        raise request.refused(f"no ranker has cells of all {len(tables)} pools: give folders whose cells share one")
    return [(line.selector, line.embedder) for line in series]


def _series(selector: str, embedder: str) -> str:
    return selector if embedder == NO_EMBEDDER else f"{selector} · {embedder}"


def _classes(chosen: Chosen) -> Iterator[Row]:
    """Yield the values of each class of hardness that has problems enough."""
    outcomes = chosen.outcomes
    assert outcomes.ranks is not None
    share, random = outcomes.c / outcomes.n, random_samples_to_correct(outcomes.n, outcomes.c)
    selected, seed = outcomes.ranks.mean(axis=1), chosen.resampling_seed
    for above, up_to in pairwise(CLASSES):
        inside = (share > above) & (share <= up_to)
        if inside.sum() >= LEAST:
            yield {"above": above, "up_to": up_to, "questions": int(inside.sum())} | _ratio(
                random[inside], selected[inside], seed
            )


def _ratio(random: Floats, selected: Floats, seed: int) -> Row:
    low, high = stats.ratio_interval(random, selected, seed) or (None, None)
    ratio = float(random.mean() / selected.mean())
    means = {"random": float(random.mean()), "selected": float(selected.mean())}
    return {**means, "improvement": ratio, "improvement_low": low, "improvement_high": high}


def draw_gains(rows: Sequence[Row]) -> Any:
    """Return the figure of `gain_rows`: a panel per pool, with a line per selector over the classes of hardness."""
    panels = list(dict.fromkeys(row["panel"] for row in rows))
    named = style.short(panels)
    looks = style.of_selectors(list(dict.fromkeys(row["series"] for row in rows)))
    figure, grid = style.panels("Gain over random selection, by how often the model is right", len(panels))
    ends = [row[name] for row in rows for name in ("improvement", "improvement_low", "improvement_high") if row[name]]
    for axes, panel in zip(grid, panels, strict=True):
        inside = [row for row in rows if row["panel"] == panel]
        for place, (name, look) in enumerate(looks.items()):
            _line(axes, [row for row in inside if row["series"] == name], 0.09 * (place - (len(looks) - 1) / 2), look)
        axes.axhline(1, color=style.GREY, linewidth=0.8, linestyle=style.LINES[1], zorder=1)
        sizes = {row["above"]: row["questions"] for row in inside}
        ticks = [f"{100 * low:g}-{100 * high:g} %\n({sizes.get(low, 'few')})" for low, high in pairwise(CLASSES)]
        axes.set_xticks(range(len(ticks)), ticks, fontsize=6)
        axes.set(
            xlim=(-0.4, len(ticks) - 0.6),
            xlabel="share of correct responses (problems)",
            ylabel="random's calls / the selector's",
        )
        style.log_axis(axes.yaxis, min(ends), max(ends))
        style.name_panel(axes, named[panel])
    style.legend(figure, [style.mark(name, **look) for name, look in looks.items()])
    return figure


def _line(axes: Any, rows: Sequence[Row], shift: float, look: dict[str, Any]) -> None:
    """Plot one selector's line with its 95 % intervals, shifted a little, so that no interval hides another."""
    x = [CLASSES.index(row["above"]) + shift for row in rows]
    axes.plot(x, [row["improvement"] for row in rows], **look)
    for at, row in zip(x, rows, strict=True):
        if row["improvement_low"] is not None:
            axes.plot([at, at], [row["improvement_low"], row["improvement_high"]], color=look["color"], linewidth=0.8)


class Gains:
    """Improvement over random by the share of correct responses: the best selectors over several pools, and RepExp."""

    rows, draw = staticmethod(gain_rows), staticmethod(draw_gains)
