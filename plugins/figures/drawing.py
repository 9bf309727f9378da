"""`harness plot NAME`: the paper's figures (Tuyls et al. 2025, arXiv:2510.11686), from the cells of any folders.

A figure (`register_plots`) has two functions: `rows` makes a table, and `draw` plots that table and nothing else. The
table is written beside the plot as NAME.csv, so that a reader can check each point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, did_you_mean
from harness.plugin_system.component import build
from harness.plugin_system.registry import load_registry
from harness.results import inert_text
from harness.system.files import write_atomically

from .request import Request, Row, rounded

FOLDER = "plots"  # in the store, unless --out names another folder


def listing(plugin_files: Sequence[Path] = ()) -> list[dict[str, str]]:
    """Return each figure's name and what it shows, in the order of registration."""
    plots = [registration for registration in load_registry(plugin_files).registrations if registration.kind == "plot"]
    return [{"name": registration.name, "what": registration.summary()} for registration in plots]


def write(request: Request, out: Path | None = None, kinds: Sequence[str] = ("pdf", "png")) -> list[Path]:
    """Write NAME.KIND for each kind (pdf, png, svg) and NAME.csv to `out` (default: plots/ in the store); their paths.

    HarnessError, one line, if these cells cannot make the figure; it says what to run instead.
    """
    from . import style

    figure, folder = _figure(request), out or request.store / FOLDER
    style.check()
    rows = table(request)
    contents = {"csv": as_csv(rows).encode()}
    with style.styled():
        drawing = figure.draw(rows)
        contents = {kind: style.encoded(drawing, kind) for kind in kinds} | contents
    for kind, content in contents.items():
        write_atomically(folder / f"{request.name}.{kind}", content)
    return [folder / f"{request.name}.{kind}" for kind in contents]


def table(request: Request) -> list[Row]:
    """Return the table from which the figure is drawn; its floats have six significant digits."""
    return [{name: rounded(value) for name, value in row.items()} for row in _figure(request).rows(request)]


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as CSV; missing values are empty, and no text can run as a formula in a spreadsheet."""
    return inert_text.csv_table(rows)


def _figure(request: Request) -> Any:
    registry = load_registry(request.plugin_files)
    known = [registration.name for registration in registry.of_kind("plot")]
    if request.name not in known:
        guess = did_you_mean(request.name, known).replace("installed", "figures")
        raise HarnessError(f"plot: no figure {request.name!r} {guess}")
    figure: Any = build(registry, "plot", request.name)
    return figure
