"""pass@k curves: `samplers`, `representations` and `passk`; `scoring.curves` defines curves and bands.

`passk` also has what one answer chosen from k random responses is worth: avg@k, maj@k and best-of-k.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from harness.records import Floats
from harness.results.rows import one_answer_of
from harness.scoring import curves
from harness.scoring.metrics import budgets as tabled_budgets

from .calls import CALLS, means
from .chosen import MOST, NO_EMBEDDER, Chosen, called, grouped, measured, named, of_one_selector, several, telling
from .frame import GREY, INK, LINES, Appearance, Frame, of_others, of_selectors, rounded, split, with_ends
from .request import PAPERS_SELECTOR, Request, Row

RANDOM, ORACLE = "random (exact)", "oracle"
RANDOM_LOOK: Appearance = {"color": INK, "marker": "", "linestyle": LINES[1]}
ORACLE_LOOK: Appearance = {"color": GREY, "marker": "", "linestyle": LINES[2], "linewidth": 1.0}
NOBODYS = {"selector": "", "embedder": ""}  # columns of a row that is no selector's


# What the three share.


def _curve(common: Row, ks: Sequence[int], shares: Floats, seed: int | None = None) -> list[Row]:
    """A curve's rows; with a seed they have the ends of its band."""
    rows = [{**common, "k": k, "passed": float(mean)} for k, mean in zip(ks, shares.mean(axis=0), strict=True)]
    if seed is not None:
        for row, low, high in zip(rows, *curves.band(shares, seed), strict=True):
            row |= {"low": float(low), "high": float(high)}
    return rows


def _selected(cell: Chosen, **common: Any) -> list[Row]:
    """The selector's curve, with how many times fewer calls it needs than random for random's pass@k, and the interval.

    An empty `times_fewer`: that pass@k is never reached, or is 0. `times_fewer_low` alone empty: the interval is open
    below; both ends empty: there is none.
    """
    ks, shares = curves.selected_shares(cell.outcomes, _budgets(cell))
    ahead, behind = (curve(cell.outcomes, cell.seed) for curve in (curves.selected_curve, curves.random_curve))
    rows = _curve({**cell.columns, **common}, ks, shares, cell.seed)
    for row, factor in zip(rows, curves.factors(ahead, behind, ks), strict=True):
        row |= with_ends("times_fewer", factor.times, factor.times_ci)
    return rows


def _random(cell: Chosen, **common: Any) -> list[Row]:
    ks = _budgets(cell)
    return _curve({**cell.columns, **NOBODYS, **common}, ks, curves.random_shares(cell.outcomes, ks), cell.seed)


def _budgets(cell: Chosen) -> list[int]:
    return curves.budgets(int(cell.outcomes.n.min()))


def _draw_curves(axes: Any, rows: Sequence[Row], looks: Mapping[Any, Appearance], *by: str, last: int = 0) -> None:
    """Plot the curves in per cent, each with its band where it has one; marks stand at the budgets of the tables.

    last   the largest k on the axis; 0: the panel's own largest budget
    """
    parts = split(rows, *by)
    bands = sum("low" in part[0] for part in parts.values())
    for key, part in parts.items():
        ks, look = [row["k"] for row in part], looks[key]
        marks = [ks.index(k) for k in tabled_budgets(max(ks))]
        axes.plot(ks, [100 * row["passed"] for row in part], **look, markevery=marks)
        if "low" in part[0]:  # many bands make one grey cloud: the more there are, the fainter is each
            low, high = ([100 * row[end] for row in part] for end in ("low", "high"))
            Frame.band(axes, ks, low, high, look, 0.3 / max(bands, 3))
    Frame.log_axis(axes.xaxis, 1.0, last or max(row["k"] for row in rows), base=2)
    sizes, least = {(row["n"], row["problems"]) for row in rows}, max(row["k"] for row in rows)  # of the smallest pool
    spans = [(f"{n}" if least == n else f"{least} to {n}", problems) for n, problems in sizes if len(sizes) == 1]
    Frame.name(axes, rows[0]["panel"], *(f"n = {n}, {problems} problems" for n, problems in spans))
    axes.set(xlabel="k, verifier calls a problem", ylabel="problems solved (pass@k, %)")
    highest = max(row["high"] if "high" in row else row["passed"] for row in rows)
    axes.set_ylim(top=max(100 * highest + 3, 5))


