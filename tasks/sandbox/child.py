"""Run one program in its process: define it, call it on each input, write its results to a pipe.

The process is already confined. A hostile program can reach everything in this module, as it can reach any code in its
own process, and gains nothing but other text in its own results. The kernel enforces the time limits
(`confinement.arm`). If a program disarms them, the fork server kills it (`allowances`).

Lines on the result pipe: `+` once it is confined, `<ns of CPU> <text>` for each test, `=<status> <detail>` at the end.
"""

from __future__ import annotations

import ast
import contextlib
import pickle
import re
import sys
import types
from os import _exit, write  # by name: a program may patch `os.write`
from select import POLLOUT, poll
from time import process_time_ns, thread_time_ns
from typing import Any, NoReturn

from . import bounds, canonical, confinement

RESULT_PIPE = 3
ENTERED = b"+\n"

_PLAIN_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]{0,60}")

_left = 0  # characters of results that may still be written


class _NoInput:
    """Standard input that raises an error when it is read."""

    def __getattr__(self, name: str) -> Any:
        raise OSError("there is no standard input")


def run_tests(suite: dict[str, Any], stop_at_raise: bool, sources: bytearray) -> NoReturn:
    """Define the program, call its entry point on each input in turn, write the results to the pipe, and exit.

    stop_at_raise   whether to exit after the first test that raises
    sources         the pickled list of what is run before the program, and the program
    """
    _bound(suite["output_bytes"])
    limits = suite["cpu_limits_s"]
    _arm(_import_cpu_s(suite))
    *lent, program = pickle.loads(sources)
    function = _defined(program, lent, suite["entry_point"])
    for arguments, limit, as_digest, encode_s in zip(
        suite["inputs"], limits, suite["digest"], _encode_cpu_s(suite), strict=True
    ):
        raised = _test(function, arguments, limit, encode_s, as_digest)
        if raised and stop_at_raise:
            _end("stopped", "a test raised")
    _end("ok")


def allowances(suite: dict[str, Any]) -> list[float]:
    """Return the CPU seconds that a process may use before each of its lines: the first, each test's, the last."""
    tests = [limit + encode_s for limit, encode_s in zip(suite["cpu_limits_s"], _encode_cpu_s(suite), strict=True)]
    times = [0.0, *tests, max(tests, default=0.0)]  # before the last line, the last test's result is freed
    times[1] += _import_cpu_s(suite)
    return [cpu_s + bounds.SPARE_CPU_S for cpu_s in times]


def _import_cpu_s(suite: dict[str, Any]) -> float:
    limits: list[float] = suite["cpu_limits_s"]
    return max([bounds.IMPORT_CPU_S, *limits[:1]])


def _encode_cpu_s(suite: dict[str, Any]) -> list[float]:
    """Return for each test the CPU seconds to encode its result.

    A digest may take all the remaining time of the run: Mbpp/255 returns 10^8 strings in 1.4 s, which take 9 s to hash.
    """
    return [
        suite["total_cpu_s"] if as_digest else limit + bounds.ENCODE_CPU_S
        for limit, as_digest in zip(suite["cpu_limits_s"], suite["digest"], strict=True)
    ]


def _test(function: Any, arguments: tuple[Any, ...], cpu_s: float, encode_cpu_s: float, as_digest: bool) -> bool:
    """Run one test and write its result; return whether it raised. The result is freed before the next test begins."""
    _arm(cpu_s)
    started = _cpu_ns()
    try:
        value, raised = function(*arguments), ""
    except MemoryError:
        _end("memory")
    except BaseException as problem:
        value, raised = None, _name(problem)
    cpu_ns = max(end - start for end, start in zip(_cpu_ns(), started, strict=True))
    _result(cpu_ns, f"E{raised}" if raised else _text(value, encode_cpu_s, as_digest))
    return bool(raised)


