"""The checks that sample: vLLM with hidden states in float32 and bfloat16, transformers, their states, their speed.

vLLM takes most of a GPU's memory. So each check has a process of its own, and what vLLM sampled is compared with
transformers by a later check, from a file.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness import HarnessError, Message, Responses, Sampler, SampleRequest
from harness.records import Floats
from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.engines.vllm.child.harness_vllm.protocol import packed, unpacked
from harness_plugins.engines.vllm.engine import Vllm
from harness_plugins.engines.vllm.settings import environment, find_python

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
TOLERANCE = {"float32": 1e-3, "bfloat16": 5e-2}  # of a state's length
OWN_TIMES = 3.0  # ... or so many times what transformers in bfloat16 is off, if that is more
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
    lines, holds = [], True
    metrics: dict[str, tuple[float, str]] = {}
    for check in compared:
        differences, tolerance = _differences(setting, check)
        relative, cosine = differences["largest relative difference"], differences["smallest cosine"]
        holds &= relative <= tolerance
        lines.append(f"{check} {relative:.1e} (tolerance {tolerance:.2g}), smallest cosine {cosine:.6f}")
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
    arrays: dict[str, Any] = {**packed("tokens", rows), "logprobs": logprobs, **states}
    np.savez(path, **arrays)


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

OWN = "that of transformers in bfloat16"
UNITS = {
    "largest relative difference": "of the state's length",
    OWN: "of the state's length",
    "smallest cosine": "cosine",
    "largest difference of the mean state": "of the median distance from the problem's centre",
    "largest difference of a log-probability": "nats a token",
    "responses": "responses",
}


def _differences(setting: Setting, check: str) -> tuple[dict[str, float], float]:
    """Return how far a check's states and log-probabilities are from those of transformers in float32, by `UNITS`.

    And the tolerance of a state's relative difference. In bfloat16 it grows with what transformers itself is off: the
    last of thirty layers' states can differ by 4 % between two sizes of a batch.
    """
    columns = np.load(_sample(setting, check))
    rows = unpacked("tokens", columns)
    expected = _passed(setting, "float32", rows)
    differences, tolerance = _apart(columns, expected), TOLERANCE[SAMPLES[check]]
    if SAMPLES[check] == "bfloat16":
        own = _apart(_passed(setting, "bfloat16", rows), expected)["largest relative difference"]
        differences[OWN], tolerance = own, max(tolerance, OWN_TIMES * own)
    return differences | {"responses": len(rows)}, tolerance


def _passed(setting: Setting, dtype: str, rows: list[list[int]]) -> dict[str, Floats]:
    """Return what transformers computes of given responses: states by kind, log-probabilities, and lengths."""
    engine = Transformers(setting.model, device=setting.device, dtype=dtype)
    n = len(rows) // len(PROMPTS)
    parts = []
    for place, prompt in enumerate(PROMPTS):
        ids = rows[place * n : (place + 1) * n]
        lengths = np.array([len(row) for row in ids], np.int64)
        given = Responses([""] * n, ["length"] * n, lengths, np.zeros(n), ids)
        parts.append(
            {**engine.encode(prompt, given, KINDS), "logprobs": engine.score(prompt, given), "lengths": lengths}
        )
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _apart(actual: Mapping[str, Floats], expected: Mapping[str, Floats]) -> dict[str, float]:
    """Return the largest differences of states and log-probabilities, and the smallest cosine; NaN if any is NaN."""
    relative, cosine = [], []
    for kind in KINDS:
        a, b = actual[kind].astype(np.float64), expected[kind].astype(np.float64)
        lengths = np.linalg.norm(b, axis=1)
        relative.append(np.linalg.norm(a - b, axis=1) / lengths)
        cosine.append((a * b).sum(1) / (lengths * np.linalg.norm(a, axis=1)))
    a, b = (
        each["mean"].astype(np.float64).reshape(len(PROMPTS), -1, each["mean"].shape[1]) for each in (actual, expected)
    )
    spread = np.median(np.linalg.norm(b - b.mean(1, keepdims=True), axis=2), axis=1, keepdims=True)
    off = np.linalg.norm(a - b, axis=2) / np.maximum(spread, 1e-30)
    nats = np.abs(actual["logprobs"] - expected["logprobs"]) / np.maximum(expected["lengths"], 1)
    return {
        "largest relative difference": float(np.max(relative)),
        "smallest cosine": float(np.min(cosine)),
        "largest difference of the mean state": float(off.max()),
        "largest difference of a log-probability": float(nats.max()),
    }
