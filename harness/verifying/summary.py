"""What a loop found, and what a random order would have needed, as far as that is known.

A pool file that brings all verdicts (`correct`) tells it in closed form. Otherwise only verified responses have
verdicts, and of a problem's number c of correct responses two bounds are known: those seen, and all but the wrong ones
seen. A random order needs u (n + 1) / (c + 1) calls on average to the u-th success among n responses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.pools.reading import Layouts, read_pool
from harness.records import Floats

from .check import TOO_LATE, Check
from .loop import Loop
from .search import Search


@dataclass(frozen=True)
class Hit:
    """A response that was looked for: a success, or with `top` one of the largest values. `call`: of its problem."""

    search: Search
    check: Check
    call: int

    def row(self) -> dict[str, Any]:
        """The hit as JSON: problem_id, index, call, and value and name if it has them."""
        names = self.search.candidates.problem.meta.get("names", ())
        row: dict[str, Any] = {"problem_id": self.search.id, "index": self.check.index, "call": self.call}
        row |= {} if self.check.value is None else {"value": self.check.value}
        return row | ({"name": names[self.check.index]} if any(names) else {})


def hits(loop: Loop) -> list[Hit]:
    """The successes by problem, in the order verified; with `top` the largest values, the largest first."""
    config, every = loop.config, []
    for search in loop.searches.values():
        verified = [check for check in search.checked if check.is_call]
        every += [Hit(search, check, call) for call, check in enumerate(verified, 1)]
    if config.top:
        with_value = [hit for hit in every if hit.check.value is not None]
        return sorted(with_value, key=lambda hit: -(hit.check.value or 0.0))[: config.top]
    return [hit for hit in every if hit.check.is_success(config.threshold)]


def summary(loop: Loop) -> dict[str, Any]:
    """What `harness verify --json` prints: counts, why the loop ended, the hits, and what random would have needed.

    errors     checks that ended in an error; failed: responses whose last check did
    exhausted  the problems without enough successes whose responses all have an outcome; unsolved: the others
    """
    checks = [check for search in loop.searches.values() for check in search.checked]
    failed = [check for check in checks if check.outcome == "error"]
    errors = failed + [check for search in loop.searches.values() for check in search.failed]
    reasons = Counter(check.reason for check in errors).most_common(1)
    solved = [search for search in loop.searches.values() if search.is_done]
    calls, budget = sum(check.is_call for check in checks) + len(errors) - len(failed), loop.config.budget
    unsolved = [] if loop.config.top else [search for search in loop.searches.values() if not search.is_done]
    exhausted = [search for search in unsolved if len(search.checked) == len(search.candidates.responses)]
    return {
        "problems": len(loop.searches),
        "solved": None if loop.config.top else len(solved),
        "calls": calls,
        "errors": len(errors),
        "failed": len(failed),
        "commonest_error": reasons[0][0] if reasons else None,
        "timeouts": sum(check.reason.startswith(TOO_LATE) for check in errors),
        "skipped": sum(check.outcome == "skip" for check in checks),
        "budget_used_up": budget is not None and calls >= budget,
        "exhausted": [search.id for search in exhausted],
        "unsolved": [search.id for search in unsolved if search not in exhausted],
        "found": [hit.row() for hit in hits(loop)],
        "random": None if loop.config.top else _random(loop, solved),
    }


# Random.


def _random(loop: Loop, solved: Sequence[Search]) -> dict[str, Any] | None:
    """What random would have needed: exact from the verdicts of the pool file, else bounds on the solved problems."""
    correct = _given_verdicts(loop)
    if correct and loop.config.threshold is None:
        differ = sum(
            correct[search.id][check.index] != (check.outcome == "correct")
            for search in loop.searches.values()
            for check in search.checked
            if check.outcome in ("correct", "wrong")
        )
        return {"differ": differ} if differ else _exact(loop, correct, len(solved))
    return _bounds(solved, loop.config.until) if solved else None


def _given_verdicts(loop: Loop) -> dict[str, Sequence[bool]]:
    """Problem id -> the verdicts that the pool file brings; none unless it brings all."""
    config = loop.config
    in_memory = any("line" not in search.candidates.problem.meta for search in loop.searches.values())
    if in_memory or not config.pool:
        return {}
    layouts = Layouts(loop.context.registry)
    of_line = {record.problem_id: record.correct for record in read_pool(config.pool, layouts=layouts)}
    given = {search.id: of_line.get(search.candidates.problem.meta["line"]) for search in loop.searches.values()}
    complete = {name: verdicts for name, verdicts in given.items() if verdicts}
    return complete if len(complete) == len(given) else {}


def _exact(loop: Loop, correct: Mapping[str, Sequence[bool]], solved: int) -> dict[str, Any]:
    """What the same loop with a random order expects, problem after problem in turn.

    calls   until it has solved as many problems; None if it cannot within --budget-per-problem
    solved  with as many calls
    """
    pools, config = [(len(each), sum(each)) for each in correct.values()], loop.config
    found, calls = random_turns(pools, config.until, config.budget_per_problem)
    return {
        "calls": float(np.interp(solved, found, calls)) if solved <= found[-1] + 1e-9 else None,
        "solved": float(np.interp(loop.calls, calls, found)),
    }


def random_turns(pools: Sequence[tuple[int, int]], until: int, most: int | None) -> tuple[Floats, Floats]:
    """The problems solved and the calls made, as random's expectations, after 0, 1, 2, ... turns; (turns + 1,) each.

    pools  (n, c) of each problem: responses, and correct ones among them
    until  successes after which a problem is done
    most   calls of one problem; None: all its responses
    """
    from scipy.stats import hypergeom

    turns = np.arange(min(max(n for n, _ in pools), most or np.inf) + 1)
    found, calls = np.zeros(len(turns)), np.zeros(len(turns))
    for n, c in pools:
        open_after = hypergeom.cdf(until - 1, n, c, np.minimum(turns, n))  # (turns + 1,)
        found += 1 - open_after
        calls[1:] += np.cumsum(np.where(turns[:-1] < n, open_after[:-1], 0))
    return found, calls


def _bounds(solved: Sequence[Search], until: int) -> dict[str, Any]:
    """On the solved problems: the calls to their last success, and the least and most that random needs on average."""
    calls, at_least, at_most = 0, 0.0, 0.0
    for search in solved:
        n, checks = len(search.candidates.responses), search.checked
        last = search.successes[until - 1]
        calls += sum(check.is_call for check in checks[: checks.index(last) + 1])
        seen = len(search.successes)
        wrong = sum(check.known is not None for check in checks) - seen
        at_least += until * (n + 1) / (n - wrong + 1)
        at_most += until * (n + 1) / (seen + 1)
    return {"calls_on_solved": calls, "at_least": at_least, "at_most": at_most}
