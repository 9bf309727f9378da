"""What a run is asked to do: one record, made by the command line or by a caller."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import HarnessError

MAX_VECTORS_GB = 4.0  # of memory for one problem's given vectors: 250,000 responses of 4,096 features


@dataclass(frozen=True)
class RunConfig:
    """The options of `harness run`. Component options are specs: `name` or `name:key=value,...`. None = the default.

    pool, embeddings  files of one's own, in place of sampling and embedding
    plugin_files      plugins given as files
    ids               a table that says which problem a line of the pool answers
    regrade           grade a pool that carries verdicts with the task's own verifier
    only              a file that lists the ids of the problems that are taken (`harness.running.hardest`)
    adopt             pools of an older version to take responses from, by key; "none": sample anew
    audit             ask the task's second, stricter grader too
    grid              what to cross, `axis=value+value,...` (`harness.running.grid`)
    until_correct     verify responses as they are drawn, and stop a problem at its first correct one
    max_vectors_gb    what one array of `embeddings` may take in memory
    unsafe_exec       let graders run responses' code unconfined where nothing confines it
    rank_timeout      seconds that a selector may take for one problem's pool, all trials together; None = no bound
    """

    selectors: Sequence[str] = ()
    task: str | None = None
    model: str | None = None
    engine: str = "transformers"
    sampler: str | None = None
    embedder: str | None = None
    pool: Path | None = None
    embeddings: Path | None = None
    data: Path | None = None
    split: str | None = None
    n: int | None = None
    limit: int | None = None
    only: Path | None = None
    max_tokens: int | None = None
    trials: int = 5
    seed: int = 0
    dim: int = 512
    paper: bool = False
    ids: Path | None = None
    grid: str | None = None
    regrade: bool = False
    adopt: Sequence[str] | None = None
    audit: bool = False
    until_correct: bool = False
    max_vectors_gb: float = MAX_VECTORS_GB
    unsafe_exec: bool = False
    rank_timeout: float | None = None
    executor: str = "local"
    store: Path = Path("runs")
    plugin_files: Sequence[Path] = ()

    def __post_init__(self) -> None:
        for name in ("n", "limit", "max_tokens", "trials", "dim"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise HarnessError(f"--{name.replace('_', '-')} must be at least 1, got {value}")
        if self.rank_timeout is not None and not 0 < self.rank_timeout < float("inf"):
            raise HarnessError(f"--rank-timeout must be a number of seconds > 0, got {self.rank_timeout:g}")
        if self.seed < 0:
            raise HarnessError(f"--seed must not be negative, got {self.seed}")
        check_max_vectors(self.max_vectors_gb)
        if self.until_correct:
            self._check_sequence()
        elif not self.selectors and not self.grid:
            raise HarnessError("run: say which selectors to compare, e.g. --selector repexp --selector uniform")
        if len(set(self.selectors)) < len(self.selectors):
            raise HarnessError(f"run: a selector is given twice: {', '.join(self.selectors)}")
        if self.task is None and self.pool is None:
            raise HarnessError("run: say what to run, e.g. --task game24, or --pool FILE with verdicts of its own")
        if self.embeddings and not self.pool:
            raise HarnessError("run: --embeddings goes with --pool: vectors of responses that exist already")
        if self.ids and not self.pool:
            raise HarnessError("run: --ids goes with --pool: it maps a pool's lines to the task's problems")
        if self.audit and not self.task and not self.pool:
            raise HarnessError("run: --audit needs --task: its second grader is asked")
        if self.embeddings and self.embedder:
            raise HarnessError("run: give --embeddings or --embedder, not both")

    def _check_sequence(self) -> None:
        for name in ("selectors", "grid", "pool", "embedder", "audit"):
            if getattr(self, name):
                option = name.removesuffix("s")
                raise HarnessError(
                    f"run: --until-correct takes no --{option}: responses are verified in the order they are drawn"
                )


def check_max_vectors(gigabytes: float) -> None:
    """HarnessError unless that is a size."""
    if not (gigabytes > 0 and math.isfinite(gigabytes)):
        raise HarnessError(f"--max-vectors-gb must be above 0 and finite, got {gigabytes:g}")
