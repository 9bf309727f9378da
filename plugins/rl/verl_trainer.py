"""The trainer `verl`: GRPO with the run's bonus inside verl 0.9.1, on GPUs, or on a CPU for small models.

No code of verl is forked or copied. This module is the harness' side and imports neither verl nor Ray: it makes checks,
composes the configuration, and gives the child's command. `verl_child` runs in verl's environment.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness import HarnessError
from harness.system.json_text import read, read_lines
from harness_plugins.rl.run_files import read_problems

from ..models.location import Location, locate
from .training import Checkpoint, Launch, TrainingRun
from .verl_child.resuming import complete
from .verl_config import CHILD, as_text, configuration, devices, sampler_share
from .verl_environment import find_python, installed
from .verl_memory import estimate, parameter_count

DATA = "data"  # in the run's folder: the splits in verl's format
EXPORTED = "hf"  # in a checkpoint's folder
SPLITS = ("train", "dev")  # a trainer never sees the test split


@dataclass(frozen=True)
class Verl:
    """verl's GRPO.

    python    of verl's environment; None: HARNESS_VERL_PYTHON, this one, or .venv-verl
    hidden    whose hidden states the bonus sees: "ref" the initial model's, from the forward pass that the reference
              worker makes anyway; "policy" those of the policy that sampled the responses; "encoder" another model's,
              in a separate process (with LoRA, or if FSDP is not used)
    encoder   hub id or folder of that model; None: the initial model
    """

    python: str | None = None
    hidden: Literal["ref", "policy", "encoder"] = "ref"
    encoder: str | None = None

    def __post_init__(self) -> None:
        if self.encoder is not None and self.hidden != "encoder":
            raise HarnessError(f"verl: encoder={self.encoder} goes with hidden=encoder, not hidden={self.hidden}")

    def check(self, run: TrainingRun) -> Sequence[str]:
        """Check whether the run can start here and return remarks for the user; HarnessError if a check fails.

        Ray is not started. Checked are verl's environment, the model's chat template, the splits' files and sizes, and,
        unless the run is on a CPU, the number of GPUs, their memory, and vLLM.
        """
        python = find_python(self.python)
        versions = installed(python)
        location = locate(run.model)
        _require_chat_template(location)
        _require_data(run)
        remarks = [f"environment: {python}, verl {versions['verl']}"]
        if run.cpu:
            return [*remarks, "CPU: one worker, float32, sampled by the harness' own engine"]
        memory = _check_gpus(run, location)
        if versions["vllm"] is None:
            install = f'{python} -m pip install "verl[vllm]=={versions["verl"]}"'
            raise HarnessError(f"verl: {python} has no vllm, which samples on GPUs: {install}")
        return [*remarks, *memory]

    def launch(self, run: TrainingRun) -> Launch:
        """Write the splits and `verl.yaml` to the run's folder, and return how to start the child."""
        python = find_python(self.python)
        data = {split: _write_split(run, split) for split in SPLITS if split in run.problems}
        config = as_text(run, configuration(run, locate(run.model).source, data, self.hidden == "ref"))
        (run.folder / "verl.yaml").write_text(config, encoding="utf-8")
        return Launch([str(python), "-m", CHILD, str(run.folder.absolute())], _environment(run), config)

    def saved(self, run: TrainingRun) -> Sequence[Checkpoint]:
        """Return the complete checkpoints in the order of their steps."""
        return [Checkpoint(step, path) for step, path in complete(run.checkpoints).items()]

    def export(self, run: TrainingRun, checkpoint: Checkpoint) -> Path:
        """Return a Hugging Face folder with the checkpoint's policy, in bfloat16.

        verl's merger writes it into the checkpoint at the first call. HarnessError if that fails.
        """
        target = checkpoint.path / EXPORTED
        if not target.is_dir():
            part = target.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            self._merge(checkpoint.path / "actor", part)
            part.rename(target)
        return target

    def _merge(self, actor: Path, target: Path) -> None:
        options = ["merge", "--backend", "fsdp", "--local_dir", str(actor), "--target_dir", str(target)]
        command = [str(find_python(self.python)), "-m", "verl.model_merger", *options]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no output"])[-1]
            raise HarnessError(f"verl: {actor} cannot be merged into a Hugging Face folder: {reason}")


