"""`likelihoods`: the model's likelihood of all responses, of a selector's first k picks, and of correct responses.

A response's value is its log-probability (temperature 1, nothing filtered) divided by its number of tokens, in nats.
Each response counts once in "all" and in "correct", each pick of each trial once in "first k".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from harness.records import Floats

from . import style
from .chosen import Chosen, at_most, called, measured, of_one_embedder, telling
from .request import Request, Row
from .stored import Picked, picked

BINS = 30
LEFT = 0.5  # per cent of all responses that lie left of the first edge and count in the first bin
PANELS = 12
PART = 8  # without -k a selector picks an eighth of the pool


def likelihood_rows(request: Request) -> list[Row]:
    """Return a row per bin of each group of each cell: its edges (`from`, `to`), `count` and `share` of the group.

    Groups are all responses, the first k picks and correct responses; `mean` and `responses` are of the whole group.
    """
    request = request.of_one_selector()
    cells = of_one_embedder(request, measured(request))
    fields = telling(request, cells, ("task", "model", "sampler"))
    at_most(request, len(cells), PANELS, "panels")
    k = request.k or -(-min(int(cell.outcomes.n.min()) for cell in cells) // PART)
    return [row for cell in cells for row in _histograms(request, cell, called(cell, fields), k)]


def _histograms(request: Request, cell: Chosen, panel: str, k: int) -> list[Row]:
    groups = _groups(list(picked(request, cell, k)), k)
    edges = _edges(groups["all responses"])
    return [
        {**cell.columns, "panel": panel, "k": k, "group": name, "mean": float(values.mean()), "responses": len(values)}
        | {"from": float(low), "to": float(high), "count": int(count), "share": float(count / len(values))}
        for name, values in groups.items()
        if len(values)
        for low, high, count in zip(edges, edges[1:], _counts(values, edges), strict=False)
    ]


def _groups(problems: Sequence[Picked], k: int) -> dict[str, Floats]:
    """Mean log-probability per token of the responses of each group."""
    return {
        "all responses": np.concatenate([cell.per_token for cell in problems]),
        f"first {k} picks": np.concatenate([cell.per_token[cell.picks].ravel() for cell in problems]),
        "correct responses": np.concatenate([cell.per_token[cell.is_correct] for cell in problems]),
    }


def _edges(values: Floats) -> Floats:
    """The bins' edges; the few least likely responses go into the first bin, else they would stretch the axis."""
    low, high = np.percentile(values, LEFT), values.max()
    return np.linspace(low, high if high > low else low + 1.0, BINS + 1)


def _counts(values: Floats, edges: Floats) -> Floats:
    counts: Floats = np.histogram(np.clip(values, edges[0], edges[-1]), edges)[0]
    return counts


def _looks(selector: str) -> list[dict[str, Any]]:
    """The looks of all responses, of the selector's picks, and of correct responses, which no selector's colour has."""
    chosen = {"color": style.of_selectors([selector])[selector]["color"], "linestyle": "-"}
    return [
        {"color": style.INK, "linestyle": style.LINES[1]},
        chosen,
        {"color": style.GREY, "linestyle": style.LINES[2]},
    ]


def draw_likelihoods(rows: Sequence[Row]) -> Any:
    """Return the figure of `likelihood_rows`: a panel per pool and an outline per group.

    A short stroke on the axis marks each group's mean.
    """
    panels, selector = list(dict.fromkeys(row["panel"] for row in rows)), rows[0]["selector"]
    groups = dict(zip(dict.fromkeys(row["group"] for row in rows), _looks(selector), strict=False))
    figure, grid = style.panels(f"Likelihood of what {selector} picks", len(panels))
    for axes, panel in zip(grid, panels, strict=True):
        panel_rows = [row for row in rows if row["panel"] == panel]
        for name, look in groups.items():
            _outline(axes, [row for row in panel_rows if row["group"] == name], look)
        style.name_panel(axes, panel, f"n = {panel_rows[0]['n']}, {panel_rows[0]['problems']} problems")
        axes.set(xlabel="mean log-probability per token (nats)", ylabel="share of responses a bin (%)")
        axes.set_ylim(bottom=0)
        axes.locator_params(axis="x", nbins=6)
    names = {name: f"{selector}: {name}" if "picks" in name else name for name in groups}
    handles = [style.mark(names[name], linewidth=1.6, **look) for name, look in groups.items()]
    below = style.mark("first bin: all below it too; stroke: mean", linestyle="none")
    style.legend(figure, [*handles, below])
    return figure


def _outline(axes: Any, rows: Sequence[Row], look: dict[str, Any]) -> None:
    if not rows:
        return
    edges = [row["from"] for row in rows] + [rows[-1]["to"]]
    shares = [100 * row["share"] for row in rows]
    axes.stairs(shares, edges, linewidth=1.3, **look)
    axes.stairs(shares, edges, fill=True, color=look["color"], alpha=0.07)
    axes.axvline(rows[0]["mean"], ymax=0.05, color=look["color"], linewidth=2.5)


class Likelihoods:
    """Log-likelihood per token: all responses, a selector's first picks, correct ones (reads --store)."""

    rows, draw = staticmethod(likelihood_rows), staticmethod(draw_likelihoods)