def _defined(program: str, lent: list[str], entry_point: str) -> Any:
    """Define the program in a separate module, which dataclasses, typing and pickle need; return its entry point.

    lent   sources that are run in that module before; they can fail, and only the names that they define count
    """
    module = types.ModuleType("program")
    module.__dict__["__builtins__"] = sys.modules["builtins"]  # this module's built-ins are a copy
    sys.modules["program"] = module
    sys.stdin = sys.__stdin__ = _NoInput()  # type: ignore[assignment,misc]
    try:
        code = compile(program, "<program>", "exec", dont_inherit=True)
    except BaseException as problem:
        _end("syntax", _name(problem))
    for source in lent:
        with contextlib.suppress(BaseException):
            exec(compile(source, "<lent>", "exec", dont_inherit=True), module.__dict__)
    try:
        exec(code, module.__dict__)
    except MemoryError:
        _end("memory", "while it was defined")
    except BaseException as problem:
        _end("raised", _name(problem))
    if entry_point not in module.__dict__:
        _end("missing", entry_point)
    return module.__dict__[entry_point]


def _text(value: Any, cpu_s: float, as_digest: bool) -> str:
    """Return the result's canonical text, or its digest."""
    if not as_digest and (value is None or value is True or value is False):
        return canonical.encode(value)
    _arm(cpu_s)
    try:
        return canonical.digest(value) if as_digest else canonical.encode(value, _left)
    except MemoryError:
        _end("memory", "while its result was written down")
    except canonical.TooLong:
        _end("output")
    except BaseException:  # a set, for example, that a thread of the program changes meanwhile
        return "X"


def normalise(sources: bytearray) -> NoReturn:
    """Write a line for each program, its normal form as a string or N, to the pipe, and exit.

    sources   the pickled list of the programs
    """
    programs = pickle.loads(sources)
    _bound(sys.maxsize)
    for program in programs:
        _arm(bounds.PARSE_CPU_S)
        form = normal_form(program)
        _result(0, "N" if form is None else canonical.string(form))
    _end("ok")


def normal_form(source: str) -> str | None:
    """Return the source of the program's syntax tree; None if it does not parse.

    Docstrings are left out if the program cannot read them. A program that parses but cannot be written from its tree
    (it has an int of over 4,300 digits, for example) stays as it is.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if "__doc__" not in source and "inspect" not in source:
        _strip_docstrings(tree)
    try:
        return ast.unparse(tree)
    except (ValueError, RecursionError):
        return source


def _strip_docstrings(tree: ast.AST) -> None:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or not node.body:
            continue
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            node.body[:1] = [] if len(node.body) > 1 else [ast.Pass()]


# Time


def _arm(cpu_s: float) -> None:
    confinement.arm(cpu_s, max(bounds.TEST_WALL_PER_CPU * cpu_s, bounds.LEAST_TEST_WALL_S))


def _cpu_ns() -> tuple[int, int]:
    """Return the CPU time of this thread and of all threads.

    While a limit is armed, Linux updates the time of all threads only at every tick (4 ms).
    """
    return thread_time_ns(), process_time_ns()


# Lines


def _bound(characters: int) -> None:
    global _left
    _left = characters


def _result(cpu_ns: int, text: str) -> None:
    global _left
    _left -= len(text)
    if _left < 0:
        _end("output")
    _write(f"{cpu_ns} {text}\n".encode("ascii"))


def _end(status: str, detail: str = "") -> NoReturn:
    confinement.arm(0, 0)
    _write(f"={status} {detail}\n".encode("ascii", "replace"))
    _exit(0)


def _write(line: bytes) -> None:
    """Write a line. While the pipe is full, the limits are off: waiting for the harness is no fault of the program."""
    rest = memoryview(line)
    while rest:
        try:
            rest = rest[write(RESULT_PIPE, rest) :]
        except BlockingIOError:
            confinement.arm(0, 0)
            waiting = poll()
            waiting.register(RESULT_PIPE, POLLOUT)
            waiting.poll()


def _name(problem: BaseException) -> str:
    """Return the name of the exception's type if it is a plain one, else "Exception"."""
    name = type.__dict__["__name__"].__get__(type(problem))
    return name if _PLAIN_NAME.fullmatch(name) else "Exception"
