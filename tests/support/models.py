"""What a worker gets that samples and embeds, with the toy engine and its models already built."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness import Problem
from harness.records import Sampler
from harness.stages.model_work import Group, Models, ModelWork
from harness.stages.work import Work
from support.toy import Parrot

PARROT = {"engine": "toy", "model": "parrot"}


class States:
    """An embedder that reads the engine's hidden states."""

    state = "mean"


def model_work(work: Work, **fields: Any) -> ModelWork:
    """Three responses to each problem, and vectors of at most eight features."""
    fixed = {"engine": "toy", "model": None, "sampler": "vanilla", "embedder": None, "n": 3, "max_tokens": 8, "dim": 8}
    return ModelWork(**{"work": work, "identities": {"engine": PARROT}, **fixed, **fields})


def models(engine: Any = None, embedder: Any = None) -> Models:
    """The models as a worker builds them: a parrot, and no embedder, if none is given."""
    return Models(engine or Parrot(), Sampler(), embedder)


def group_of(problems: Sequence[Problem]) -> Group:
    """The problems with their prompts as chats."""
    return Group(problems, [[{"role": "user", "content": problem.prompt}] for problem in problems])
