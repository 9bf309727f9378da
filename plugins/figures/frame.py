"""The frame of every figure: table and files, style, panels, axes, intervals, bands, looks and the legend.

A figure (`register_plots`) has `rows`, which makes a table, and `draw`, which plots that table and nothing else. The
table is written beside the plot as NAME.csv, so that a reader can check each point. `draw` says only what is its own:

    frame = Frame("Title", rows, "panel")
    for axes, part in frame:                  # the rows of each panel
        axes.plot(...)
        frame.name(axes, part[0]["panel"])
    return frame.finish(looks)                # the legend, of the same looks

Lines and markers differ as well as colours, so that a figure stays readable in black and white. The same table and
version of matplotlib give the same bytes.
"""

from __future__ import annotations

import io
import math
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from harness.errors import HarnessError, did_you_mean
from harness.plugin_system.component import build
from harness.plugin_system.registry import load_registry
from harness.results import inert_text
from harness.system import extras
from harness.system.files import write_atomically

from . import looks
from .request import Request, Row

Appearance: TypeAlias = dict[str, Any]  # keyword arguments of matplotlib

FOLDER = "plots"  # in the store, unless --out names another folder
DIGITS = 6
MARKERS = tuple(looks.MARKERS.values())
LINES = ("-", *((0, dash) for dash in looks.DASHES[1:]))
GREY, INK = "#767676", "#222222"
PANEL = (3.3, 2.75)  # inches; a column of a two-column paper is 3.3 wide
COLUMNS = 3
DPI = 200

STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same on every machine
    **dict.fromkeys(("font.size", "axes.titlesize", "axes.labelsize"), 8),
    **dict.fromkeys(("legend.fontsize", "xtick.labelsize", "ytick.labelsize"), 7),
    **dict.fromkeys(("axes.labelcolor", "axes.edgecolor", "text.color", "xtick.color", "ytick.color"), INK),
    **dict.fromkeys(("axes.linewidth", "xtick.major.width", "ytick.major.width"), 0.6),
    **{"axes.titlelocation": "left", "axes.spines.top": False, "axes.spines.right": False},
    **{"axes.grid": True, "axes.axisbelow": True, "grid.color": "#E4E4E4", "grid.linewidth": 0.5},
    **{"figure.titlesize": 9, "figure.titleweight": "bold", "legend.frameon": False, "legend.handlelength": 2.4},
    **{"lines.linewidth": 1.3, "lines.markersize": 4.2, "savefig.facecolor": "white"},
    "pdf.fonttype": 42,  # text stays text: it can be searched and edited
    "svg.hashsalt": "diversity-harness",  # else the names inside the file are random
}
# A date or a version's name would change the bytes of the same figure.
METADATA: dict[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
}


# Table and files.


def write(request: Request, out: Path | None = None, kinds: Sequence[str] = ("pdf", "png")) -> list[Path]:
    """Write NAME.KIND for each kind (pdf, png, svg) and NAME.csv to `out` (default: plots/ in the store); their paths.

    HarnessError, one line, if these cells cannot make the figure; it says what to run instead.
    """
    _figure(request)  # a wrong name is told before a library that lacks
    extras.require("plot", "matplotlib")
    rows, folder = table(request), out or request.store / FOLDER
    with styled():
        drawing = _figure(request).draw(rows)
        contents = {kind: encoded(drawing, kind) for kind in kinds}
    contents["csv"] = inert_text.csv_table(rows).encode()  # no text in it runs as a formula in a spreadsheet
    for kind, content in contents.items():
        write_atomically(folder / f"{request.name}.{kind}", content)
    return [folder / f"{request.name}.{kind}" for kind in contents]


def table(request: Request) -> list[Row]:
    """Return the table from which the figure is drawn; its floats have six significant digits."""
    return [{name: rounded(value) for name, value in row.items()} for row in _figure(request).rows(request)]


def rounded(value: Any) -> Any:
    """Return the value as in tables and plots: a float is rounded to six significant digits."""
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def _figure(request: Request) -> Any:
    registry = load_registry(request.plugin_files)
    known = [registration.name for registration in registry.of_kind("plot")]
    if request.name not in known:
        guess = did_you_mean(request.name, known, "figures")
        raise HarnessError(f"plot: no figure {request.name!r} {guess}")
    return build(registry, "plot", request.name)


@contextmanager
def styled() -> Iterator[None]:
    """Apply the style, and ignore the user's matplotlib settings."""
    from matplotlib import style

    with style.context(["default", STYLE]):
        yield


def encoded(figure: Any, kind: str) -> bytes:
    """Return the figure as PDF, PNG or SVG."""
    content = io.BytesIO()
    figure.savefig(content, format=kind, dpi=DPI, metadata=METADATA[kind])
    return content.getvalue()


# Panels and legend.


