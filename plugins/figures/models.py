"""`models`: relative improvement over random against the model's rank by pass@1, a line a task.

Relative improvement is the share of random's verifier calls that the selector saves, 1 - selector / random. pass@1 is
the mean of c/N over the problems; the model with the lowest has rank 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import style
from .chosen import Chosen, at_most, grouped, of_one_ranker, one_each
from .request import Request, Row


def model_rows(request: Request) -> list[Row]:
    """A row a cell: the model's pass@1 and rank among the task's, and the calls saved in per cent of random's."""
    found = of_one_ranker(request)
    one_each(request, found, ("task", "split", "model"))
    groups = grouped(found, lambda one: (one.about["task"], one.about["split"]))
    comparable = [group for group in groups if len(group) > 1]
    if not comparable:
        models = ", ".join(sorted({one.about["model"] for one in found}))
        raise request.refused(f"one model a task ({models}): run a weaker or stronger one too, `harness run --model M`")
    for group in groups:
        if group not in comparable:
            request.say(f"left out: {group[0].about['task']}, which one model alone ran ({group[0].about['model']})")
    at_most(request, len(comparable), len(style.MARKERS), "tasks")
    return [row for group in comparable for row in _ranked(group)]


def _ranked(group: Sequence[Chosen]) -> list[Row]:
    ordered = sorted(group, key=lambda one: (_pass_at_1(one), one.about["model"]))
    return [
        {**one.columns, "split": one.about["split"], "pass_at_1": _pass_at_1(one), "rank": rank, **_saved(one)}
        for rank, one in enumerate(ordered)
    ]


def _pass_at_1(one: Chosen) -> float:
    return float(one.metrics.pass_at_k_random["1"])


def _saved(one: Chosen) -> Row:
    """Calls saved in per cent of random's, with the ends of the improvement's 95 % interval."""
    low, high = one.metrics.improvement_ci or (None, None)
    names = ("saved", "saved_low", "saved_high")
    return {
        name: None if ratio is None else 100 * (1 - 1 / ratio)
        for name, ratio in zip(names, (one.metrics.improvement, low, high), strict=True)
    }


def draw_models(rows: Sequence[Row]) -> Any:
    """A line a task, with 95 % intervals; lines stand a little apart, so that no interval hides another."""
    figure, (axes,) = style.panels(f"Improvement of {rows[0]['selector']} over random, by model strength", 1)
    tasks = list(dict.fromkeys((row["task"], row["split"]) for row in rows))
    axes.axhline(0, color=style.GREY, linewidth=0.8, linestyle=style.LINES[1])
    handles = []
    for place, task in enumerate(tasks):
        own, look = [row for row in rows if (row["task"], row["split"]) == task], style.look(place)
        shift = 0.08 * (place - (len(tasks) - 1) / 2)
        x = [row["rank"] + shift for row in own]
        axes.plot(x, [row["saved"] for row in own], **look)
        for at, row in zip(x, own, strict=True):
            if row["saved_low"] is not None:
                axes.plot([at, at], [row["saved_low"], row["saved_high"]], color=look["color"], linewidth=0.8)
        once = [name for name, _ in tasks].count(task[0]) == 1
        handles.append(style.mark(task[0] if once else " · ".join(task), **look))
    _ranks(axes, rows, named=len(tasks) == 1)
    axes.set(ylabel="verifier calls saved (% of random's)")
    style.legend(figure, handles)
    return figure


def _ranks(axes: Any, rows: Sequence[Row], named: bool) -> None:
    """Whole ranks on the x axis; with the models' names and pass@1 where there is one task."""
    ranks = sorted({row["rank"] for row in rows})
    at = {row["rank"]: f"{row['rank']}\n{row['model']}\n{100 * row['pass_at_1']:.1f} %" for row in rows}
    axes.set_xticks(ranks, [at[rank] if named else str(rank) for rank in ranks], fontsize=6 if named else 7)
    axes.set_xlim(-0.5, ranks[-1] + 0.5)
    axes.set_xlabel("model, by rank of pass@1 (0 = weakest)" + (", with pass@1" if named else ""))


class Models:
    """Relative improvement against the model's rank by pass@1, a line a task."""

    rows, draw = staticmethod(model_rows), staticmethod(draw_models)