class Samplers:
    """pass@k of a selector and of random, across samplers."""

    def rows(self, request: Request) -> list[Row]:
        """Return the rows: per sampler and budget k, pass@k of the selector and (exact) of random.

        A task and model with only one sampler is left out; HarnessError if nothing is left.
        """
        cells = of_one_selector(request, None)
        groups = grouped(cells, lambda cell: (cell.about["task"], cell.about["split"], cell.about["model"]))
        groups = several(request, groups, ("task", "model"), "sampler", "--grid sampler=vanilla+low-temp")
        names, rows = named(request, [group[0] for group in groups], ("task", "model"), ("sampler",)), []
        for group, panel in zip(groups, names, strict=True):
            for cell in group:
                if set(cell.problems) != set(group[0].problems):
                    who = f"cells {group[0].key} and {cell.key} ({called(cell, ('task', 'model'))})"
                    raise request.refused(f"{who} are not of the same problems: run both with the same --limit")
                series = cell.about["sampler"]
                rows += _random(cell, panel=panel, series=series, by="random")
                rows += _selected(cell, panel=panel, series=series, by="selector")
        return rows

    def draw(self, rows: Sequence[Row]) -> Any:
        selector = next(row["selector"] for row in rows if row["selector"])
        looks = of_others([row["series"] for row in rows], linestyle="-")
        solid, hollow = {"linestyle": "-"}, {"linestyle": LINES[1], "markerfacecolor": "white"}
        lines: dict[str, Appearance] = {"selector": solid, "random": hollow}
        every = {(series, by): look | line for series, look in looks.items() for by, line in lines.items()}
        frame = Frame(f"pass@k of {selector} and of random, across samplers", rows, "panel")
        for axes, part in frame:
            _draw_curves(axes, part, every, "series", "by")
        keys = {selector: lines["selector"], "random": lines["random"]}
        return frame.finish(looks | {key: {"color": INK, **line} for key, line in keys.items()})


class Representations:
    """A selector on several embedders: pass@k, and calls."""

    def rows(self, request: Request) -> list[Row]:
        """Return rows of pass@k curves (`measure` pass@k), and a row per embedder of mean calls (samples-to-correct).

        Random has rows of both. A pool with only one embedder is left out; HarnessError if none is left, or if the
        selector reads no vectors or chooses sets.
        """
        every = of_one_selector(request, CALLS, embedders=True)
        cells = [cell for cell in every if cell.about["embedder"] != NO_EMBEDDER]
        if not cells:
            spec = every[0].about["selector"]
            raise request.refused(f"selector {spec!r} reads no vectors: name one that does (--selector)")
        remedy, groups = "--grid embedder=hidden-mean+hidden-last", grouped(cells, lambda cell: cell.pool)
        groups = several(request, groups, ("task", "model"), "embedder", remedy)
        firsts, rows = [group[0] for group in groups], []
        names = named(request, firsts, ("task", "model", "sampler"), ("embedder",))
        for first, group, panel in zip(firsts, groups, names, strict=True):
            curve, mean = ({"panel": panel, "measure": measure} for measure in ("pass@k", CALLS))
            rows += _random(first, **curve, series=RANDOM)
            for cell in group:
                rows += _selected(cell, **curve, series=cell.about["embedder"])
            rows.append({**first.columns, **NOBODYS, **mean, "series": RANDOM, "calls": means(first)["random"]})
            for cell in group:
                calls = {f"calls{end}": means(cell)[f"selected{end}"] for end in ("", "_low", "_high")}
                rows.append({**cell.columns, **mean, "series": cell.about["embedder"], **calls})
        return rows

    def draw(self, rows: Sequence[Row]) -> Any:
        """Return the figure: two panels per pool, pass@k with bands, and mean verifier calls with 95 % intervals.

        All panels of a kind share their x axis, so that pools can be compared.
        """
        selector = next(row["selector"] for row in rows if row["selector"])
        looks = {RANDOM: RANDOM_LOOK} | of_others([row["series"] for row in rows if row["series"] != RANDOM])
        frame = Frame(f"Representations for {selector}", rows, "panel", "measure", columns=2)
        last = max(row["k"] for row in rows if row["measure"] == "pass@k")
        for axes, part in frame:
            if part[0]["measure"] == "pass@k":
                _draw_curves(axes, part, looks, "series", last=last)
            else:
                self._draw_calls(axes, part, looks)
        ends = [axes.get_xlim() for axes in frame.axes[1::2]]
        for axes in frame.axes[1::2]:
            axes.set_xlim(min(low for low, _ in ends), max(high for _, high in ends))
        return frame.finish(looks)

    def _draw_calls(self, axes: Any, rows: Sequence[Row], looks: Mapping[str, Appearance]) -> None:
        """Plot the embedders one below another, the first on top, and random's mean as a vertical line."""
        random, *others = rows
        axes.axvline(random["calls"], color=RANDOM_LOOK["color"], linestyle=RANDOM_LOOK["linestyle"])
        for height, row in enumerate(reversed(others)):
            look = {**looks[row["series"]], "markersize": 6}
            if row["calls_low"] is not None:
                axes.plot([row["calls_low"], row["calls_high"]], [height] * 2, color=look["color"])
            axes.plot(row["calls"], height, **look)
        axes.set_yticks(range(len(others)), [row["series"] for row in reversed(others)])
        axes.set(xlabel=f"{CALLS} (mean calls, 95 %)", ylim=(-0.6, len(others) - 0.4))
        axes.grid(axis="y", visible=False)


