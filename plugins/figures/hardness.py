"""`hardness`: samples-to-correct of a selector and of random selection by hardness, in ten bins of equal size.

Hardness is random selection's expected samples-to-correct, (N+1)/(c+1). It is computed on the cell's pool or, as in the
paper, on another model's pool for the same problems (`--reference`). From the cell's pool it is a noisy measure, and
random's line rises with it by construction; a reference has neither fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from harness.records import Floats, Ints
from harness.scoring.metrics import random_samples_to_correct

from . import style
from .chosen import Chosen, at_most, called, grouped, of_one_ranker, reference_of, telling
from .request import Request, Row

BINS = 10
PANELS = 12


def hardness_rows(request: Request) -> list[Row]:
    """Return a row per bin of each cell: the means of random and of the selector, with standard errors over questions.

    HarnessError if a cell has fewer than ten problems.
    """
    cells = of_one_ranker(request)
    fields = telling(request, cells, ("task", "model"))
    at_most(request, len(cells), PANELS, "panels")
    for cell in cells:
        if len(cell.problems) < BINS:
            raise request.refused(
                f"{called(cell, fields)} has {len(cell.problems)} problems, which make no {BINS} bins: "
                "run more (--limit)"
            )
    references = reference_of(request, request.reference) if request.reference else None
    return [row for cell in cells for row in _binned(cell, called(cell, fields), *_hardness(request, cell, references))]


def _hardness(request: Request, cell: Chosen, references: Sequence[Chosen] | None) -> tuple[Floats, str]:
    """Each problem's hardness, and the name of the pool that it was computed on."""
    if references is None:
        return random_samples_to_correct(cell.outcomes.n, cell.outcomes.c), "own pool"
    same = [other for other in references if _same_problems(cell, other)]
    if not same:
        raise request.refused(
            f"--reference {request.reference}: no cell there holds all {len(cell.problems)} problems of "
            f"{called(cell, ('task', 'model'))}: run the reference's model on them"
        )
    pools = grouped(same, lambda other: other.pool)
    if len(pools) > 1:
        names = "; ".join(called(group[0], telling(request, [group[0] for group in pools])) for group in pools)
        raise request.refused(
            f"--reference {request.reference}: holds {len(pools)} pools of these problems ({names}): "
            "give one cell's file"
        )
    other = same[0]
    hard = dict(zip(other.problems, random_samples_to_correct(other.outcomes.n, other.outcomes.c), strict=True))
    return np.array([hard[problem] for problem in cell.problems]), other.about["model"]


def _same_problems(cell: Chosen, other: Chosen) -> bool:
    return cell.about["task"] == other.about["task"] and set(cell.problems) <= set(other.problems)


def _binned(cell: Chosen, name: str, hardness: Floats, judge: str) -> list[Row]:
    assert cell.outcomes.ranks is not None
    random, selected = random_samples_to_correct(cell.outcomes.n, cell.outcomes.c), cell.outcomes.ranks.mean(axis=1)
    return [
        {**cell.columns, "series": name, "judged_by": judge, "bin": place + 1, "questions": len(members)}
        | {"hardness_low": float(hardness[members].min()), "hardness_high": float(hardness[members].max())}
        | _mean_and_error("random", random[members])
        | _mean_and_error("selected", selected[members])
        for place, members in enumerate(bins(hardness, cell.problems))
    ]


def bins(hardness: Floats, problems: Sequence[str]) -> list[Ints]:
    """Return the problems' indices in ten bins, the easiest first; ties are ordered by the problem's id.

    Sizes differ by one at most.
    """
    return np.array_split(np.lexsort((np.array(problems), hardness)), BINS)


def _mean_and_error(name: str, values: Floats) -> Row:
    """Mean and standard error (None for a single question)."""
    error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
    return {name: float(values.mean()), f"{name}_error": error}


def draw_hardness(rows: Sequence[Row]) -> Any:
    """Return the figure of `hardness_rows`: a panel per cell, with two lines over the bins.

    Their bands are one standard error.
    """
    names = list(dict.fromkeys(row["series"] for row in rows))
    selector, judge = rows[0]["selector"], rows[0]["judged_by"]
    figure, grid = style.panels(f"Samples-to-correct of {selector} and random, by question hardness", len(names))
    look = style.of_selectors([selector])[selector]
    for axes, name in zip(grid, names, strict=True):
        panel_rows = [row for row in rows if row["series"] == name]
        edges = _line(axes, panel_rows, "random", RANDOM) + _line(axes, panel_rows, "selected", look)
        style.log_axis(axes.yaxis, min(edges), max(edges))
        axes.set_xticks(range(1, BINS + 1))
        axes.set(xlabel=f"tenth of the questions, 10 = hardest ({judge})", ylabel="mean verifier calls")
        style.name_panel(axes, name, f"{panel_rows[0]['problems']} problems")
    lines = [style.mark("random selection", **RANDOM), style.mark(selector, **look)]
    style.legend(figure, [*lines, style.mark("one standard error", color=style.GREY, alpha=0.25, linewidth=6)])
    return figure


RANDOM = {"color": style.INK, "marker": "D", "linestyle": style.LINES[1], "markersize": 3.2}


def _line(axes: Any, rows: Sequence[Row], name: str, look: dict[str, Any]) -> list[float]:
    """Plot one line with its band, which never goes below one call; return the band's edges."""
    x = [row["bin"] for row in rows]
    mean = np.array([row[name] for row in rows])
    error = np.array([row[f"{name}_error"] or 0.0 for row in rows])
    low, high = np.maximum(mean - error, 1.0), mean + error
    axes.fill_between(x, low, high, color=look["color"], alpha=0.18, linewidth=0)
    axes.plot(x, mean, **look)
    return [*low.tolist(), *high.tolist()]


class Hardness:
    """Samples-to-correct by question hardness, in ten bins."""

    rows, draw = staticmethod(hardness_rows), staticmethod(draw_hardness)
