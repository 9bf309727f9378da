"""`--rank-timeout`: rank in a child process, which is killed if a selector takes too long for a problem.

Only a process can be stopped whatever it does: a loop in C handles no signal. The child is kept for the next problem.
It writes its rankings to the store itself, as this process would.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.util import Finalize

from harness.errors import HarnessError, error_text
from harness.records import Problem
from harness.system.lifeline import end_with_owner

from .work import CACHES, Work, component, import_libraries, one_thread

Rank = Callable[[Work, Sequence[Problem]], None]

START_S = 300.0  # to start Python, import and build the selector; the machine may be busy

_LATE, _DIED = "late", "died"


def call(rank: Rank, work: Work, problems: Sequence[Problem]) -> None:
    """Call `rank(work, problems)` in the child process; HarnessError if the call fails or takes too long.

    The limit is `work.rank_timeout` seconds times the number of problems: problems of one call share their times.
    """
    assert work.rank_timeout is not None
    names = ", ".join(repr(problem.id) for problem in problems[:3]) + (", ..." if len(problems) > 3 else "")
    who, limit = f"selector {work.selector!r}, problem {names}", work.rank_timeout * len(problems)
    child = _child_for(rank, work)
    failure = child.ask((replace(work, rank_timeout=None), problems), limit)
    if failure is None:
        return
    if failure == _LATE:
        failure = f"{who}: ranking took longer than {limit:g} s and was ended (--rank-timeout)"
    elif failure == _DIED:
        failure = f"{who}: the process that ranked it died (out of memory?)"
    raise HarnessError(failure)


class _Child:
    """A process that ranks with one selector."""

    def __init__(self, rank: Rank, work: Work) -> None:
        context = multiprocessing.get_context("forkserver")
        self._link, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, rank, replace(work, rank_timeout=None)))
        self._process.start()
        other.close()
        self._end = Finalize(self, _end, (self._process, self._link), exitpriority=10)  # exit waits for processes
        failure = self._answer(START_S)
        if failure is not None:
            self.end()
            how = {_LATE: f"was not built within {START_S:g} s", _DIED: "ended the process that built it"}
            raise HarnessError(f"selector {work.selector!r} {how[failure]}" if failure in how else failure)

    def ask(self, request: object, limit_s: float) -> str | None:
        """None if the request was carried out, else what went wrong. A late or dead child is ended."""
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


def _child_for(rank: Rank, work: Work) -> _Child:
    """The child that ranks with the work's selector, started anew if it has ended. There is one child at a time."""
    key = (work.selector, work.plugin_files)
    child = _children.get(key)
    if child is None or not child.alive:
        forget()
        child = _children[key] = _Child(rank, work)
    return child


def _end(process: multiprocessing.process.BaseProcess, link: Connection) -> None:
    process.kill()
    process.join()
    link.close()


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
