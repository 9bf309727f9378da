"""The options of a figure; nothing here is slow to import."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from harness.errors import HarnessError
from harness.plugin_system.command_options import Help

Row: TypeAlias = dict[str, Any]
PAPERS_SELECTOR = "repexp"
CHOICES = ("task", "model", "sampler", "embedder", "selector", "n", "seed")  # the options that choose cells by a label
OPTIONS_OF = {"reference": ("hardness", "guided"), "k": ("likelihoods",), "bins": ("guided",)}  # option -> its figures


@dataclass(frozen=True)
class Request:
    """The options of `harness plot`.

    name      the figure's name
    folders   where the cells are read
    say       called with a line on what is left out, or chosen, and why
    """

    name: str
    folders: Sequence[Path] = (Path("results"),)
    selector: Annotated[str | None, Help("Default repexp; of passk: all.")] = None
    embedder: Annotated[str | None, Help("Default hidden-mean, where there are several.")] = None
    task: Annotated[str | None, Help("Only its cells.")] = None
    model: Annotated[str | None, Help("Only its cells.")] = None
    sampler: Annotated[str | None, Help("Only its cells.")] = None
    n: Annotated[int | None, Help("Only cells with so many responses a problem.")] = None
    seed: Annotated[int | None, Help("Only cells of pools that were sampled with this seed.")] = None
    reference: Annotated[Path | None, Help("Of hardness, guided: a cell or folder that says what is hard.")] = None
    k: Annotated[int | None, Help("Of likelihoods: how many picks; default n / 8.", ("-k",))] = None
    bins: Annotated[int | None, Help("Of guided: bins of hardness; default 10, under 100 questions 4.")] = None
    random_weights: Annotated[bool, Help("Draw cells of random weights too, which are tests.")] = False
    store: Annotated[Path, Help("Where pools, vectors, verdicts, rankings and cells are kept.")] = Path("runs")
    plugin_files: Annotated[Sequence[Path], Help("A plugin in a single file; repeatable.", ("--plugin",))] = ()
    say: Callable[[str], None] = lambda line: None

    def __post_init__(self) -> None:
        for option, figures in OPTIONS_OF.items():
            value, dashed = getattr(self, option), f"-{option}" if len(option) == 1 else f"--{option}"
            if isinstance(value, int) and value < 1:
                raise self.refused(f"{dashed} must be at least 1, got {value}")
            if value is not None and self.name not in figures:
                named = " and ".join(f"`harness plot {figure}`" for figure in figures)
                raise self.refused(f"{dashed} goes with {named} only")

    @property
    def labels(self) -> Row:
        """The labels of the cells to show, by option."""
        return {name: getattr(self, name) for name in CHOICES if getattr(self, name) is not None}

    def refused(self, reason: str) -> HarnessError:
        """Return the error that says why this figure cannot be plotted."""
        return HarnessError(f"plot {self.name}: {reason}")
