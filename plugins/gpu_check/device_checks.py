"""The checks without vLLM: torch sees the GPU, TRL makes a step with the bonus."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from harness.system.progress import Progress
from harness_plugins.rl import training_run
from harness_plugins.rl.commands import TrainRequest
from harness_plugins.rl.training import read_metrics

from .record import Result, Setting, Skipped, judged

STEPS = {"batch": 4, "mini_batch": 4, "micro_batch": 8, "rollouts": 8, "max_response": 64, "learning_rate": 1e-4}
STEPS |= {"steps": 2, "save_every": 2, "dev_samples": 1}


def gpu(setting: Setting) -> Result:
    """Multiply two matrices on the GPU, in bfloat16."""
    if setting.device == "cpu":
        raise Skipped("asked for with --device cpu")
    import torch

    part = torch.cuda.get_device_properties(0)
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    off = float(((a[:64] @ a).float().cpu() - a[:64].float().cpu() @ a.float().cpu()).abs().max())
    elapsed_s = _elapsed_s(lambda: [a @ a for _ in range(20)] and torch.cuda.synchronize())
    metrics = {
        "memory": (part.total_memory / 2**30, "GiB"),
        "bfloat16 product": (20 * 2 * 4096**3 / elapsed_s / 1e12, "TFLOP/s"),
        "largest difference from the CPU's": (off, "of entries with a deviation of 64"),
    }
    return judged(off < 4, f"{part.name}, compute capability {part.major}.{part.minor}", metrics)


def trl_step(setting: Setting) -> Result:
    """Train an embedded model for two steps of GRPO with RepExp's bonus, by the code of `harness rl train`."""
    folder = Path(tempfile.mkdtemp(prefix="rl-", dir=setting.files))
    request = TrainRequest(
        task="game24",
        trainer="trl",
        bonus="repexp:gate=false",  # acts on every group, also where all are wrong
        model="tiny24",
        limit=8,
        cpu=setting.device == "cpu",
        settings={name: str(value) for name, value in STEPS.items()},
        out=folder,
    )
    training_run.train(request, 0, Progress())
    lines = [line for line in read_metrics(folder / "metrics.jsonl") if line["step"] > 0]
    numbers = [value for line in lines for value in line.values() if isinstance(value, float)]
    moved = max(line["grad_norm"] for line in lines) > 0 and max(line["bonus"] for line in lines) > 0
    last = lines[-1]
    metrics = {
        "step": (last["step_s"], "s"),
        "reward": (last["reward"], "mean of the responses"),
        "bonus": (last["bonus"], "mean of the responses"),
        "gradient": (last["grad_norm"], "norm"),
        "responses": (STEPS["batch"] * STEPS["rollouts"], "responses a step"),
    }
    reason = f"{len(lines)} steps on tiny24, bonus {last['bonus']:.3g}, gradient {last['grad_norm']:.3g}"
    return judged(moved and all(map(math.isfinite, numbers)), reason, metrics)


def _elapsed_s(call: Callable[[], object]) -> float:
    call()
    began = time.monotonic()
    call()
    return time.monotonic() - began