def split(rows: Sequence[Row], *columns: str) -> dict[Any, list[Row]]:
    """Return the rows by their value of a column (of several: by the tuple of values), in the rows' order."""
    parts: dict[Any, list[Row]] = {}
    for row in rows:
        key = tuple(row[column] for column in columns)
        parts.setdefault(key[0] if len(key) == 1 else key, []).append(row)
    return parts


class Frame:
    """A figure with a title, a panel for the rows of each value of some columns, and one legend below all.

    Iterate over it for each panel's axes and rows. Panels stand side by side or in rows of at most three.

    by        columns of the table; none: one panel
    columns   panels in a row; None: two for 2 or 4 panels, else at most three
    """

    def __init__(self, title: str, rows: Sequence[Row], *by: str, columns: int | None = None) -> None:
        from matplotlib.figure import Figure

        self.parts = list(split(rows, *by).values())
        count = len(self.parts)
        columns = columns or {1: 1, 2: 2, 4: 2}.get(count, COLUMNS)
        down = math.ceil(count / columns)
        width = PANEL[0] * columns + (0.6 if columns == 1 else 0)
        lines = lines_of(title, width - 0.2, STYLE["figure.titlesize"], STYLE["figure.titleweight"])
        self.figure: Any = Figure(figsize=(width, PANEL[1] * down + 0.17 * len(lines) + 0.2))
        self.figure.set_layout_engine("constrained", w_pad=0.06, h_pad=0.06, wspace=0.03, hspace=0.05)
        every = list(self.figure.subplots(down, columns, squeeze=False).flat)
        for empty in every[count:]:
            empty.remove()
        self.axes = every[:count]
        self.figure.suptitle("\n".join(lines), x=0.012, horizontalalignment="left")

    def __iter__(self) -> Iterator[tuple[Any, list[Row]]]:
        return zip(self.axes, self.parts, strict=True)

    def finish(self, series: Mapping[str, Appearance], *notes: str) -> Any:
        """Return the figure, grown by a legend: each series with its look, then the notes."""
        from matplotlib.lines import Line2D

        width, entries = (
            self.figure.get_figwidth(),
            [*series.items(), *((note, {"linestyle": "none"}) for note in notes)],
        )
        wrapped = {"\n".join(lines_of(label, width - 0.7)): look for label, look in entries}
        handles = [Line2D([], [], label=label, **look) for label, look in wrapped.items()]
        sample = 3.8 if any(handle.is_dashed() for handle in handles) else 2.4  # long enough for dashes beside a marker
        longest = max(inches(line) for label in wrapped for line in label.splitlines())
        columns = min(len(handles), max(1, int(width / (0.3 + 0.097 * sample + longest))))
        down = math.ceil(sum(label.count("\n") + 1 for label in wrapped) / columns)
        self.grow(0.15 * down + 0.05)
        self.figure.legend(handles=handles, loc="outside lower left", ncols=columns, handlelength=sample)
        return self.figure

    def grow(self, by: float) -> None:
        """Make the figure so many inches higher: room for what is written below the panels."""
        self.figure.set_figheight(self.figure.get_figheight() + by)

    @staticmethod
    def name(axes: Any, *lines: str) -> None:
        """Set a panel's title; long lines are wrapped."""
        room = axes.figure.get_figwidth() / axes.get_gridspec().ncols - 0.55  # beside the ticks and their label
        axes.set_title("\n".join(part for line in lines for part in lines_of(line, room, STYLE["axes.titlesize"])))

    # What is drawn in a panel.

    @staticmethod
    def log_axis(axis: Any, low: float, high: float, base: int = 10) -> None:
        """Make an axis (`axes.xaxis` or `axes.yaxis`) logarithmic from low to high (above 0), with plain tick labels.

        Ticks are 1, 2, 5, 10, ... for base 10, else powers of the base.
        """
        from matplotlib import ticker

        steps = [1.0, 2.0, 5.0] if base == 10 else [1.0]
        ladder = [step * base**power for power in range(-8, 24) for step in steps]
        low, high = low / 1.12, high * 1.12
        ticks = [value for value in ladder if low <= value <= high]
        if len(ticks) < 2:
            low, high = max(v for v in ladder if v <= low * 1.0001), min(v for v in ladder if v >= high)
            ticks = [value for value in ladder if low <= value <= high]
        axis.axes.set(**{f"{axis.axis_name}scale": "log", f"{axis.axis_name}lim": (low, high)})
        axis.set_major_locator(ticker.FixedLocator(ticks[:: max(1, math.ceil(len(ticks) / 9))]))
        axis.set_minor_locator(ticker.NullLocator())
        axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.10g}"))

    @staticmethod
    def interval(
        axes: Any, x: float, row: Row, column: str, look: Appearance, scale: float = 1, width: float = 0.8
    ) -> None:
        """Draw the row's interval of a column (`with_ends`), upright at x, if it has one."""
        ends = [row[f"{column}_low"], row[f"{column}_high"]]
        if ends[0] is not None:
            axes.plot([x, x], [scale * end for end in ends], color=look["color"], linewidth=width)

    @staticmethod
    def line(axes: Any, x: Sequence[float], rows: Sequence[Row], column: str, look: Appearance) -> None:
        """Draw a line through the rows' values of a column at x, with their intervals."""
        axes.plot(x, [row[column] for row in rows], **look)
        for at, row in zip(x, rows, strict=True):
            Frame.interval(axes, at, row, column, look)

    @staticmethod
    def band(axes: Any, x: Sequence[float], low: Any, high: Any, look: Appearance, opacity: float) -> None:
        """Draw the band of a curve, in the curve's colour."""
        axes.fill_between(x, low, high, color=look["color"], alpha=opacity, linewidth=0)

    @staticmethod
    def histograms(
        axes: Any, rows: Sequence[Row], by: str, looks: Mapping[Any, Appearance], filled: bool = False
    ) -> None:
        """Draw the outline of each group's likelihoods, a row a bin, and a short stroke on the axis at its mean."""
        for group, part in split(rows, by).items():
            shares, edges = [100 * row["share"] for row in part], [row["from"] for row in part] + [part[-1]["to"]]
            axes.stairs(shares, edges, linewidth=1.3, **looks[group])
            if filled:
                axes.stairs(shares, edges, fill=True, color=looks[group]["color"], alpha=0.07)
            axes.axvline(part[0]["mean"], ymax=0.05, color=looks[group]["color"], linewidth=2.5)
        axes.set(xlabel="mean log-probability per token (nats)", ylabel="share of responses a bin (%)")
        axes.set_ylim(bottom=0)


