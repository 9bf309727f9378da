"""A few responses drawn, graded and kept, to see what many would cost here. Nothing is fetched, and nothing stays."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.contracts import Engine, Task
from harness.errors import HarnessError
from harness.paper import ModelSize
from harness.records import Problem, Responses, Sampler, SampleRequest
from harness.running.plan import prompt
from harness.stages.verify import graded
from harness.store import shards
from harness.system.hub import only_what_is_here

PROBLEMS, FEW, MANY = 4, 16, 64  # responses to each problem; many where that is quick: large batches are what runs have
SECONDS = 30.0  # that sampling may take, about
FIRST_TOKENS = 16


@dataclass(frozen=True)
class Measured:
    """What was seen. None: it could not be.

    token_s          seconds a token drawn, hidden states included where the engine gives them
    response_tokens  mean length; None where the probe had to cut some of them short
    verdict_s        seconds a verdict, of this process
    response_bytes   in the store, without vectors
    width            of the hidden state
    """

    responses: int
    token_s: float
    response_tokens: float | None
    verdict_s: float | None
    response_bytes: float
    width: int | None


def loadable(model: ModelSize | None) -> bool:
    """Whether a model of that size can be tried: on a CPU its weights, as float32, may take half of the free memory."""
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return True
    return model is None or _has_gpu() or 2 * model.weight_bytes < free / 2


def _has_gpu() -> bool:
    return Path("/proc/driver/nvidia").exists() or Path("/dev/kfd").exists()


def probe(task: Task, engine: Engine, sampler: Sampler, max_tokens: int, unsafe_exec: bool = False) -> Measured:
    """Draw from a few of the task's problems; HarnessError where the model or the problems are not here."""
    with only_what_is_here():
        every = list(task.problems(task.default_split(engine.name)[0]))
        problems = every[:: max(1, len(every) // PROBLEMS)][:PROBLEMS]
        prompts = [prompt(task, engine, problem) for problem in problems]
        engine.check(prompts, max_tokens)
        states = ["mean"] if "mean" in engine.states else []
        _sampled(engine, prompts, FEW, sampler, FIRST_TOKENS, states)  # loads the model
        _, first_s = _sampled(engine, prompts, FEW, sampler, FIRST_TOKENS, states)
        tokens = min(max_tokens, max(FIRST_TOKENS, int(SECONDS / first_s * FIRST_TOKENS)))
        rows = MANY if first_s / FIRST_TOKENS * tokens < SECONDS / 4 else FEW
        drawn, took = _sampled(engine, prompts, rows, sampler, tokens, states)
    lengths = np.concatenate([one.lengths for one in drawn])
    whole = tokens == max_tokens or all(finish == "stop" for one in drawn for finish in one.finish)
    return Measured(
        responses=len(lengths),
        token_s=took / max(1, int(lengths.sum())),
        response_tokens=float(lengths.mean()) if whole else None,
        verdict_s=_graded_s(task, problems, drawn, unsafe_exec) if whole else None,
        response_bytes=_kept_bytes(problems[0], drawn),
        width=drawn[0].states["mean"].shape[1] if states else None,
    )


def _sampled(
    engine: Engine, prompts: Sequence[Any], rows: int, sampler: Sampler, max_tokens: int, states: Sequence[str]
) -> tuple[list[Responses], float]:
    size, drawn, started = engine.problems_per_call(rows), [], time.perf_counter()
    for start in range(0, len(prompts), size):
        group = prompts[start : start + size]
        seeds = list(range(start, start + len(group)))
        drawn += engine.sample(SampleRequest(group, rows, sampler, max_tokens, seeds, states))
    if not sum(map(len, drawn)):
        raise HarnessError("probe: no response came")
    return drawn, time.perf_counter() - started


def _graded_s(task: Task, problems: Sequence[Problem], drawn: Sequence[Responses], unsafe_exec: bool) -> float | None:
    """Seconds a verdict; None where this machine cannot grade."""
    try:
        task.check(unsafe_exec=unsafe_exec)
        graded(task, problems[0], drawn[0].texts[:1], finish=drawn[0].finish[:1])  # what is loaded or started once
        started = time.perf_counter()
        for problem, responses in zip(problems, drawn, strict=True):
            graded(task, problem, responses.texts, finish=responses.finish)
    except HarnessError:
        return None
    return (time.perf_counter() - started) / sum(map(len, drawn))


def _kept_bytes(problem: Problem, drawn: Sequence[Responses]) -> float:
    """Bytes a response of one shard that holds them all."""
    ids = [one.token_ids for one in drawn]
    whole = Responses(
        texts=[text for one in drawn for text in one.texts],
        finish=[finish for one in drawn for finish in one.finish],
        lengths=np.concatenate([one.lengths for one in drawn]),
        logprobs=np.concatenate([one.logprobs for one in drawn]),
        token_ids=None if None in ids else [row for rows in ids for row in rows or ()],
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "probe.parquet"
        shards.write_responses(path, Problem(problem.id, problem.prompt), whole)
        return path.stat().st_size / len(whole)
