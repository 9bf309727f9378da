"""vLLM samples with hidden states in float32 and bfloat16; transformers gives the same states; the speed of both.

vLLM takes most of a GPU's memory: each check ends its engine, whose child then gives it back.
"""

import time

import numpy as np
import pytest

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

RELATIVE, OWN = "largest relative difference", "that of transformers in bfloat16"
UNITS = {
    RELATIVE: "of the state's length",
    OWN: "of the state's length",
    "smallest cosine": "cosine",
    "largest difference of the mean state": "of the median distance from the problem's centre",
    "largest difference of a log-probability": "nats a token",
}


@pytest.fixture(scope="module")
def sampled():
    """What vLLM sampled: (check, dtype) -> the responses to each prompt."""
    return {}


@pytest.mark.gpu(300)
def test_transformers_samples_2048_responses(setting):
    timed(Transformers(setting.model, device=setting.device, dtype="bfloat16"), setting)


@pytest.mark.gpu(300)
def test_vllm_samples_in_float32(setting, sampled):
    sample(setting, sampled, "float32")


@pytest.mark.gpu(240)
def test_vllm_samples_in_bfloat16(setting, sampled):
    sample(setting, sampled, "bfloat16")


@pytest.mark.gpu(120)
def test_vllms_hidden_states_are_those_of_transformers(setting, sampled):
    if not sampled:
        pytest.skip("vLLM has sampled nothing that could be compared")
    faults = []
    for (check, dtype), responses in sampled.items():
        actual = columns(responses)
        expected = passed(setting, "float32", responses)
        differences, tolerance = apart(actual, expected), TOLERANCE[dtype]
        if dtype == "bfloat16":  # the last of thirty layers' states can differ by 4 % between two sizes of a batch
            differences[OWN] = apart(passed(setting, "bfloat16", responses), expected)[RELATIVE]
            tolerance = max(tolerance, OWN_TIMES * differences[OWN])
        setting.note({f"{dtype}: {name}": (value, UNITS[name]) for name, value in differences.items()})
        if not differences[RELATIVE] <= tolerance:
            faults.append(f"{check}: {RELATIVE} {differences[RELATIVE]:.1e}, tolerance {tolerance:.2g}")
        longer = actual | {"last": actual["last"] * (1 + 3 * tolerance)}
        assert apart(longer, expected)[RELATIVE] > tolerance, "the comparison sees what is wrong"
    assert not faults


@pytest.mark.gpu(240)
def test_vllm_samples_2048_responses(setting):
    engine = vllm(setting, "bfloat16")
    try:
        timed(engine, setting)
    finally:
        engine.close()


# Sampling.


def vllm(setting, dtype):
    """The engine; skips the check where its environment is not there, or of another device."""
    engine = Vllm(setting.model, dtype=dtype, gpu_memory_utilization=MEMORY)
    try:
        installed = engine._environment
    except HarnessError as absent:
        pytest.skip(str(absent).partition(": make one")[0])
    if installed.device != setting.device:
        pytest.skip(f"{installed.distribution} {installed.version} is built for {installed.device}")
    return engine


def sample(setting, sampled, dtype):
    """Sample with hidden states in the sampling pass, and keep the responses."""
    engine = vllm(setting, dtype)
    try:
        began = time.monotonic()
        about = engine.start()
        start_s = time.monotonic() - began
        responses = engine.sample(request(COMPARED[setting.device], KINDS))
    finally:
        engine.close()
    runner = f"start, by the {about['runner'] or 'unknown'} model runner"
    setting.note({runner: (start_s, "s"), "states passed again": (engine.passed_again, "responses")})
    sampled[setting.check, dtype] = responses  # compared also where states were passed again
    assert not about["fault"], "hidden states do not come from the sampling pass"
    assert not engine.passed_again, "responses had to pass the model again"
    assert all(np.isfinite(values).all() for each in responses for values in each.states.values())


def request(n, states, tokens=TOKENS, seed=0):
    seeds = [seed + place for place in range(len(PROMPTS))]
    return SampleRequest(PROMPTS, n=n, sampler=Sampler(), max_tokens=tokens, seeds=seeds, states=tuple(states))


def timed(engine, setting):
    """Sample a little, then time the sampling of `TIMED` responses to each prompt, with mean hidden states."""
    n = TIMED[setting.device]
    engine.sample(request(1, ("mean",), tokens=8))
    began = time.monotonic()
    responses = engine.sample(request(n, ("mean",), seed=100))
    elapsed_s = time.monotonic() - began
    tokens, rows = sum(int(each.lengths.sum()) for each in responses), n * len(PROMPTS)
    speed = {"tokens a second": (tokens / elapsed_s, "tokens/s")}
    setting.note(speed | {"responses a second": (rows / elapsed_s, "responses/s"), "responses": (rows, "responses")})
    assert tokens > 0


# Comparing.


def columns(responses):
    """The states by kind, and the log-probabilities, of all responses."""
    states = {kind: np.concatenate([each.states[kind] for each in responses]) for kind in KINDS}
    return states | {"logprobs": np.concatenate([each.logprobs for each in responses])}


def passed(setting, dtype, responses):
    """What transformers computes of the responses to each prompt, as `columns`, and lengths."""
    engine = Transformers(setting.model, device=setting.device, dtype=dtype)
    parts = []
    for prompt, each in zip(PROMPTS, responses, strict=True):
        ids = [list(row) for row in each.token_ids]
        lengths = np.array([len(row) for row in ids], np.int64)
        given = Responses([""] * len(ids), ["length"] * len(ids), lengths, np.zeros(len(ids)), ids)
        states, logprobs = engine.encode(prompt, given, KINDS), engine.score(prompt, given)
        parts.append({**states, "logprobs": logprobs, "lengths": lengths})
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def apart(actual, expected):
    """The largest differences of states and log-probabilities, and the smallest cosine; NaN if any is NaN."""
    relative, cosine = [], []
    for kind in KINDS:
        a, b = actual[kind].astype(np.float64), expected[kind].astype(np.float64)
        lengths = np.linalg.norm(b, axis=1)
        relative.append(np.linalg.norm(a - b, axis=1) / lengths)
        cosine.append((a * b).sum(1) / (lengths * np.linalg.norm(a, axis=1)))
    shape = (len(PROMPTS), -1, actual["mean"].shape[1])
    a, b = (each["mean"].astype(np.float64).reshape(shape) for each in (actual, expected))
    spread = np.median(np.linalg.norm(b - b.mean(1, keepdims=True), axis=2), axis=1, keepdims=True)
    off = np.linalg.norm(a - b, axis=2) / np.maximum(spread, 1e-30)
    nats = np.abs(actual["logprobs"] - expected["logprobs"]) / np.maximum(expected["lengths"], 1)
    return {
        RELATIVE: float(np.max(relative)),
        "smallest cosine": float(np.min(cosine)),
        "largest difference of the mean state": float(off.max()),
        "largest difference of a log-probability": float(nats.max()),
    }
