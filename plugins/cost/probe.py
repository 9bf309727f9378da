"""Measure on a few responses what sampling, grading and storing cost on this machine.

Nothing is downloaded, and nothing is left on the disk.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.columns.responses import response_rows
from harness.columns.store import filed
from harness.columns.verdicts import graded
from harness.contracts import Engine, Task
from harness.errors import HarnessError
from harness.jobs.plan import prompt
from harness.paper import ModelSize
from harness.records import Problem, Responses, Sampler, SampleRequest
from harness.system.extras import hub_offline

PROBLEMS, FEW, MANY = 4, 16, 64  # FEW or, if that is quick, MANY responses per problem: real runs have large batches
SECONDS = 20.0  # approximate limit of the time for sampling
FIRST_TOKENS = 8


@dataclass(frozen=True)
class Measured:
    """The results of a probe; None if a value could not be measured.

    token_s          seconds per generated token, including hidden states if the engine gives them
    response_tokens  mean length; None if the probe had to cut some responses short
    verdict_s        seconds per verdict in this process
    response_bytes   bytes per response in the store, without vectors
    width            dimension of the hidden state
    """

    responses: int
    token_s: float
    response_tokens: float | None
    verdict_s: float | None
    response_bytes: float
    width: int | None


def loadable(model: ModelSize | None) -> bool:
    """Return whether a model of a size can be tried: on a CPU, if float32 weights fill under half of the free memory.

    True if there is a GPU, or if the size (None) or the free memory is not known.
    """
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return True
    return model is None or _has_gpu() or 2 * model.weight_bytes < free / 2


def _has_gpu() -> bool:
    return Path("/proc/driver/nvidia").exists() or Path("/dev/kfd").exists()


def probe(task: Task, engine: Engine, sampler: Sampler, max_tokens: int, unsafe_exec: bool = False) -> Measured:
    """Sample and grade responses to at most four of the task's problems, and return what that cost.

    HarnessError if the model or the problems are not on this machine. Responses may be cut before max_tokens, so that
    sampling takes about `SECONDS`.
    """
    with hub_offline():
        every = list(task.problems(task.default_split(engine.name)[0]))
        problems = every[:: max(1, len(every) // PROBLEMS)][:PROBLEMS]
        prompts = [prompt(task, engine, problem) for problem in problems]
        engine.check(prompts, max_tokens)
        states = ["mean"] if "mean" in engine.states else []
        _sampled(engine, prompts[:1], 1, sampler, 1, states)  # loads the model
        _, first_s = _sampled(engine, prompts, FEW, sampler, FIRST_TOKENS, states)
        left_s = SECONDS - first_s
        tokens = min(max_tokens, max(FIRST_TOKENS, int(left_s / first_s * FIRST_TOKENS)))
        rows = MANY if first_s / FIRST_TOKENS * tokens < left_s / 4 else FEW
        pools, elapsed_s = _sampled(engine, prompts, rows, sampler, tokens, states)
    lengths = np.concatenate([pool.lengths for pool in pools])
    complete = tokens == max_tokens or all(finish == "stop" for pool in pools for finish in pool.finish)
    return Measured(
        responses=len(lengths),
        token_s=elapsed_s / max(1, int(lengths.sum())),
        response_tokens=float(lengths.mean()) if complete else None,
        verdict_s=_graded_s(task, problems, pools, unsafe_exec) if complete else None,
        response_bytes=_stored_bytes(pools),
        width=pools[0].states["mean"].shape[1] if states else None,
    )


def _sampled(
    engine: Engine, prompts: Sequence[Any], rows: int, sampler: Sampler, max_tokens: int, states: Sequence[str]
) -> tuple[list[Responses], float]:
    """The responses to each prompt, and the seconds that sampling took."""
    size, pools, started = engine.problems_per_call(rows), [], time.perf_counter()
    for start in range(0, len(prompts), size):
        group = prompts[start : start + size]
        seeds = list(range(start, start + len(group)))
        pools += engine.sample(SampleRequest(group, rows, sampler, max_tokens, seeds, states))
    if not sum(map(len, pools)):
        raise HarnessError("probe: the engine returned no response")
    return pools, time.perf_counter() - started


def _graded_s(task: Task, problems: Sequence[Problem], pools: Sequence[Responses], unsafe_exec: bool) -> float | None:
    """Seconds per verdict; None if this machine cannot grade."""
    try:
        task.check(unsafe_exec=unsafe_exec)
        graded(task, problems[0], pools[0].texts[:1], finish=pools[0].finish[:1])  # warm up: loads or starts the grader
        started = time.perf_counter()
        for problem, responses in zip(problems, pools, strict=True):
            graded(task, problem, responses.texts, finish=responses.finish)
    except HarnessError:
        return None
    return (time.perf_counter() - started) / sum(map(len, pools))


def _stored_bytes(pools: Sequence[Responses]) -> float:
    """Bytes per response in one file that holds all responses."""
    ids = [pool.token_ids for pool in pools]
    joined = Responses(
        texts=[text for pool in pools for text in pool.texts],
        finish=[finish for pool in pools for finish in pool.finish],
        lengths=np.concatenate([pool.lengths for pool in pools]),
        logprobs=np.concatenate([pool.logprobs for pool in pools]),
        token_ids=None if None in ids else [row for rows in ids for row in rows or ()],
    )
    _, content = filed(Path("pool/responses"), "probe", response_rows(joined))
    return sum(map(len, content)) / len(joined)
