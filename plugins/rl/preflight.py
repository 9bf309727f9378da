"""What a machine must have before a run starts: GPUs, memory and disk; nothing is started, and no weights are fetched.

Memory is estimated from the number of a model's parameters (`size_of`). Bytes a parameter: float32 weights, gradients
and Adam's two moments are `TRAINED`. In verl all GPUs share these (FSDP), the sampler's bfloat16 weights (`SAMPLED`)
are shared by the GPUs that one sampler spans, and the reference stays in the CPU's memory. In TRL, and in verl on a
CPU, one device holds all, and the reference too. Activations and logits are not counted: a refused run cannot fit, and
an accepted one may still run out of memory. What rests on a guess (a name, options of verl that change it) is a remark,
and refuses nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import psutil

from harness import HarnessError
from harness.system.extras import hub_is_out_of_reach, missing
from harness.system.json_text import parsed

from ..models.location import CONFIG, WEIGHTS, Location, device_kind, hub_file, locate, read_json
from .training import Settings, TrainingRun

GIB = 2**30
UNITS = {"TB": 1e12, "GB": 1e9, "MB": 1e6}
TRAINED = 16  # bytes a parameter while the policy is updated
RESTING = 12  # while the sampler runs, with gradients freed
SAMPLED = 2  # of the sampler's weights
HELD = 4  # of a model in float32 beside them: the reference, verl's sampler on a CPU
SAVES = 4, 8  # of a checkpoint's policy in float32, and of Adam's two moments, which the latest checkpoints hold
INDEX = "model.safetensors.index.json"
# Options of verl after which the estimates below do not hold.
OTHERWISE = re.compile(r"offload|lora|nnodes|n_gpus|gpu_memory_utilization|fsdp_size|optimizer|model_dtype")
LONG = 8192  # tokens of a prompt and its response; above it the sampler gets less memory


def parameter_count(folder: Path) -> int:
    """Return how many numbers the safetensors files of a model hold, by their headers; 0 if it has none."""
    count = 0
    for path in folder.glob("*.safetensors"):
        with path.open("rb") as file:
            header = parsed(file.read(int.from_bytes(file.read(8), "little")), f"rl: {path}")
        count += sum(prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")
    return count


@dataclass(frozen=True)
class Size:
    """How large a model is.

    parameters  0: not known
    known       how they are known, as a clause of a remark; "": by the headers of its weights
    is_sure     False: from the model's name alone, or not known
    to_fetch    bytes of its weights, if they are still to be fetched and their number is known
    config      the content of its config.json, of the part that is the language model
    """

    parameters: int
    known: str = ""
    is_sure: bool = True
    to_fetch: int = 0
    config: Mapping[str, Any] = field(default_factory=dict)


def size_of(location: Location) -> Size:
    """Return a model's size: by its weights, else by its config.json, which alone is fetched, else by its name."""
    folder, is_here = location.folder or _cached(location.name), False
    if folder:
        index = read_json(folder / INDEX, "model").get("weight_map") if (folder / INDEX).is_file() else None
        shards = set(index.values()) if isinstance(index, dict) else set()
        weights = any(True for pattern in WEIGHTS for _ in folder.glob(pattern))
        is_here = bool(location.folder) or (weights and all((folder / shard).is_file() for shard in shards))
    elif not missing(["huggingface_hub"]) and not hub_is_out_of_reach():
        try:
            folder = hub_file(location.name, CONFIG, "main", False).parent
        except OSError:  # no such model, or one that must be asked for
            folder = None
    whole = read_json(folder / CONFIG, "model") if folder and (folder / CONFIG).is_file() else {}
    config = next((whole[name] for name in ("text_config", "llm_config") if whole.get(name)), whole)
    if folder and is_here and (parameters := parameter_count(folder)):
        return Size(parameters, config=config)
    absent = "" if is_here else f", {location.name} is not on this disk"
    if folder and (parameters := _by_config(folder)):
        stored = str(config.get("dtype") or config.get("torch_dtype") or whole.get("torch_dtype"))
        fetched = 0 if is_here else parameters * (2 if stored.endswith("float16") else 4)
        return Size(parameters, f" (by its config.json{absent})", True, fetched, config)
    if named := re.search(r"(\d+(?:\.\d+)?)([bm])\b", location.name, re.IGNORECASE):
        parameters = int(float(named[1]) * (10**9 if named[2] in "bB" else 10**6))
        return Size(parameters, f" (by its name alone{absent})", False, config=config)
    return Size(0, f"not known{absent}", False, config=config)


def _cached(model: str) -> Path | None:
    """Return the folder of a hub model in the local cache; None if it is not there."""
    if missing(["huggingface_hub"]):
        return None
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(model, CONFIG)
    return Path(config).parent if isinstance(config, str) else None


def _by_config(folder: Path) -> int:
    """How many parameters the model of a config.json has; 0: not known. No weights are made."""
    if missing(["torch", "transformers"]):
        return 0
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        if getattr(config, "quantization_config", None) is not None:  # its weights are packed
            return 0
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
    except Exception:  # a kind that this transformers does not know, or a wrong file: whoever loads it says so
        return 0
    return sum(each.numel() for each in model.parameters())


