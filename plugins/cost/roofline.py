"""Estimate a GPU's sampling speed from its data sheet: each step takes the slower of reading memory and computing.

A step gives each of B sequences one token. It reads all weights once and each sequence's keys and values, and computes
2 FLOP per parameter and sequence. Real engines reach a share of the data sheet's bandwidth and FLOP/s, and each step
has an overhead. These three and the number of sequences are assumptions; set them as `h100:step_ms=3,sequences=512`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from harness.errors import HarnessError, did_you_mean
from harness.paper import ModelSize
from harness.plugin_system.component import parse_spec

FILLED = 0.85  # share of a GPU's memory that weights may fill: beyond it, more GPUs are used
USABLE = 0.90  # share of its memory for weights and key-value cache


@dataclass(frozen=True)
class Gpu:
    """A GPU's data sheet (dense bfloat16) and the assumptions on an engine that runs on it.

    bandwidth_share, flop_share  reached shares of the data sheet's values
    step_ms                      the engine's overhead per step
    sequences                    sampled at once, if memory allows
    """

    name: str
    memory_gb: float
    bandwidth_gbs: float
    tflops: float
    bandwidth_share: float = 0.6
    flop_share: float = 0.4
    step_ms: float = 5.0
    sequences: int = 256

    def __str__(self) -> str:
        return (
            f"{self.name} ({self.memory_gb:g} GB, {self.bandwidth_gbs:,g} GB/s, {self.tflops:g} TFLOP/s in bfloat16, "
            f"its data sheet), of which {self.bandwidth_share:.0%} and {self.flop_share:.0%} are reached; "
            f"{self.step_ms:g} ms a step besides, {self.sequences} sequences at once where memory allows"
        )


GPUS = {
    gpu.name: gpu
    for gpu in (
        Gpu("a100-40gb", 40, 1555, 312),
        Gpu("a100", 80, 2039, 312),
        Gpu("h100", 80, 3350, 989),
        Gpu("h200", 141, 4800, 989),
        Gpu("l40s", 48, 864, 362),
        Gpu("rtx4090", 24, 1008, 165),
    )
}


def find_gpu(text: str) -> Gpu:
    """Return the GPU of a spec such as `h100` or `h100:step_ms=3`; HarnessError for an unknown name, field or value."""
    spec = parse_spec(text)
    if spec.name not in GPUS:
        raise HarnessError(
            f"--gpu: unknown {spec.name!r} {did_you_mean(spec.name, GPUS).replace('installed', 'known')}"
        )
    fields = {name: type(value) for name, value in vars(GPUS[spec.name]).items() if name != "name"}
    changes: dict[str, float] = {}
    for name, value in spec.params.items():
        if name not in fields:
            raise HarnessError(f"--gpu {spec.name}: no {name!r}; there are {', '.join(fields)}")
        try:
            changes[name] = int(value) if name == "sequences" else float(value)
        except ValueError:
            changes[name] = -1
        if not 0 < changes[name] < float("inf"):
            raise HarnessError(f"--gpu {spec.name}: {name} must be a number above 0, got {value!r}")
    return replace(GPUS[spec.name], **changes)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Speed:
    """The speed of one model on GPUs of one kind.

    devices      number of GPUs, assumed to share all work without loss
    sequences    sampled at once
    token_s      device-seconds per generated token
    read_s       device-seconds per token of a prompt, or of a second pass over prompt and response
    """

    devices: int
    sequences: int
    token_s: float
    read_s: float


def speed(gpu: Gpu, model: ModelSize, prompt: float, response: float) -> Speed:
    """Return the speed on the number of GPUs that makes a token cheapest; on a tie, the fewest GPUs.

    `prompt` and `response` are mean lengths in tokens.
    """
    speeds = [_speed(gpu, model, prompt, response, devices) for devices in _fitting(gpu, model)]
    return min(speeds, key=lambda candidate: candidate.token_s)


def _fitting(gpu: Gpu, model: ModelSize) -> list[int]:
    """The smallest power of two of GPUs that hold the weights, and the next two powers."""
    devices = 1
    while model.weight_bytes > FILLED * devices * gpu.memory_gb * 1e9:
        devices *= 2
    return [devices, 2 * devices, 4 * devices]


def _speed(gpu: Gpu, model: ModelSize, prompt: float, response: float, devices: int) -> Speed:
    room = USABLE * devices * gpu.memory_gb * 1e9 - model.weight_bytes
    sequences = int(max(1, min(gpu.sequences, room // (model.kv_bytes * (prompt + response)))))
    bandwidth = gpu.bandwidth_share * gpu.bandwidth_gbs * 1e9 * devices
    flops = gpu.flop_share * gpu.tflops * 1e12 * devices
    reading = (model.weight_bytes + sequences * model.kv_bytes * (prompt + response / 2)) / bandwidth
    step = max(reading, 2 * model.parameters * sequences / flops) + gpu.step_ms / 1e3
    return Speed(devices, sequences, devices * step / sequences, devices * 2 * model.parameters / flops)
