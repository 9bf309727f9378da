"""vLLM samples with hidden states in float32 and bfloat16; transformers gives the same states; the speed of both.

vLLM takes most of a GPU's memory: each check ends its engine, whose child then gives it back.
"""

import contextlib
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
SAMPLED = {}  # dtype -> the responses to each prompt


@pytest.mark.gpu(300)
def test_transformers_samples_2048_responses(setting):
    timed(Transformers(setting.model, device=setting.device, dtype="bfloat16"), setting)


@pytest.mark.gpu(240)
def test_vllm_samples_2048_responses(setting):
    with vllm(setting, "bfloat16") as engine:
        timed(engine, setting)


@pytest.mark.gpu(300)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_vllm_samples_with_hidden_states_in_the_sampling_pass(setting, dtype):
    with vllm(setting, dtype) as engine:
        began = time.monotonic()
        about = engine.start()
        start_s = time.monotonic() - began
        SAMPLED[dtype] = responses = engine.sample(request(COMPARED[setting.device], KINDS))
    runner = f"start, by the {about['runner'] or 'unknown'} model runner"
    setting.note({runner: (start_s, "s"), "states passed again": (engine.passed_again, "responses")})
    assert not about["fault"], "hidden states do not come from the sampling pass"
    assert not engine.passed_again, "responses had to pass the model again"
    assert all(np.isfinite(values).all() for each in responses for values in each.states.values())


@pytest.mark.gpu(120)
def test_vllms_hidden_states_are_those_of_transformers(setting):
    if not SAMPLED:
        pytest.skip("vLLM has sampled nothing that could be compared")
    faults = []
    for dtype, responses in SAMPLED.items():
        actual, expected, tolerance = columns(responses), passed(setting, "float32", responses), TOLERANCE[dtype]
        off, unit = apart(actual, expected), "of the state's length"
        nats = np.abs(actual["logprobs"] - expected["logprobs"]).max() / TOKENS
        setting.note({f"{dtype}: largest relative difference": (off, unit)})
        setting.note({f"{dtype}: largest difference of a log-probability": (nats, "nats a token")})
        if dtype == "bfloat16":  # the last of thirty layers' states can differ by 4 % between two sizes of a batch
            own = apart(passed(setting, "bfloat16", responses), expected)
            setting.note({f"{dtype}: that of transformers": (own, unit)})
            tolerance = max(tolerance, OWN_TIMES * own)
        if not off <= tolerance:
            faults.append(f"{dtype}: relative difference {off:.1e}, tolerance {tolerance:.2g}")
        longer = actual | {"last": actual["last"] * (1 + 3 * tolerance)}
        assert apart(longer, expected) > tolerance, "the comparison sees what is wrong"
    assert not faults


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


def request(n, states, tokens=TOKENS, seed=0):
    seeds = [seed + place for place in range(len(PROMPTS))]
    return SampleRequest(PROMPTS, n=n, sampler=Sampler(), max_tokens=tokens, seeds=seeds, states=tuple(states))


def timed(engine, setting):
    """Sample a little, then time the sampling of `TIMED` responses to each prompt, with mean hidden states."""
    n = TIMED[setting.device]
    engine.sample(request(1, ("mean",), tokens=8))
    began = time.monotonic()
    tokens = sum(int(each.lengths.sum()) for each in engine.sample(request(n, ("mean",), seed=100)))
    elapsed_s, rows = time.monotonic() - began, n * len(PROMPTS)
    setting.note({"tokens a second": (tokens / elapsed_s, "tokens/s"), "responses": (rows, "responses")})
    assert tokens > 0


def columns(responses):
    """The states by kind, and the log-probabilities, of all responses."""
    states = {kind: np.concatenate([each.states[kind] for each in responses]) for kind in KINDS}
    return states | {"logprobs": np.concatenate([each.logprobs for each in responses])}


def passed(setting, dtype, responses):
    """What transformers computes of the responses to each prompt, as `columns`."""
    engine, parts = Transformers(setting.model, device=setting.device, dtype=dtype), []
    for prompt, each in zip(PROMPTS, responses, strict=True):
        ids = [list(row) for row in each.token_ids]
        given = Responses([""] * len(ids), ["length"] * len(ids), each.lengths, np.zeros(len(ids)), ids)
        parts.append({**engine.encode(prompt, given, KINDS), "logprobs": engine.score(prompt, given)})
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def apart(actual, expected):
    """The largest difference of states, relative to their lengths; NaN if any is NaN."""
    differences = [np.linalg.norm(actual[kind] - expected[kind], axis=1) for kind in KINDS]
    return float(
        np.max([each / np.linalg.norm(expected[kind], axis=1) for each, kind in zip(differences, KINDS, strict=True)])
    )
