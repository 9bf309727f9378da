"""What `harness rl eval`'s file shows: the figures `rl-passk`, `rl-passk-linear` and `rl-likelihoods`, and the table.

The paper's figures on pass@k after training, with the numbers of its arrows in the legend, and on anti-sharpening: one
response per question of each policy, scored under the initial model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from harness.scoring import curves
from harness.scoring.metrics import budgets
from harness.system.console import Heading, console, put, word_table

from ..figures.chosen import matching
from ..figures.frame import GREY, INK, LINES, Appearance, Frame, bins, of_selectors, split
from ..figures.request import PAPERS_SELECTOR, Request, Row
from . import evaluation as rl_eval

PLAIN = "none"  # the bonus that is none: plain GRPO
NAMES = {PLAIN: "GRPO, no bonus", rl_eval.BASE: "initial model"}
UNKNOWN = "[-] above: not known (one problem, nothing varies, or as wide as all that is possible)"
# A bonus looks as the selector of its name does in all figures, and plain GRPO as random selection.
LOOKS: dict[str, Appearance] = {
    rl_eval.BASE: {"color": GREY, "marker": "o", "linestyle": LINES[2]},
    PLAIN: {"color": INK, "marker": "s", "linestyle": LINES[1]},
}
ARROW = ("reached_at", "flat_from", "times_fewer", "times_fewer_low", "times_fewer_high")
GRADERS = {
    "strict": "graded strictly: the answer must stand in the form that the prompt asks for",
    "lenient": "graded leniently: any form of the answer counts",
    "verifier": "graded by the task's verifier",
}


class RlPassK:
    """pass@k after RL with each bonus, mean and standard error over seeds."""

    linear = False  # the axis of k

    def rows(self, request: Request) -> list[Row]:
        """Return a row per evaluation, method and k = 1, 2, 4, ..., n: pass@k, the mean over seeds, its standard error.

        In a method's last row, if RepExp needs fewer samples for that pass@n: `reached_at`, how many it needs;
        `flat_from`, how many the method itself needs (n, or fewer if its curve is flat at the end); `times_fewer`, the
        second divided by the first, with its interval (`rl_eval.fewer_samples`). Else None.
        """
        rows = []
        for fixed, evaluation in _evaluations(request):
            fewer, n = rl_eval.fewer_samples(evaluation), evaluation["n"]
            papers = next((method for method in fewer if method.partition(":")[0] == PAPERS_SELECTOR), None)
            ks = curves.budgets(n) if self.linear else budgets(n)  # powers of two lie too far apart on a linear axis
            for curve in rl_eval.curves(evaluation):
                factor, mean, error = fewer[papers].get(curve.bonus) if papers else None, curve.mean, curve.error
                for k in ks:
                    row = {**fixed, "bonus": curve.bonus, "seeds": curve.seeds, "k": k}
                    row["pass_at_k"] = float(mean[k - 1])
                    row["standard_error"] = None if error is None else float(error[k - 1])
                    arrow: Sequence[float | None] = [None] * len(ARROW)
                    if factor and factor.times and factor.times > 1 and k == n:
                        low, high = factor.times_ci or (None, None)
                        arrow = [factor.calls, factor.calls_behind, factor.times, low, high]
                    rows.append(row | dict(zip(ARROW, arrow, strict=True)))
        return rows

    def draw(self, rows: Sequence[Row]) -> Any:
        """Return the figure: a panel per task, a line per method with a band of one standard error.

        As in the paper, an arrow goes from the end of a method's rise to where RepExp is as high; the number at
        its height, right of the panel, says how many times fewer samples that takes.
        """
        looks, seeds = _looks(rows), max(row["seeds"] for row in rows)
        frame = Frame("Pass@k after training", rows, "evaluation")
        for axes, part in frame:
            n, of_method = part[0]["n"], split(part, "bonus")
            for method, curve in of_method.items():
                look, k, mean = looks[method], [row["k"] for row in curve], [100 * row["pass_at_k"] for row in curve]
                axes.plot(k, mean, **look, markevery=[k.index(each) for each in budgets(max(k))])
                if curve[0]["standard_error"] is not None:
                    error = 100 * np.array([row["standard_error"] for row in curve])
                    frame.band(axes, k, mean - error, mean + error, look, 0.15)
            self._arrows(axes, [curve[-1] for curve in of_method.values() if curve[-1]["reached_at"]], looks)
            frame.name(axes, *_names(rows, part), f"n = {n}, {part[0]['problems']} problems")
            if self.linear:
                axes.set_xlim(0, 1.02 * n)
            else:
                frame.log_axis(axes.xaxis, 1, n, base=2)
            axes.set(xlabel="k", ylabel="pass@k (%)")
        notes = [f"band: standard error over {seeds} seeds"] if seeds > 1 else []
        if any(row["reached_at"] for row in rows):
            notes.append("arrow: how many times fewer samples RepExp needs")
        return frame.finish({NAMES.get(method, method): look for method, look in looks.items()}, *notes)

    def _arrows(self, axes: Any, rows: Sequence[Row], looks: Mapping[str, Appearance]) -> None:
        """Draw the arrows, and their numbers beside the panel, where no curve crosses them, one above another."""
        (low, high), above = axes.get_ylim(), 0.0
        for row in sorted(rows, key=lambda row: row["pass_at_k"]):
            height, color = 100 * row["pass_at_k"], looks[row["bonus"]]["color"]
            arrow = {"arrowstyle": "->", "color": color, "linewidth": 1.0, "shrinkA": 0, "shrinkB": 0}
            axes.annotate("", (row["reached_at"], height), (row["flat_from"], height), arrowprops=arrow, zorder=4)
            above = max(above, height)
            text = {"color": color, "fontsize": 7, "verticalalignment": "center"}
            axes.text(1.02, above, f"{row['times_fewer']:.1f}x", transform=axes.get_yaxis_transform(), **text)
            above += (high - low) / 16  # the height of a line of text


class RlPassKLinear(RlPassK):
    """pass@k after RL with each bonus, with k on a linear axis."""

    linear = True


class RlLikelihoods:
    """Likelihood under the initial model of what each trained policy says (anti-sharpening)."""

    def rows(self, request: Request) -> list[Row]:
        """Return a row per bin of each method, in each evaluation; HarnessError if one has no likelihoods.

        from, to          the bin's edges: mean log-probability per token under the initial model
        count, share      responses in the bin, and their share of the method's
        mean, responses   of the whole method
        """
        rows = []
        for fixed, evaluation in _evaluations(request):
            values: dict[str, list[float]] = {}
            for policy in evaluation["policies"]:
                if "likelihoods" not in policy:
                    lacking = "the evaluation has no likelihoods: run `harness rl eval` with them"
                    raise request.refused(f"{evaluation['task']}: {lacking}")
                values.setdefault(policy["bonus"], []).extend(x for x in policy["likelihoods"] if x is not None)
            binned = bins([value for each in values.values() for value in each], values)
            rows += [{**fixed, "bonus": bonus, **row} for bonus, of_method in binned.items() for row in of_method]
        return rows

    def draw(self, rows: Sequence[Row]) -> Any:
        """Return the figure: a panel per task, a histogram per method."""
        looks = {method: {name: look[name] for name in ("color", "linestyle")} for method, look in _looks(rows).items()}
        frame = Frame("Likelihood under the initial model", rows, "evaluation")
        for axes, part in frame:
            frame.histograms(axes, part, "bonus", looks)
            frame.name(axes, *_names(rows, part), "one response a question and seed")
        below = "first bin: all below it too; stroke: mean"
        return frame.finish({NAMES.get(method, method): look for method, look in looks.items()}, below)


# What they share.


def _evaluations(request: Request) -> Iterator[tuple[Row, Mapping[str, Any]]]:
    """Yield each evaluation with the labels that the request names, and the columns that all of its rows have.

    A panel is one evaluation. With a seed only the policies that were trained with it are left, and the initial model.
    """
    names = [(path if path.is_dir() else path.parent).resolve().name for path in request.folders]
    every = []
    for place, (path, name) in enumerate(zip(request.folders, names, strict=True), 1):
        evaluation = rl_eval.read(path)
        fixed = {"evaluation": name if names.count(name) == 1 else f"{name} ({place})"}
        fixed |= {each: evaluation[each] for each in ("task", "split", "model", "n")}
        every.append((fixed | {"problems": len(evaluation["problems"])}, evaluation))
    labels = {name: value for name, value in request.labels.items() if name != "seed"}

    def about(item: tuple[Row, Mapping[str, Any]]) -> Row:
        """Its labels; `--task gsm8k` chooses `gsm8k:fallback=no` too."""
        task = item[0]["task"]
        return item[0] | {"task": task if task == request.task else task.partition(":")[0]}

    for fixed, evaluation in matching(request, every, labels, about, "evaluation"):
        policies = evaluation["policies"]
        if request.seed is not None:
            seeds = sorted({policy["seed"] for policy in policies if policy.get("seed") is not None})
            if request.seed not in seeds:
                there = ", ".join(map(str, seeds)) or "none"
                raise request.refused(f"no policy of {fixed['evaluation']} has seed {request.seed} (it has {there})")
            policies = [policy for policy in policies if policy.get("seed") in (None, request.seed)]
        yield fixed, {**evaluation, "policies": policies}


def _looks(rows: Sequence[Row]) -> dict[str, Appearance]:
    """Each method's look, in the order of the rows."""
    looks = of_selectors([row["bonus"] for row in rows if row["bonus"] not in LOOKS]) | LOOKS
    return {method: looks[method] for method in split(rows, "bonus")}


