"""`scatter`, `questions`, `models` and `hardness`: samples-to-correct of a selector against random selection.

For random selection it is exact on each problem, (N+1)/(c+1); for the selector it is the mean over trials. Both count a
problem without a correct response as N+1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from .chosen import (
    FIELDS,
    Chosen,
    at_most,
    called,
    grouped,
    judge,
    named,
    of_one_selector,
    references,
    several,
    telling,
)
from .frame import (
    GREY,
    INK,
    LINES,
    MARKERS,
    PANEL,
    Appearance,
    Frame,
    inches,
    of_others,
    of_selectors,
    split,
    with_ends,
)
from .request import Request, Row

RANDOM: Appearance = {"color": INK, "marker": "D", "linestyle": LINES[1], "markersize": 3.2}
CALLS = "samples-to-correct"


class Scatter:
    """Samples-to-correct of a selector against random: a mark a task and model."""

    def rows(self, request: Request) -> list[Row]:
        """Return a row per cell: both means, and the selector's 95 % interval."""
        cells = of_one_selector(request, CALLS)
        fields = [field for field in telling(request, cells, ("task", "model")) if field != "task"]
        at_most(request, len({called(cell, fields) for cell in cells}), "models", len(MARKERS))
        at_most(request, len({cell.about["task"] for cell in cells}), "tasks")
        return [
            {**cell.columns, "panel": cell.about["task"], "series": called(cell, fields), **means(cell)}
            for cell in cells
        ]

    def draw(self, rows: Sequence[Row]) -> Any:
        def shared(joint: str, columns: Sequence[str]) -> str:
            alike = [column for column in columns if len({row[column] for row in part}) == 1]
            return joint.join(FIELDS[column].format(part[0][column]) for column in alike)

        selector = rows[0]["selector"]
        looks = of_others([row["series"] for row in rows], linestyle="none", markersize=5.5)
        frame = Frame(f"Samples-to-correct: {selector} against random", rows, "panel")
        for axes, part in frame:
            columns = ("random", "selected", "selected_low", "selected_high")
            values = [row[column] for row in part for column in columns if row[column] is not None]
            _diagonal(axes, min(values), max(values))
            for row in part:
                look = looks[row["series"]]
                Frame.interval(axes, row["random"], row, "selected", look)
                axes.plot(row["random"], row["selected"], markeredgecolor="white", markeredgewidth=0.5, **look)
            Frame.name(axes, shared(" · ", ("task", "sampler", "embedder")), shared(", ", ("n", "problems")))
            axes.set(xlabel="random selection (mean verifier calls)", ylabel=f"{selector} (mean verifier calls)")
        return frame.finish(looks)


def means(cell: Chosen) -> Row:
    """Return a cell's samples-to-correct: `random`, `selected` (the selector's), `selected_low` and `selected_high`.

    The last two are random's value divided by the ends of the improvement's interval; None if there is no interval.
    """
    random, ratios = cell.metrics.samples_to_correct_random, cell.metrics.improvement_ci
    ends = [random / ratio for ratio in reversed(ratios)] if random and ratios else None
    return {"random": random, **with_ends("selected", cell.metrics.samples_to_correct, ends)}


def _diagonal(axes: Any, low: float, high: float) -> None:
    """Make square log axes with the line y = x, and label both sides of it."""
    for axis in (axes.xaxis, axes.yaxis):
        Frame.log_axis(axis, low, high)
    axes.set_aspect("equal", anchor="W")  # the title has the room to the right
    axes.plot(axes.get_xlim(), axes.get_xlim(), color=GREY, linewidth=0.8, linestyle=LINES[1], marker="", zorder=1)
    inside = {"transform": axes.transAxes, "color": GREY, "fontsize": 7}
    axes.text(0.03, 0.97, "more calls than random", verticalalignment="top", **inside)
    axes.text(0.97, 0.03, "fewer calls than random", horizontalalignment="right", **inside)


