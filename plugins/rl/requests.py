"""Define the options of `harness rl train` and `harness rl eval`; every field is an option, with its help text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from harness.errors import HarnessError
from harness.plugin_system.command_options import Help

from .training import SPLITS

PRESETS = ("paper", "exploring")
PLUGIN = Help("A plugin in a single file; repeatable.", ("--plugin",))


@dataclass(frozen=True, kw_only=True)
class TrainRequest:
    """The options of `harness rl train` except the seed: each seed makes one run.

    data       split ("train", "dev", "test") -> file; "" -> one file for all splits
    settings   fields of `training.Settings`, as text
    overrides  options of the trainer itself, key=value
    """

    task: Annotated[str, Help("What is trained on, e.g. math, gsm8k, dapo-aime, game24.")]
    bonus: Annotated[str, Help("repexp, unlikely or none; name:key=value,...")] = "repexp"
    preset: Annotated[str, Help("paper, or exploring: a bonus that acts in small groups (docs/rl-bonus.md).")] = "paper"
    trainer: Annotated[str, Help("verl or trl; name:key=value,...")] = "verl"
    model: Annotated[str | None, Help("Hub id or folder; default: the task's, else the paper's.")] = None
    data: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    limit: Annotated[int | None, Help("Only the first so many problems of each split.")] = None
    reward: Annotated[
        str | None, Help("strict (the answer in the form asked for; default on the paper's tasks) or lenient.")
    ] = None
    cpu: Annotated[bool, Help("Train without a GPU (small models).")] = False
    overrides: Sequence[str] = ()
    store: Annotated[Path, Help("Runs are folders in its rl/.")] = Path("runs")
    out: Annotated[Path | None, Help("The run's folder, instead of one in the store.")] = None
    plugin_files: Annotated[Sequence[Path], PLUGIN] = ()

    def __post_init__(self) -> None:
        unknown = set(self.data) - {"", *SPLITS}
        if unknown:
            raise HarnessError(f"rl: --data is FILE or SPLIT=FILE with a split of {', '.join(SPLITS)}, got {unknown}")
        if self.limit is not None and self.limit < 1:
            raise HarnessError(f"rl: --limit must be at least 1, got {self.limit}")
        if self.preset not in PRESETS:
            raise HarnessError(f"rl: --preset must be {' or '.join(PRESETS)}, got {self.preset!r}")
        if self.reward not in (None, "strict", "lenient"):
            raise HarnessError(f"rl: --reward must be strict or lenient, got {self.reward!r}")
        for override in self.overrides:
            if "=" not in override:
                raise HarnessError(f"rl: the trainer's own options are written key=value, got {override!r}")


@dataclass(frozen=True, kw_only=True)
class EvalRequest:
    """The options of `harness rl eval`.

    folders     of runs with the same task and initial model
    data        split -> file; "" -> one file for all splits; empty: the runs' data
    """

    folders: Sequence[Path]
    split: Annotated[str, Help("test or dev, as the task's `rl` names them.")] = "test"
    n: Annotated[int, Help("Responses a problem.", ("--n",))] = 256
    step: Annotated[int | None, Help("Of the checkpoint; default: the best by dev pass@1.")] = None
    base: Annotated[bool, Help("Evaluate the initial model too.")] = True
    likelihood: Annotated[bool, Help("Score one response a question under the initial model (anti-sharpening).")] = True
    limit: Annotated[int | None, Help("So many problems, evenly spaced over the split.")] = None
    max_tokens: Annotated[int | None, Help("Longest response; default: as in training.")] = None
    engine: Annotated[str, Help("What samples the responses.")] = "transformers"
    trainer: Annotated[str | None, Help("The runs' trainer, where it had parameters; default: as run.json says.")] = (
        None
    )
    data: Mapping[str, str] = field(default_factory=dict)
    seed: Annotated[int, Help("Of the responses; the same for every policy.")] = 0
    store: Annotated[Path, Help("Runs are folders in its rl/.")] = Path("runs")
    out: Annotated[Path | None, Help("Where rl-eval.json goes; default: rl/ in the store.")] = None
    plugin_files: Annotated[Sequence[Path], PLUGIN] = ()

    def __post_init__(self) -> None:
        if not self.folders:
            raise HarnessError("rl eval: name the folders of one or more runs (harness rl train prints them)")
        if self.split not in ("test", "dev"):
            raise HarnessError(f"rl eval: --split must be test or dev, got {self.split!r}")
        for name in ("n", "limit", "max_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise HarnessError(f"rl eval: --{name.replace('_', '-')} must be at least 1, got {value}")
