"""`Sandbox`, which tasks use: distributes programs over workers and returns their results in order."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from harness import HarnessError

from . import bounds, tiers
from .canonical_reader import Malformed, text_of
from .interpreters import interpreter
from .suites import Run, Suite
from .transcript import WorkerLost
from .worker import Worker

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Judge = Callable[[int, int, str], bool]

_IMPORT = re.compile(r"\b(?:import|from)\b")

# The programs that one process parses, and its limits
BATCH, BATCH_CHARACTERS = 64, 1 << 20
PARSE_MEMORY_BYTES = 1 << 30
FORM_GROWTH = 16  # a normal form may be longer: one character may be written as "\\U0010ffff", and be indented


class _Call:
    """A call of the sandbox by a user, which may use several workers."""

    cancelled = False


class _Cancelled(Exception):
    pass


class Sandbox:
    """Workers that run programs; they are started when they are needed. A context manager: `close()` ends the workers.

    workers      how many programs run at a time; None: as many as this process has cores
    tier         "bwrap", "landlock" or "none"; None: the best that works on this machine
    unsafe_exec  accept the tier "none", in which nothing but resource limits is certain

    Raises HarnessError if nothing confines programs. Thread-safe; only the process that created it may use it.
    """

    def __init__(self, workers: int | None = None, tier: str | None = None, unsafe_exec: bool = False):
        self.tier, self.remark = tiers.find_tier(unsafe_exec) if tier is None else tiers.forced_tier(tier, unsafe_exec)
        self.workers = len(os.sched_getaffinity(0)) if workers is None else workers
        if self.workers < 1:
            raise HarnessError(f"sandbox: workers must be > 0, got {workers}")
        self._process = os.getpid()
        self._free = threading.BoundedSemaphore(self.workers)
        self._lock = threading.Lock()
        self._idle: dict[str, list[Worker]] = {"plain": [], "numpy": []}
        self._busy: dict[Worker, _Call] = {}
        self._closed = False

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers; calls that are still running raise HarnessError."""
        with self._lock:
            self._closed = True
            idle = [worker for workers in self._idle.values() for worker in workers]
            self._idle = {"plain": [], "numpy": []}
            for worker in self._busy:
                worker.interrupt()
        for worker in idle:
            worker.kill()

    def run_all(
        self,
        suite: Suite,
        programs: Sequence[str],
        judge: Judge | None = None,
        stop_at_raise: bool = True,
        lent: Sequence[Sequence[str]] = (),
    ) -> list[Run]:
        """Return the run of each program, in order.

        A program that a NameError ends runs once more, in a new process, after what is lent to it. So what is lent can
        only give a program names that it lacks, and changes nothing for a program that runs alone.

        judge           called as `judge(program, test, text)`, with the indices of program and test and the result's
                        canonical text, from the workers' threads as results arrive; when it returns False, that program
                        is ended
        stop_at_raise   whether to end a program at its first test that raises
        lent            for each program, sources that may define names that it lacks; a source that raises is passed
                        over
        """
        _ = suite.packed  # computed once here, not once in each thread

        def run(call: _Call, index: int) -> Run:
            verdict = None if judge is None else (lambda test, text: judge(index, test, text))

            def once(sources: Sequence[str]) -> Run:
                kind = "numpy" if any(map(imports_numpy, sources)) and interpreter().numpy else "plain"
                return self._with_worker(call, kind, lambda worker: worker.run(suite, sources, verdict, stop_at_raise))

            alone = once([programs[index]])
            if not (lent and lent[index] and alone.lacks_a_name):
                return alone
            again = once([*lent[index], programs[index]])
            best = again if again.results or again.status == "error" else alone
            return replace(best, process_cpu_s=alone.process_cpu_s + again.process_cpu_s)

        return self._spread(run, range(len(programs)))

    def normalised(self, programs: Sequence[str]) -> list[str | None]:
        """Return the source of each program's syntax tree, without comments and docstrings; None if it does not parse.

        Docstrings stay if the program contains `__doc__` or `inspect`. Programs are parsed in the sandbox, since
        hostile text can crash or stall a parser; such a program gives None too. If the sandbox itself fails, programs
        are returned unchanged.
        """
        forms = self._spread(self._normal_forms, _batches(programs))
        return [form for batch in forms for form in batch]

    def _normal_forms(self, call: _Call, programs: list[str]) -> list[str | None]:
        """Return the normal forms of a batch, parsed in one process.

        If the process dies, the program at which it died has no normal form, and the rest is parsed in another one. If
        the sandbox itself fails, programs stay as they are, so that none is taken for equal to another.
        """
        run = self._with_worker(call, "plain", lambda worker: _parse(worker, programs))
        if run.status == "error":
            return list(programs)
        forms = [_form(text) for text in run.results]
        if len(forms) == len(programs):
            return forms
        if len(programs) == 1:
            return [None]
        culprit = len(forms)
        forms += self._normal_forms(call, programs[culprit : culprit + 1])
        return forms + self._normal_forms(call, programs[culprit + 1 :])

    def _spread(self, work: Callable[[_Call, Item], Answer], items: Sequence[Item]) -> list[Answer]:
        """Return `work(call, item)` for each item, on one thread a worker. The first exception ends the others."""
        call = _Call()
        threads = min(self.workers, len(items))
        if threads <= 1:
            return [work(call, item) for item in items]
        with ThreadPoolExecutor(threads, "sandbox") as executor:
            futures = [executor.submit(self._cancelling, work, call, item) for item in items]
            try:
                for future in futures:
                    future.exception()
            except BaseException:  # Ctrl-C
                self._cancel(call)
                raise
        failures = [problem for future in futures if (problem := future.exception()) is not None]
        for problem in sorted(failures, key=lambda problem: isinstance(problem, _Cancelled)):
            raise problem
        return [future.result() for future in futures]

    def _cancelling(self, work: Callable[[_Call, Item], Answer], call: _Call, item: Item) -> Answer:
        try:
            return work(call, item)
        except BaseException:
            self._cancel(call)
            raise

    def _cancel(self, call: _Call) -> None:
        with self._lock:
            call.cancelled = True
            for worker, owner in self._busy.items():
                if owner is call:
                    worker.interrupt()

    # Workers

    def _with_worker(self, call: _Call, kind: str, work: Callable[[Worker], Run]) -> Run:
        """Do the work with a worker of a kind. If it is lost, try a new worker once; then return an error."""
        loss = ""
        for new in (False, True):
            with self._free:
                try:
                    worker = self._take(call, kind, new)
                    try:
                        run = work(worker)
                    except BaseException:
                        self._drop(worker)
                        raise
                    self._give_back(kind, worker)
                    return run
                except WorkerLost as problem:
                    loss = str(problem)
        return Run("error", detail=f"the sandbox lost its worker twice: {loss}")

    def _take(self, call: _Call, kind: str, new: bool) -> Worker:
        """Return an idle worker of a kind, or a new one, and mark it as busy with the call."""
        self._check(call)
        with self._lock:
            worker = self._idle[kind].pop() if self._idle[kind] and not new else None
        worker = worker or Worker(tiers.command(self.tier, kind))
        with self._lock:
            self._busy[worker] = call
        try:
            self._check(call)
        except BaseException:
            self._drop(worker)
            raise
        return worker

    def _check(self, call: _Call) -> None:
        """Raise if the call was cancelled, or if the sandbox is closed or belongs to another process."""
        if call.cancelled:
            raise _Cancelled
        if self._closed:
            raise HarnessError("sandbox: it is closed")
        if self._process != os.getpid():
            raise HarnessError("sandbox: it was made in another process; use shared_sandbox()")

    def _give_back(self, kind: str, worker: Worker) -> None:
        with self._lock:
            del self._busy[worker]
            if not self._closed:
                self._idle[kind].append(worker)
                return
        worker.kill()

    def _drop(self, worker: Worker) -> None:
        with self._lock:
            del self._busy[worker]
        worker.kill()


