"""`Sandbox`, which tasks use: distributes programs over workers and returns their results in order."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import TypeVar

from harness import HarnessError

from . import tiers
from .reading import Malformed, text_of
from .worker import Run, Suite, Worker, WorkerLost

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Judge = Callable[[int, int, str], bool]

_IMPORT = re.compile(r"\b(?:import|from)\b")

BATCH, BATCH_CHARACTERS = 64, 1 << 20  # of the programs that one process parses
FORM_GROWTH = 16  # a normal form may be longer: one character may be written as "\\U0010ffff", and be indented


class _Call:
    """A call of the sandbox by a user, which may use several workers."""

    cancelled = False


class Sandbox:
    """Workers that run programs; they are started when they are needed. A context manager: `close()` ends the workers.

    workers      how many programs run at a time; None: as many as this process has cores
    tier         "bwrap", "landlock" or "none"; None: the best that works on this machine
    unsafe_exec  accept the tier "none", in which nothing but resource limits is certain

    Raises HarnessError if nothing confines programs. Thread-safe; only the process that created it may use it.
    """

    def __init__(self, workers: int | None = None, tier: str | None = None, unsafe_exec: bool = False):
        self.tier, self.remark = tiers.find_tier(unsafe_exec, tier)
        self.workers = len(os.sched_getaffinity(0)) if workers is None else workers
        self._process = os.getpid()
        self._threads = ThreadPoolExecutor(self.workers, "sandbox")
        self._own = threading.local()  # each thread's workers, by their kind
        self._lock = threading.Lock()
        self._users: dict[Worker, _Call] = {}  # the last call that used each worker
        self._closed = False

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers; calls that are still running raise HarnessError."""
        with self._lock:
            self._closed = True
        self._interrupt(None)
        self._threads.shutdown()
        for worker in list(self._users):
            self._drop(worker)

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
            def once(before: Sequence[str]) -> Run:
                sources = [*before, programs[index]]
                kind = "numpy" if any(map(imports_numpy, sources)) and tiers.interpreter().numpy else "plain"
                verdict = None if judge is None else (lambda test, text: judge(index, test, text))
                return self._with_worker(
                    call, kind, lambda worker: worker.run(suite, programs[index], before, verdict, stop_at_raise)
                )

            alone = once(())
            if not (lent and lent[index] and alone.lacks_a_name):
                return alone
            again = once(lent[index])
            best = again if again.results or again.status == "error" else alone
            return replace(best, process_cpu_s=alone.process_cpu_s + again.process_cpu_s)

        return self._spread(run, range(len(programs)))

    def normalised(self, programs: Sequence[str]) -> list[str | None]:
        """Return the source of each program's syntax tree, without comments and docstrings; None if it does not parse.

        Docstrings stay if the program contains `__doc__` or `inspect`. Programs are parsed in the sandbox, since
        hostile text can crash or stall a parser; such a program gives None too. If the sandbox itself fails, programs
        are returned unchanged, so that none is taken for equal to another.
        """
        forms = self._spread(self._normal_forms, _batches(programs))
        return [form for batch in forms for form in batch]

    def _normal_forms(self, call: _Call, programs: list[str]) -> list[str | None]:
        """Return the normal forms of a batch, parsed in one process; where it dies, another one parses the rest."""
        output_bytes = FORM_GROWTH * sum(map(len, programs)) + (1 << 16)
        run = self._with_worker(call, "plain", lambda worker: worker.normalise(programs, output_bytes))
        if run.status == "error":
            return list(programs)
        forms = list(map(_form, run.results))
        if len(forms) == len(programs):
            return forms
        if len(programs) == 1:
            return [None]
        culprit = len(forms)
        forms += self._normal_forms(call, programs[culprit : culprit + 1])
        return forms + self._normal_forms(call, programs[culprit + 1 :])

    def _spread(self, work: Callable[[_Call, Item], Answer], items: Sequence[Item]) -> list[Answer]:
        """Return `work(call, item)` for each item, in order. The first exception ends the others."""
        call = _Call()
        self._check(call)
        futures = [self._threads.submit(work, call, item) for item in items]
        try:
            done = wait(futures, return_when=FIRST_EXCEPTION).done
            for future in futures:
                if future in done and (failure := future.exception()):
                    raise failure
        except BaseException:  # Ctrl-C too
            call.cancelled = True
            self._interrupt(call)
            wait(futures)
            raise
        return [future.result() for future in futures]

    # Workers, in one of our threads

    def _with_worker(self, call: _Call, kind: str, work: Callable[[Worker], Run]) -> Run:
        """Do the work with this thread's worker of a kind. If it is lost, try a new one once; then return an error."""
        for _ in range(2):
            try:
                worker = self._own.__dict__.get(kind) or Worker(*tiers.command(self.tier, kind))
                with self._lock:
                    self._users[worker] = call
                try:
                    self._check(call)
                    run = work(worker)
                except BaseException:
                    self._own.__dict__.pop(kind, None)
                    self._drop(worker)
                    raise
                self._own.__dict__[kind] = worker
                return run
            except WorkerLost as problem:
                loss = str(problem)
        return Run("error", detail=f"the sandbox lost its worker twice: {loss}")

    def _check(self, call: _Call) -> None:
        """Raise if the call was cancelled, or if the sandbox is closed or belongs to another process."""
        if self._closed or call.cancelled:
            raise HarnessError("sandbox: it is closed")
        if self._process != os.getpid():
            raise HarnessError("sandbox: it was made in another process; use shared_sandbox()")

    def _interrupt(self, call: _Call | None) -> None:
        """End the workers that a call uses; None: all workers."""
        with self._lock:
            for worker, user in self._users.items():
                if call in (None, user):
                    worker.interrupt()

    def _drop(self, worker: Worker) -> None:
        with self._lock:
            self._users.pop(worker, None)
        worker.kill()


def imports_numpy(program: str) -> bool:
    """Whether a line seems to import numpy. Linear in the text, whatever it contains."""
    return "numpy" in program and any(
        _IMPORT.search(line, 0, line.rfind("numpy")) for line in program.splitlines() if "numpy" in line
    )


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
