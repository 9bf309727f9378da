"""The options of a figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from harness.errors import HarnessError
from harness.plugin_system.command_options import Help

Row: TypeAlias = dict[str, Any]
PAPERS_SELECTOR = "repexp"
DIGITS = 6
OPTIONS_OF = {"reference": ("hardness", "guided"), "k": ("likelihoods",), "bins": ("guided",)}  # option -> its figures


def _silent(line: str) -> None:
    """Say nothing."""


@dataclass(frozen=True)
class Request:
    """The options of `harness plot`; `say` is called with a line on what is left out, or chosen, and why.

    name      the figure's name
    folders   where the cells are read
    """

    name: str
    folders: Sequence[Path] = (Path("results"),)
    selector: Annotated[str | None, Help("Default repexp; of passk: all.")] = None
    embedder: Annotated[str | None, Help("Default hidden-mean, where there are several.")] = None
    task: Annotated[str | None, Help("Only its cells.")] = None
    model: Annotated[str | None, Help("Only its cells.")] = None
    sampler: Annotated[str | None, Help("Only its cells.")] = None
    reference: Annotated[Path | None, Help("Of hardness, guided: a cell or folder that says what is hard.")] = None
    k: Annotated[int | None, Help("Of likelihoods: how many picks; default n / 8.", ("-k",))] = None
    bins: Annotated[int | None, Help("Of guided: bins of hardness; default 10, under 100 questions 4.")] = None
    store: Annotated[Path, Help("Where pools, vectors, verdicts, rankings and cells are kept.")] = Path("runs")
    plugin_files: Annotated[Sequence[Path], Help("A plugin in a single file; repeatable.", ("--plugin",))] = ()
    say: Callable[[str], None] = _silent

    def __post_init__(self) -> None:
        if self.k is not None and self.k < 1:
            raise self.refused(f"-k must be at least 1, got {self.k}")
        if self.bins is not None and self.bins < 1:
            raise self.refused(f"--bins must be at least 1, got {self.bins}")
        for option, figures in OPTIONS_OF.items():
            if getattr(self, option) is not None and self.name not in figures:
                dashes = "-" if len(option) == 1 else "--"
                named = " and ".join(f"`harness plot {figure}`" for figure in figures)
                raise self.refused(f"{dashes}{option} goes with {named} only")

    def refused(self, reason: str) -> HarnessError:
        """Return the error that says why this figure cannot be plotted."""
        return HarnessError(f"plot {self.name}: {reason}")

    def of_one_selector(self) -> Request:
        """Return the request with the paper's selector if none was given."""
        return replace(self, selector=self.selector or PAPERS_SELECTOR)


def rounded(value: Any) -> Any:
    """Return the value as in tables and plots: a float is rounded to six significant digits."""
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
