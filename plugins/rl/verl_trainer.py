"""The trainer `verl`: GRPO with the run's bonus inside verl 0.9.1, on GPUs, or on a CPU for small models.

No code of verl is forked or copied. This module is the harness' side and imports neither verl nor Ray: it finds verl's
environment, makes checks, composes the configuration, and gives the child's command. `verl_child` runs in that
environment.

The memory of a GPU is estimated from the model's files alone. Bytes a parameter: float32 weights, gradients and Adam's
two moments are 16, shared by all GPUs (FSDP); the sampler's bfloat16 weights are 2, shared by the GPUs that one sampler
spans. The reference stays in the CPU's memory. Activations and logits are not counted: a refused run cannot fit, and an
accepted one may still run out of memory.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any, Literal

from harness import HarnessError
from harness.system.json_text import parsed, read

from ..environments.second_environment import SecondEnvironment
from ..models.location import Location, locate
from .training import Checkpoint, Launch, Settings, TrainingRun, read_problems
from .verl_config import CHILD, as_text, configuration, devices, sampler_share

VERSION = "0.9.1"  # verl_child overrides private methods of this one
VARIABLE = "HARNESS_VERL_PYTHON"
MAKE = 'make one: python -m venv .venv-verl && .venv-verl/bin/pip install "diversity-harness[verl]"'
VERL = SecondEnvironment("verl", "verl", VARIABLE, Path(".venv-verl") / "bin" / "python", MAKE)
STEP = "global_step_"
MARK = "complete"  # in a checkpoint's folder once everything is written
GIB = 2**30
TRAINED = 16  # bytes a parameter while the policy is updated
RESTING = 12  # while the sampler runs, with gradients freed
SAMPLED = 2  # of the sampler's weights


@dataclass(frozen=True)
class Verl:
    """verl's GRPO.

    python    of verl's environment; None: HARNESS_VERL_PYTHON, this one, or .venv-verl
    hidden    whose hidden states the bonus sees: "ref" the initial model's, from the forward pass that the reference
              worker makes anyway; "policy" those of the policy that sampled the responses
    """

    python: str | None = None
    hidden: Literal["ref", "policy"] = "ref"

    def check(self, run: TrainingRun) -> Sequence[str]:
        """Check whether the run can start here and return remarks for the user; HarnessError if a check fails.

        Ray is not started. Checked are verl's environment, how responses are divided over workers, and, unless the run
        is on a CPU, the number of GPUs, their memory, and vLLM.
        """
        python = find_python(self.python)
        versions, location = installed(python), locate(run.model)
        rows = run.settings.mini_batch * run.settings.rollouts
        if rows % devices(run):
            raise HarnessError(
                f"verl: {rows} responses an update do not divide over {devices(run)} GPUs: change mini_batch"
            )
        remarks = [f"environment: {python}, verl {versions['verl']}"]
        if run.cpu:
            return [*remarks, "CPU: one worker, float32, sampled by the harness' own engine"]
        memory = _check_gpus(run, location)
        if versions["vllm"] is None:
            install = f'{python} -m pip install "verl[vllm]=={versions["verl"]}"'
            raise HarnessError(f"verl: {python} has no vllm, which samples on GPUs: {install}")
        return [*remarks, memory]

    def launch(self, run: TrainingRun) -> Launch:
        """Write the splits and `verl.yaml` to the run's folder, and return how to start the child."""
        python = find_python(self.python)
        data = {split: _write_split(run, split) for split in ("train", "dev") if split in run.problems}
        config = as_text(run, configuration(run, locate(run.model).source, data, self.hidden == "ref"))
        (run.folder / "verl.yaml").write_text(config, encoding="utf-8")
        modules = [os.environ.get("VERL_USE_EXTERNAL_MODULES"), f"{CHILD}.plugin"]  # if its entry point is missing
        environment = {
            "VERL_USE_EXTERNAL_MODULES": ",".join(filter(None, modules)),
            "RAY_USAGE_STATS_ENABLED": "0",
            "TOKENIZERS_PARALLELISM": "false",
            "PYTHONUNBUFFERED": "1",
        }
        if run.cpu:
            environment |= {"VERL_PLATFORM": "cpu", "VERL_ENGINE_DEVICE": "cuda"}
            environment["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", "1")
        return Launch([str(python), "-m", CHILD, str(run.folder.absolute())], environment, config)

    def saved(self, run: TrainingRun) -> Sequence[Checkpoint]:
        """Return the complete checkpoints in the order of their steps: those that were marked at their end."""
        marked = [mark.parent for mark in run.checkpoints.glob(f"{STEP}*/{MARK}")]
        steps = {int(folder.name.removeprefix(STEP)): folder for folder in marked}
        return [Checkpoint(step, steps[step]) for step in sorted(steps)]

    def export(self, run: TrainingRun, checkpoint: Checkpoint) -> Path:
        """Return a Hugging Face folder with the checkpoint's policy, in bfloat16.

        verl's merger writes it into the checkpoint at the first call. HarnessError if that fails.
        """
        target, actor = checkpoint.path / "hf", checkpoint.path / "actor"
        if not target.is_dir():
            part = target.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            options = ["merge", "--backend", "fsdp", "--local_dir", str(actor), "--target_dir", str(part)]
            command = [str(find_python(self.python)), "-m", "verl.model_merger", *options]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                reason = (done.stderr.strip().splitlines() or ["no output"])[-1]
                raise HarnessError(f"verl: {actor} cannot be merged into a Hugging Face folder: {reason}")
            part.rename(target)
        return target


