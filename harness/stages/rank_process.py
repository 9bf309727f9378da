"""`--rank-timeout`: ranking in a child process, which is killed where a selector takes too long for a problem.

Only a process can be stopped whatever it does: a loop in C lets no signal through. The child is kept for the next
problem; what it ranks it writes to the store itself, as this process would.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.util import Finalize
from typing import TYPE_CHECKING

from harness.errors import HarnessError, error_text
from harness.records import Problem
from harness.system.lifeline import end_with_owner

if TYPE_CHECKING:
    from .work import Work

START_S = 300.0  # for starting Python, and importing and building the selector; a machine may be busy

_LATE, _DIED = "late", "died"


def rank(work: Work, problems: Sequence[Problem]) -> None:
    """Rank some problems' pools, and keep the orders. HarnessError where it takes longer than `work.rank_timeout` each.

    Problems that are ranked together have the time of all of them together.
    """
    assert work.rank_timeout is not None
    names = ", ".join(repr(problem.id) for problem in problems[:3]) + (", ..." if len(problems) > 3 else "")
    who, limit = f"selector {work.selector!r}, problem {names}", work.rank_timeout * len(problems)
    child = _child_for(work)
    failure = child.ask((replace(work, rank_timeout=None), problems), limit)
    if failure is None:
        return
    if failure == _LATE:
        failure = f"{who}: ranking took longer than {limit:g} s and was ended (--rank-timeout)"
    elif failure == _DIED:
        failure = f"{who}: the process that ranked it died (out of memory?)"
    raise HarnessError(failure)


class _Child:
    """One process that ranks for one selector."""

    def __init__(self, work: Work) -> None:
        context = multiprocessing.get_context("forkserver")
        self._link, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, replace(work, rank_timeout=None)))
        self._process.start()
        other.close()
        self._end = Finalize(self, _end, (self._process, self._link), exitpriority=10)  # exit waits for processes
        failure = self._answer(START_S)
        if failure is not None:
            self.end()
            how = {_LATE: f"was not built within {START_S:g} s", _DIED: "ended the process that built it"}
            raise HarnessError(f"selector {work.selector!r} {how[failure]}" if failure in how else failure)

    def ask(self, request: object, limit_s: float) -> str | None:
        """None where the request was carried out, else what went wrong; late or dead, the child is gone."""
        with suppress(OSError):
            self._link.send(request)
        failure = self._answer(limit_s)
        if failure in (_LATE, _DIED):
            self.end()
        return failure

    @property
    def alive(self) -> bool:
        return self._process.is_alive()

    def end(self) -> None:
        """Kill it."""
        self._end()

    def _answer(self, limit_s: float) -> str | None:
        try:
            if not self._link.poll(limit_s):
                return _LATE
            answer: str | None = self._link.recv()
            return answer
        except (EOFError, OSError):
            return _DIED


_children: dict[tuple[object, ...], _Child] = {}


def _child_for(work: Work) -> _Child:
    """The child that ranks for the work's selector; one at a time, and another one where that is gone."""
    key = (work.selector, work.plugin_files)
    child = _children.get(key)
    if child is None or not child.alive:
        forget()
        child = _children[key] = _Child(work)
    return child


def _end(process: multiprocessing.process.BaseProcess, link: Connection) -> None:
    process.kill()
    process.join()
    link.close()


def forget() -> None:
    """End the child: a plugin may have been edited since it was built there."""
    for child in _children.values():
        child.end()
    _children.clear()


def _serve(link: Connection, work: Work) -> None:
    """In the child: build the selector, then rank what is asked for. What went wrong is the answer, or None."""
    end_with_owner()
    from .rank import rank_problems

    with suppress(EOFError, KeyboardInterrupt):
        link.send(_failure(partial(_load, work)))
        while True:
            link.send(_failure(partial(rank_problems, *link.recv())))


def _load(work: Work) -> None:
    """All that takes time before the first ranking."""
    from harness.scoring import metrics  # noqa: F401

    from .work import component, one_thread

    component("selector", work.selector, work.plugin_files)
    with one_thread(work.selector):
        pass


def _failure(action: Callable[[], object]) -> str | None:
    try:
        action()
    except Exception as failure:
        return error_text(failure)
    return None
