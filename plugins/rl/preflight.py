"""What a machine must have before a run starts: GPUs, memory and disk; nothing is started.

Memory is estimated from the model's files alone. Bytes a parameter: float32 weights, gradients and Adam's two moments
are `TRAINED`. In verl all GPUs share these (FSDP), the sampler's bfloat16 weights (`SAMPLED`) are shared by the GPUs
that one sampler spans, and the reference stays in the CPU's memory. In TRL one device holds all, and the reference too.
Activations and logits are not counted: a refused run cannot fit, and an accepted one may still run out of memory.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import psutil

from harness import HarnessError
from harness.system.json_text import parsed, read

from ..models.location import Location, locate
from .training import Settings, TrainingRun

GIB = 2**30
UNITS = {"TB": 1e12, "GB": 1e9, "MB": 1e6}
TRAINED = 16  # bytes a parameter while the policy is updated
RESTING = 12  # while the sampler runs, with gradients freed
SAMPLED = 2  # of the sampler's weights
REFERENCE = 4  # of TRL's reference
SAVES = 4, 8  # of a checkpoint's policy in float32, and of Adam's two moments, which the latest checkpoints hold
LONG = 8192  # tokens of a prompt and its response; above it the sampler gets less memory


def parameter_count(folder: Path) -> int:
    """Return how many numbers the safetensors files of a model hold, by their headers; 0 if it has none."""
    count = 0
    for path in folder.glob("*.safetensors"):
        with path.open("rb") as file:
            header = parsed(file.read(int.from_bytes(file.read(8), "little")), f"rl: {path}")
        count += sum(prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")
    return count


# Disk.


def disk(run: TrainingRun, saves: tuple[int, int], steps: int | None, runs: int) -> str:
    """Return a remark on the disk that checkpoints take and what is free; HarnessError if they cannot fit.

    saves   see `training.Trainer`
    steps   that the run will have in all; None: not known, since its hours end it, and then one checkpoint must fit
    runs    so many such runs, of which this one is the first; what it has saved already is not counted again
    """
    location, settings = locate(run.model), run.settings
    folder = location.folder or _cached(location.name)
    by_name = re.search(r"(\d+(?:\.\d+)?)b\b", location.name, re.IGNORECASE)
    if folder and (parameters := parameter_count(folder)):
        known = ""
    elif by_name:
        parameters, known = int(float(by_name[1]) * 10**9), f" (by its name, {location.name} is not on this disk)"
    else:
        return f"disk: not estimated, {location.name} is not on this disk"
    policy, optimiser = (size * parameters for size in saves)
    checkpoints = 1 if steps is None else -(-steps // settings.save_every)
    whole = checkpoints * policy + min(checkpoints, settings.keep + 1) * optimiser  # one more while it is written
    saved = sum(file.stat().st_size for file in run.checkpoints.rglob("*") if file.is_file())
    needed = max(0, whole * runs - saved)
    free = shutil.disk_usage(next(each for each in (run.folder, *run.folder.parents) if each.exists())).free
    size = f"a checkpoint is {_size(policy)}, and {_size(optimiser)} of the optimiser in the latest {settings.keep}"
    if steps is None:
        total = f"one every {settings.save_every} steps, how many is not known before the first step"
    else:
        total = f"{checkpoints:,} in {steps:,} steps{f', {runs} runs' * (runs > 1)}: {_size(needed)} to write"
    line = f"{size}{known}; {total}; {_size(free)} free"
    if needed > free:
        shorter = "--set save_every=N or steps=N makes fewer, another --store is another disk"
        raise HarnessError(f"rl train: the checkpoints do not fit on the disk: {line}: {shorter}")
    return f"disk: {line}"


def _size(count: float) -> str:
    return next(f"{count / size:,.1f} {unit}" for unit, size in UNITS.items() if count >= size or unit == "MB")


# One device: TRL.


def one_device(location: Location, cpu: bool) -> list[str]:
    """Return a remark if too little memory is free; HarnessError if there is no GPU, or too little memory in total."""
    import torch

    if not cpu and not torch.cuda.device_count():
        raise HarnessError("trl: no GPU found; train on the CPU with --cpu")
    needed = (TRAINED + REFERENCE) * parameter_count(location.folder) if location.folder else 0
    free, total = psutil.virtual_memory()[1::-1] if cpu else torch.cuda.mem_get_info()
    where = "this machine" if cpu else "the GPU"
    need = (
        f"the weights, their gradients, the optimiser and the reference need {needed / GIB:.1f} GiB, activations aside"
    )
    if needed > total:
        raise HarnessError(f"trl: the model does not fit: {need}; {where} has {total / GIB:.1f} GiB")
    return [f"trl: {need}; {free / GIB:.1f} GiB of {where} are free"] if needed > free else []


# Several GPUs, between sampling and updates: verl.


def several_gpus(location: Location, settings: Settings) -> str:
    """Return a remark on memory; HarnessError if there are too few GPUs or the model does not fit."""
    gpus, devices, parallel = gpu_memory(), settings.devices, settings.tensor_parallel
    if not gpus:
        raise HarnessError("verl: no GPU here (nvidia-smi shows none): give --cpu for a small model")
    if len(gpus) < devices:
        raise HarnessError(f"verl: {devices} GPUs are asked for, {len(gpus)} are here: set devices={len(gpus)}")
    if devices % parallel:
        raise HarnessError(f"verl: devices={devices} is not a multiple of tensor_parallel={parallel}")
    folder = location.folder or _cached(location.name)
    if not folder or not (parameters := parameter_count(folder)):
        return f"memory: not estimated, {location.name} is not on this disk"
    config = read(folder / "config.json", "verl:", lenient=True)
    return memory_remark(parameters, config, settings, min(gpus[:devices]))


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


def sampler_share(settings: Settings) -> float:
    """Return the share of a GPU's memory that verl's sampler takes."""
    return 0.6 if settings.max_prompt + settings.max_response <= LONG else 0.5


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