def imports_numpy(program: str) -> bool:
    """Whether a line seems to import numpy. Linear in the text, whatever it contains."""
    return "numpy" in program and any(
        _IMPORT.search(line, 0, line.rfind("numpy")) for line in program.splitlines() if "numpy" in line
    )


def _parse(worker: Worker, programs: list[str]) -> Run:
    output_bytes = FORM_GROWTH * sum(map(len, programs)) + (1 << 16)
    return worker.normalise(programs, bounds.PARSE_CPU_S * len(programs), PARSE_MEMORY_BYTES, output_bytes)


def _batches(programs: Sequence[str]) -> list[list[str]]:
    """Split programs into batches of at most BATCH programs and, unless it is one program, BATCH_CHARACTERS."""
    batches: list[list[str]] = []
    characters = 0
    for program in programs:
        characters += len(program)
        if not batches or len(batches[-1]) == BATCH or characters > BATCH_CHARACTERS:
            batches.append([])
            characters = len(program)
        batches[-1].append(program)
    return batches


def _form(text: str) -> str | None:
    try:
        return text_of(text)
    except Malformed:
        return None


# The sandbox of this process

_shared: dict[tuple[int, str, str], Sandbox] = {}
_sharing = threading.Lock()


def shared_sandbox(unsafe_exec: bool = False) -> Sandbox:
    """Return this process's sandbox, which is created at the first call and closed at exit.

    It has as many workers as cores; in a child of multiprocessing, of which there may be many, it has one.
    """
    with _sharing:
        key = (os.getpid(), *tiers.find_tier(unsafe_exec))
        if key not in _shared:
            workers = None if multiprocessing.parent_process() is None else 1
            _shared[key] = Sandbox(workers, unsafe_exec=unsafe_exec)
            atexit.register(_shared[key].close)
        return _shared[key]


def _new_lock() -> None:
    global _sharing
    _sharing = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock)
