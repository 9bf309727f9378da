"""pass@k curves: `samplers`, `representations` and `passk`; `scoring.curves` defines curves and bands.

`passk` also has what one answer chosen from k random responses is worth: avg@k, maj@k and best-of-k.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from statistics import fmean
from typing import Any

from harness.records import Floats
from harness.results.rows import one_answer_of
from harness.scoring.curves import band, budgets, oracle_shares, random_shares, selected_shares
from harness.scoring.metrics import budgets as tabled_budgets

from . import style
from .against_random import times_fewer
from .chosen import NO_EMBEDDER, Chosen, at_most, called, grouped, measured, of_one_embedder, one_each, telling
from .request import PAPERS_SELECTOR, Request, Row, rounded
from .scatter import calls

CURVES = 12
PANELS = 12
RANDOM, ORACLE = "random (exact)", "oracle"


# The data.


def _curve(cell: Chosen, common: Row, ks: Sequence[int], shares: Floats, banded: bool = True) -> list[Row]:
    rows = [{**common, "k": k, "passed": float(mean)} for k, mean in zip(ks, shares.mean(axis=0), strict=True)]
    if banded:
        for row, low, high in zip(rows, *band(shares, cell.resampling_seed), strict=True):
            row |= {"low": float(low), "high": float(high)}
    return rows


def _selected(cell: Chosen, common: Row) -> list[Row]:
    ks, shares = selected_shares(cell.outcomes, _budgets_of(cell))
    curve = _curve(cell, common, ks, shares)
    return [row | times for row, times in zip(curve, times_fewer(cell, ks), strict=True)]


def _random(cell: Chosen, common: Row) -> list[Row]:
    ks = _budgets_of(cell)
    return _curve(cell, common, ks, random_shares(cell.outcomes, ks))


def _budgets_of(cell: Chosen) -> list[int]:
    return budgets(int(cell.outcomes.n.min()))


def _pool_columns(cell: Chosen) -> Row:
    """The columns about the pool for rows without a selector."""
    return {**cell.columns, "selector": "", "embedder": ""}


# samplers.


def sampler_rows(request: Request) -> list[Row]:
    """Return the rows of figure `samplers`: per sampler and budget k, pass@k of the selector and (exact) of random.

    The selector is `--selector`, else the paper's. A task and model with only one sampler is left out; HarnessError if
    nothing is left.
    """
    request = request.of_one_selector()
    cells = of_one_embedder(request, measured(request))
    groups = grouped(cells, lambda cell: (cell.about["task"], cell.about["split"], cell.about["model"]))
    groups = _several(request, groups, "sampler", "`harness run --grid sampler=vanilla+low-temp`")
    names = telling(request, [group[0] for group in groups], ("task", "model"))
    names = [name for name in names if name != "sampler"]
    return [row for group in groups for row in _of_samplers(request, group, called(group[0], names))]


def _of_samplers(request: Request, group: Sequence[Chosen], panel: str) -> list[Row]:
    one_each(request, group, ("sampler",))
    _same_problems(request, group)
    at_most(request, len(group), CURVES, "samplers")
    rows = []
    for cell in group:
        common = {"panel": panel, "series": cell.about["sampler"]}
        rows += _random(cell, {**_pool_columns(cell), **common, "by": "random"})
        rows += _selected(cell, {**cell.columns, **common, "by": "selector"})
    return rows


def _several(request: Request, groups: Sequence[list[Chosen]], field: str, remedy: str) -> list[list[Chosen]]:
    """The groups with at least two values of the field.

    Each other group is reported as left out; HarnessError if no group has two values.
    """
    comparable = [group for group in groups if len({cell.about[field] for cell in group}) > 1]
    for group in groups:
        who, value = called(group[0], ("task", "model")), group[0].about[field]
        if not comparable:
            raise request.refused(f"{who} was run with one {field} ({value}): run others too, {remedy}")
        if group not in comparable:
            request.say(f"left out: {who}, which was run with one {field} ({value})")
    at_most(request, len(comparable), PANELS, "panels")
    return comparable


def _same_problems(request: Request, group: Sequence[Chosen]) -> None:
    for cell in group[1:]:
        if set(cell.problems) != set(group[0].problems):
            raise request.refused(
                f"cells {group[0].key} and {cell.key} ({called(cell, ('task', 'model'))}) are not of the same "
                "problems: run both with the same --limit"
            )


def draw_samplers(rows: Sequence[Row]) -> Any:
    """Return the figure of `sampler_rows`: a panel per task and model, two lines per sampler.

    The dashed line is random's, the solid one the selector's; bands are 95 %, pointwise.
    """
    selector = next(row["selector"] for row in rows if row["selector"])
    figure, grid = style.panels(f"pass@k of {selector} and of random, across samplers", *_shape(rows))
    samplers = _unique(rows, "series")
    looks = {name: _plain(place) for place, name in enumerate(samplers)}
    for axes, panel in zip(grid, _unique(rows, "panel"), strict=True):
        panel_rows = [row for row in rows if row["panel"] == panel]
        names = _unique(panel_rows, "series")
        for name in names:
            for by, line in (("random", HOLLOW), ("selector", SOLID)):
                curve = [row for row in panel_rows if (row["series"], row["by"]) == (name, by)]
                _draw_curve(axes, curve, looks[name] | line, _shade(2 * len(names)))
        _finish(axes, panel_rows, panel)
    handles = [style.mark(name, **looks[name]) for name in samplers]
    keys = [style.mark(selector, color=style.INK, **SOLID), style.mark("random", color=style.INK, **HOLLOW)]
    style.legend(figure, [*handles, *keys])
    return figure


SOLID: dict[str, Any] = {"linestyle": "-"}
HOLLOW: dict[str, Any] = {"linestyle": style.LINES[1], "markerfacecolor": "white"}


def _plain(place: int) -> dict[str, Any]:
    return {name: value for name, value in style.look(place).items() if name != "linestyle"}


# representations.


def representation_rows(request: Request) -> list[Row]:
    """Return rows of pass@k curves (`measure` pass@k), and a row per embedder of mean calls (samples-to-correct).

    Random has rows of both. A pool with only one embedder is left out; HarnessError if none is left, or if the selector
    reads no vectors or chooses sets.
    """
    request = request.of_one_selector()
    cells = [cell for cell in measured(request) if cell.about["embedder"] != NO_EMBEDDER]
    if not cells:
        raise request.refused(f"selector {request.selector!r} reads no vectors: name one that does (--selector)")
    if any(cell.outcomes.ranks is None for cell in cells):
        raise request.refused(f"selector {request.selector!r} chooses sets, not an order: it has no samples-to-correct")
    groups = _several(
        request, grouped(cells, _pool), "embedder", "`harness run --grid embedder=hidden-mean+hidden-last`"
    )
    fields = telling(request, [group[0] for group in groups], ("task", "model", "sampler"))
    fields = [name for name in fields if name != "embedder"]
    return [row for group in groups for row in _of_representations(request, group, called(group[0], fields))]


def _pool(cell: Chosen) -> Hashable:
    return cell.pool


def _of_representations(request: Request, group: Sequence[Chosen], panel: str) -> list[Row]:
    one_each(request, group, ("embedder",))
    at_most(request, len(group), CURVES, "embedders")
    first = group[0]
    curve = {"panel": panel, "measure": "pass@k"}
    rows = _random(first, {**_pool_columns(first), **curve, "series": RANDOM})
    for cell in group:
        rows += _selected(cell, {**cell.columns, **curve, "series": cell.about["embedder"]})
    mean = {"panel": panel, "measure": "samples-to-correct"}
    rows.append({**_pool_columns(first), **mean, "series": RANDOM, "calls": calls(first)["random"]})
    return rows + [{**cell.columns, **mean, "series": cell.about["embedder"], **_calls(cell)} for cell in group]


def _calls(cell: Chosen) -> Row:
    columns = calls(cell)
    return {"calls": columns["selected"], "calls_low": columns["selected_low"], "calls_high": columns["selected_high"]}


def draw_representations(rows: Sequence[Row]) -> Any:
    """Return the figure of `representation_rows`: two panels per pool, pass@k with bands, and mean verifier calls.

    The calls have 95 % intervals. All panels of a kind share their x axis, so that pools can be compared.
    """
    selector = next(row["selector"] for row in rows if row["selector"])
    names = _unique(rows, "panel")
    series = [name for name in _unique(rows, "series") if name != RANDOM]
    looks = {RANDOM: RANDOM_LOOK} | {name: style.look(place) for place, name in enumerate(series)}
    figure, grid = style.panels(f"Representations for {selector}", 2 * len(names), columns=2)
    for place, panel in enumerate(names):
        panel_rows = [row for row in rows if row["panel"] == panel]
        curves = [row for row in panel_rows if row["measure"] == "pass@k"]
        _draw_curves(grid[2 * place], curves, looks)
        _finish(grid[2 * place], curves, panel, max(row["k"] for row in rows if row["measure"] == "pass@k"))
        _draw_calls(grid[2 * place + 1], [row for row in panel_rows if row["measure"] != "pass@k"], looks)
    ends = [axes.get_xlim() for axes in grid[1::2]]
    for axes in grid[1::2]:
        axes.set_xlim(min(low for low, _ in ends), max(high for _, high in ends))
    style.legend(figure, [style.mark(name, **look) for name, look in looks.items()])
    return figure


def _draw_calls(axes: Any, rows: Sequence[Row], looks: dict[str, dict[str, Any]]) -> None:
    """Plot the embedders one below another, the first on top, and random's mean as a vertical line."""
    random, *measured_rows = rows
    axes.axvline(random["calls"], color=RANDOM_LOOK["color"], linestyle=RANDOM_LOOK["linestyle"])
    for height, row in enumerate(reversed(measured_rows)):
        look = {**looks[row["series"]], "markersize": 6}
        if row["calls_low"] is not None:
            axes.plot([row["calls_low"], row["calls_high"]], [height] * 2, color=look["color"])
        axes.plot(row["calls"], height, **look)
    axes.set_yticks(range(len(measured_rows)), [row["series"] for row in reversed(measured_rows)])
    axes.set(xlabel="samples-to-correct (mean calls, 95 %)", ylim=(-0.6, len(measured_rows) - 0.4))
    axes.grid(axis="y", visible=False)