class PassK:
    """pass@k of all selectors of a pool, with random and the oracle."""

    def rows(self, request: Request) -> list[Row]:
        """Return a row per budget of each curve of each pool: random, oracle, one answer of k, then the selectors.

        The selectors are sorted by calls, the fewest first.
        """

        def calls_and_name(cell: Chosen) -> tuple[float, str, str]:
            return cell.metrics.samples_to_correct or math.inf, cell.about["selector"], cell.about["embedder"]

        groups = grouped(measured(request), lambda cell: cell.pool)
        firsts, without = [group[0] for group in groups], ("selector", "embedder")
        names, rows = named(request, firsts, ("task", "model", "sampler"), without, "pools"), []
        for group, panel in zip(groups, names, strict=True):
            first, fields, ks = group[0], telling(request, group, ("selector",)), _budgets(group[0])
            common = {**first.columns, **NOBODYS, "panel": panel}
            part = _random(first, panel=panel, series=RANDOM)
            part += _curve({**common, "series": ORACLE}, ks, curves.oracle_shares(first.outcomes, ks))
            answer = one_answer_of(cell.cell["problems"] for cell in group)
            for series, shares in answer.curves().items():
                part += _curve({**common, "series": series}, answer.ks, shares)
            for cell in sorted(group, key=calls_and_name):  # " · none": it reads no vectors
                part += _selected(cell, panel=panel, series=called(cell, fields).removesuffix(f" · {NO_EMBEDDER}"))
            if left := best_selectors(part)[1]:
                request.say(
                    f"{panel}: of {MOST + len(left)} selectors {MOST} are drawn, by their mean pass@k "
                    f"({PAPERS_SELECTOR} always); in the table only: {', '.join(sorted(left))}"
                )
            rows += part
        return rows

    def draw(self, rows: Sequence[Row]) -> Any:
        """Return the figure: a panel per pool, and per selector a line with its 95 % band.

        At most 12 selectors are drawn, the best ones; the legend says how many more the CSV has.
        """
        left = {panel: best_selectors(part)[1] for panel, part in split(rows, "panel").items()}
        shown = [row for row in rows if not row["selector"] or row["series"] not in left[row["panel"]]]
        answers = list(split([row for row in shown if not row["selector"]], "series"))[2:]
        looks = {RANDOM: RANDOM_LOOK, ORACLE: ORACLE_LOOK}
        # Grey, with a marker that is no selector's; avg@k, the first, is the same for every k and has none.
        for place, series in enumerate(answers):
            line = {"marker": ("", "x", "+", "1", "2", "3", "4")[place % 7], "linestyle": LINES[3 + place % 3]}
            looks[series] = {"color": GREY, "linewidth": 1.0, **line}
        looks |= of_selectors(list(split([row for row in shown if row["selector"]], "series")))
        title = "pass@k by selector" + (", and one answer chosen from k (grey)" if answers else "")
        frame = Frame(title, shown, "panel")
        for axes, part in frame:
            _draw_curves(axes, part, looks, "series")
        fewest, most = min(map(len, left.values())), max(map(len, left.values()))
        return frame.finish(looks, *([f"{'' if fewest == most else 'up to '}{most} more in the CSV"] if most else []))


def best_selectors(rows: Sequence[Row]) -> tuple[list[str], list[str]]:
    """Return the selectors to plot in one panel, at most 12, so that all can be told apart, and those left out.

    If there are more, the paper's selector is plotted and those with the highest mean pass@k over the tables' budgets
    (a subset method has pass@k at these budgets too).
    """
    parts = split([row for row in rows if row["selector"]], "series")
    passed = {series: {row["k"]: rounded(row["passed"]) for row in part} for series, part in parts.items()}
    ks = set(tabled_budgets(max(row["k"] for row in rows))).intersection(*passed.values())
    papers = {series for series, part in parts.items() if part[0]["selector"].partition(":")[0] == PAPERS_SELECTOR}
    best = sorted(parts, key=lambda series: (series not in papers, -fmean(passed[series][k] for k in ks)))
    return best[:MOST], best[MOST:]
