"""Checks by math-verify, in processes that can be killed: what they say, in order, from any thread of any process.

Each process that grades has one checker (`checker.py`), started on its first check; it forks the children that serve,
as many as there are cores, or one in a process that multiprocessing started. A batch is spread over the children that
are free. A child that overran its CPU limit, or crashed, is replaced by the checker in milliseconds. One that was lost
to something outside (killed, a checker gone, 20 s of wall time without its 2 s of CPU) has its check repeated once.

A batch may have a bound on the CPU seconds of all its checks. All of it are tried with a small limit first, those that
overran it once more with the full one, in the batch's order: so what needs milliseconds is never kept from a verdict by
a few that need seconds. From the check on that begins with the bound used up, outcomes are "over", whatever the number
of children: they depend on the batch and, at the edge, on measured time.

No signal, timer or handler is set in this process, and nothing survives it: all sit on sockets that close with it.
"""

from __future__ import annotations

import atexit
import math
import multiprocessing
import os
import selectors
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

from .checker_process import LOST, CheckerFailure, CheckerProcess, Child, Gone, Outcome
from .equality import Claims

CPU_LIMIT_S = 2.0  # a check, kept by the kernel
QUICK_S = 0.2  # the first try of a check; an honest one takes 0.001 to 0.1
OVER = "over"  # what becomes of a check that its batch's bound leaves no time for
RECYCLE = 5_000  # checks a child serves before a fresh one takes over (sympy's caches grow)
TRIES = 2  # a check that is lost twice is our fault, not the answer's


class Workers:
    """The checker of this process and its children; `check` may be called from several threads."""

    def __init__(self) -> None:
        self._size = 1 if multiprocessing.parent_process() is not None else _cores()
        self._checker: CheckerProcess | None = None
        self._idle: list[Child] = []
        self._busy = 0
        self._free = threading.Condition()
        self._starting = threading.Lock()

    def check(self, batch: Sequence[Claims], bound_s: float = math.inf) -> list[str]:
        """The outcome of each check, in order: "equal", "different", "unparsed", "gold" (which does not parse),
        "timeout", "memory", "crashed", "lost", or "over" where the batch's bound of CPU seconds was used up before it.

        Raises CheckerFailure where the checker cannot start.
        """
        batch_run = _Batch(batch, bound_s)
        children = self._take(len(batch)) if batch else []
        try:
            for limit_s in sorted({min(QUICK_S, CPU_LIMIT_S), CPU_LIMIT_S}):
                batch_run.start(limit_s)
                self._drive(batch_run, children)
                batch_run.cut()
        finally:
            for place in batch_run.running:  # interrupted: the answer to come must not meet another question
                _drop(children, place)
            self._give_back(children)
        return batch_run.outcomes

    def _drive(self, run: _Batch, children: list[Child | None]) -> None:
        """Keep every child of ours busy until nothing is left; a lost one is replaced in its place."""
        with selectors.DefaultSelector() as selector:
            for place in range(len(children)):
                self._next(run, children, place, selector)
            while run.running:
                for place in self._ready(run, children, selector):
                    self._finish(run, children, place, selector)
                    self._next(run, children, place, selector)

    def _next(self, run: _Batch, children: list[Child | None], place: int, selector: selectors.BaseSelector) -> None:
        """Give the child at a place the next check, if there is one."""
        while run.waiting and run.has_time:
            child = children[place] or self._new_child()
            children[place] = child
            index = run.begin(place)
            try:
                child.begin(run.batch[index], run.limit_s)
            except OSError:
                children[place] = None
                child.outcome()
                run.finish(place, Outcome(LOST, 0.0))
                continue
            selector.register(child.connection, selectors.EVENT_READ, place)
            return

    def _ready(self, run: _Batch, children: list[Child | None], selector: selectors.BaseSelector) -> list[int]:
        """The places whose child has answered, ended or overrun the wall limit."""
        deadlines = {place: child.deadline for place in run.running if (child := children[place]) is not None}
        wait = max(0.0, min(deadlines.values()) - time.monotonic())
        ready = [key.data for key, _ in selector.select(wait)]
        now = time.monotonic()
        return ready or [place for place, deadline in deadlines.items() if deadline <= now]

    def _finish(self, run: _Batch, children: list[Child | None], place: int, selector: selectors.BaseSelector) -> None:
        child = children[place]
        assert child is not None
        selector.unregister(child.connection)
        if child.deadline <= time.monotonic():
            child.connection.settimeout(0)
        outcome = child.outcome()
        if child.connection.fileno() < 0:
            children[place] = None
        elif outcome.word == "memory" or child.served >= RECYCLE:
            _drop(children, place)
        run.finish(place, outcome)

    # Children

    def _take(self, wanted: int) -> list[Child | None]:
        """Places for at most as many children as are wanted: those that are idle, and room for new ones."""
        with self._free:
            self._free.wait_for(lambda: self._busy < self._size)
            count = min(wanted, self._size - self._busy)
            self._busy += count
            taken: list[Child | None] = [self._idle.pop() for _ in range(min(count, len(self._idle)))]
        return taken + [None] * (count - len(taken))

    def _give_back(self, children: list[Child | None]) -> None:
        with self._free:
            self._busy -= len(children)
            self._idle += [child for child in children if child is not None]
            self._free.notify_all()

    def _new_child(self) -> Child:
        for _ in range(TRIES):
            checker = self._running_checker()
            try:
                return Child(checker)
            except Gone:
                self._drop(checker)
        raise CheckerFailure("the checker ended twice while it forked")

    def _running_checker(self) -> CheckerProcess:
        with self._starting:
            if self._checker is None:
                self._checker = CheckerProcess()
            return self._checker

    def _drop(self, checker: CheckerProcess) -> None:
        """Let a checker that has ended go, and its idle children with it."""
        with self._starting:
            if self._checker is checker:
                self._checker = None
                checker.close()
        with self._free:
            stale = [child for child in self._idle if child.checker is checker]
            self._idle = [child for child in self._idle if child.checker is not checker]
        for child in stale:
            child.connection.close()

    def pids(self) -> list[int]:
        """The checker's process id and those of its idle children; for tests and benches."""
        with self._free:
            checker = [self._checker.pid] if self._checker else []
            return checker + [child.pid for child in self._idle]

    def close(self) -> None:
        """End the checker and its children; a later check starts them anew."""
        with self._starting, self._free:
            idle, self._idle = self._idle, []
            checker, self._checker = self._checker, None
        for child in idle:
            child.connection.close()
        if checker is not None:
            checker.close()

    def forget(self) -> None:
        """In a forked copy of this process: close its copies of the sockets, so that they close with the original."""
        for child in self._idle:
            child.connection.close()
        if self._checker is not None:
            self._checker.forget()


