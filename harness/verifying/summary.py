"""What a loop found, and what a random order would have needed, as far as that is known.

A pool file that brings all verdicts (`correct`) tells it in closed form. Otherwise only verified responses have
verdicts, and of a problem's number c of correct responses two bounds are known: those seen, and all but the wrong ones
seen. A random order needs u (n + 1) / (c + 1) calls on average to the u-th success among n responses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from harness.pools.reading import Layouts, read_pool
from harness.records import Floats

from .journal import TOO_LATE
from .loop import Loop, Search


def summary(loop: Loop) -> dict[str, Any]:
    """What `harness verify --json` prints: counts, why the loop ended, the hits, and what random would have needed.

    errors     checks that ended in an error; failed: responses whose last check did
    exhausted  the problems without enough successes whose responses all have an outcome; unsolved: the others
    """
    config, searches = loop.config, list(loop.searches.values())
    checks = [check for search in searches for check in search.checked]
    failed = [check for check in checks if check.outcome == "error"]
    errors = failed + [check for search in searches for check in search.failed]
    reasons = Counter(check.reason for check in errors).most_common(1)
    calls = sum(check.is_call for check in checks) + len(errors) - len(failed)
    solved = [search for search in searches if search.is_done]
    unsolved = [] if config.top else [search for search in searches if not search.is_done]
    exhausted = [search for search in unsolved if len(search.checked) == len(search.candidates.responses)]
    return {
        "problems": len(searches),
        "solved": None if config.top else len(solved),
        "calls": calls,
        "errors": len(errors),
        "failed": len(failed),
        "commonest_error": reasons[0][0] if reasons else None,
        "timeouts": sum(check.reason.startswith(TOO_LATE) for check in errors),
        "skipped": sum(check.outcome == "skip" for check in checks),
        "budget_used_up": config.budget is not None and calls >= config.budget,
        "exhausted": [search.id for search in exhausted],
        "unsolved": [search.id for search in unsolved if search not in exhausted],
        "found": _found(loop),
        "random": None if config.top else _random(loop, solved),
    }


def _found(loop: Loop) -> list[dict[str, Any]]:
    """The successes by problem, in the order verified; with `top` the largest values, the largest first."""
    top, rows = loop.config.top, []
    for search in loop.searches.values():
        names = search.candidates.problem.meta.get("names", ())
        for call, check in enumerate((check for check in search.checked if check.is_call), 1):
            if (check.value is not None) if top else check.is_success(loop.config.threshold):
                row: dict[str, Any] = {"problem_id": search.id, "index": check.index, "call": call}
                row |= {} if check.value is None else {"value": check.value}
                rows.append(row | ({"name": names[check.index]} if any(names) else {}))
    return sorted(rows, key=lambda row: -row["value"])[:top] if top else rows


def _random(loop: Loop, solved: Sequence[Search]) -> dict[str, Any] | None:
    """What random would have needed: exact from the verdicts of the pool file, else bounds on the solved problems.

    calls   until the same loop with a random order has solved as many; None if it cannot within --budget-per-problem
    solved  with as many calls
    differ  verified outcomes that the file's verdicts contradict, if there are any: nothing is said then
    """
    correct, config = _given_verdicts(loop), loop.config
    if not correct or config.threshold is not None:
        return _bounds(solved, config.until) if solved else None
    checked = [check for search in loop.searches.values() for check in search.checked]
    judged = [check for check in checked if check.outcome in ("correct", "wrong")]
    differ = sum(correct[check.problem_id][check.index] != (check.outcome == "correct") for check in judged)
    if differ:
        return {"differ": differ}
    pools = [(len(each), sum(each)) for each in correct.values()]
    found, calls = random_turns(pools, config.until, config.budget_per_problem)
    return {
        "calls": float(np.interp(len(solved), found, calls)) if len(solved) <= found[-1] + 1e-9 else None,
        "solved": float(np.interp(loop.calls, calls, found)),
    }


def _given_verdicts(loop: Loop) -> dict[str, Sequence[bool]]:
    """Problem id -> the verdicts that the pool file brings; none unless it brings all."""
    lines = {search.id: search.candidates.problem.meta.get("line") for search in loop.searches.values()}
    if None in lines.values() or not loop.config.pool:  # in memory
        return {}
    records = read_pool(loop.config.pool, layouts=Layouts(loop.context.registry))
    given = {record.problem_id: record.correct for record in records}
    complete = {name: verdicts for name, line in lines.items() if (verdicts := given.get(str(line)))}
    return complete if len(complete) == len(lines) else {}


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
        n, checks, seen = len(search.candidates.responses), search.checked, len(search.successes)
        last = checks.index(search.successes[until - 1])
        calls += sum(check.is_call for check in checks[: last + 1])
        wrong = sum(check.known is not None for check in checks) - seen
        at_least += until * (n + 1) / (n - wrong + 1)
        at_most += until * (n + 1) / (seen + 1)
    return {"calls_on_solved": calls, "at_least": at_least, "at_most": at_most}
