"""The checks that sample: vLLM with hidden states in float32 and bfloat16, transformers, their states, their speed.

vLLM takes most of a GPU's memory. So each check has a process of its own, and what vLLM sampled is compared with
transformers by a later check, from a file.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from harness import HarnessError, Message, Responses, Sampler, SampleRequest
from harness.records import Floats
from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.engines.vllm.child.harness_vllm.wire import packed, unpacked
from harness_plugins.engines.vllm.engine import Vllm
from harness_plugins.engines.vllm.environment import environment, find_python

from .record import FAILED, PASSED, Result, Setting, Skipped, judged

NUMBERS = (
    "4, 5, 6, 10",
    "1, 2, 3, 4",
    "2, 3, 5, 12",
    "3, 3, 8, 8",
    "1, 5, 5, 5",
    "4, 4, 10, 10",
    "2, 7, 8, 9",
    "6 6 6 6",
)
PROMPTS: Sequence[list[Message]] = [
    [{"role": "user", "content": f"Use the numbers {numbers} to make 24."}] for numbers in NUMBERS
]
TOKENS = 64  # of a response, at most; a prompt and so many fit the context of the smallest embedded model
COMPARED = {"cuda": 32, "cpu": 4}  # responses to each prompt
TIMED = {"cuda": 256, "cpu": 4}
KINDS = ("mean", "last", "penultimate")
SAMPLES = {"vllm-float32": "float32", "vllm-bfloat16": "bfloat16", "vllm-v1-runner": "bfloat16"}  # check -> dtype
TOLERANCE = {"float32": 1e-3, "bfloat16": 5e-2}  # those of the engine's own test when it starts
MEMORY = 0.8  # of the GPU: a screen may hold some


def vllm_float32(setting: Setting) -> Result:
    """Sample in float32, with hidden states in the sampling pass."""
    return _sampled(setting, "vllm-float32")


def vllm_bfloat16(setting: Setting) -> Result:
    """Sample in bfloat16, with hidden states in the sampling pass."""
    return _sampled(setting, "vllm-bfloat16")


def vllm_v1(setting: Setting) -> Result:
    """Sample with vLLM's older model runner, if the one that it chooses has failed. The caller sets the variable."""
    if setting.device == "cpu":
        raise Skipped("on a CPU vLLM has its V1 model runner in any case")
    if FAILED not in (setting.outcomes.get("vllm-float32"), setting.outcomes.get("vllm-bfloat16")):
        raise Skipped("only made if vllm-float32 or vllm-bfloat16 fails")
    return _sampled(setting, "vllm-v1-runner")


def hidden_states(setting: Setting) -> Result:
    """Compare what vLLM sampled, and its hidden states, with one pass of transformers over the same texts."""
    made = [check for check in SAMPLES if setting.outcomes.get(check) in (PASSED, FAILED)]
    compared = [check for check in made if _sample(setting, check).is_file()]
    if not compared:
        raise Skipped("vLLM has sampled nothing that could be compared")
    lines, metrics, holds = [], {}, True
    for check in compared:
        dtype = SAMPLES[check]
        differences = _differences(setting, dtype, _sample(setting, check))
        relative, cosine = differences["largest relative difference"], differences["smallest cosine"]
        holds &= relative <= TOLERANCE[dtype]
        lines.append(f"{check} {relative:.1e} (tolerance {TOLERANCE[dtype]:g}), smallest cosine {cosine:.6f}")
        metrics |= {f"{check}: {name}": (value, UNITS[name]) for name, value in differences.items()}
    return judged(holds, f"largest relative difference of a response's states: {'; '.join(lines)}", metrics)


def vllm_throughput(setting: Setting) -> Result:
    """Time vLLM in bfloat16, with mean hidden states."""
    engine = _vllm(setting, "bfloat16")
    try:
        return _timed(engine, setting)
    finally:
        engine.close()


def transformers_throughput(setting: Setting) -> Result:
    """Time transformers in bfloat16, with mean hidden states."""
    return _timed(Transformers(setting.model, device=setting.device, dtype="bfloat16"), setting)


# Sampling.


def _vllm(setting: Setting, dtype: str) -> Vllm:
    try:
        installed = environment(find_python(None))
    except HarnessError as absent:
        raise Skipped(str(absent).partition(": make one")[0]) from None
    if installed.device != setting.device:
        raise Skipped(
            f"{installed.distribution} {installed.version} is built for {installed.device}, not {setting.device}"
        )
    return Vllm(setting.model, dtype=dtype, gpu_memory_utilization=MEMORY)


def _sample(setting: Setting, check: str) -> Path:
    """Return the file with what a check has sampled."""
    return setting.files / f"{check}.npz"


