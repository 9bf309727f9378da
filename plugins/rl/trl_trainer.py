"""The trainer `trl`: GRPO by TRL, for CPUs and single small GPUs, in the harness' own environment.

The run is a child process (`trl_child`), which samples with the harness' engine and shapes rewards with the same bonus
as every trainer; TRL does the loss and the updates. docs/rl-trl.md says what equals verl and what does not.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from operator import attrgetter
from pathlib import Path
from typing import Literal

from harness import HarnessError
from harness.system import extras
from harness.system.json_text import read
from harness_plugins.rl.run_files import read_problems

from .training import Checkpoint, Launch, TrainingRun
from .trl_settings import FOREVER, grpo_arguments
from .verl_memory import GIB, TRAINED, parameter_count

VERSION = "1.16.0"  # trl_grpo overrides private methods of this one
STEP = "step-"
REFERENCE = 4  # bytes a parameter


@dataclass(frozen=True)
class Trl:
    """TRL's GRPO.

    hidden      whose hidden states the bonus sees: "ref", the run's initial model (as in the paper), or "policy"
    rows        responses sampled at once on each device; halved if memory runs out
    processes   number that train together, each on its own device; the bonus sees the rollouts of all
    log_groups  keep every step's rewards, hidden states and log-probabilities in the run's folder `groups`
    """

    hidden: Literal["ref", "policy"] = "ref"
    rows: int = 512
    processes: int = 1
    log_groups: bool = False

    def __post_init__(self) -> None:
        for name in ("rows", "processes"):
            if getattr(self, name) < 1:
                raise HarnessError(f"trl: {name} must be at least 1, got {getattr(self, name)}")

    def check(self, run: TrainingRun) -> Sequence[str]:
        """Check whether the run can start here and return remarks for the user; HarnessError if a check fails.

        Checked are TRL and its version, the options, the number of GPUs, the number of problems, the length of the
        first batch's prompts, and the memory that a model in a folder needs.
        """
        _require_trl()
        grpo_arguments(run, self.processes, 1)
        _require_devices(run.cpu, self.processes)
        return _model_fits(run)

    def launch(self, run: TrainingRun) -> Launch:
        """Return how to start the child, which resumes from the last complete checkpoint; write nothing."""
        module = ["-m", "harness_plugins.rl.trl_child", str(run.folder)]
        several = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={self.processes}"]
        arguments = grpo_arguments(run, self.processes, run.settings.steps or FOREVER)
        return Launch(
            command=[sys.executable, *(several if self.processes > 1 else []), *module],
            environment={"TRL_EXPERIMENTAL_SILENCE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
            | ({"CUDA_VISIBLE_DEVICES": ""} if run.cpu else {}),
            config=json.dumps(arguments, indent=1),
        )

    def saved(self, run: TrainingRun) -> Sequence[Checkpoint]:
        """Return the complete checkpoints in the order of their steps; each is a Hugging Face folder."""
        return complete(run)

    def export(self, run: TrainingRun, checkpoint: Checkpoint) -> Path:
        """Return the checkpoint's folder, which is already in Hugging Face's format."""
        return checkpoint.path


def complete(run: TrainingRun) -> list[Checkpoint]:
    """Return the complete checkpoints in the order of their steps; an incomplete one has another name."""
    folders = [path for path in run.checkpoints.glob(f"{STEP}*") if path.name.removeprefix(STEP).isdecimal()]
    return sorted((Checkpoint(int(path.name.removeprefix(STEP)), path) for path in folders), key=attrgetter("step"))


def _require_trl() -> None:
    extras.require("trainer trl", "trl", "accelerate", "transformers", "torch")
    installed = metadata.version("trl")
    if installed != VERSION:
        raise HarnessError(
            f"trl: trl {VERSION} is needed (parts of it are overridden), found {installed}: "
            f"pip install 'trl=={VERSION}'"
        )


def _require_devices(cpu: bool, processes: int) -> None:
    if cpu:
        return
    import torch

    if torch.cuda.device_count() < processes:
        gpus = "no GPU" if processes == 1 else f"{torch.cuda.device_count()} GPUs for {processes} processes"
        raise HarnessError(f"trl: {gpus} found; train on the CPU with --cpu")


def _model_fits(run: TrainingRun) -> list[str]:
    """Remarks on memory; HarnessError if the model or the problems cannot be used for training."""
    from ..engines.transformers.engine import Transformers
    from ..models.location import locate

    settings, train = run.settings, read_problems(run.problems["train"])
    if len(train) < settings.batch:
        raise HarnessError(f"trl: a batch of {settings.batch} prompts, but only {len(train)} problems to train on")
    engine = Transformers(model=run.model, device="cpu")
    engine.check([messages for _, messages in train[: settings.batch]], settings.max_response)
    folder = locate(run.model).folder
    return [] if folder is None else _memory(folder, run.cpu)


def _memory(folder: Path, cpu: bool) -> list[str]:
    """A remark if too little memory is free; HarnessError if the machine or its GPU has too little in total."""
    config = read(folder / "config.json", "trl:", lenient=True)
    needed = (TRAINED + REFERENCE) * parameter_count(folder, config) / GIB
    free, total = (each / GIB for each in (_main_memory() if cpu else _gpu_memory()))
    where = "this machine" if cpu else "the GPU"
    need = f"the weights, their gradients, the optimiser and the reference need {needed:.1f} GiB, activations aside"
    if needed > total:
        raise HarnessError(f"trl: the model does not fit: {need}; {where} has {total:.1f} GiB")
    return [f"trl: {need}; {free:.1f} GiB of {where} are free"] if needed > free else []


def _main_memory() -> tuple[int, int]:
    """Free and total bytes of main memory; unlimited if the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return sys.maxsize, sys.maxsize
    sizes = {name: int(size.split()[0]) * 1024 for name, _, size in (line.partition(":") for line in lines)}
    return sizes["MemAvailable"], sizes["MemTotal"]


def _gpu_memory() -> tuple[int, int]:
    import torch

    return torch.cuda.mem_get_info()
