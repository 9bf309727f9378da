"""Style every figure alike: one font, three sizes, the looks of `looks`, reproducible bytes.

Lines and markers differ as well as colours, so that a figure stays readable in black and white.
"""

from __future__ import annotations

import importlib
import io
import math
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from harness.system import extras

from . import looks
from .looks import COLOURS

MARKERS = tuple(looks.MARKERS.values())
LINES = ("-", *((0, dash) for dash in looks.DASHES[1:]))
GREY = "#767676"
INK = "#222222"
PANEL = (3.3, 2.75)  # inches; a column of a two-column paper is 3.3 wide
COLUMNS = 3
DPI = 200

STYLE = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same on every machine
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.titlelocation": "left",
    "axes.labelsize": 8,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.5,
    "figure.titlesize": 9,
    "figure.titleweight": "bold",
    "legend.fontsize": 7,
    "legend.frameon": False,
    "legend.handlelength": 2.4,
    "lines.linewidth": 1.3,
    "lines.markersize": 4.2,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "pdf.fonttype": 42,  # text stays text: it can be searched and edited
    "savefig.facecolor": "white",
    "svg.hashsalt": "diversity-harness",  # else the names inside the file are random
}
# A date or a version's name would change the bytes of the same figure.
METADATA: dict[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
}


def library(name: str = "") -> Any:
    """Return matplotlib or one of its modules; HarnessError if it is not installed."""
    check()
    return importlib.import_module(f"matplotlib.{name}" if name else "matplotlib")


def check() -> None:
    """Raise HarnessError if matplotlib is missing; called before anything is computed."""
    extras.require("plot", "matplotlib")


@contextmanager
def styled() -> Iterator[None]:
    """Apply the style, and ignore the user's matplotlib settings."""
    with library("style").context(["default", STYLE]):
        yield


def encoded(figure: Any, kind: str) -> bytes:
    """Return the figure as PDF, PNG or SVG; the same version of matplotlib gives the same bytes."""
    content = io.BytesIO()
    figure.savefig(content, format=kind, dpi=DPI, metadata=METADATA[kind])
    return content.getvalue()


def panels(title: str, count: int, columns: int | None = None) -> tuple[Any, list[Any]]:
    """Return a figure with a title, and `count` axes, side by side or in rows.

    columns   axes in a row; None: two for 2 or 4 axes, else at most three
    """
    columns = columns or {1: 1, 2: 2, 4: 2}.get(count, COLUMNS)
    rows = math.ceil(count / columns)
    width = PANEL[0] * columns + (0.6 if columns == 1 else 0)
    lines = textwrap.wrap(title, int(width / 0.078))
    figure = library("figure").Figure(figsize=(width, PANEL[1] * rows + 0.17 * len(lines) + 0.2), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.06, h_pad=0.06, wspace=0.03, hspace=0.05)
    grid = list(figure.subplots(rows, columns, squeeze=False).flat)
    for empty in grid[count:]:
        empty.remove()
    figure.suptitle("\n".join(lines), x=0.012, horizontalalignment="left")
    return figure, grid[:count]


def name_panel(axes: Any, *lines: str) -> None:
    """Set a panel's title; long lines are wrapped."""
    axes.set_title("\n".join(part for line in lines for part in textwrap.wrap(line, 44)))


def short(names: Sequence[str]) -> dict[str, str]:
    """Return name -> the name without its components' parameters (`task:key=value`), if it then equals no other."""
    shorter = {name: re.sub(r":\S*\w", "", name) for name in dict.fromkeys(names)}
    counts = Counter(shorter.values())
    return {name: less if counts[less] == 1 else name for name, less in shorter.items()}


def look(place: int) -> dict[str, Any]:
    """Return colour, marker and line of the series with this index, of series that are no selectors."""
    return _drawn(looks.look(place))


def of_selectors(series: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return colour, marker and line of each series; their names begin with selectors (`looks.looks`)."""
    return {name: _drawn(look) for name, look in looks.looks(series).items()}


def _drawn(look: looks.Look) -> dict[str, Any]:
    line = LINES[looks.DASHES.index(look.dash)]
    return {"color": COLOURS[look.colour], "marker": looks.MARKERS[look.marker], "linestyle": line}


def legend(figure: Any, handles: Sequence[Any]) -> None:
    """Add one legend for all panels below them; the figure grows by the legend's height."""
    width, height = figure.get_size_inches()
    longest = max(len(handle.get_label()) for handle in handles)
    sample = 3.8 if any(handle.is_dashed() for handle in handles) else 2.4  # long enough for dashes beside a marker
    columns = min(len(handles), max(1, int(width / (0.27 + 0.097 * sample + 0.062 * longest))))
    figure.set_size_inches(width, height + 0.15 * math.ceil(len(handles) / columns) + 0.05)
    figure.legend(handles=handles, loc="outside lower left", ncols=columns, handlelength=sample)


def mark(label: str, **appearance: Any) -> Any:
    """Return a legend entry for marks of this appearance."""
    return library("lines").Line2D([], [], label=label, **appearance)


def log_axis(axis: Any, low: float, high: float, base: int = 10) -> None:
    """Make an axis (`axes.xaxis` or `axes.yaxis`) logarithmic from low to high (above 0), with plain tick labels.

    Ticks are 1, 2, 5, 10, ... for base 10, else powers of the base.
    """
    steps = [1.0, 2.0, 5.0] if base == 10 else [1.0]
    ladder = [step * base**power for power in range(-8, 24) for step in steps]
    low, high = low / 1.12, high * 1.12
    ticks = [value for value in ladder if low <= value <= high]
    if len(ticks) < 2:
        low, high = max(v for v in ladder if v <= low * 1.0001), min(v for v in ladder if v >= high)
        ticks = [value for value in ladder if low <= value <= high]
    ticker = library("ticker")
    axis.axes.set(**{f"{axis.axis_name}scale": "log", f"{axis.axis_name}lim": (low, high)})
    axis.set_major_locator(ticker.FixedLocator(ticks[:: max(1, math.ceil(len(ticks) / 9))]))
    axis.set_minor_locator(ticker.NullLocator())
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.10g}"))


def diagonal(axes: Any, low: float, high: float) -> None:
    """Make square log axes with the line y = x, and label both sides of it."""
    for axis in (axes.xaxis, axes.yaxis):
        log_axis(axis, low, high)
    axes.set_aspect("equal")
    axes.plot(axes.get_xlim(), axes.get_xlim(), color=GREY, linewidth=0.8, linestyle=LINES[1], marker="", zorder=1)
    inside = {"transform": axes.transAxes, "color": GREY, "fontsize": 7}
    axes.text(0.03, 0.97, "more calls than random", verticalalignment="top", **inside)
    axes.text(0.97, 0.03, "fewer calls than random", horizontalalignment="right", **inside)