def _sampled(setting: Setting, check: str) -> Result:
    engine = _vllm(setting, SAMPLES[check])
    _sample(setting, check).unlink(missing_ok=True)
    try:
        began = time.monotonic()
        about = engine.start()
        start_s = time.monotonic() - began
        responses = engine.sample(_request(COMPARED[setting.device], KINDS))
    finally:
        engine.close()
    keep(_sample(setting, check), responses)
    fault = about["fault"] or _fault(responses, engine.passed_again)
    where = "in the sampling pass" if not fault else f"not in the sampling pass: {fault}"
    metrics = {
        "start": (start_s, "s"),
        "responses": (sum(map(len, responses)), "responses"),
        "tokens": (sum(int(each.lengths.sum()) for each in responses), "tokens"),
        "states passed again": (engine.passed_again, "responses"),
    }
    reason = f"{about['vllm']}, {about['runner'] or 'unknown'} model runner: hidden states {where}"
    return judged(not fault, reason, metrics)


def keep(path: Path, responses: Sequence[Responses]) -> None:
    """Write the tokens, log-probabilities and states of each prompt's responses to a file for `hidden_states`."""
    rows = [list(ids) for each in responses for ids in each.token_ids or ()]
    states = {kind: np.concatenate([each.states[kind] for each in responses]) for kind in KINDS}
    logprobs = np.concatenate([each.logprobs for each in responses])
    np.savez(path, **packed("tokens", rows), logprobs=logprobs, **states)


def _fault(responses: Sequence[Responses], passed_again: int) -> str:
    if passed_again:
        return f"{passed_again} responses had to pass the model again"
    values = [values for each in responses for values in each.states.values()]
    return "" if all(np.isfinite(each).all() for each in values) else "some are not finite"


def _request(n: int, states: Sequence[str], tokens: int = TOKENS, seed: int = 0) -> SampleRequest:
    seeds = [seed + place for place in range(len(PROMPTS))]
    return SampleRequest(PROMPTS, n=n, sampler=Sampler(), max_tokens=tokens, seeds=seeds, states=tuple(states))


def _timed(engine: Vllm | Transformers, setting: Setting) -> Result:
    """Sample a little, then time the sampling of `TIMED` responses to each prompt."""
    n = TIMED[setting.device]
    engine.sample(_request(1, ("mean",), tokens=8))
    began = time.monotonic()
    responses = engine.sample(_request(n, ("mean",), seed=100))
    elapsed_s = time.monotonic() - began
    tokens, rows = sum(int(each.lengths.sum()) for each in responses), n * len(PROMPTS)
    metrics = {
        "tokens a second": (tokens / elapsed_s, "tokens/s"),
        "responses a second": (rows / elapsed_s, "responses/s"),
        "tokens": (tokens, "tokens"),
        "responses": (rows, "responses"),
    }
    return judged(tokens > 0, f"{tokens / elapsed_s:,.0f} tokens/s in bfloat16, with mean hidden states", metrics)


# Comparing.

UNITS = {
    "largest relative difference": "of the state's length",
    "smallest cosine": "cosine",
    "largest difference of the mean state": "of the median distance from the problem's centre",
    "largest difference of a log-probability": "nats a token",
    "responses": "responses",
}


def _differences(setting: Setting, dtype: str, path: Path) -> dict[str, float]:
    """Return how far a file's states and log-probabilities are from those of transformers, by the names of `UNITS`."""
    engine = Transformers(setting.model, device=setting.device, dtype=dtype)
    columns = np.load(path)
    rows = unpacked("tokens", columns)
    n = len(rows) // len(PROMPTS)
    worst = dict.fromkeys(UNITS, 0.0) | {"smallest cosine": 1.0, "responses": len(rows)}
    for place, prompt in enumerate(PROMPTS):
        part = slice(place * n, (place + 1) * n)
        given = _given(rows[part])
        expected = engine.encode(prompt, given, KINDS)
        for kind in KINDS:
            _widen(worst, columns[kind][part], expected[kind], kind == "mean")
        off = np.abs(engine.score(prompt, given) - columns["logprobs"][part]) / np.maximum(given.lengths, 1)
        _raise(worst, "largest difference of a log-probability", off)
    return worst


def _given(rows: list[list[int]]) -> Responses:
    lengths = np.array([len(row) for row in rows], np.int64)
    return Responses([""] * len(rows), ["length"] * len(rows), lengths, np.zeros(len(rows)), rows)


def _widen(worst: dict[str, float], actual: Floats, expected: Floats, is_mean: bool) -> None:
    """Update `worst` by the states (n, d) of a prompt's responses."""
    actual, expected = actual.astype(np.float64), expected.astype(np.float64)
    off = np.linalg.norm(actual - expected, axis=1)
    lengths = np.linalg.norm(expected, axis=1)
    cosine = (actual * expected).sum(1) / (lengths * np.linalg.norm(actual, axis=1))
    _raise(worst, "largest relative difference", off / lengths)
    worst["smallest cosine"] = float(np.minimum(cosine, worst["smallest cosine"]).min())
    if is_mean:
        spread = np.median(np.linalg.norm(expected - expected.mean(0), axis=1))
        _raise(worst, "largest difference of the mean state", off / max(float(spread), 1e-30))


def _raise(worst: dict[str, float], name: str, values: Floats) -> None:
    """Raise `worst[name]` to the largest of the values; NaN wins."""
    worst[name] = float(np.maximum(values, worst[name]).max())
