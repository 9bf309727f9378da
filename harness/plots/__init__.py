"""`harness plot NAME`: the paper's figures (Tuyls et al. 2025, arXiv:2510.11686), from the cells of any folders.

A figure is two functions: `rows` makes a table of what is to be drawn, `draw` makes the drawing of that table and of
nothing else. The table is written beside the drawing as NAME.csv, so whoever doubts a point can look it up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.results import inert
from harness.store import shards

from ..errors import HarnessError, did_you_mean
from .request import Figure, Row, rounded
from .request import Request as Request

FOLDER = "plots"  # in the store, where no --out says otherwise


def figures() -> dict[str, Figure]:
    """The figures by name, in the order of docs/plots.md."""
    from . import curves, guided, hardness, likelihoods, models, scatter, training

    found = (
        *scatter.FIGURES,
        *models.FIGURES,
        *hardness.FIGURES,
        *curves.FIGURES,
        *likelihoods.FIGURES,
        *training.FIGURES,
        *guided.FIGURES,
    )
    return {figure.name: figure for figure in found}


def listing() -> list[dict[str, str]]:
    """Each figure's name and what it shows."""
    return [{"name": figure.name, "what": figure.what} for figure in figures().values()]


def write(request: Request, out: Path | None = None) -> list[Path]:
    """Draw the figure; the paths of NAME.pdf, NAME.png and NAME.csv in `out` (default: plots/ in the store).

    HarnessError, one line, for what cannot be drawn from these cells, and what to run instead.
    """
    from . import style

    figure, folder = _figure(request.name), out or request.store / FOLDER
    style.check()
    rows = table(request)
    contents = {"csv": as_csv(rows).encode()}
    with style.styled():
        drawn = figure.draw(rows)
        contents = {kind: style.encoded(drawn, kind) for kind in ("pdf", "png")} | contents
    for kind, content in contents.items():
        shards.write_atomically(folder / f"{request.name}.{kind}", content)
    return [folder / f"{request.name}.{kind}" for kind in contents]


def table(request: Request) -> list[Row]:
    """What the figure draws, a row a mark; numbers have six significant digits, in the drawing too."""
    return [{name: rounded(value) for name, value in row.items()} for row in _figure(request.name).rows(request)]


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as CSV; what there is not is left empty."""
    return inert.csv_table(rows)


def _figure(name: str) -> Figure:
    known = figures()
    if name not in known:
        raise HarnessError(f"plot: no figure {name!r} {did_you_mean(name, known).replace('installed', 'figures')}")
    return known[name]