def _write_split(run: TrainingRun, split: str) -> Path:
    """Write a split as verl reads it; the reward function finds each problem by split and id."""
    import pyarrow as pa
    from pyarrow import parquet

    rows = []
    for index, (problem, messages) in enumerate(read_problems(run.problems[split])):
        truth = problem.reference if isinstance(problem.reference, str) else json.dumps(problem.reference)
        rows.append(
            {
                "data_source": run.task.partition(":")[0],
                "prompt": [dict(message) for message in messages],
                "ability": "reasoning",
                "reward_model": {"style": "rule", "ground_truth": truth},
                "extra_info": {"split": split, "index": index, "problem": problem.id},
            }
        )
    path = run.folder / "data" / f"{split}.parquet"
    path.parent.mkdir(exist_ok=True)
    parquet.write_table(pa.Table.from_pylist(rows), path)
    return path.absolute()


# verl's environment.


def find_python(requested: str | None) -> Path:
    """Return the Python interpreter of verl's environment; HarnessError if none is found.

    It is `requested`, else the one that HARNESS_VERL_PYTHON names, else this process' own if that has verl, else that
    of `.venv-verl` in the working folder. `installed` checks what is in it.
    """
    return VERL.find(requested, find_spec)


def installed(python: Path) -> dict[str, str | None]:
    """Return the versions of what verl's environment has, by name; None for one that is not installed.

    HarnessError, one line, if a package other than vllm is missing or verl has another version than the plugin needs.
    """
    needed = dict.fromkeys(("verl", "TransferQueue"), f'"verl[verl-core]=={VERSION}"')
    needed["diversity-harness"] = "diversity-harness"  # whose plugin verl loads
    versions = VERL.versions(python, (*needed, "vllm"))
    for name, package in needed.items():
        if versions[name] is None:
            raise HarnessError(f"verl: {python} has no {name}: {python} -m pip install {package}")
    if versions["verl"] != VERSION:
        leans = f"but this plugin is for {VERSION} and leans on its private parts"
        raise HarnessError(
            f"verl: {python} has verl {versions['verl']}, {leans}: {python} -m pip install {needed['verl']}"
        )
    return versions


# GPUs, and the memory that a run needs on each.


def _check_gpus(run: TrainingRun, location: Location) -> str:
    """A remark on memory; HarnessError if there are too few GPUs or the model does not fit."""
    gpus, s = gpu_memory(), run.settings
    if not gpus:
        raise HarnessError("verl: no GPU here (nvidia-smi shows none): give --cpu for a small model")
    if len(gpus) < s.devices:
        raise HarnessError(f"verl: {s.devices} GPUs are asked for, {len(gpus)} are here: set devices={len(gpus)}")
    if s.devices % s.tensor_parallel:
        raise HarnessError(f"verl: devices={s.devices} is not a multiple of tensor_parallel={s.tensor_parallel}")
    folder = location.folder or _cached(location.name)
    parameters = parameter_count(folder) if folder else 0
    if not folder or not parameters:
        return f"memory: not estimated, {location.name} is not on this disk"
    config = read(folder / "config.json", "verl:", lenient=True)
    return memory_remark(parameters, config, s, min(gpus[: s.devices]))


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


def parameter_count(folder: Path) -> int:
    """Return how many numbers the safetensors files of a model hold, by their headers; 0 if it has none."""
    count = 0
    for path in folder.glob("*.safetensors"):
        with path.open("rb") as file:
            header = parsed(file.read(int.from_bytes(file.read(8), "little")), f"verl: {path}")
        count += sum(prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")
    return count


def memory_remark(parameters: int, config: Mapping[str, Any], settings: Settings, gpu: float) -> str:
    """Return what a run needs and has, in GiB a GPU; HarnessError if a GPU of `gpu` GiB has too little memory.

    config   the content of the model's config.json
    """
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    token = 2 * SAMPLED * config["num_hidden_layers"] * (config.get("num_key_value_heads") or heads) * width
    cache = token * (settings.max_prompt + settings.max_response)  # keys and values of one longest response
    updating = TRAINED * parameters / settings.devices / GIB
    sampling = RESTING * parameters / settings.devices / GIB
    sampler = (SAMPLED * parameters + cache) / settings.tensor_parallel / GIB
    share = sampler_share(settings)
    has = f"a GPU has {gpu:.0f} GiB, of which the sampler takes {share:.0%}"
    needs = (
        f"{parameters / 1e9:.2f} B parameters need {updating:.1f} GiB a GPU to update (weights, gradients, optimiser; "
        f"the reference rests on the CPU), {sampling:.1f} beside the sampler, and {sampler:.1f} inside it (weights, "
        "cache of one response)"
    )
    if sampling + share * gpu > gpu or sampler > share * gpu:
        raise HarnessError(f"verl: the model does not fit: {needs}; {has}: take more or larger GPUs")
    return f"memory: {needs}; {has}"