# passk.


def passk_rows(request: Request) -> list[Row]:
    """Return a row per budget of each curve of each pool: random, oracle, one answer of k, then the selectors.

    The selectors are sorted by calls, the fewest first.
    """
    cells = measured(request)
    groups = grouped(cells, _pool)
    at_most(request, len(groups), PANELS, "pools")
    fields = telling(request, [group[0] for group in groups], ("task", "model", "sampler"))
    fields = [name for name in fields if name not in ("selector", "embedder")]
    rows = [row for group in groups for row in _of_pool(request, group, called(group[0], fields))]
    for panel in _unique(rows, "panel"):
        panel_rows = [row for row in rows if row["panel"] == panel]
        left = sorted(set(_selectors(panel_rows)) - set(best_selectors(panel_rows)))
        if left:
            counts = (
                f"of {CURVES + len(left)} selectors {CURVES} are drawn, by their mean pass@k ({PAPERS_SELECTOR} always)"
            )
            request.say(f"{panel}: {counts}; in the table only: {', '.join(left)}")
    return rows


def _selectors(rows: Sequence[Row]) -> list[str]:
    return _unique([row for row in rows if row["selector"]], "series")


def best_selectors(rows: Sequence[Row]) -> list[str]:
    """Return the selectors to plot in one panel, in the table's order: at most `CURVES`, so that all can be told apart.

    If there are more, it keeps the paper's selector and those with the highest mean pass@k over the tables' budgets
    (a subset method has pass@k at these budgets too).
    """
    names = _selectors(rows)
    passed = {name: {row["k"]: rounded(row["passed"]) for row in rows if row["series"] == name} for name in names}
    ks = set(tabled_budgets(max(row["k"] for row in rows))).intersection(*passed.values())
    papers = {row["series"] for row in rows if str(row["selector"] or "").partition(":")[0] == PAPERS_SELECTOR}
    best = sorted(names, key=lambda name: (name not in papers, -fmean(passed[name][k] for k in ks)))[:CURVES]
    return [name for name in names if name in best]


