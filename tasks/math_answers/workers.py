"""Run checks by math-verify in processes that can be killed, and return the outcomes in order; thread-safe.

Each process that grades has one checker process (`checker.py`), which it starts at the first check. The checker forks
children that do the checks: as many as there are cores, or one in a process that multiprocessing started. A batch of
checks is spread over the free children. The checker replaces a child that overran its CPU limit or crashed, in
milliseconds. If a child was lost for an outside reason (it was killed, the checker ended, or 20 s of wall time passed
without 2 s of CPU time), its check is repeated once.

A batch may have a bound on the CPU seconds of all its checks together. All checks are tried with a small limit first;
those that overran it are tried again with the full limit, in the order of the batch. So a few checks that need seconds
never keep a check that needs milliseconds from its verdict. If the bound is used up before a check begins, its outcome
and those of all later ones are "over". The number of children does not matter: outcomes depend on the batch and, for
the check at the edge, on measured time.

This process sets no signal, timer or handler, and nothing outlives it: checker and children end when their sockets
close.
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

CPU_LIMIT_S = 2.0  # of a check, enforced by the kernel
QUICK_S = 0.2  # the limit of a check's first try; an honest check takes 0.001 to 0.1 s
OVER = "over"  # the outcome of a check for which the bound of its batch leaves no time
RECYCLE = 5_000  # checks of a child before a fresh one replaces it (sympy's caches grow)
TRIES = 2  # a check that is lost twice is a fault of the grader, not of the answer


class Workers:
    """The checker of this process and its children; `check` may be called from several threads at once."""

    def __init__(self) -> None:
        self._size = 1 if multiprocessing.parent_process() is not None else _cores()
        self._checker: CheckerProcess | None = None
        self._idle: list[Child] = []
        self._busy = 0
        self._free = threading.Condition()
        self._starting = threading.Lock()

    def check(self, batch: Sequence[Claims], bound_s: float = math.inf) -> list[str]:
        """Return the outcome of each check, in order. Raises CheckerFailure if the checker cannot start.

        An outcome is "equal", "different", "unparsed", "gold" (the reference does not parse), "timeout", "memory",
        "crashed", "lost", or "over" if the bound was used up before the check.

        batch     the claims of each check
        bound_s   CPU seconds for all checks of the batch
        """
        batch_run = _Batch(batch, bound_s)
        children = self._take(len(batch)) if batch else []
        try:
            for limit_s in sorted({min(QUICK_S, CPU_LIMIT_S), CPU_LIMIT_S}):
                batch_run.start(limit_s)
                self._drive(batch_run, children)
                batch_run.cut()
        finally:
            for slot in batch_run.running:  # interrupted: a late answer must not be taken for that of another check
                _end_child(children, slot)
            self._give_back(children)
        return batch_run.outcomes

    def _drive(self, run: _Batch, children: list[Child | None]) -> None:
        """Give checks to the children until all are done; a lost child is replaced in its slot."""
        with selectors.DefaultSelector() as selector:
            for slot in range(len(children)):
                self._next(run, children, slot, selector)
            while run.running:
                for slot in self._ready(run, children, selector):
                    self._finish(run, children, slot, selector)
                    self._next(run, children, slot, selector)

    def _next(self, run: _Batch, children: list[Child | None], slot: int, selector: selectors.BaseSelector) -> None:
        """Give the child in a slot the next check, if there is one."""
        while run.waiting and run.has_time:
            child = children[slot] or self._new_child()
            children[slot] = child
            index = run.begin(slot)
            try:
                child.begin(run.batch[index], run.limit_s)
            except OSError:
                children[slot] = None
                child.outcome()
                run.finish(slot, Outcome(LOST, 0.0))
                continue
            selector.register(child.connection, selectors.EVENT_READ, slot)
            return

    def _ready(self, run: _Batch, children: list[Child | None], selector: selectors.BaseSelector) -> list[int]:
        """Return the slots whose child has answered, ended or overrun the wall limit."""
        deadlines = {slot: child.deadline for slot in run.running if (child := children[slot]) is not None}
        wait = max(0.0, min(deadlines.values()) - time.monotonic())
        ready = [key.data for key, _ in selector.select(wait)]
        now = time.monotonic()
        return ready or [slot for slot, deadline in deadlines.items() if deadline <= now]

    def _finish(self, run: _Batch, children: list[Child | None], slot: int, selector: selectors.BaseSelector) -> None:
        """Record the outcome of the check in a slot, and empty the slot if its child has ended or must end."""
        child = children[slot]
        assert child is not None
        selector.unregister(child.connection)
        if child.deadline <= time.monotonic():
            child.connection.settimeout(0)
        outcome = child.outcome()
        if child.connection.fileno() < 0:
            children[slot] = None
        elif outcome.word == "memory" or child.served >= RECYCLE:
            _end_child(children, slot)
        run.finish(slot, outcome)

    # Children

    def _take(self, most: int) -> list[Child | None]:
        """Wait for free slots and return them, at most so many: with idle children in them, or None for a new one."""
        with self._free:
            self._free.wait_for(lambda: self._busy < self._size)
            count = min(most, self._size - self._busy)
            self._busy += count
            idle: list[Child | None] = [self._idle.pop() for _ in range(min(count, len(self._idle)))]
        return idle + [None] * (count - len(idle))

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
                self._forget_checker(checker)
        raise CheckerFailure("the checker ended twice while it forked")

    def _running_checker(self) -> CheckerProcess:
        with self._starting:
            if self._checker is None:
                self._checker = CheckerProcess()
            return self._checker

    def _forget_checker(self, checker: CheckerProcess) -> None:
        """Forget a checker that has ended, and its idle children; the next check starts a new one."""
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
        """Return the process ids of the checker and of its idle children; for tests and benchmarks."""
        with self._free:
            checker = [self._checker.pid] if self._checker else []
            return checker + [child.pid for child in self._idle]

    def close(self) -> None:
        """End the checker and its children; a later check starts new ones."""
        with self._starting, self._free:
            idle, self._idle = self._idle, []
            checker, self._checker = self._checker, None
        for child in idle:
            child.connection.close()
        if checker is not None:
            checker.close()

    def forget(self) -> None:
        """In a forked process, close its copies of the sockets: so they close when the parent process ends."""
        for child in self._idle:
            child.connection.close()
        if self._checker is not None:
            self._checker.forget()


class _Batch:
    """The state of a batch: which checks wait, run and are finished, and their CPU seconds.

    A lost check goes back to the front of the queue, once.
    """

    def __init__(self, batch: Sequence[Claims], bound_s: float) -> None:
        self.batch = batch
        self.outcomes = [OVER] * len(batch)
        self.waiting: deque[int] = deque()
        self.running: dict[int, int] = {}  # slot -> check
        self.limit_s = 0.0
        self._left_s = bound_s
        self._spent_s = 0.0  # in this round
        self._cost_s = [0.0] * len(batch)
        self._round = list(range(len(batch)))
        self._tries = [0] * len(batch)

    def start(self, limit_s: float) -> None:
        """Begin a round, with this limit, of the checks that overran all smaller ones."""
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

    def begin(self, slot: int) -> int:
        """Mark the next check as running in a slot, and return its index."""
        index = self.waiting.popleft()
        self._tries[index] += 1
        self.running[slot] = index
        return index

    def finish(self, slot: int, outcome: Outcome) -> None:
        """Record the outcome of the check that ran in a slot."""
        index = self.running.pop(slot)
        self.outcomes[index] = outcome.word
        self._cost_s[index] += outcome.cpu_s
        self._spent_s += outcome.cpu_s
        if outcome.word == LOST and self._tries[index] < TRIES:
            self.waiting.appendleft(index)

    def cut(self) -> None:
        """End a round. A check after the bound was used up is "over", even if another child had time for it."""
        for index in self._round:
            if self._left_s <= 0:
                self.outcomes[index] = OVER
            self._left_s -= self._cost_s[index]
        self._round = [index for index in self._round if self.outcomes[index] == "timeout"]


def _end_child(children: list[Child | None], slot: int) -> None:
    """End the child in a slot, if there is one, and empty the slot."""
    child, children[slot] = children[slot], None
    if child is not None:
        with suppress(Gone):
            child.end()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# The workers of this process

_shared: dict[int, Workers] = {}
_shared_lock = threading.Lock()


def shared_workers() -> Workers:
    """Return this process's `Workers`, created at the first call and closed when the process ends."""
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
