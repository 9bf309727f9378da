"""What `harness rl eval`'s file shows: the figures `rl-passk`, `rl-passk-linear` and `rl-likelihoods`, and the table.

The paper's figures on pass@k after training, with the numbers of its arrows in the legend, and on anti-sharpening: one
response per question of each policy, scored under the initial model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from harness.scoring import curves
from harness.scoring.metrics import budgets
from harness.system.console import Heading, console, put, word_table

from ..figures import style
from ..figures.request import PAPERS_SELECTOR, Request, Row
from . import evaluation as rl_eval

BINS = 30
PLAIN = "none"  # the bonus that is none: plain GRPO
NAMES = {PLAIN: "GRPO, no bonus", rl_eval.BASE: "initial model"}
ARROW = ("reached_at", "flat_from", "times_fewer", "times_fewer_low", "times_fewer_high")
GRADERS = {
    "strict": "graded strictly: the answer must stand in the form that the prompt asks for",
    "lenient": "graded leniently: any form of the answer counts",
    "verifier": "graded by the task's verifier",
}


def passk_rows(request: Request, ks: Callable[[int], Sequence[int]] = budgets) -> list[Row]:
    """Return a row per evaluation, method and k = 1, 2, 4, ..., n: pass@k, the mean over seeds, and its standard error.

    In a method's last row, if RepExp needs fewer samples for that pass@n: `reached_at`, how many it needs; `flat_from`,
    how many the method itself needs (n, or fewer if its curve is flat at the end); `times_fewer`, the second divided by
    the first, with its interval (`rl_eval.fewer_samples`). Else None.

    ks  the budgets of n; on a linear axis powers of two lie too far apart
    """
    rows = []
    for evaluation in map(rl_eval.read, request.folders):
        fixed = {name: evaluation[name] for name in ("task", "split", "model", "n")}
        fixed["problems"] = len(evaluation["problems"])
        fewer = rl_eval.fewer_samples(evaluation)
        papers = next((method for method in fewer if method.partition(":")[0] == PAPERS_SELECTOR), None)
        for curve in rl_eval.curves(evaluation):
            factor = fewer[papers].get(curve.bonus) if papers else None
            for k in ks(evaluation["n"]):
                row = {**fixed, "bonus": curve.bonus, "seeds": curve.seeds, "k": k}
                row["pass_at_k"] = float(curve.mean[k - 1])
                row["standard_error"] = None if curve.error is None else float(curve.error[k - 1])
                arrow: Sequence[float | None] = [None] * len(ARROW)
                if factor and factor.times and factor.times > 1 and k == evaluation["n"]:
                    low, high = factor.times_ci or (None, None)
                    arrow = [factor.calls, factor.calls_behind, factor.times, low, high]
                rows.append(row | dict(zip(ARROW, arrow, strict=True)))
    return rows


def draw_passk(rows: Sequence[Row], linear: bool = False) -> Any:
    """Return the figure of pass@k: a panel per task, a line per method with a band of one standard error.

    k is on a log axis, or on a linear one: the paper has both. As in the paper, an arrow goes from the end of a
    method's rise to where RepExp is as high; it says how many times fewer samples that takes.
    """
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    methods = list(dict.fromkeys(row["bonus"] for row in rows))
    figure, grid = style.panels("Pass@k after training", len(tasks))
    for axes, task in zip(grid, tasks, strict=True):
        task_rows = [row for row in rows if row["task"] == task]
        n = task_rows[0]["n"]
        for place, method in enumerate(methods):
            if not (curve := [row for row in task_rows if row["bonus"] == method]):
                continue
            look, k = style.look(place), [row["k"] for row in curve]
            mean = np.array([100 * row["pass_at_k"] for row in curve])
            axes.plot(k, mean, **look, markevery=[k.index(each) for each in budgets(max(k))])
            if curve[0]["standard_error"] is not None:
                error = np.array([100 * row["standard_error"] for row in curve])
                axes.fill_between(k, mean - error, mean + error, color=look["color"], alpha=0.15, linewidth=0)
            _arrow(axes, curve[-1], look["color"], "top" if place % 2 else "bottom", linear)
        style.name_panel(axes, f"{task}, {task_rows[0]['split']}", f"n = {n}, {task_rows[0]['problems']} problems")
        if linear:
            axes.set_xlim(0, 1.02 * n)
        else:
            style.log_axis(axes.xaxis, 1, n, base=2)
        axes.set(xlabel="k", ylabel="pass@k (%)")
    handles = [style.mark(NAMES.get(method, method), **style.look(place)) for place, method in enumerate(methods)]
    seeds = max(row["seeds"] for row in rows)
    band = style.mark(f"band: standard error over {seeds} seeds", linestyle="none")
    style.legend(figure, [*handles, band] if seeds > 1 else handles)
    return figure


def _arrow(axes: Any, row: Row, color: str, side: str, linear: bool) -> None:
    if not row["reached_at"]:
        return
    height, reached, start = 100 * row["pass_at_k"], row["reached_at"], row["flat_from"]
    arrow = {"arrowstyle": "->", "color": color, "linewidth": 1.0, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", (reached, height), (start, height), arrowprops=arrow)
    middle = (reached + start) / 2 if linear else (reached * start) ** 0.5
    text = {"color": color, "fontsize": 7, "horizontalalignment": "center", "verticalalignment": side}
    axes.text(middle, height, f"{row['times_fewer']:.1f}x", **text)


def likelihood_rows(request: Request) -> list[Row]:
    """Return a row per bin of each method, in each evaluation; HarnessError if one has no likelihoods.

    from, to          the bin's edges: mean log-probability per token under the initial model
    count, share      responses in the bin, and their share of the method's
    mean, responses   of the whole method
    """
    rows = []
    for evaluation in map(rl_eval.read, request.folders):
        values: dict[str, list[float]] = {}
        for policy in evaluation["policies"]:
            if "likelihoods" not in policy:
                raise request.refused(
                    f"{evaluation['task']}: the evaluation has no likelihoods: run `harness rl eval` with them"
                )
            values.setdefault(policy["bonus"], []).extend(x for x in policy["likelihoods"] if x is not None)
        every = np.concatenate([np.array(each) for each in values.values()])
        low, high = np.percentile(every, 0.5), every.max()
        edges = np.linspace(low, high if high > low else low + 1.0, BINS + 1)
        fixed = {name: evaluation[name] for name in ("task", "split", "model")}
        for bonus, each in values.items():
            of_method = {**fixed, "bonus": bonus, "mean": float(np.mean(each)), "responses": len(each)}
            counts, _ = np.histogram(np.clip(each, edges[0], edges[-1]), edges)
            rows += [
                {**of_method, "from": float(lower), "to": float(upper), "count": int(count)}
                | {"share": float(count / len(each))}
                for lower, upper, count in zip(edges[:-1], edges[1:], counts, strict=True)
            ]
    return rows


def draw_likelihoods(rows: Sequence[Row]) -> Any:
    """Return the figure of responses' likelihoods under the initial model: a panel per task, a histogram per method.

    A short stroke on the axis marks each method's mean.
    """
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    methods = list(dict.fromkeys(row["bonus"] for row in rows))
    looks = [{name: style.look(place)[name] for name in ("color", "linestyle")} for place in range(len(methods))]
    figure, grid = style.panels("Likelihood under the initial model", len(tasks))
    for axes, task in zip(grid, tasks, strict=True):
        for look, method in zip(looks, methods, strict=True):
            if bins := [row for row in rows if (row["task"], row["bonus"]) == (task, method)]:
                edges = [row["from"] for row in bins] + [bins[-1]["to"]]
                axes.stairs([100 * row["share"] for row in bins], edges, linewidth=1.3, **look)
                axes.axvline(bins[0]["mean"], ymax=0.05, color=look["color"], linewidth=2.5)
        style.name_panel(axes, task, "one response a question and seed")
        axes.set(xlabel="mean log-probability per token (nats)", ylabel="share of responses a bin (%)")
        axes.set_ylim(bottom=0)
    handles = [style.mark(NAMES.get(method, method), **look) for method, look in zip(methods, looks, strict=True)]
    style.legend(figure, [*handles, style.mark("first bin: all below it too; stroke: mean", linestyle="none")])
    return figure


class RlPassK:
    """pass@k after RL with each bonus, mean and standard error over seeds."""

    rows, draw = staticmethod(passk_rows), staticmethod(draw_passk)


class RlPassKLinear:
    """pass@k after RL with each bonus, with k on a linear axis."""

    rows = staticmethod(partial(passk_rows, ks=curves.budgets))
    draw = staticmethod(partial(draw_passk, linear=True))


class RlLikelihoods:
    """Likelihood under the initial model of what each trained policy says (anti-sharpening)."""

    rows, draw = staticmethod(likelihood_rows), staticmethod(draw_likelihoods)


# The table of `harness rl eval`.


def print_table(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a table per grader, with a row per method: pass@k in per cent and its 95 % interval.

    Below a table: the differences from plain GRPO, if that is a row; and how many times fewer samples than another
    method a method needs for that method's pass@n.
    """
    for grader in dict.fromkeys(row["grader"] for row in rows):
        _print_graded([row for row in rows if row["grader"] == grader])


