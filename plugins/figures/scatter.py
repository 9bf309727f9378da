"""`scatter` and `questions`: samples-to-correct of a selector against random selection, with the line y = x.

Random's is exact on each problem, (N+1)/(c+1); the selector's is the mean over trials. Both means count a problem
without a correct response as N+1.
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
    """A row a cell: both means, and the selector's between the ends of the 95 % interval of the improvement."""
    found = of_one_ranker(request)
    fields = [name for name in telling(request, found, ("task", "model")) if name != "task"]
    at_most(request, len({called(one, fields) for one in found}), len(style.MARKERS), "models")
    at_most(request, len({one.about["task"] for one in found}), PANELS, "tasks")
    return [{**one.columns, "panel": one.about["task"], "series": called(one, fields), **calls(one)} for one in found]


def calls(one: Chosen) -> Row:
    """The cell's samples-to-correct: random's, the selector's, and the ends of its interval at random's value.

    The interval is that of the ratio of the two; None where there is none.
    """
    random, low_high = one.metrics.samples_to_correct_random, one.metrics.improvement_ci
    high, low = low_high or (None, None)
    return {
        "random": random,
        "selected": one.metrics.samples_to_correct,
        "selected_low": low and random / low,
        "selected_high": high and random / high,
    }


def draw_scatter(rows: Sequence[Row]) -> Any:
    """A panel a task, a mark a model, with the interval as a bar."""
    panels, series = (list(dict.fromkeys(row[name] for row in rows)) for name in ("panel", "series"))
    selector = rows[0]["selector"]
    looks = {name: style.look(place) | {"linestyle": "none", "markersize": 5.5} for place, name in enumerate(series)}
    figure, grid = style.panels(f"Samples-to-correct: {selector} against random", len(panels))
    for axes, panel in zip(grid, panels, strict=True):
        own = [row for row in rows if row["panel"] == panel]
        values = [row[name] for row in own for name in VALUES if row[name] is not None]
        style.diagonal(axes, min(values), max(values))
        for row in own:
            _point(axes, row, looks[row["series"]])
        style.name_panel(axes, _shared(own, " · ", ("task", "sampler", "embedder")), _shared(own, ", ", SIZES))
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
    """Of those columns what all rows share."""
    shared = [name for name in names if len({row[name] for row in rows}) == 1]
    return joint.join(FIELDS[name].format(rows[0][name]) for name in shared)


def question_rows(request: Request) -> list[Row]:
    """A row a problem of each cell."""
    found = of_one_ranker(request)
    fields = telling(request, found, ("task", "model"))
    at_most(request, len(found), PANELS, "panels")
    return [row for one in found for row in _questions(one, called(one, fields))]


def _questions(one: Chosen, name: str) -> list[Row]:
    outcomes = one.outcomes
    assert outcomes.ranks is not None
    random, selected = random_samples_to_correct(outcomes.n, outcomes.c), outcomes.ranks.mean(axis=1)
    shares = {f"share_{name}": getattr(one.metrics, name) for name in ("win", "tie", "loss")}
    return [
        {**one.columns, "series": name, "problem": problem, "N": int(n), "c": int(c)}
        | {"random": float(x), "selected": float(y), **shares}
        for problem, n, c, x, y in zip(one.problems, outcomes.n, outcomes.c, random, selected, strict=True)
    ]


def draw_questions(rows: Sequence[Row]) -> Any:
    """A panel a cell, a mark a problem; its area grows with the number of problems at that very place."""
    names = list(dict.fromkeys(row["series"] for row in rows))
    selector = rows[0]["selector"]
    figure, grid = style.panels(f"Samples-to-correct of each question: {selector} against random", len(names))
    for axes, name in zip(grid, names, strict=True):
        own = [row for row in rows if row["series"] == name]
        style.diagonal(axes, 1.0, max(max(row["random"], row["selected"]) for row in own))
        _solved(axes, [row for row in own if row["c"]])
        _never(axes, [row for row in own if not row["c"]])
        style.name_panel(axes, name, f"{len(own)} problems", _shares(own))
        axes.set(xlabel="random selection (verifier calls)", ylabel=f"{selector} (verifier calls)")
    solved = style.mark("a question, area by how many lie there", marker="o", linestyle="none", color=style.COLOURS[0])
    never = style.mark("how many have no correct response: N + 1 for both", linestyle="none", **NEVER)
    style.legend(figure, [solved, never])
    return figure


NEVER = {"marker": "X", "color": style.COLOURS[1]}


def _places(rows: Sequence[Row]) -> list[tuple[float, float, int]]:
    """Each place where a question lies, and how many lie there."""
    counts = Counter((row["random"], row["selected"]) for row in rows)
    return [(x, y, count) for (x, y), count in sorted(counts.items())]


def _solved(axes: Any, rows: Sequence[Row]) -> None:
    if rows:
        x, y, counts = (np.array(column) for column in zip(*_places(rows), strict=True))
        appearance = {"color": style.COLOURS[0], "alpha": 0.65, "linewidths": 0.4, "edgecolors": "white"}
        axes.scatter(x, y, s=9 * counts, zorder=3, **appearance)


def _never(axes: Any, rows: Sequence[Row]) -> None:
    """One mark and a number: all lie on one place, and an area for them all would hide the others."""
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


def _shares(own: Sequence[Row]) -> str:
    """How likely fewer, as many and more calls are than those of a random order: exact, unlike counting marks."""
    win, tie, loss = (100 * own[0][f"share_{name}"] for name in ("win", "tie", "loss"))
    return f"fewer / equal / more: {win:.0f} / {tie:.0f} / {loss:.0f} %"


class Scatter:
    """Samples-to-correct of a selector against random: a mark a task and model."""

    rows, draw = staticmethod(scatter_rows), staticmethod(draw_scatter)


class Questions:
    """The same for each question, a panel a task and model."""

    rows, draw = staticmethod(question_rows), staticmethod(draw_questions)
