"""What is asked of a figure, and what a figure is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from ..errors import HarnessError

Row: TypeAlias = dict[str, Any]
PAPERS_SELECTOR = "repexp"
DIGITS = 6


def _silent(line: str) -> None:
    """Say nothing."""


@dataclass(frozen=True)
class Request:
    """The options of `harness plot`. `say` is told, in one line each, what is left out and why."""

    name: str
    folders: Sequence[Path] = (Path("results"),)
    selector: str | None = None
    embedder: str | None = None
    task: str | None = None
    model: str | None = None
    sampler: str | None = None
    reference: Path | None = None
    k: int | None = None
    store: Path = Path("runs")
    plugin_files: Sequence[Path] = ()
    say: Callable[[str], None] = _silent

    def __post_init__(self) -> None:
        if self.k is not None and self.k < 1:
            raise self.refused(f"-k must be at least 1, got {self.k}")
        for option, figures in (("reference", ("hardness", "guided")), ("k", ("likelihoods",))):
            if getattr(self, option) is not None and self.name not in figures:
                dashes = "-" if len(option) == 1 else "--"
                named = " and ".join(f"`harness plot {figure}`" for figure in figures)
                raise self.refused(f"{dashes}{option} goes with {named} only")

    def refused(self, reason: str) -> HarnessError:
        """The error that says why this figure cannot be drawn."""
        return HarnessError(f"plot {self.name}: {reason}")

    def of_one_selector(self) -> Request:
        """The same of the selector that was asked for, else of the paper's."""
        return replace(self, selector=self.selector or PAPERS_SELECTOR)


def rounded(value: Any) -> Any:
    """The value as tables and drawings have it: a number with six significant digits."""
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


@dataclass(frozen=True)
class Figure:
    """One figure. rows: what is drawn, as a flat table; draw: the drawing (a matplotlib Figure) of such a table."""

    name: str
    what: str
    rows: Callable[[Request], list[Row]]
    draw: Callable[[Sequence[Row]], Any]