# Disk.


def disk(run: TrainingRun, saves: tuple[int, int], steps: int | None, runs: int) -> str:
    """Return a remark on the disk that checkpoints take and what is free; HarnessError if they cannot fit.

    saves   see `training.Trainer`
    steps   that the run will have in all; None: not known, since its hours end it, and then one checkpoint must fit
    runs    so many such runs, of which this one is the first; what it has saved already is not counted again
    """
    size, settings = size_of(locate(run.model)), run.settings
    if not size.parameters:
        return f"disk: not estimated, the model's size is {size.known}"
    policy, optimiser = (each * size.parameters for each in saves)
    checkpoints = 1 if steps is None else -(-steps // settings.save_every)
    whole = checkpoints * policy + min(checkpoints, settings.keep + 1) * optimiser  # one more while it is written
    saved = sum(file.stat().st_size for file in run.checkpoints.rglob("*") if file.is_file())
    needed, free = max(0, whole * runs - saved), _free(run.folder)
    latest = f"{shown_size(optimiser)} of the optimiser in the latest {settings.keep}"
    if steps is None:
        total = f"one every {settings.save_every} steps, how many is not known before the first step"
    else:
        total = f"{checkpoints:,} in {steps:,} steps{f', {runs} runs' * (runs > 1)}: {shown_size(needed)} to write"
    line = f"a checkpoint is {shown_size(policy)}, and {latest}{size.known}; {total}; {shown_size(free)} free"
    if needed > free:
        shorter = "--set save_every=N or steps=N makes fewer, another --store is another disk"
        if size.is_sure:
            raise HarnessError(f"rl train: the checkpoints do not fit on the disk: {line}: {shorter}")
        line += f": they may not fit ({shorter})"
    return f"disk: {line}"


def fetching(who: str, size: Size) -> list[str]:
    """Return a remark on the weights that are to be fetched; HarnessError if the hub's cache has no room for them."""
    if not size.to_fetch:
        return []
    from huggingface_hub import constants

    cache = Path(constants.HF_HUB_CACHE)
    line = (
        f"{shown_size(size.to_fetch)} of weights are to be fetched into {cache}, with {shown_size(_free(cache))} free"
    )
    if size.to_fetch > _free(cache):
        raise HarnessError(f"{who}: {line}: name another disk by HF_HUB_CACHE, or give a local folder")
    return [f"{who}: {line}"]


def _free(folder: Path) -> int:
    return shutil.disk_usage(next(each for each in (folder, *folder.absolute().parents) if each.exists())).free


def shown_size(count: float) -> str:
    """Return a number of bytes in the unit that suits it: `1.5 GB`."""
    return next(f"{count / size:,.1f} {unit}" for unit, size in UNITS.items() if count >= size or unit == "MB")


# One device: TRL, verl on a CPU, an engine that samples.


def one_device(who: str, run: TrainingRun, copies: Mapping[str, bool]) -> list[str]:
    """Return remarks, e.g. if too little memory is free; HarnessError if there is no GPU, or too little in total.

    copies   float32 copies of the model that are held beside the one that is trained, e.g. "the reference" -> True
    """
    import torch

    if not run.cpu and not torch.cuda.device_count():
        here = len(gpu_memory())
        fault = f": {here} are here, which torch {torch.__version__} cannot use" if here else ""
        raise HarnessError(f"{who}: no GPU found{fault}, one is needed: give --cpu for a small model")
    free, total = psutil.virtual_memory()[1::-1] if run.cpu else torch.cuda.mem_get_info()
    held = [name for name, is_held in copies.items() if is_held]
    *first, last = "the weights", "their gradients", "the optimiser", *held
    what = f"{', '.join(first)} and {last}"
    return in_memory(who, size_of(locate(run.model)), TRAINED + HELD * len(held), what, free, total, run.cpu)


def in_memory(who: str, size: Size, each: float, what: str, free: float, total: float, cpu: bool) -> list[str]:
    """Return remarks on `each` bytes a parameter in `total` bytes of memory; HarnessError if they are too many.

    what   is in memory, as a clause of the line; `free` bytes of it can be had now
    """
    if not size.parameters:
        return [f"{who}: memory not estimated, the model's size is {size.known}"]
    needed, where = each * size.parameters, "this machine" if cpu else "the GPU"
    need = f"{what} need {needed / GIB:.1f} GiB{size.known}, activations aside"
    if needed > total and size.is_sure:
        raise HarnessError(f"{who}: the model does not fit: {need}; {where} has {total / GIB:.1f} GiB")
    tight = [f"{who}: {need}; {free / GIB:.1f} GiB of {where} are free"] if needed > free else []
    return [*tight, *fetching(who, size)]


def to_sample(engine: Any, size: Size) -> list[str]:
    """Return remarks on sampling with an engine of this machine; HarnessError if it cannot hold the model.

    Looked at are vLLM and transformers, with as many GPUs as one engine takes.
    """
    from ..engines.transformers.engine import Transformers
    from ..engines.vllm.engine import Vllm, too_few_gpus

    if isinstance(engine, Vllm):
        device, parallel, share = engine._device, engine.tensor_parallel, engine.gpu_memory_utilization
        if fault := too_few_gpus(device, parallel):
            raise HarnessError(fault)
    elif isinstance(engine, Transformers):
        device, parallel, share = device_kind(engine.device), 1, 1.0
    else:
        return []
    each = (4 if engine.identity()["dtype"] == "float32" else SAMPLED) / parallel
    free, total = psutil.virtual_memory()[1::-1]
    if device != "cpu":
        if not (gpus := gpu_memory()):  # as many as there are, but nvidia-smi does not say how large
            return fetching("rl eval", size)
        free = total = share * GIB * min(gpus)
    what = f"the weights in {parallel} GPUs" if parallel > 1 else "the weights"
    return in_memory("rl eval", size, each, what, free, total, device == "cpu")


# Several GPUs, between sampling and updates: verl.


def several_gpus(run: TrainingRun) -> list[str]:
    """Return remarks on memory; HarnessError if there are too few GPUs or the model does not fit."""
    settings, gpus = run.settings, gpu_memory()
    devices, parallel = settings.devices, settings.tensor_parallel
    if not gpus:
        needed = f"devices={devices} are needed"
        raise HarnessError(f"verl: no GPU here (nvidia-smi shows none), {needed}: give --cpu for a small model")
    if len(gpus) < devices:
        raise HarnessError(f"verl: {devices} GPUs are asked for, {len(gpus)} are here: set devices={len(gpus)}")
    if devices % parallel:
        raise HarnessError(f"verl: devices={devices} is not a multiple of tensor_parallel={parallel}")
    size = size_of(locate(run.model))
    if not size.parameters:
        return [f"memory: not estimated, the model's size is {size.known}"]
    changed = [override for override in run.overrides if OTHERWISE.search(override)]
    try:
        remark = memory_remark(size.parameters, size.config, settings, min(gpus[:devices]), size.known)
    except HarnessError as failure:
        if size.is_sure and not changed:
            raise
        remark = f"memory: it may be too little: {failure}" + f"; {', '.join(changed)} may change that" * bool(changed)
    return [remark, *fetching("verl", size)]


def gpu_memory() -> list[float]:
    """Return the total GiB of each GPU that CUDA_VISIBLE_DEVICES leaves in sight; [] if nvidia-smi lists none."""
    command = ["nvidia-smi", "--query-gpu=index,uuid,memory.total", "--format=csv,noheader,nounits"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    gpus = [tuple(map(str.strip, line.split(","))) for line in listed.splitlines() if line.strip()]
    every = [float(memory) / 1024 for *_, memory in gpus]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None or not every:
        return every
    names = [name.strip() for name in visible.split(",") if name.strip()]
    # A part of a GPU (MIG-...) has at most the memory of one.
    return [
        next(
            (gib for gib, (index, uuid, _) in zip(every, gpus, strict=True) if name == index or uuid.startswith(name)),
            max(every),
        )
        for name in names
    ]


def sampler_share(settings: Settings) -> float:
    """Return the share of a GPU's memory that verl's sampler takes."""
    return 0.6 if settings.max_prompt + settings.max_response <= LONG else 0.5


def memory_remark(parameters: int, config: Mapping[str, Any], settings: Settings, gpu: float, known: str = "") -> str:
    """Return what a run needs and has, in GiB a GPU; HarnessError if a GPU of `gpu` GiB has too little memory.

    config   the content of the model's config.json; where it lacks one of these numbers, the cache is not counted
    known    how the parameters are known, as a clause
    """
    heads, layers = config.get("num_attention_heads") or 1, config.get("num_hidden_layers") or 0
    width = config.get("head_dim") or (config.get("hidden_size") or 0) // heads
    token = 2 * SAMPLED * layers * (config.get("num_key_value_heads") or heads) * width
    cache = token * (settings.max_prompt + settings.max_response)  # keys and values of one longest response
    updating = TRAINED * parameters / settings.devices / GIB
    sampling = RESTING * parameters / settings.devices / GIB
    sampler = (SAMPLED * parameters + cache) / settings.tensor_parallel / GIB
    share = sampler_share(settings)
    has = f"a GPU has {gpu:.0f} GiB, of which the sampler takes {share:.0%}"
    needs = (
        f"{parameters / 1e9:.2f} B parameters{known} need {updating:.1f} GiB a GPU to update (weights, gradients, "
        f"optimiser; the reference rests on the CPU), {sampling:.1f} beside the sampler, and {sampler:.1f} inside it "
        "(weights, cache of one response)"
    )
    if sampling + share * gpu > gpu or sampler > share * gpu:
        raise HarnessError(f"verl: the model does not fit: {needs}; {has}: take more or larger GPUs")
    return f"memory: {needs}; {has}"
