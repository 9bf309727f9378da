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
    """Return a row per cell: the model's pass@1, its rank on the task, and the calls saved in per cent of random's.

    Tasks that only one model ran are left out; HarnessError if none is left.
    """
    cells = of_one_ranker(request)
    one_each(request, cells, ("task", "split", "model"))
    groups = grouped(cells, lambda cell: (cell.about["task"], cell.about["split"]))
    comparable = [group for group in groups if len(group) > 1]
    if not comparable:
        models = ", ".join(sorted({cell.about["model"] for cell in cells}))
        raise request.refused(f"one model a task ({models}): run a weaker or stronger one too, `harness run --model M`")
    for group in groups:
        if group not in comparable:
            request.say(f"left out: {group[0].about['task']}, which one model alone ran ({group[0].about['model']})")
    at_most(request, len(comparable), len(style.MARKERS), "tasks")
    return [row for group in comparable for row in _ranked(group)]


def _ranked(group: Sequence[Chosen]) -> list[Row]:
    ordered = sorted(group, key=lambda cell: (_pass_at_1(cell), cell.about["model"]))
    return [
        {**cell.columns, "split": cell.about["split"], "pass_at_1": _pass_at_1(cell), "rank": rank, **_saved(cell)}
        for rank, cell in enumerate(ordered)
    ]


def _pass_at_1(cell: Chosen) -> float:
    return float(cell.metrics.pass_at_k_random["1"])  # type: ignore[arg-type]


def _saved(cell: Chosen) -> Row:
    """Calls saved in per cent of random's, with the ends of the improvement's 95 % interval."""
    low, high = cell.metrics.improvement_ci or (None, None)
    names = ("saved", "saved_low", "saved_high")
    return {
        name: None if ratio is None else 100 * (1 - 1 / ratio)
        for name, ratio in zip(names, (cell.metrics.improvement, low, high), strict=True)
    }


def draw_models(rows: Sequence[Row]) -> Any:
    """Return the figure of `model_rows`: a line per task with 95 % intervals.

    Lines are shifted a little, so that no interval hides another.
    """
    figure, (axes,) = style.panels(f"Improvement of {rows[0]['selector']} over random, by model strength", 1)
    tasks = list(dict.fromkeys((row["task"], row["split"]) for row in rows))
    axes.axhline(0, color=style.GREY, linewidth=0.8, linestyle=style.LINES[1])
    handles = []
    for place, task in enumerate(tasks):
        task_rows, look = [row for row in rows if (row["task"], row["split"]) == task], style.look(place)
        shift = 0.08 * (place - (len(tasks) - 1) / 2)
        x = [row["rank"] + shift for row in task_rows]
        axes.plot(x, [row["saved"] for row in task_rows], **look)
        for at, row in zip(x, task_rows, strict=True):
            if row["saved_low"] is not None:
                axes.plot([at, at], [row["saved_low"], row["saved_high"]], color=look["color"], linewidth=0.8)
        once = [name for name, _ in tasks].count(task[0]) == 1
        handles.append(style.mark(task[0] if once else " · ".join(task), **look))
    _ranks(axes, rows, named=len(tasks) == 1)
    axes.set(ylabel="verifier calls saved (% of random's)")
    style.legend(figure, handles)
    return figure


def _ranks(axes: Any, rows: Sequence[Row], named: bool) -> None:
    """Put whole ranks on the x axis; for a single task, add the models' names and pass@1."""
    ranks = sorted({row["rank"] for row in rows})
    at = {row["rank"]: f"{row['rank']}\n{row['model']}\n{100 * row['pass_at_1']:.1f} %" for row in rows}
    axes.set_xticks(ranks, [at[rank] if named else str(rank) for rank in ranks], fontsize=6 if named else 7)
    axes.set_xlim(-0.5, ranks[-1] + 0.5)
    axes.set_xlabel("model, by rank of pass@1 (0 = weakest)" + (", with pass@1" if named else ""))


class Models:
    """Relative improvement against the model's rank by pass@1, a line a task."""

    rows, draw = staticmethod(model_rows), staticmethod(draw_models)