def _names(rows: Sequence[Row], part: Sequence[Row]) -> list[str]:
    """A panel's name: its task and split, and its folder if another panel has the same."""
    name, alike = (part[0]["task"], part[0]["split"]), split(rows, "task", "split")
    several = len(split(alike[name], "evaluation")) > 1
    return [", ".join(name), *([part[0]["evaluation"]] if several else [])]


# The table of `harness rl eval`.


def print_table(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a table per grader, with a row per method: pass@k in per cent and its 95 % interval.

    The interval is its half width, or [low, high] where it is cut at what is possible, or [-] where it is not known.

    Below a table: the differences from plain GRPO, if that is a row; and how many times fewer samples than another
    method a method needs for that method's pass@n.
    """
    for grader in dict.fromkeys(row["grader"] for row in rows):
        graded = [row for row in rows if row["grader"] == grader]
        first, seeds = graded[0], ", ".join(f"{row['bonus']} {row['seeds']}" for row in graded)
        put(f"{first['task']} · {first['split']} · {first['problems']} problems, n = {first['n']}: pass@k in per cent,")
        put(f"± 95 % interval over problems and seeds ({seeds}; with 1, over problems); {GRADERS[grader]}")
        levels = [(row["bonus"], row["pass_at_k"], row["pass_at_k_ci"]) for row in graded]
        _print_by_budget("bonus", "", levels)
        others = [row for row in graded if PLAIN in row["gain_over"]]
        gains = [(row["bonus"], row["gain_over"][PLAIN], row["gain_over_ci"][PLAIN]) for row in others]
        _print_by_budget("minus GRPO", "+", gains)
        if any(None in of.values() for *_, of in [*levels, *gains]):
            put(UNKNOWN)
        unsolved = [row["bonus"] for row in graded if not any(row["pass_at_k"].values())]
        if unsolved:
            put(f"no response was correct: {', '.join(unsolved)}; nothing is compared with what solves no problem")
        compared: list[Mapping[str, Any]] = []
        for row in graded:
            ahead = {other: at for other, at in row["fewer_samples"].items() if (at["times"] or 0) >= 1}
            compared += ahead.values()
            texts = []
            for other, at in ahead.items():
                ends = ", ".join("..." if end is None else f"{end:.1f}" for end in at["times_ci"] or ())  # ...: open
                texts.append(f"{at['times']:.1f} [{ends or '-'}] times fewer than {other}")
            if texts:
                put(f"samples for another's pass@{first['n']}: {row['bonus']} needs {', '.join(texts)}")
        if compared:
            put("[95 %]: over problems, for these trained models; other trainings would vary more")
        for reason in dict.fromkeys(at["no_interval"] for at in compared if at["no_interval"]):
            put(f"[-]: {reason}")


def in_per_cent(value: float, ends: Sequence[float] | None, sign: str = "") -> str:
    """A value with its interval: 75.0±8.3, or 98.6 [95.8, 100.0] where it is cut, or 50.0 [-] where it is not known."""
    text = f"{100 * value:{sign}.1f}"
    if ends is None:
        return f"{text} [-]"
    low, high = ends
    if abs(low + high - 2 * value) < 1e-4:  # symmetric, so not cut
        return f"{text}±{50 * (high - low):.1f}"
    return f"{text} [{100 * low:{sign}.1f}, {100 * high:{sign}.1f}]"


def _print_by_budget(head: str, sign: str, rows: Sequence[tuple[str, Mapping[str, float], Mapping[str, Any]]]) -> None:
    """Print a row per method and a column per budget k: value and interval, in per cent."""
    if not rows:
        return
    every = list(rows[0][1])
    ks = [k for k in every if k in ("1", "4", "16", "64", "256", every[-1])]
    headings = [Heading(f"pass@{k}", kept=8 if k == ks[-1] else 7 - at, right=True) for at, k in enumerate(ks)]
    cells = [[method, *(in_per_cent(of[k], ci[k], sign) for k in ks)] for method, of, ci in rows]
    put(word_table([Heading(head), *headings], cells, console().width)[0])
