"""`rl-passk`, `rl-passk-linear`, `rl-likelihoods`: the effect of RL with each bonus, from `harness rl eval`'s file.

The paper's figures on pass@k after training, with the numbers of its arrows in the legend, and on anti-sharpening: one
response per question of each policy, scored under the initial model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from harness.scoring import curves
from harness.scoring.curves import Factor
from harness.scoring.metrics import budgets

from ..figures import frame
from ..figures.request import PAPERS_SELECTOR, Request, Row
from . import evaluation as rl_eval
from .evaluation_file import read

NAMES = {"none": "GRPO, no bonus", "base": "initial model"}


def passk_rows(request: Request) -> list[Row]:
    """Return a row per evaluation, method and k = 1, 2, 4, ..., n: pass@k, the mean over seeds, and its standard error.

    In a method's last row, if RepExp needs fewer samples for that pass@n: `reached_at`, how many it needs; `flat_from`,
    how many the method itself needs (n, or fewer if its curve is flat at the end); `times_fewer`, the second divided by
    the first, with its interval (`rl_eval.fewer_samples`). Else None.
    """
    return [row for evaluation in _evaluations(request) for row in _passk(evaluation, budgets(evaluation["n"]))]


def linear_rows(request: Request) -> list[Row]:
    """Return the rows of `passk_rows` at more budgets: on a linear axis powers of two lie too far apart."""
    return [row for each in _evaluations(request) for row in _passk(each, curves.budgets(each["n"]))]


def _passk(evaluation: Mapping[str, Any], ks: Sequence[int]) -> list[Row]:
    fixed = {name: evaluation[name] for name in ("task", "split", "model", "n")} | {
        "problems": len(evaluation["problems"])
    }
    every = rl_eval.curves(evaluation)
    fewer = rl_eval.fewer_samples(evaluation)
    papers = next((method for method in fewer if method.partition(":")[0] == PAPERS_SELECTOR), None)
    return [
        {**fixed, "bonus": curve.bonus, "seeds": curve.seeds, "k": k, "pass_at_k": float(curve.mean[k - 1])}
        | {"standard_error": None if curve.error is None else float(curve.error[k - 1])}
        | _arrow_columns(fewer[papers].get(curve.bonus) if papers and k == evaluation["n"] else None)
        for curve in every
        for k in ks
    ]


def _arrow_columns(factor: Factor | None) -> Row:
    names = ("reached_at", "flat_from", "times_fewer", "times_fewer_low", "times_fewer_high")
    if factor is None or factor.times is None or factor.times <= 1:
        return dict.fromkeys(names)
    return dict(
        zip(names, (factor.calls, factor.calls_behind, factor.times, *(factor.times_ci or (None, None))), strict=True)
    )


def draw_passk(rows: Sequence[Row], linear: bool = False) -> Any:
    """Return the figure of pass@k: a panel per task, a line per method with a band of one standard error.

    k is on a log axis, or on a linear one: the paper has both. As in the paper, an arrow goes from the end of a
    method's rise to where RepExp is as high; it says how many times fewer samples that takes.
    """
    looks, seeds = frame.of_others(row["bonus"] for row in rows), max(row["seeds"] for row in rows)
    drawn = frame.Frame("Pass@k after training", rows, "task")
    for axes, part in drawn:
        for place, (method, look) in enumerate(looks.items()):
            of_method = [row for row in part if row["bonus"] == method]
            _curve(axes, of_method, look)
            _arrow(axes, [row for row in of_method if row["reached_at"]], look, place % 2 == 0, linear)
        sizes = f"n = {part[0]['n']}, {part[0]['problems']} problems"
        frame.Frame.name(axes, f"{part[0]['task']}, {part[0]['split']}", sizes)
        if linear:
            axes.set_xlim(0, 1.02 * part[0]["n"])
        else:
            frame.Frame.log_axis(axes.xaxis, 1, part[0]["n"], base=2)
        axes.set(xlabel="k", ylabel="pass@k (%)")
    notes = [f"band: standard error over {seeds} seeds"] if seeds > 1 else []
    return drawn.finish({NAMES.get(method, method): look for method, look in looks.items()}, *notes)


def _curve(axes: Any, rows: Sequence[Row], look: frame.Appearance) -> None:
    if not rows:
        return
    k, mean = [row["k"] for row in rows], np.array([100 * row["pass_at_k"] for row in rows])
    axes.plot(k, mean, **look, markevery=[k.index(each) for each in budgets(max(k))])
    if rows[0]["standard_error"] is not None:
        error = np.array([100 * row["standard_error"] for row in rows])
        frame.Frame.band(axes, k, mean - error, mean + error, look, 0.15)


def _arrow(axes: Any, rows: Sequence[Row], look: Mapping[str, Any], above: bool, linear: bool) -> None:
    for row in rows:
        height, reached, start = 100 * row["pass_at_k"], row["reached_at"], row["flat_from"]
        arrow = {"arrowstyle": "->", "color": look["color"], "linewidth": 1.0, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", (reached, height), (start, height), arrowprops=arrow)
        middle = (reached + start) / 2 if linear else (reached * start) ** 0.5
        text = {"color": look["color"], "fontsize": 7, "horizontalalignment": "center"}
        side = "bottom" if above else "top"
        axes.text(middle, height, f"{row['times_fewer']:.1f}x", verticalalignment=side, **text)


def likelihood_rows(request: Request) -> list[Row]:
    """Return a row per bin of each method, in each evaluation; HarnessError if one has no likelihoods.

    from, to          the bin's edges: mean log-probability per token under the initial model
    count, share      responses in the bin, and their share of the method's
    mean, responses   of the whole method
    """
    return [row for evaluation in _evaluations(request) for row in _likelihoods(request, evaluation)]


def _likelihoods(request: Request, evaluation: Mapping[str, Any]) -> list[Row]:
    values: dict[str, list[float]] = {}
    for policy in evaluation["policies"]:
        if "likelihoods" not in policy:
            raise request.refused(
                f"{evaluation['task']}: the evaluation has no likelihoods: run `harness rl eval` with them"
            )
        values.setdefault(policy["bonus"], []).extend(x for x in policy["likelihoods"] if x is not None)
    about = {name: evaluation[name] for name in ("task", "split", "model")}
    binned = frame.bins([value for each in values.values() for value in each], values)
    return [{**about, "bonus": bonus, **row} for bonus, rows in binned.items() for row in rows]


def draw_likelihoods(rows: Sequence[Row]) -> Any:
    """Return the figure of responses' likelihoods under the initial model: a panel per task, a histogram per method."""
    looks = {
        method: {name: look[name] for name in ("color", "linestyle")}
        for method, look in frame.of_others(row["bonus"] for row in rows).items()
    }
    drawn = frame.Frame("Likelihood under the initial model", rows, "task")
    for axes, part in drawn:
        frame.Frame.histograms(axes, part, "bonus", looks)
        frame.Frame.name(axes, part[0]["task"], "one response a question and seed")
    below = "first bin: all below it too; stroke: mean"
    return drawn.finish({NAMES.get(method, method): look for method, look in looks.items()}, below)


def _evaluations(request: Request) -> list[dict[str, Any]]:
    return [read(folder) for folder in request.folders]


class RlPassK:
    """pass@k after RL with each bonus, mean and standard error over seeds."""

    rows, draw = staticmethod(passk_rows), staticmethod(draw_passk)


class RlPassKLinear:
    """pass@k after RL with each bonus, with k on a linear axis."""

    rows, draw = staticmethod(linear_rows), staticmethod(partial(draw_passk, linear=True))


class RlLikelihoods:
    """Likelihood under the initial model of what each trained policy says (anti-sharpening)."""

    rows, draw = staticmethod(likelihood_rows), staticmethod(draw_likelihoods)
