"""What the checks of a GPU share: device and model, a time limit, and the table of what was measured, for an issue.

GPU_CHECK_DEVICE   cuda, or cpu: what a CPU can show, in three times the time
GPU_CHECK_MODEL    what is sampled from: a name, folder or hub id; default smollm2-135m
"""

import os
import platform
import signal
from importlib.metadata import distributions

import pytest

from harness.errors import HarnessError
from harness_plugins.engines.vllm.engine import Vllm
from harness_plugins.models.location import device_kind

DEVICE, MODEL = os.environ.get("GPU_CHECK_DEVICE", "cuda"), os.environ.get("GPU_CHECK_MODEL", "smollm2-135m")
SLOWER = 3  # a CPU gets so many times the seconds of a GPU
LIBRARIES = ("diversity-harness", "torch", "transformers", "trl")
notes: list[str] = []


class Setting:
    """What a check works on; `note` keeps a measurement for the table."""

    device, model = DEVICE, MODEL

    def __init__(self, check):
        self.check = check

    def note(self, name, value, unit):
        notes.append(f"{self.check:<50} {name:<40}{value:>12,.5g}  {unit}")


@pytest.fixture
def setting(request):
    """Skip the check where there is no GPU; end it when the seconds of its mark `gpu` are over."""
    if device_kind("auto") != DEVICE != "cpu":
        pytest.skip("torch finds no CUDA GPU here; `make gpu-check DEVICE=cpu` tries what a CPU can do")
    [limit_s] = request.node.get_closest_marker("gpu").args

    def too_long(*_):
        raise TimeoutError(f"not finished after {limit_s} s (on a CPU {SLOWER} times as long)")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(limit_s * (SLOWER if DEVICE == "cpu" else 1))
    yield Setting(request.node.name.removeprefix("test_").replace("_", " "))
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def pytest_terminal_summary(terminalreporter):
    """Print the machine and all that was measured: no path, no name of a user or host."""
    if notes:
        terminalreporter.section("what was measured: please open an issue with it, and with what failed")
        for line in (", ".join(machine()), *notes):
            terminalreporter.line(line)


def machine():
    """The GPU, system, the model's kind, and versions of both environments."""
    import torch

    if DEVICE == "cuda":
        part = torch.cuda.get_device_properties(0)
        yield f"{part.name} of {part.total_memory / 2**30:.1f} GiB, capability {part.major}.{part.minor}"
    yield f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"
    yield f"CUDA {torch.version.cuda}, model {MODEL.rpartition('/')[2]}"
    yield from {f"{each.name} {each.version}": 0 for each in distributions() if each.name in LIBRARIES}
    try:
        yield "{0.distribution} {0.version}".format(Vllm(MODEL)._environment)
    except HarnessError:
        yield "no vLLM"
