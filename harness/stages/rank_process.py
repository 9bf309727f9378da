"""`--rank-timeout`: rank in a child process, which is killed if a selector takes too long for a problem.

The child is kept for the next problem. It writes its rankings to the store itself, as this process would.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection

from harness.errors import HarnessError, error_text
from harness.records import Problem
from harness.system.children import BoundedChild, end_with_owner

from .work import CACHES, Work, component, import_libraries, one_thread

Rank = Callable[[Work, Sequence[Problem]], None]

START_S = 300.0  # to start Python, import and build the selector; the machine may be busy


def call(rank: Rank, work: Work, problems: Sequence[Problem]) -> None:
    """Call `rank(work, problems)` in the child process; HarnessError if the call fails or takes too long.

    The limit is `work.rank_timeout` seconds times the number of problems: problems of one call share their times.
    """
    assert work.rank_timeout is not None
    names = ", ".join(repr(problem.id) for problem in problems[:3]) + (", ..." if len(problems) > 3 else "")
    who, limit = f"selector {work.selector!r}, problem {names}", work.rank_timeout * len(problems)
    child = _child_for(rank, work)
    try:
        failure = child.ask((replace(work, rank_timeout=None), problems), limit)
    except TimeoutError:
        failure = f"{who}: ranking took longer than {limit:g} s and was ended (--rank-timeout)"
    except EOFError:
        failure = f"{who}: the process that ranked it died (out of memory?)"
    if failure is not None:
        raise HarnessError(failure)


_children: dict[tuple[object, ...], BoundedChild] = {}


def _child_for(rank: Rank, work: Work) -> BoundedChild:
    """The child that ranks with the work's selector, started anew if it has ended. There is one child at a time."""
    key = (work.selector, work.plugin_files)
    child = _children.get(key)
    if child is None or not child.alive:
        forget()
        child = BoundedChild(_serve, rank, replace(work, rank_timeout=None))
        _require_built(child, work.selector)
        _children[key] = child
    return child


def _require_built(child: BoundedChild, selector: str) -> None:
    """Wait until the child has built the selector; HarnessError if it cannot."""
    try:
        failure = child.answer(START_S)
    except TimeoutError:
        failure = f"selector {selector!r} was not built within {START_S:g} s"
    except EOFError:
        failure = f"selector {selector!r} ended the process that built it"
    if failure is not None:
        child.end()
        raise HarnessError(failure)


def forget() -> None:
    """End the child process, if there is one; the next `call` starts another, with plugins as they are then."""
    for child in _children.values():
        child.end()
    _children.clear()


CACHES.append(forget)


def _serve(link: Connection, rank: Rank, work: Work) -> None:
    """In the child: build the selector, then carry out requests. Each answer is None, or what went wrong."""
    end_with_owner()
    with suppress(EOFError, KeyboardInterrupt):
        link.send(_failure(partial(_load, work)))
        while True:
            link.send(_failure(partial(rank, *link.recv())))


def _load(work: Work) -> None:
    """All that takes time before the first ranking."""
    from harness.scoring import metrics  # noqa: F401

    import_libraries(component("selector", work.selector, work.plugin_files))
    with one_thread(work.selector):
        pass


def _failure(action: Callable[[], object]) -> str | None:
    try:
        action()
    except Exception as failure:
        return error_text(failure)
    return None
