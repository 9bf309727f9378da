"""`rl-passk` and `rl-likelihoods`: what RL with each bonus made of a model, from `rl-eval.json` (`harness rl eval`).

The paper's figures on pass@k after training, with its arrows as figures in the legend, and on anti-sharpening: one
response a question of each policy, scored under the initial model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from harness.scoring.metrics import budgets

from ..figures import style
from ..figures.request import PAPERS_SELECTOR, Request, Row
from . import evaluation as rl_eval

BINS = 30
NAMES = {"none": "GRPO, no bonus", "base": "initial model"}


def passk_rows(request: Request) -> list[Row]:
    """A row a method and k = 1, 2, 4, ...: the mean over its seeds, and the standard error.

    `reached_at`, in the last row of a method: from how many samples on RepExp has that pass@k, where fewer will do.
    """
    return [row for found in _evaluations(request) for row in _passk(found)]


def _passk(found: Mapping[str, Any]) -> list[Row]:
    fixed = {name: found[name] for name in ("task", "split", "model", "n")} | {"problems": len(found["problems"])}
    every = rl_eval.curves(found)
    papers = next((curve for curve in every if curve.bonus.partition(":")[0] == PAPERS_SELECTOR), None)
    return [
        {**fixed, "bonus": curve.bonus, "seeds": curve.seeds, "k": k, "pass_at_k": float(curve.mean[k - 1])}
        | {"standard_error": None if curve.error is None else float(curve.error[k - 1])}
        | {"reached_at": _reached(papers, curve) if k == found["n"] else None}
        for curve in every
        for k in budgets(found["n"])
    ]


def _reached(papers: rl_eval.Curve | None, other: rl_eval.Curve) -> int | None:
    times = rl_eval.efficiency(papers, other) if papers and papers is not other else None
    return round(len(other.mean) / times) if times and times > 1 else None


def draw_passk(rows: Sequence[Row]) -> Any:
    """A panel a task, a line a method, a band of one standard error to each side; k on a logarithmic axis.

    An arrow, as the paper's, from a method's last point to where RepExp is as high, with how many times fewer that is.
    """
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    methods = list(dict.fromkeys(row["bonus"] for row in rows))
    figure, grid = style.panels("Pass@k after training", len(tasks))
    for axes, task in zip(grid, tasks, strict=True):
        own = [row for row in rows if row["task"] == task]
        for place, method in enumerate(methods):
            _curve(axes, [row for row in own if row["bonus"] == method], style.look(place))
            last = [row for row in own if row["bonus"] == method and row["reached_at"]]
            _arrow(axes, last, style.look(place), above=place % 2 == 0)
        style.name_panel(axes, f"{task}, {own[0]['split']}", f"n = {own[0]['n']}, {own[0]['problems']} problems")
        style.log_axis(axes.xaxis, 1, own[0]["n"], base=2)
        axes.set(xlabel="k", ylabel="pass@k (%)")
    handles = [style.mark(NAMES.get(method, method), **style.look(place)) for place, method in enumerate(methods)]
    seeds = max(row["seeds"] for row in rows)
    band = style.mark(f"band: standard error over {seeds} seeds", linestyle="none")
    style.legend(figure, [*handles, band] if seeds > 1 else handles)
    return figure


def _curve(axes: Any, rows: Sequence[Row], look: Mapping[str, Any]) -> None:
    if not rows:
        return
    k, mean = [row["k"] for row in rows], np.array([100 * row["pass_at_k"] for row in rows])
    axes.plot(k, mean, **look)
    if rows[0]["standard_error"] is not None:
        error = np.array([100 * row["standard_error"] for row in rows])
        axes.fill_between(k, mean - error, mean + error, color=look["color"], alpha=0.15, linewidth=0)


def _arrow(axes: Any, rows: Sequence[Row], look: Mapping[str, Any], above: bool) -> None:
    for row in rows:
        height, reached = 100 * row["pass_at_k"], row["reached_at"]
        arrow = {"arrowstyle": "->", "color": look["color"], "linewidth": 1.0, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", (reached, height), (row["k"], height), arrowprops=arrow)
        middle = (reached * row["k"]) ** 0.5
        text = {"color": look["color"], "fontsize": 7, "horizontalalignment": "center"}
        side = "bottom" if above else "top"
        axes.text(middle, height, f"{row['n'] / reached:.1f}x", verticalalignment=side, **text)


def likelihood_rows(request: Request) -> list[Row]:
    """A row a bin of each method: edges, how many responses, their share, and the method's mean."""
    return [row for found in _evaluations(request) for row in _likelihoods(request, found)]


def _likelihoods(request: Request, found: Mapping[str, Any]) -> list[Row]:
    values: dict[str, list[float]] = {}
    for policy in found["policies"]:
        if "likelihoods" not in policy:
            raise request.refused(
                f"{found['task']}: the evaluation has no likelihoods: run `harness rl eval` with them"
            )
        values.setdefault(policy["bonus"], []).extend(x for x in policy["likelihoods"] if x is not None)
    every = np.concatenate([np.array(each) for each in values.values()])
    low, high = np.percentile(every, 0.5), every.max()
    edges = np.linspace(low, high if high > low else low + 1.0, BINS + 1)
    return [
        {"task": found["task"], "split": found["split"], "model": found["model"], "bonus": bonus}
        | {"mean": float(np.mean(each)), "responses": len(each), "from": float(lower), "to": float(upper)}
        | {"count": int(count), "share": float(count / len(each))}
        for bonus, each in values.items()
        for lower, upper, count in zip(
            edges, edges[1:], np.histogram(np.clip(each, edges[0], edges[-1]), edges)[0], strict=False
        )
    ]


def draw_likelihoods(rows: Sequence[Row]) -> Any:
    """A panel a task, an outline a method; a short stroke on the axis at each method's mean."""
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    methods = list(dict.fromkeys(row["bonus"] for row in rows))
    figure, grid = style.panels("Likelihood under the initial model", len(tasks))
    for axes, task in zip(grid, tasks, strict=True):
        for place, method in enumerate(methods):
            own = [row for row in rows if (row["task"], row["bonus"]) == (task, method)]
            if own:
                look = {name: style.look(place)[name] for name in ("color", "linestyle")}
                edges = [row["from"] for row in own] + [own[-1]["to"]]
                axes.stairs([100 * row["share"] for row in own], edges, linewidth=1.3, **look)
                axes.axvline(own[0]["mean"], ymax=0.05, color=look["color"], linewidth=2.5)
        style.name_panel(axes, task, "one response a question and seed")
        axes.set(xlabel="mean log-probability per token (nats)", ylabel="share of responses a bin (%)")
        axes.set_ylim(bottom=0)
    looks = [{name: style.look(place)[name] for name in ("color", "linestyle")} for place in range(len(methods))]
    handles = [style.mark(NAMES.get(method, method), **look) for method, look in zip(methods, looks, strict=True)]
    style.legend(figure, [*handles, style.mark("first bin: all below it too; stroke: mean", linestyle="none")])
    return figure


def _evaluations(request: Request) -> list[dict[str, Any]]:
    return [rl_eval.read(folder) for folder in request.folders]


class RlPassK:
    """pass@k after RL with each bonus, mean and standard error over seeds."""

    rows, draw = staticmethod(passk_rows), staticmethod(draw_passk)


class RlLikelihoods:
    """Likelihood under the initial model of what each trained policy says (anti-sharpening)."""

    rows, draw = staticmethod(likelihood_rows), staticmethod(draw_likelihoods)