def inches(text: str, size: float = STYLE["legend.fontsize"], weight: str = "normal") -> float:
    """Return how wide a line of text is, in a font of so many points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family=STYLE["font.family"], size=size, weight=weight)
    return float(text_to_path.get_text_width_height_descent(text, font, ismath=False)[0]) / 72


def lines_of(text: str, room: float, size: float = STYLE["legend.fontsize"], weight: str = "normal") -> list[str]:
    """Return the text as lines of at most so many inches; a word that is wider than a line is broken."""
    together = text.replace(" · ", "\u00a0· ").replace(" = ", "\u00a0=\u00a0")  # no line begins with the dot
    lines: list[str] = []
    for most in range(len(text), 0, -1):
        wrapped = textwrap.wrap(together, most, break_on_hyphens=False)
        lines = [line.replace("\u00a0", " ").strip() for line in wrapped]
        if all(inches(line, size, weight) <= room for line in lines):
            break
    return lines


def with_ends(column: str, value: float | None, ends: Sequence[float | None] | None) -> Row:
    """Return a column and its interval as they stand in a row: COLUMN, COLUMN_low, COLUMN_high."""
    low, high = ends or (None, None)
    return {column: value, f"{column}_low": low, f"{column}_high": high}


def short(names: Sequence[str]) -> dict[str, str]:
    """Return name -> the name without its components' parameters (`task:key=value`), if it then equals no other."""
    shorter = {name: re.sub(r":\S*\w", "", name) for name in dict.fromkeys(names)}
    counts = Counter(shorter.values())
    return {name: less if counts[less] == 1 else name for name, less in shorter.items()}


# Looks.


def of_selectors(series: Sequence[str], **more: Any) -> dict[str, Appearance]:
    """Return colour, marker and line of each series; their names begin with selectors (`looks.looks`)."""
    return {name: _drawn(look) | more for name, look in looks.looks(series).items()}


def of_others(series: Iterable[Any], **more: Any) -> dict[Any, Appearance]:
    """Return colour, marker and line of each series that is no selector; twelve differ in marker."""
    return {name: _drawn(look) | more for name, look in looks.of_others(series).items()}


def _drawn(look: looks.Look) -> Appearance:
    line = LINES[looks.DASHES.index(look.dash)]
    return {"color": looks.COLOURS[look.colour], "marker": looks.MARKERS[look.marker], "linestyle": line}


def bins(values: Any, groups: Mapping[str, Any], count: int = 30, left: float = 0.5) -> dict[str, list[Row]]:
    """Return each group's histogram: `from`, `to`, `count` and `share` of each bin, `mean` and `responses` of all.

    left   per cent of the values that lie left of the first edge and count in the first bin, or they would stretch it
    """
    low, high = np.percentile(values, left), np.max(values)
    edges = np.linspace(low, high if high > low else low + 1.0, count + 1)
    made: dict[str, list[Row]] = {}
    for name, group in groups.items():
        counts = np.histogram(np.clip(group, edges[0], edges[-1]), edges)[0]
        made[name] = [
            {"mean": float(np.mean(group)), "responses": len(group), "from": float(start), "to": float(end)}
            | {"count": int(inside), "share": float(inside / len(group))}
            for start, end, inside in zip(edges, edges[1:], counts, strict=False)
            if len(group)
        ]
    return made