class Questions:
    """Samples-to-correct of each question, a selector against random: a panel a task and model."""

    def rows(self, request: Request) -> list[Row]:
        """Return a row per problem of each cell: N, c, and the samples-to-correct of random and of the selector.

        `share_win`, `share_tie` and `share_loss` are the cell's, the same in all of its rows.
        """
        cells, rows = of_one_selector(request, CALLS), []
        for cell, series in zip(cells, named(request, cells, ("task", "model")), strict=True):
            shares = {f"share_{each}": getattr(cell.metrics, each) for each in ("win", "tie", "loss")}
            columns = (cell.problems, cell.outcomes.n, cell.outcomes.c, cell.random_calls, cell.calls)
            rows += [
                {**cell.columns, "series": series, "problem": problem, "N": int(n), "c": int(c)}
                | {"random": float(random), "selected": float(selected), **shares}
                for problem, n, c, random, selected in zip(*columns, strict=True)
            ]
        return rows

    def draw(self, rows: Sequence[Row]) -> Any:
        selector, never = rows[0]["selector"], {"marker": "X", "color": GREY}
        colour = of_selectors([selector])[selector]["color"]
        frame = Frame(f"Samples-to-correct of each question: {selector} against random", rows, "series")
        for axes, part in frame:
            _diagonal(axes, 1.0, max(max(row["random"], row["selected"]) for row in part))
            solved, unsolved = (
                sorted(Counter((row["random"], row["selected"]) for row in part if bool(row["c"]) is wanted).items())
                for wanted in (True, False)
            )
            if solved:
                x, y = np.array([place for place, _ in solved]).T
                appearance = {"color": colour, "alpha": 0.65, "linewidths": 0.4, "edgecolors": "white"}
                axes.scatter(x, y, s=9 * np.array([count for _, count in solved]), zorder=3, **appearance)
            for place, count in unsolved:  # one mark and their number: an area would hide the others
                axes.plot(*place, clip_on=False, zorder=3, **never)
                text = {"horizontalalignment": "right", "verticalalignment": "center", "fontsize": 7, "color": GREY}
                axes.annotate(str(count), place, xytext=(-5, 0), textcoords="offset points", **text)
            # How likely fewer, as many and more calls are than those of a random order: exact, unlike counting marks.
            win, tie, loss = (100 * part[0][f"share_{each}"] for each in ("win", "tie", "loss"))
            shares = f"fewer / equal / more: {win:.0f} / {tie:.0f} / {loss:.0f} %"
            Frame.name(axes, part[0]["series"], f"{len(part)} problems", shares)
            axes.set(xlabel="random selection (verifier calls)", ylabel=f"{selector} (verifier calls)")
        marks = {"a question, area by how many lie there": {"marker": "o", "color": colour}}
        marks["how many have no correct response: N + 1 for both"] = never
        return frame.finish({label: look | {"linestyle": "none"} for label, look in marks.items()})


class Models:
    """Relative improvement against the model's rank by pass@1, a line a task."""

    def rows(self, request: Request) -> list[Row]:
        """Return a row per cell: the model's pass@1, its rank on the task (0: the lowest), and the calls saved.

        Calls saved are in per cent of random's, 1 - selector / random. Tasks that only one model ran are left out;
        HarnessError if none is left.
        """
        groups = grouped(of_one_selector(request, CALLS), lambda cell: (cell.about["task"], cell.about["split"]))
        groups, rows = several(request, groups, ("task",), "model", "--model M"), []
        at_most(request, len(groups), "tasks")
        for group in groups:
            ranked = sorted((cell.metrics.pass_at_k_random["1"] or 0.0, cell.about["model"], cell) for cell in group)
            for rank, (pass_at_1, _, cell) in enumerate(ranked):
                about = {"split": cell.about["split"], "pass_at_1": pass_at_1, "rank": rank}
                ratios = (cell.metrics.improvement, *(cell.metrics.improvement_ci or (None, None)))
                saved, *ends = (None if ratio is None else 100 * (1 - 1 / ratio) for ratio in ratios)
                rows.append({**cell.columns, **about, **with_ends("saved", saved, ends)})
        return rows

    def draw(self, rows: Sequence[Row]) -> Any:
        tasks = split(rows, "task", "split")
        looks = of_others(tasks)
        frame = Frame(f"Improvement of {rows[0]['selector']} over random, by model strength", rows)
        ((axes, _),) = frame
        axes.axhline(0, color=GREY, linewidth=0.8, linestyle=LINES[1])
        for place, (task, part) in enumerate(tasks.items()):  # shifted a little, so that no interval hides another
            aside = 0.08 * (place - (len(looks) - 1) / 2)
            Frame.line(axes, [row["rank"] + aside for row in part], part, "saved", looks[task])
        # For a single task the models' names and pass@1 stand at the ranks, aslant where they lack room.
        alone, size = len(looks) == 1, 6
        names = {row["rank"]: (str(row["rank"]), row["model"], f"{100 * row['pass_at_1']:.1f} %") for row in rows}
        ranks, longest = sorted(names), max(inches(model, size) for _, model, _ in names.values())
        aslant = alone and longest * len(ranks) > PANEL[0]
        labels = [(", " if aslant else "\n").join(names[rank]) if alone else str(rank) for rank in ranks]
        slope: Row = {"rotation": 30, "horizontalalignment": "right", "rotation_mode": "anchor"} if aslant else {}
        axes.set_xticks(ranks, labels, fontsize=size if alone else 7, **slope)
        frame.grow(longest / 2 if aslant else 0)
        axes.set_xlim(-0.5, ranks[-1] + 0.5)
        axes.set(xlabel="model, by rank of pass@1 (0 = weakest)" + (", with pass@1" if alone and not aslant else ""))
        axes.set(ylabel="verifier calls saved (% of random's)")
        of_task = Counter(task for task, _ in looks)
        return frame.finish({task[0] if of_task[task[0]] == 1 else " · ".join(task): looks[task] for task in looks})


