"""Record what made a result: the versions of Python and of the libraries, and the machine."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

LIBRARIES = (
    *("diversity-harness", "numpy", "scipy", "scikit-learn", "torch", "transformers"),
    *("vllm", "evalplus", "sentence-transformers", "kmedoids"),
)


def made_with(plugins: Iterable[str]) -> dict[str, Any]:
    """Return {"versions": name -> version, "hardware": the machine's properties}.

    plugins  names of distributions whose versions are listed after those of Python and `LIBRARIES`
    """
    return {"versions": dict(_versions(plugins)), "hardware": _hardware()}


def _versions(plugins: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Name and version of Python, the libraries, and the distributions that the plugins come from."""
    yield "python", platform.python_version()
    for name in dict.fromkeys([*LIBRARIES, *plugins]):
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue


def _hardware() -> dict[str, Any]:
    """The machine that ranked: processor, cores (those of the machine, those that this process may use), memory, GPUs.

    GPUs are listed only if torch is already imported.
    """
    return {
        "machine": platform.machine(),
        "system": platform.system(),
        "cpu": _processor(),
        "cores": os.cpu_count(),
        "cores_usable": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gb": _memory_gb(),
        "gpus": _gpus(),
    }


def _processor() -> str:
    """The processor's name: from a file on Linux, else from `platform`; "" if unknown."""
    try:
        named = re.search(r"^(?:model name|Model)\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.M)
    except OSError:
        named = None
    return named[1].strip() if named else platform.processor()


def _memory_gb() -> float | None:
    """Physical memory in GB; None if the system does not report it."""
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1)
    except (AttributeError, ValueError, OSError):
        return None


def _gpus() -> list[str]:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return []
    return [torch.cuda.get_device_name(place) for place in range(torch.cuda.device_count())]