def _of_pool(request: Request, group: Sequence[Chosen], panel: str) -> list[Row]:
    fields = telling(request, group, ("selector",))
    first = group[0]
    common = {**_pool_columns(first), "panel": panel}
    rows = _random(first, {**common, "series": RANDOM})
    ks = _budgets_of(first)
    rows += _curve(first, {**common, "series": ORACLE}, ks, oracle_shares(first.outcomes, ks), banded=False)
    answer = one_answer_of(cell.cell["problems"] for cell in group)
    for name, shares in answer.curves().items():
        rows += _curve(first, {**common, "series": name}, answer.ks, shares, banded=False)
    for cell in sorted(group, key=_calls_or_last):
        rows += _selected(cell, {**cell.columns, "panel": panel, "series": _reads(cell, called(cell, fields))})
    return rows


def _calls_or_last(cell: Chosen) -> tuple[float, str, str]:
    calls = cell.metrics.samples_to_correct
    return float("inf") if calls is None else calls, cell.about["selector"], cell.about["embedder"]


def _reads(cell: Chosen, name: str) -> str:
    """A curve's name, without "none" for the embedder of a selector that reads no vectors."""
    return name.removesuffix(f" · {NO_EMBEDDER}") if cell.about["embedder"] == NO_EMBEDDER else name


