"""What the checks of a GPU share: device and model, a time limit, and the table of what was measured, for an issue.

GPU_CHECK_DEVICE   cuda, or cpu: what a CPU can show, in three times the time
GPU_CHECK_MODEL    what is sampled from: a name, folder or hub id; default smollm2-135m
"""

import os
import platform
import signal
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

import pytest

from harness.errors import HarnessError
from harness_plugins.engines.vllm.engine import Vllm
from harness_plugins.models.location import device_kind

DEVICE, MODEL = os.environ.get("GPU_CHECK_DEVICE", "cuda"), os.environ.get("GPU_CHECK_MODEL", "smollm2-135m")
SLOWER = 3  # a CPU gets so many times the seconds of a GPU
notes: dict[str, list[tuple[str, float, str]]] = {}


@dataclass(frozen=True)
class Setting:
    """What a check works on; `note` keeps measurements for the table, name -> (value, unit)."""

    check: str
    device: str = DEVICE
    model: str = MODEL

    def note(self, metrics):
        notes.setdefault(self.check, []).extend((name, value, unit) for name, (value, unit) in metrics.items())


@pytest.fixture
def setting(request):
    """Skip the check where there is no GPU; end it when the seconds of its mark `gpu` are over."""
    if device_kind("auto") != DEVICE != "cpu":
        pytest.skip("torch finds no CUDA GPU here; `make gpu-check DEVICE=cpu` tries what a CPU can do")
    [limit_s] = request.node.get_closest_marker("gpu").args
    limit_s *= SLOWER if DEVICE == "cpu" else 1

    def too_long(*_):
        raise TimeoutError(f"not finished after {limit_s} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(limit_s)
    yield Setting(request.node.name.removeprefix("test_"))
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def pytest_terminal_summary(terminalreporter):
    """Print the machine and all that was measured: no path, no name of a user or host."""
    if notes:
        terminalreporter.section("what was measured: please open an issue with it, and with what failed")
        terminalreporter.line(", ".join(machine()))
    for check, measured in notes.items():
        terminalreporter.line(check.replace("_", " "))
        for name, value, unit in measured:
            terminalreporter.line(f"  {name:<50}{value:>12,.5g}  {unit}")


def machine():
    """The day, GPU, system, the model's kind, and versions of both environments."""
    import torch

    yield str(datetime.now(UTC).date())
    if DEVICE == "cuda":
        part = torch.cuda.get_device_properties(0)
        yield f"{part.name} of {part.total_memory / 2**30:.1f} GiB, capability {part.major}.{part.minor}"
    yield from (f"{os.cpu_count()} cores", f"{platform.system()} {platform.machine()}")
    yield from (f"Python {platform.python_version()}", f"CUDA {torch.version.cuda}")
    yield f"model {MODEL.rpartition('/')[2]}"
    for library in ("diversity-harness", "torch", "transformers", "trl"):
        try:
            yield f"{library} {version(library)}"
        except PackageNotFoundError:
            yield f"no {library}"
    try:
        installed = Vllm(MODEL)._environment
        yield f"{installed.distribution} {installed.version}"
    except HarnessError:
        yield "no vLLM"