def _print_graded(rows: Sequence[Mapping[str, Any]]) -> None:
    first = rows[0]
    seeds = ", ".join(f"{row['bonus']} {row['seeds']}" for row in rows)
    put(f"{first['task']} · {first['split']} · {first['problems']} problems, n = {first['n']}: pass@k in per cent,")
    put(f"± 95 % interval over problems and seeds ({seeds}; with 1, over problems); {GRADERS[first['grader']]}")
    _print_by_budget("bonus", "", [(row["bonus"], row["pass_at_k"], row["pass_at_k_ci"]) for row in rows])
    others = [row for row in rows if PLAIN in row["gain_over"]]
    gains = [(row["bonus"], row["gain_over"][PLAIN], row["gain_over_ci"][PLAIN]) for row in others]
    _print_by_budget("minus GRPO", "+", gains)
    unsolved = [row["bonus"] for row in rows if not any(row["pass_at_k"].values())]
    if unsolved:
        put(f"no response was correct: {', '.join(unsolved)}; nothing is compared with what solves no problem")
    compared: list[Mapping[str, Any]] = []
    for row in rows:
        ahead = {other: at for other, at in row["fewer_samples"].items() if (at["times"] or 0) >= 1}
        compared += ahead.values()
        texts = []
        for other, at in ahead.items():
            ends = ", ".join("..." if end is None else f"{end:.1f}" for end in at["times_ci"] or ())  # ...: an open end
            texts.append(f"{at['times']:.1f} [{ends or '-'}] times fewer than {other}")
        if texts:
            put(f"samples for another's pass@{first['n']}: {row['bonus']} needs {', '.join(texts)}")
    if compared:
        put("[95 %]: over problems, for these trained models; other trainings would vary more")
    for reason in dict.fromkeys(at["no_interval"] for at in compared if at["no_interval"]):
        put(f"[-]: {reason}")


def _print_by_budget(head: str, sign: str, rows: Sequence[tuple[str, Mapping[str, float], Mapping[str, Any]]]) -> None:
    """Print a row per method and a column per budget k: value and half of the interval, in per cent."""
    if not rows:
        return
    every = list(rows[0][1])
    ks = [k for k in every if k in ("1", "4", "16", "64", "256", every[-1])]
    headings = [Heading(f"pass@{k}", kept=8 if k == ks[-1] else 7 - at, right=True) for at, k in enumerate(ks)]
    cells = [
        [method, *(f"{100 * of[k]:{sign}.1f}" + (f"±{50 * (ci[k][1] - ci[k][0]):.1f}" if ci[k] else "") for k in ks)]
        for method, of, ci in rows
    ]
    put(word_table([Heading(head), *headings], cells, console().width)[0])
