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
    torch.cuda.synchronize()
    began = time.monotonic()
    for _ in range(20):
        a @ a
    torch.cuda.synchronize()
    speed = 20 * 2 * 4096**3 / (time.monotonic() - began) / 1e12
    setting.note(
        {"bfloat16 product": (speed, "TFLOP/s"), "largest difference from the CPU's": (off, "of deviation 64")}
    )
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
    setting.note({name: (lines[-1][name], "in the last step") for name in ("step_s", "reward", "bonus", "grad_norm")})
    assert min(max(line[name] for line in lines) for name in ("grad_norm", "bonus")) > 0
    assert all(math.isfinite(value) for line in lines for value in line.values() if isinstance(value, float))