def draw_passk(rows: Sequence[Row]) -> Any:
    """Return the figure of pass@k over k: a panel per pool, and per selector a line with its 95 % band.

    At most `CURVES` selectors are drawn, the best ones; the legend says how many more the CSV has.
    """
    shown, left = [], []
    for panel in _unique(rows, "panel"):
        panel_rows = [row for row in rows if row["panel"] == panel]
        names = best_selectors(panel_rows)
        shown += [row for row in panel_rows if not row["selector"] or row["series"] in names]
        left.append(len(_selectors(panel_rows)) - len(names))
    answers = _unique([row for row in shown if not row["selector"]], "series")[2:]
    looks = {RANDOM: RANDOM_LOOK, ORACLE: ORACLE_LOOK}
    looks |= {name: _one_answer_look(place) for place, name in enumerate(answers)}
    looks |= style.of_selectors(_selectors(shown))
    title = "pass@k by selector" + (", and one answer chosen from k (grey)" if answers else "")
    figure, grid = style.panels(title, *_shape(shown))
    for axes, panel in zip(grid, _unique(shown, "panel"), strict=True):
        panel_rows = [row for row in shown if row["panel"] == panel]
        _draw_curves(axes, panel_rows, looks)
        _finish(axes, panel_rows, panel)
    counted = f"{max(left)} more in the CSV" if min(left) == max(left) else f"up to {max(left)} more in the CSV"
    more = [style.mark(counted, linestyle="none")] if max(left) else []
    style.legend(figure, [*(style.mark(name, **look) for name, look in looks.items()), *more])
    return figure


# Shared by the three plots.

RANDOM_LOOK: dict[str, Any] = {"color": style.INK, "marker": "", "linestyle": style.LINES[1]}
ORACLE_LOOK: dict[str, Any] = {"color": style.GREY, "marker": "", "linestyle": style.LINES[2], "linewidth": 1.0}


def _one_answer_look(place: int) -> dict[str, Any]:
    """Grey, with a marker that is no selector's; avg@k, the first, is the same for every k and has none."""
    marker = ("", "x", "+", "1", "2", "3", "4")[place % 7]
    return {"color": style.GREY, "marker": marker, "linestyle": style.LINES[3 + place % 3], "linewidth": 1.0}


def _unique(rows: Sequence[Row], name: str) -> list[Any]:
    return list(dict.fromkeys(row[name] for row in rows))


def _shape(rows: Sequence[Row]) -> tuple[int]:
    return (len(_unique(rows, "panel")),)


def _draw_curves(axes: Any, rows: Sequence[Row], looks: dict[str, dict[str, Any]]) -> None:
    bands = len(_unique([row for row in rows if "low" in row], "series"))
    for name in _unique(rows, "series"):
        _draw_curve(axes, [row for row in rows if row["series"] == name], looks[name], _shade(bands))


def _shade(bands: int) -> float:
    """How opaque a band is: many bands make one grey cloud, so the more there are, the fainter each is."""
    return 0.3 / max(bands, 3)


def _draw_curve(axes: Any, rows: Sequence[Row], look: dict[str, Any], shade: float) -> None:
    """One curve in per cent, with its band where it has one; marks stand at the budgets of the tables."""
    ks, passed = [row["k"] for row in rows], [100 * row["passed"] for row in rows]
    axes.plot(ks, passed, **look, markevery=[ks.index(k) for k in tabled_budgets(max(ks))])
    if "low" in rows[0]:
        ends = ([100 * row[name] for row in rows] for name in ("low", "high"))
        axes.fill_between(ks, *ends, color=look["color"], alpha=shade, linewidth=0)


def _finish(axes: Any, rows: Sequence[Row], panel: str, last: int | None = None) -> None:
    """Set title and axes; k goes up to `last`, by default to the panel's own largest budget."""
    style.log_axis(axes.xaxis, 1.0, last or max(row["k"] for row in rows), base=2)
    sizes = {(row["n"], row["problems"]) for row in rows}
    n, problems = next(iter(sizes))
    style.name_panel(axes, panel, *([f"n = {n}, {problems} problems"] if len(sizes) == 1 else []))
    axes.set(xlabel="k, verifier calls a problem", ylabel="problems solved (pass@k, %)")
    highest = max(row["high"] if "high" in row else row["passed"] for row in rows)
    axes.set_ylim(top=max(100 * highest + 3, 5))


class Samplers:
    """pass@k of a selector and of random, across samplers."""

    rows, draw = staticmethod(sampler_rows), staticmethod(draw_samplers)


class Representations:
    """A selector on several embedders: pass@k, and calls."""

    rows, draw = staticmethod(representation_rows), staticmethod(draw_representations)


class PassK:
    """pass@k of all selectors of a pool, with random and the oracle."""

    rows, draw = staticmethod(passk_rows), staticmethod(draw_passk)
