"""A paper's table as data: the rows that it reports, and the sizes of tasks and models that decide their cost.

A plugin with tasks may also register such a table (`register_papers`); `harness run --paper --dry-run` estimates its
cost (plugin `cost`). The pools' sizes are in `Task.paper`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class ModelSize:
    """The sizes of a causal language model that decide its speed, as its config gives them; weights in bfloat16.

    parameters  number of all parameters
    kv_width    key-value heads times head width: what one layer caches of a token, once for keys and once for values
    width       of the hidden state
    """

    parameters: float
    layers: int
    kv_width: int
    width: int

    @property
    def weight_bytes(self) -> float:
        """Bytes of all weights."""
        return 2 * self.parameters

    @property
    def kv_bytes(self) -> float:
        """Bytes that one token takes in the key-value cache."""
        return 2.0 * 2 * self.layers * self.kv_width


@dataclass(frozen=True)
class TaskSize:
    """The sizes of a task that decide its cost. Lengths and seconds are assumptions, used if nothing was measured.

    problems         number of problems in the split that the paper reports
    prompt_tokens    mean length of a prompt, as the model gets it
    response_tokens  mean length of a response at temperature 1
    verdict_s        seconds of one core to grade a response
    """

    problems: int
    prompt_tokens: float
    response_tokens: float
    verdict_s: float


@dataclass(frozen=True)
class PaperRow:
    """A row of the table: task, model, sampler and embedder.

    finding  the paper's finding that the row serves ("RF4"); printed tables name the row by it
    sampler  None: the one that the task's `paper` names
    """

    finding: str
    task: str
    model: str
    sampler: str | None = None
    embedder: str = "hidden-mean"


@dataclass(frozen=True)
class Paper:
    """A paper's table, and the source of its numbers.

    selectors  the selectors that the paper compares on each row
    remarks    what a reader must know: where the paper had to be interpreted, what is left out
    """

    source: str
    rows: Sequence[PaperRow]
    tasks: Mapping[str, TaskSize]
    models: Mapping[str, ModelSize]
    selectors: Sequence[str] = ("repexp", "uniform")
    remarks: Sequence[str] = ()