class Hardness:
    """Samples-to-correct by question hardness, in ten bins."""

    BINS = 10

    def rows(self, request: Request) -> list[Row]:
        """Return a row per bin of each cell: the means of random and of the selector, with standard errors.

        Hardness is random selection's expected samples-to-correct. It is computed on the cell's pool or, as in the
        paper, on another model's pool for the same problems (`--reference`). From the cell's pool it is a noisy
        measure, and random's line rises with it by construction; a reference has neither fault.
        """
        cells, every, rows = of_one_selector(request, CALLS), references(request), []
        names = named(request, cells, ("task", "model"))
        for cell, series in zip(cells, names, strict=True):
            if len(cell.problems) < self.BINS:
                lack = f"{len(cell.problems)} problems, which make no {self.BINS} bins: run more (--limit)"
                raise request.refused(f"{series} has {lack}")
        for cell, series in zip(cells, names, strict=True):
            judging, by = cell, "own pool"
            if request.reference:
                judging = judge(request, every, cell.about["task"], cell.problems, called(cell, ("task", "model")))
                by = judging.about["model"]
            hardness, binned = judging.hardest_last(cell.problems, self.BINS)
            for place, members in enumerate(binned, 1):
                row = {"series": series, "judged_by": by, "bin": place, "questions": len(members)}
                row |= {"hardness_low": float(hardness[members].min()), "hardness_high": float(hardness[members].max())}
                for column, calls in (("random", cell.random_calls[members]), ("selected", cell.calls[members])):
                    error = float(calls.std(ddof=1) / np.sqrt(len(calls))) if len(calls) > 1 else None
                    row |= {column: float(calls.mean()), f"{column}_error": error}
                rows.append({**cell.columns, **row})
        return rows

    def draw(self, rows: Sequence[Row]) -> Any:
        selector, by = rows[0]["selector"], rows[0]["judged_by"]
        looks = {"random": RANDOM, "selected": of_selectors([selector])[selector]}
        frame = Frame(f"Samples-to-correct of {selector} and random, by question hardness", rows, "series")
        for axes, part in frame:
            bins, edges = [row["bin"] for row in part], []
            for column, look in looks.items():
                mean = np.array([row[column] for row in part])
                error = np.array([row[f"{column}_error"] or 0.0 for row in part])
                low, high = np.maximum(mean - error, 1.0), mean + error  # nobody needs less than one call
                Frame.band(axes, bins, low, high, look, 0.18)
                axes.plot(bins, mean, **look)
                edges += [*low, *high]
            Frame.log_axis(axes.yaxis, min(edges), max(edges))
            axes.set_xticks(range(1, self.BINS + 1))
            axes.set(xlabel=f"tenth of the questions, 10 = hardest ({by})", ylabel="mean verifier calls")
            Frame.name(axes, part[0]["series"], f"{part[0]['problems']} problems")
        shade = {"one standard error": {"color": GREY, "alpha": 0.25, "linewidth": 6}}
        return frame.finish({"random selection": RANDOM, selector: looks["selected"], **shade})
