"""Show what sampling costs, of an engine that pays for tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from harness.contracts import Charges, Engine
from harness.system.progress import Progress

from .plan import Plan


@contextmanager
def billed(engine: Engine, progress: Progress) -> Iterator[Callable[[], str]]:
    """Yield what tells the pool's cost so far in few words, and say at the end, come what may, what was used in all."""
    if not isinstance(engine, Charges):
        yield lambda: ""
        return
    try:
        yield engine.spending
    finally:
        if line := engine.bill():
            progress.say(line)


def quote(plan: Plan, counts: Mapping[str, int]) -> str:
    """What sampling counts[id] responses to each problem costs at most, as a clause; "" if the engine does not know."""
    sampling = plan.sampling
    if sampling is None or not counts or not isinstance(sampling.engine, Charges):
        return ""
    problems = [problem for problem in plan.problems if problem.id in counts]
    rows = [counts[problem.id] for problem in problems]
    return sampling.engine.quote(plan.prompts(problems), rows, sampling.max_tokens)
