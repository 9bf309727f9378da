"""The checks of `harness gpu-check` that need no vLLM, on a CPU."""

from pathlib import Path

import pytest

from harness_plugins.gpu_check import device_checks
from harness_plugins.gpu_check.record import Setting, Skipped

CPU = Setting("cpu", "tiny24", Path())


def test_without_a_gpu_torch_is_not_asked_for_one():
    with pytest.raises(Skipped):
        device_checks.gpu(CPU)


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_trl_makes_steps_in_which_the_bonus_acts(tmp_path):
    result = device_checks.trl_step(Setting("cpu", "tiny24", tmp_path))
    assert result.outcome == "passed", result.reason
    assert result.metrics["bonus"][0] > 0
    assert result.metrics["gradient"][0] > 0
