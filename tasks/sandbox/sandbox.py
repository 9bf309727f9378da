"""`Sandbox`, which tasks use: distributes programs over workers and returns their results in order."""

from __future__ import annotations

import ast
import atexit
import inspect
import multiprocessing
import os
import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

from harness import HarnessError

from . import tiers
from .canonical import Malformed, text_of
from .worker import Run, Suite, Worker, WorkerLost

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Call = threading.Event  # a call of the sandbox by a user, which may use several workers; set: it was cancelled

_IMPORT = re.compile(r"\b(?:import|from)\b")

BATCH = 64  # programs that one process parses
PARSE_CPU_S = 2.0  # to bring one program into normal form
FORMS = Suite("form", [[index] for index in range(BATCH)], [PARSE_CPU_S] * BATCH, output_bytes=1 << 26, total_cpu_s=200)


class Sandbox:
    """Workers that run programs; they are started when they are needed. A context manager: `close()` ends the workers.

    workers      how many programs run at a time; None: as many as this process has cores
    tier         "bwrap", "landlock" or "none"; None: the best that works on this machine
    unsafe_exec  accept the tier "none", in which nothing but resource limits is certain

    Raises HarnessError if nothing confines programs. Thread-safe; only the process that created it may use it.
    """

    def __init__(self, workers: int | None = None, tier: str | None = None, unsafe_exec: bool = False):
        self.tier, _ = tiers.find_tier(unsafe_exec, tier)
        self.workers = len(os.sched_getaffinity(0)) if workers is None else workers
        self._process = os.getpid()
        self._threads = ThreadPoolExecutor(self.workers, "sandbox")
        self._own = threading.local()  # each thread's workers, by their kind
        self._lock = threading.Lock()
        self._users: dict[Worker, Call] = {}  # the last call that used each worker
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
        judge: Callable[[int, int, str], bool] | None = None,
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

        def run(call: Call, index: int) -> Run:
            def once(before: Sequence[str]) -> Run:
                sources = [*before, programs[index]]
                kind = "numpy" if any(map(imports_numpy, sources)) and tiers.interpreter().numpy else "plain"
                verdict = None if judge is None else (lambda test, text: judge(index, test, text))
                return self._run(call, kind, suite, programs[index], before, verdict, stop_at_raise)

            alone = once(())
            lacks_a_name = (alone.status, alone.detail) == ("raised", "NameError") or "ENameError" in alone.results
            if not (lent and lent[index] and lacks_a_name):
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
        batches = [programs[at : at + BATCH] for at in range(0, len(programs), BATCH)]
        return [form for forms in self._spread(self._forms, batches) for form in forms]

    def _forms(self, call: Call, programs: Sequence[str]) -> list[str | None]:
        """Return the normal forms of a batch, parsed by a program of ours. One that ends it is parsed again alone."""
        forms: list[str | None] = []
        is_alone = False
        while rest := programs[len(forms) :][: 1 if is_alone else None]:
            run = self._run(call, "plain", FORMS, f"{PARSER}PROGRAMS = {list(rest)!r}")
            if run.status == "error":
                return list(programs)
            parsed = [_form(text) for text in run.results if not text.startswith("E")]  # IndexError after the last one
            forms += parsed or [None] * is_alone
            is_alone = not is_alone and len(parsed) < len(rest)
        return forms

    def _spread(self, work: Callable[[Call, Item], Answer], items: Sequence[Item]) -> list[Answer]:
        """Return `work(call, item)` for each item, in order. An exception ends the others."""
        call = Call()
        self._check(call)
        futures = [self._threads.submit(work, call, item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:  # Ctrl-C too
            call.set()
            self._interrupt(call)
            wait(futures)
            raise

    # Workers, in one of our threads

    def _run(self, call: Call, kind: str, *arguments: Any) -> Run:
        """Return `Worker.run` by this thread's worker of a kind. If it is lost, try a new one once; then an error."""
        for _ in range(2):
            try:
                worker = self._own.__dict__.get(kind) or Worker(*tiers.command(self.tier, kind))
                with self._lock:
                    self._users[worker] = call
                try:
                    self._check(call)
                    run = worker.run(*arguments)
                except BaseException:
                    self._own.__dict__.pop(kind, None)
                    self._drop(worker)
                    raise
                self._own.__dict__[kind] = worker
                return run
            except WorkerLost as problem:
                loss = str(problem)
        return Run("error", detail=f"the sandbox lost its worker twice: {loss}")

    def _check(self, call: Call) -> None:
        """Raise if the call was cancelled, or if the sandbox is closed or belongs to another process."""
        if self._closed or call.is_set():
            raise HarnessError("sandbox: it is closed")
        if self._process != os.getpid():
            raise HarnessError("sandbox: it was made in another process; use shared_sandbox()")

    def _interrupt(self, call: Call | None) -> None:
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


def normal_form(source: str) -> str | None:
    """Return the source of the program's syntax tree; None if it does not parse. It is sent into the sandbox as text.

    Docstrings are left out if the program cannot read them. A program that parses but cannot be written from its tree
    (it has an int of over 4,300 digits, for example) stays as it is.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if "__doc__" not in source and "inspect" not in source:
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
                first = node.body[0].value if isinstance(node.body[0], ast.Expr) else None
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    node.body[:1] = [] if len(node.body) > 1 else [ast.Pass()]
    try:
        return ast.unparse(tree)
    except (ValueError, RecursionError):
        return source


PARSER = f"import ast\n{inspect.getsource(normal_form)}\ndef form(index): return normal_form(PROGRAMS[index])\n"


def _form(text: str) -> str | None:
    try:
        return text_of(text)
    except Malformed:
        return None


@cache
def _shared(process: int, tier: str) -> Sandbox:
    sandbox = Sandbox(None if multiprocessing.parent_process() is None else 1, tier, unsafe_exec=True)
    atexit.register(sandbox.close)
    return sandbox


def shared_sandbox(unsafe_exec: bool = False) -> Sandbox:
    """Return this process's sandbox, which is created at the first call and closed at exit.

    It has as many workers as cores; in a child of multiprocessing, of which there may be many, it has one.
    """
    return _shared(os.getpid(), tiers.find_tier(unsafe_exec)[0])
