"""Price a run by arithmetic, where it cannot be planned yet: weights, data or libraries are not on this machine.

The longest it can take: problems x responses x --max-tokens, at a speed that is assumed from the model's size.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from harness.contracts import Fetches, KnowsItsSize
from harness.errors import HarnessError, Lacking
from harness.system import extras
from harness.system.progress import Progress
from harness.task import Task

from .config import RunConfig
from .context import Context, make_context
from .preflight import SHORTER, Outlook, require_consent

# Parameters x tokens a second: SmolLM2-135M on a CPU, a core; and a 7 B model in bfloat16 on an H100 (docs/scale.md).
A_CORE, A_GPU = 1e10, 2e13
UNKNOWN_SIZE = 1e9


@dataclass(frozen=True)
class Assumed:
    """What a run would sample at most, and how long that takes at the assumed speed."""

    problems: int
    n: int
    max_tokens: int
    seconds: float
    speed: str

    @property
    def outlook(self) -> Outlook:
        """The time, as a question before long work needs it."""
        return Outlook(self.seconds)

    def __str__(self) -> str:
        tokens = self.problems * self.n * self.max_tokens
        sampled = f"{self.problems:,} problems x {self.n:,} responses x {self.max_tokens:,} tokens = {tokens:,}"
        return f"by arithmetic at most {sampled} tokens; with {self.speed} that is {self.outlook}"


def assumed(context: Context) -> Assumed | None:
    """The price of sampling for this config; None if the number of problems is not known, or a pool file is given."""
    config, task = context.config, context.task
    problems = _problems(context, task) if task and not config.pool else None
    if task is None or problems is None:
        return None
    paper = task.paper if config.paper else {}
    n, max_tokens = (
        config.n or paper.get("n") or task.n,
        config.max_tokens or paper.get("max_tokens") or task.max_tokens,
    )
    engine = context.engine(task)
    try:
        size, on_gpu = engine.size() if isinstance(engine, KnowsItsSize) else (None, False)
    except Lacking:  # the library that reads it
        size, on_gpu = None, False
    rate = A_GPU if on_gpu else A_CORE * (os.cpu_count() or 1)
    model = f"{(size or UNKNOWN_SIZE) / 1e9:.3g} billion parameters" + ("" if size else " (assumed)")
    device = "a GPU" if on_gpu else f"{os.cpu_count()} cores"
    speed = f"{model} at {rate / (size or UNKNOWN_SIZE):,.0f} tokens/s (assumed for {device})"
    return Assumed(problems, n, max_tokens, problems * n * max_tokens * (size or UNKNOWN_SIZE) / rate, speed)


def _problems(context: Context, task: Task) -> int | None:
    config = context.config
    chosen = config.split or (task.paper.get("split") if config.paper else None)
    known = None if config.data else task.sizes.get(chosen or task.default_split(context.engine(task).name)[0])
    limits = [limit for limit in (known, config.limit) if limit]
    return min(limits) if limits else None


def ask_before_fetching(config: RunConfig, progress: Progress) -> None:
    """Say what a run takes before weights are downloaded for it, and ask before an hour or more, as before all work."""
    if config.pool or not config.task:
        return
    context = make_context(config, progress)
    assert context.task is not None
    engine = context.engine(context.task)
    fetched = (
        engine.to_fetch()
        if isinstance(engine, Fetches) and not extras.missing(getattr(engine, "libraries", ()))
        else ""
    )
    price = assumed(context) if fetched else None
    if price:
        progress.say(f"to download: {fetched}")
        progress.say(str(price))
        require_consent("run", price.outlook, progress, SHORTER)


def say_price(context: Context, only_long: bool = False) -> None:
    """Say what the run would cost here by arithmetic, if that is known, and what needs less.

    only_long  say nothing of a run that may begin without a question
    """
    price = assumed(context)
    if price and (price.outlook.is_long or not only_long):
        context.progress.say(str(price))
        context.progress.say(
            "less: --preset quick; --model FOLDER for a model that is here; --pool FILE for responses that you have; "
            "--task game24, which needs no download"
        )


def rows(context: Context, failure: HarnessError) -> list[dict[str, Any]]:
    """The rows of a dry run that cannot be planned here, after lines that say why and what it would cost.

    Raises `failure` if it is not that something is lacking here, or if nothing can be said of the costs.
    """
    price = assumed(context) if isinstance(failure, Lacking) else None
    if price is None:
        raise failure
    context.progress.say(f"not planned yet: {failure}")
    say_price(context)
    stages = ["sample", "embed", "verify", *(f"rank {selector}" for selector in context.config.selectors)]
    return [{"stage": stage, "there": None, "to_make": price.problems, "key": None} for stage in stages]
