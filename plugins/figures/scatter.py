"""`scatter` and `questions`: samples-to-correct of a selector against random selection, with the line y = x.

For random selection it is exact on each problem, (N+1)/(c+1); for the selector it is the mean over trials. Both count a
problem without a correct response as N+1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from harness.scoring.metrics import random_samples_to_correct

from . import style
from .chosen import FIELDS, Chosen, at_most, called, of_one_ranker, telling
from .request import Request, Row

PANELS = 12


def scatter_rows(request: Request) -> list[Row]:
    """Return a row per cell: both means, and the selector's 95 % interval, computed from that of the improvement."""
    cells = of_one_ranker(request)
    fields = [name for name in telling(request, cells, ("task", "model")) if name != "task"]
    at_most(request, len({called(cell, fields) for cell in cells}), len(style.MARKERS), "models")
    at_most(request, len({cell.about["task"] for cell in cells}), PANELS, "tasks")
    return [
        {**cell.columns, "panel": cell.about["task"], "series": called(cell, fields), **calls(cell)} for cell in cells
    ]


def calls(cell: Chosen) -> Row:
    """Return a cell's samples-to-correct: `random`, `selected` (the selector's), `selected_low` and `selected_high`.

    The last two are random's value divided by the ends of the improvement's interval; None if there is no interval.
    """
    random, low_high = cell.metrics.samples_to_correct_random, cell.metrics.improvement_ci
    high, low = low_high or (None, None)
    return {
        "random": random,
        "selected": cell.metrics.samples_to_correct,
        "selected_low": low and random and random / low,
        "selected_high": high and random and random / high,
    }


def draw_scatter(rows: Sequence[Row]) -> Any:
    """Return the figure of `scatter_rows`: a panel per task and a mark per cell, with the interval as a bar."""
    panels, series = (list(dict.fromkeys(row[name] for row in rows)) for name in ("panel", "series"))
    selector = rows[0]["selector"]
    looks = {name: style.look(place) | {"linestyle": "none", "markersize": 5.5} for place, name in enumerate(series)}
    figure, grid = style.panels(f"Samples-to-correct: {selector} against random", len(panels))
    for axes, panel in zip(grid, panels, strict=True):
        panel_rows = [row for row in rows if row["panel"] == panel]
        values = [row[name] for row in panel_rows for name in VALUES if row[name] is not None]
        style.diagonal(axes, min(values), max(values))
        for row in panel_rows:
            _point(axes, row, looks[row["series"]])
        style.name_panel(
            axes, _shared(panel_rows, " · ", ("task", "sampler", "embedder")), _shared(panel_rows, ", ", SIZES)
        )
        axes.set(xlabel="random selection (mean verifier calls)", ylabel=f"{selector} (mean verifier calls)")
    style.legend(figure, [style.mark(name, **look) for name, look in looks.items()])
    return figure


SIZES = ("n", "problems")
VALUES = ("random", "selected", "selected_low", "selected_high")


def _point(axes: Any, row: Row, look: dict[str, Any]) -> None:
    if row["selected_low"] is not None:
        axes.plot([row["random"]] * 2, [row["selected_low"], row["selected_high"]], color=look["color"], linewidth=0.8)
    axes.plot(row["random"], row["selected"], markeredgecolor="white", markeredgewidth=0.5, **look)


def _shared(rows: Sequence[Row], joint: str, names: Sequence[str]) -> str:
    """The values, of these columns, that all rows share."""
    shared = [name for name in names if len({row[name] for row in rows}) == 1]
    return joint.join(FIELDS[name].format(rows[0][name]) for name in shared)


def question_rows(request: Request) -> list[Row]:
    """Return a row per problem of each cell: N, c, and the samples-to-correct of random and of the selector.

    The selector's is the mean over trials. `share_win`, `share_tie` and `share_loss` are the cell's, the same in all of
    its rows.
    """
    cells = of_one_ranker(request)
    fields = telling(request, cells, ("task", "model"))
    at_most(request, len(cells), PANELS, "panels")
    return [row for cell in cells for row in _questions(cell, called(cell, fields))]


