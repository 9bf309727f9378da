"""Torch sees the GPU, and TRL makes a step with the bonus."""

import math
import time

import pytest
from support.json_lines import read_json_lines
from support.processes import harness_command, run_to_end

pytestmark = pytest.mark.slow
STEPS = {"batch": 4, "mini_batch": 4, "micro_batch": 8, "rollouts": 8, "max_response": 64, "learning_rate": 1e-4}
STEPS |= {"steps": 2, "save_every": 2, "dev_samples": 1}


@pytest.mark.gpu(60)
def test_two_matrices_multiply_in_bfloat16_as_on_the_cpu(setting):
    if setting.device == "cpu":
        pytest.skip("asked for with DEVICE=cpu")
    import torch

    a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    off = float(((a[:64] @ a).float().cpu() - a[:64].float().cpu() @ a.float().cpu()).abs().max())
    for _ in range(2):  # the first time is not measured
        began = time.monotonic()
        for _ in range(20):
            a @ a
        torch.cuda.synchronize()
    elapsed_s = time.monotonic() - began
    setting.note({"bfloat16 product": (20 * 2 * 4096**3 / elapsed_s / 1e12, "TFLOP/s")})
    setting.note({"largest difference from the CPU's": (off, "of entries with a deviation of 64")})
    assert off < 4


@pytest.mark.gpu(180)
def test_trl_makes_two_steps_of_grpo_with_repexps_bonus(setting, tmp_path):
    pytest.importorskip("trl")
    bonus = "repexp:gate=false"  # acts on every group, also where all are wrong
    fixed = ("--task", "game24", "--trainer", "trl", "--bonus", bonus, "--model", "tiny24", "--limit", 8)
    steps = [word for name, value in STEPS.items() for word in ("--set", f"{name}={value}")]
    on = ["--cpu"] if setting.device == "cpu" else []
    done = run_to_end(harness_command("rl", "train", *fixed, *steps, *on, "--out", tmp_path / "run", "--yes"))
    assert done.returncode == 0, done.stderr
    lines = [line for line in read_json_lines(tmp_path / "run" / "metrics.jsonl") if line["step"] > 0]
    last = lines[-1]
    of = {"step_s": "s", "reward": "mean of the responses", "bonus": "mean of the responses", "grad_norm": "norm"}
    setting.note({name: (last[name], unit) for name, unit in of.items()})
    assert max(line["grad_norm"] for line in lines) > 0
    assert max(line["bonus"] for line in lines) > 0
    assert all(math.isfinite(value) for line in lines for value in line.values() if isinstance(value, float))