def _environment(run: TrainingRun) -> dict[str, str]:
    plugins = [os.environ.get("VERL_USE_EXTERNAL_MODULES"), f"{CHILD}.plugin"]  # by name, if its entry point is missing
    variables = {
        "VERL_USE_EXTERNAL_MODULES": ",".join(filter(None, plugins)),
        "RAY_USAGE_STATS_ENABLED": "0",
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONUNBUFFERED": "1",
    }
    if run.cpu:
        variables |= {"VERL_PLATFORM": "cpu", "VERL_ENGINE_DEVICE": "cuda"}
        variables["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", "1")
    return variables


def _write_split(run: TrainingRun, split: str) -> Path:
    """Write a split as verl reads it; the reward function finds each problem by split and id."""
    import pyarrow as pa
    from pyarrow import parquet

    rows = [
        {
            "data_source": run.task.partition(":")[0],
            "prompt": [dict(message) for message in messages],
            "ability": "reasoning",
            "reward_model": {"style": "rule", "ground_truth": _as_text(problem.reference)},
            "extra_info": {"split": split, "index": index, "problem": problem.id},
        }
        for index, (problem, messages) in enumerate(read_problems(run.problems[split]))
    ]
    path = run.folder / DATA / f"{split}.parquet"
    path.parent.mkdir(exist_ok=True)
    parquet.write_table(pa.Table.from_pylist(rows), path)
    return path.absolute()


def _as_text(reference: Any) -> str:
    return reference if isinstance(reference, str) else json.dumps(reference)


def _require_data(run: TrainingRun) -> None:
    for split in SPLITS:
        if split in run.problems and not run.problems[split].is_file():
            raise HarnessError(f"verl: the {split} split {run.problems[split]} is not there")
    if "train" not in run.problems:
        raise HarnessError("verl: a run needs a train split")
    rows = run.settings.mini_batch * run.settings.rollouts
    if rows % devices(run):
        raise HarnessError(
            f"verl: {rows} responses an update do not divide over {devices(run)} GPUs: change mini_batch"
        )
    count = sum(1 for _ in read_lines(run.problems["train"], "rl problems"))
    if count < run.settings.batch:
        raise HarnessError(
            f"verl: a step takes {run.settings.batch} problems, the train split has {count}: lower batch"
        )


def _require_chat_template(location: Location) -> None:
    """Raise HarnessError without a chat template: verl sends problems as chats. A hub model is checked when loaded."""
    if location.folder is None:
        return
    config = location.folder / "tokenizer_config.json"
    inside = config.is_file() and read(config, "verl:", lenient=True).get("chat_template")
    if not inside and not any(location.folder.glob("chat_template*")):
        raise HarnessError(f"verl: the model {location.name} has no chat template, and verl asks in chats")


def _check_gpus(run: TrainingRun, location: Location) -> list[str]:
    gpus = gpu_memory()
    if not gpus:
        raise HarnessError("verl: no GPU here (nvidia-smi shows none): give --cpu for a small model")
    s = run.settings
    if len(gpus) < s.devices:
        raise HarnessError(f"verl: {s.devices} GPUs are asked for, {len(gpus)} are here: set devices={len(gpus)}")
    if s.devices % s.tensor_parallel:
        raise HarnessError(f"verl: devices={s.devices} is not a multiple of tensor_parallel={s.tensor_parallel}")
    folder = location.folder or _cached(location.name)
    if folder is None:
        return [f"memory: not estimated, {location.name} is not on this disk"]
    config = read(folder / "config.json", "verl:", lenient=True)
    needs = estimate(parameter_count(folder, config), config, s)
    return [needs.require(min(gpus[: s.devices]), sampler_share(s))]


def _cached(model: str) -> Path | None:
    """Return the folder of a hub model in the local cache; None if it is not there."""
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(model, "config.json")
    return Path(config).parent if isinstance(config, str) else None


def gpu_memory() -> list[float]:
    """Return the total GiB of each GPU, as nvidia-smi lists them; [] if nvidia-smi is missing or fails."""
    command = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [float(line) / 1024 for line in listed.splitlines() if line.strip()]