class _Batch:
    """Which checks wait, run and are done, and what they cost; a lost check goes back to the front, once."""

    def __init__(self, batch: Sequence[Claims], bound_s: float) -> None:
        self.batch = batch
        self.outcomes = [OVER] * len(batch)
        self.waiting: deque[int] = deque()
        self.running: dict[int, int] = {}  # place -> check
        self.limit_s = 0.0
        self._left_s = bound_s
        self._spent_s = 0.0  # in this round
        self._cost_s = [0.0] * len(batch)
        self._round = list(range(len(batch)))
        self._tries = [0] * len(batch)

    def start(self, limit_s: float) -> None:
        """Begin a round: what has overrun the limits so far is checked under this one."""
        self.limit_s = limit_s
        for index in self._round:
            self.outcomes[index] = OVER
        self._spent_s, self._cost_s = 0.0, [0.0] * len(self.batch)
        self._tries = [0] * len(self.batch)
        self.waiting = deque(self._round)

    @property
    def has_time(self) -> bool:
        """Whether the bound leaves time to begin another check."""
        return self._spent_s < self._left_s

    def begin(self, place: int) -> int:
        index = self.waiting.popleft()
        self._tries[index] += 1
        self.running[place] = index
        return index

    def finish(self, place: int, outcome: Outcome) -> None:
        index = self.running.pop(place)
        self.outcomes[index] = outcome.word
        self._cost_s[index] += outcome.cpu_s
        self._spent_s += outcome.cpu_s
        if outcome.word == LOST and self._tries[index] < TRIES:
            self.waiting.appendleft(index)

    def cut(self) -> None:
        """End a round: what begins with the bound used up is over, also where another child had the time for it."""
        for index in self._round:
            if self._left_s <= 0:
                self.outcomes[index] = OVER
            self._left_s -= self._cost_s[index]
        self._round = [index for index in self._round if self.outcomes[index] == "timeout"]


def _drop(children: list[Child | None], place: int) -> None:
    """End the child at a place, if it has not ended."""
    child, children[place] = children[place], None
    if child is not None:
        with suppress(Gone):
            child.end()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# One for each process

_shared: dict[int, Workers] = {}
_shared_lock = threading.Lock()


def shared_workers() -> Workers:
    """This process's workers, made on first use and closed at its end."""
    with _shared_lock:
        workers = _shared.get(os.getpid())
        if workers is None:
            workers = _shared[os.getpid()] = Workers()
            atexit.register(workers.close)
        return workers


def _forget_the_parents() -> None:
    global _shared_lock
    _shared_lock = threading.Lock()
    for workers in _shared.values():
        workers.forget()
        atexit.unregister(workers.close)
    _shared.clear()


os.register_at_fork(after_in_child=_forget_the_parents)