def _questions(cell: Chosen, name: str) -> list[Row]:
    outcomes = cell.outcomes
    assert outcomes.ranks is not None
    random, selected = random_samples_to_correct(outcomes.n, outcomes.c), outcomes.ranks.mean(axis=1)
    shares = {f"share_{name}": getattr(cell.metrics, name) for name in ("win", "tie", "loss")}
    return [
        {**cell.columns, "series": name, "problem": problem, "N": int(n), "c": int(c)}
        | {"random": float(x), "selected": float(y), **shares}
        for problem, n, c, x, y in zip(cell.problems, outcomes.n, outcomes.c, random, selected, strict=True)
    ]


def draw_questions(rows: Sequence[Row]) -> Any:
    """Return the figure of `question_rows`: a panel per cell, a mark's area growing with the questions at its point.

    Questions without a correct response are one mark with their number beside it.
    """
    names = list(dict.fromkeys(row["series"] for row in rows))
    selector = rows[0]["selector"]
    colour = style.of_selectors([selector])[selector]["color"]
    figure, grid = style.panels(f"Samples-to-correct of each question: {selector} against random", len(names))
    for axes, name in zip(grid, names, strict=True):
        panel_rows = [row for row in rows if row["series"] == name]
        style.diagonal(axes, 1.0, max(max(row["random"], row["selected"]) for row in panel_rows))
        _solved(axes, [row for row in panel_rows if row["c"]], colour)
        _never(axes, [row for row in panel_rows if not row["c"]])
        style.name_panel(axes, name, f"{len(panel_rows)} problems", _shares(panel_rows))
        axes.set(xlabel="random selection (verifier calls)", ylabel=f"{selector} (verifier calls)")
    solved = style.mark("a question, area by how many lie there", marker="o", linestyle="none", color=colour)
    never = style.mark("how many have no correct response: N + 1 for both", linestyle="none", **NEVER)
    style.legend(figure, [solved, never])
    return figure


NEVER = {"marker": "X", "color": style.GREY}


def _places(rows: Sequence[Row]) -> list[tuple[float, float, int]]:
    """Each point with a question, and the number of questions at that point."""
    counts = Counter((row["random"], row["selected"]) for row in rows)
    return [(x, y, count) for (x, y), count in sorted(counts.items())]


def _solved(axes: Any, rows: Sequence[Row], colour: str) -> None:
    if rows:
        x, y, counts = (np.array(column) for column in zip(*_places(rows), strict=True))
        appearance = {"color": colour, "alpha": 0.65, "linewidths": 0.4, "edgecolors": "white"}
        axes.scatter(x, y, s=9 * counts, zorder=3, **appearance)


def _never(axes: Any, rows: Sequence[Row]) -> None:
    """Plot one mark and a number: all share one point, and a mark with that area would hide the others."""
    for x, y, count in _places(rows):
        axes.plot(x, y, clip_on=False, zorder=3, **NEVER)
        axes.annotate(
            str(count),
            (x, y),
            xytext=(-5, 0),
            textcoords="offset points",
            fontsize=7,
            color=NEVER["color"],
            horizontalalignment="right",
            verticalalignment="center",
        )


def _shares(rows: Sequence[Row]) -> str:
    """How likely fewer, as many and more calls are than those of a random order: exact, unlike counting marks."""
    win, tie, loss = (100 * rows[0][f"share_{name}"] for name in ("win", "tie", "loss"))
    return f"fewer / equal / more: {win:.0f} / {tie:.0f} / {loss:.0f} %"


class Scatter:
    """Samples-to-correct of a selector against random: a mark a task and model."""

    rows, draw = staticmethod(scatter_rows), staticmethod(draw_scatter)


class Questions:
    """Samples-to-correct of each question, a selector against random: a panel a task and model."""

    rows, draw = staticmethod(question_rows), staticmethod(draw_questions)
