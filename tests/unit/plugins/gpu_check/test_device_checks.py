"""The checks of `harness gpu-check` that need no vLLM, on a CPU."""

from pathlib import Path

import pytest

from harness_plugins.gpu_check import device_checks
from harness_plugins.gpu_check.record import Setting, Skipped
from harness_selectors.repexp import RepExp

CPU = Setting("cpu", "tiny24", Path())


def test_the_batched_order_on_the_device_is_the_cpus():
    result = device_checks.repexp_order(CPU)
    assert result.outcome == "passed"
    pools, n, _ = device_checks.RANKED["cpu"]
    assert result.metrics["float64: picks that agree"] == (pools * n, f"of {pools * n}")
    assert all(value > 0 for value, unit in result.metrics.values() if unit == "responses/s")


def test_one_pick_of_another_order_is_a_failure(monkeypatch):
    order = RepExp.rank_many

    def swapped(self, pools, rngs):
        orders = [[list(trial) for trial in trials] for trials in order(self, pools, rngs)]
        orders[0][0][3:5] = orders[0][0][4:2:-1]
        return orders

    monkeypatch.setattr(RepExp, "rank_many", swapped)
    result = device_checks.repexp_order(CPU)
    assert result.outcome == "failed"
    assert "float64 1,022 of 1,024 picks agree" in result.reason


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
