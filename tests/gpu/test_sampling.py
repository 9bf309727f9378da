"""Torch sees the GPU; TRL steps with the bonus; vLLM's hidden states are those of transformers; the speed of both.

vLLM takes most of a GPU's memory: each check ends its engine, whose child then gives it back.
"""

import contextlib
import math
import time

import numpy as np
import pytest
from support.json_lines import read_json_lines
from support.processes import harness_command, run_to_end

from harness import HarnessError, Responses, Sampler
from harness.records import SampleRequest
from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.engines.vllm.engine import Vllm

pytestmark = pytest.mark.slow
NUMBERS = ("4 5 6 10", "1 2 3 4", "2 3 5 12", "3 3 8 8", "1 5 5 5", "4 4 10 10", "2 7 8 9", "6 6 6 6")
PROMPTS = [[{"role": "user", "content": f"Use the numbers {numbers} to make 24."}] for numbers in NUMBERS]
TOKENS = 64  # of a response, at most; a prompt and so many fit the context of the smallest embedded model
COMPARED = {"cuda": 32, "cpu": 4}  # responses to each prompt
TIMED = {"cuda": 256, "cpu": 4}
KINDS = ("mean", "last", "penultimate")
TOLERANCE = {"float32": 1e-3, "bfloat16": 5e-2}  # of a state's length
OWN_TIMES = 3.0  # ... or so many times what transformers in bfloat16 is off, if that is more
MEMORY = 0.8  # of the GPU: a screen may hold some
STEPS = {"batch": 4, "mini_batch": 4, "micro_batch": 8, "rollouts": 8, "max_response": 64, "learning_rate": 1e-4}
STEPS |= {"steps": 2, "save_every": 2, "dev_samples": 1}


@pytest.mark.gpu(60)
def test_two_matrices_multiply_in_bfloat16_as_on_the_cpu(setting):
    if setting.device == "cpu":
        pytest.skip("asked for with DEVICE=cpu")
    import torch

    a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    off = float(((a[:64] @ a).float().cpu() - a[:64].float().cpu() @ a.float().cpu()).abs().max())
    setting.note("largest difference from the CPU's", off, "of entries with a deviation of 64")
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
    setting.note("a step", lines[-1]["step_s"], "s")
    assert min(max(line[name] for line in lines) for name in ("grad_norm", "bonus")) > 0
    assert all(math.isfinite(value) for line in lines for value in line.values() if isinstance(value, float))


@pytest.mark.gpu(300)
@pytest.mark.parametrize("name", ["transformers", "vllm"])
def test_2048_responses_are_sampled_with_their_mean_states(setting, name):
    own = contextlib.nullcontext(Transformers(setting.model, device=setting.device, dtype="bfloat16"))
    with vllm(setting, "bfloat16") if name == "vllm" else own as engine:
        engine.sample(request(1, ("mean",), tokens=8))
        began = time.monotonic()
        tokens = sum(int(each.lengths.sum()) for each in engine.sample(request(TIMED[setting.device], ("mean",))))
        setting.note("tokens a second", tokens / (time.monotonic() - began), "tokens/s")
    assert tokens > 0


@pytest.mark.gpu(420)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_vllm_gives_the_hidden_states_of_transformers_in_the_sampling_pass(setting, dtype):
    with vllm(setting, dtype) as engine:
        about = engine.start()
        responses = engine.sample(request(COMPARED[setting.device], KINDS))
    setting.note(f"states passed again, by {about['runner']}", engine.passed_again, "responses")
    actual = {kind: np.concatenate([each.states[kind] for each in responses]) for kind in KINDS}
    expected, tolerance = passed(setting, "float32", responses), TOLERANCE[dtype]
    off = apart(actual, expected)
    setting.note("largest relative difference", off, "of the state's length")
    if dtype == "bfloat16":  # the last of thirty layers' states can differ by 4 % between two sizes of a batch
        own = apart(passed(setting, "bfloat16", responses), expected)
        setting.note("that of transformers", own, "of the state's length")
        tolerance = max(tolerance, OWN_TIMES * own)
    assert off <= tolerance
    longer = actual | {"last": actual["last"] * (1 + 3 * tolerance)}
    assert apart(longer, expected) > tolerance, "the comparison sees what is wrong"
    assert not about["fault"], "hidden states do not come from the sampling pass"
    assert not engine.passed_again, "responses had to pass the model again"


@contextlib.contextmanager
def vllm(setting, dtype):
    """The engine; skips the check where its environment is not there, or of another device."""
    engine = Vllm(setting.model, dtype=dtype, gpu_memory_utilization=MEMORY)
    try:
        installed = engine._environment
    except HarnessError as absent:
        pytest.skip(str(absent).partition(": make one")[0])
    if installed.device != setting.device:
        pytest.skip(f"{installed.distribution} {installed.version} is built for {installed.device}")
    try:
        yield engine
    finally:
        engine.close()


def request(n, states, tokens=TOKENS):
    return SampleRequest(PROMPTS, n, Sampler(), tokens, seeds=range(len(PROMPTS)), states=states)


def passed(setting, dtype, responses):
    """The states that transformers computes of the responses to all prompts."""
    engine, parts = Transformers(setting.model, device=setting.device, dtype=dtype), []
    for prompt, each in zip(PROMPTS, responses, strict=True):
        given = Responses(each.texts, each.finish, each.lengths, each.logprobs, each.token_ids)
        parts.append(engine.encode(prompt, given, KINDS))
    return {kind: np.concatenate([part[kind] for part in parts]) for kind in KINDS}


def apart(actual, expected):
    """The largest difference of states, relative to their lengths; NaN if any is NaN."""
    norm = np.linalg.norm
    return float(max(np.max(norm(actual[k] - expected[k], axis=1) / norm(expected[k], axis=1)) for k in KINDS))
