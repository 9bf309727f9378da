"""A paper's table as data: which rows it reports, and what one must know of tasks and models to say what they cost.

Whoever brings tasks may bring such a table (`register_papers`); `harness run --paper --dry-run` prices it (`cost`). The
pools' sizes are not here: they are `Task.paper`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class ModelSize:
    """A causal language model as far as its speed depends on it; figures as its config has them, weights in bfloat16.

    parameters  all of them
    kv_width    key-value heads times head width: what one layer caches of a token, once for keys and once for values
    width       of the hidden state
    """

    parameters: float
    layers: int
    kv_width: int
    width: int

    @property
    def weight_bytes(self) -> float:
        """Of all weights."""
        return 2 * self.parameters

    @property
    def kv_bytes(self) -> float:
        """That one token takes in the key-value cache."""
        return 2.0 * 2 * self.layers * self.kv_width


@dataclass(frozen=True)
class TaskSize:
    """A task as far as its cost depends on it. Lengths and seconds are assumptions, used where nothing was measured.

    problems         in the split that the paper reports
    prompt_tokens    mean, as the model is asked
    response_tokens  mean, of a response at temperature 1
    verdict_s        of one core, a response
    """

    problems: int
    prompt_tokens: float
    response_tokens: float
    verdict_s: float


@dataclass(frozen=True)
class PaperRow:
    """One row: a task, model, sampler and embedder that the paper reports together. `sampler` None: the task's own."""

    finding: str
    task: str
    model: str
    sampler: str | None = None
    embedder: str = "hidden-mean"


@dataclass(frozen=True)
class Paper:
    """A table, and where its figures are from.

    selectors  what the paper compares on each row
    remarks    what a reader must know: what was read into the paper, what is left out
    """

    source: str
    rows: Sequence[PaperRow]
    tasks: Mapping[str, TaskSize]
    models: Mapping[str, ModelSize]
    selectors: Sequence[str] = ("repexp", "uniform")
    remarks: Sequence[str] = ()
