"""Run math-verify behind a socket, so that a hostile expression cannot hang, crash or fill the process that grades.

This file is run as a program by its path, `python -P checker.py`; file descriptor 0 is a socket to the process that
grades (see `workers`). It loads sympy and math-verify once. Then it takes requests. "fork" comes with one end of a
socket pair and starts a child that does checks there. A child's process id ends that child; the reply says how it
ended. A fork takes milliseconds, a fresh process over a second. When the socket is closed, because the grading process
closed it or died, this process and all children end.

A child has limits that no code in it can lift: CPU seconds for each check by a kernel timer (ITIMER_PROF with SIGPROF's
default action, so that Python code sees no exception to catch), a limit on address space, no files that grow, no core
files, and the code sandbox's seccomp filter, in case a parser runs what it reads (none did in 30 tries). The time
limits of math-verify are off: they use SIGALRM and an exception that code can catch.

Before `main` only the standard library is imported, so that `checker_process` can share the functions for frames. A
frame is 4 bytes of length, big-endian, then JSON in ASCII. Nothing is ever unpickled.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import re
import resource
import signal
import socket
import struct
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any

MEMORY_BYTES = 2 << 30  # address space in addition to that of the loaded libraries
MAX_FRAME = 1 << 20
FLOAT_ROUNDING = 6  # decimals, math-verify's default; for small numbers more, so that six digits count
GOLDS = 1024  # parsed references in the cache


# Frames


def frame(message: Any) -> bytes:
    """Return a message as bytes for the pipe: its length in 4 bytes, big-endian, then the message as ASCII JSON."""
    body = json.dumps(message).encode("ascii")
    return struct.pack("!I", len(body)) + body


def read_frame(receive: Callable[[int], bytes]) -> Any:
    """Return the next message. Raises EOFError if the other end is closed, ValueError if the bytes are no frame.

    receive   returns at most as many bytes as its argument says, as `socket.recv` does
    """
    [length] = struct.unpack("!I", _exactly(receive, 4))
    if length > MAX_FRAME:
        raise ValueError(f"a frame of {length} bytes")
    return json.loads(_exactly(receive, length))


def _exactly(receive: Callable[[int], bytes], count: int) -> bytes:
    """Return so many bytes. Raises EOFError if the other end is closed before."""
    received = bytearray()
    while len(received) < count:
        part = receive(count - len(received))
        if not part:
            raise EOFError("the other end is closed")
        received += part
    return bytes(received)


# The checker, which forks children

Agree = Callable[[str, str], str]


def main() -> None:
    """Load math-verify, then fork and end children on request, until the socket is closed."""
    control = socket.socket(fileno=0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that grades; it closes the socket
    logging.disable(logging.CRITICAL)
    try:
        agree = load()
        confinement = seccomp()
    except BaseException as failure:
        control.sendall(frame({"failed": f"{type(failure).__name__}: {failure}"}))
        return
    gc.freeze()
    control.sendall(frame({"ready": os.getpid()}))
    children: set[int] = set()
    try:
        while True:
            _answer_request(control, children, lambda connection: _serve(connection, agree, confinement))
    except (EOFError, OSError):
        pass
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)


def _answer_request(control: socket.socket, children: set[int], serve: Callable[[int], None]) -> None:
    """Take one request: fork a child and reply with its process id, or end a child and reply with its exit code."""
    request, connection = _read_request(control)
    if connection is not None:
        child = os.fork()
        if not child:
            control.close()
            serve(connection)
        os.close(connection)
        children.add(child)
        control.sendall(frame(child))
    else:
        child = int(request)
        os.kill(child, signal.SIGKILL)  # a child that has ended already keeps the status it ended with
        _, status = os.waitpid(child, 0)
        children.discard(child)
        control.sendall(frame(os.waitstatus_to_exitcode(status)))


def _read_request(control: socket.socket) -> tuple[Any, int | None]:
    """Return the next message of the control socket, and the file descriptor sent with it, if any."""
    head, descriptors, _, _ = socket.recv_fds(control, 4, 1, socket.MSG_WAITALL)
    if len(head) < 4:
        raise EOFError("the other end is closed")
    body = _exactly(control.recv, struct.unpack("!I", head)[0])
    return json.loads(body), descriptors[0] if descriptors else None


# A child


def _serve(connection: int, agree: Agree, confinement: Any) -> None:
    """Do checks until the socket is closed; never returns.

    The socket is read and written like a file, since the seccomp filter allows no recv.
    """
    try:
        arm = _confine(confinement)
        while True:
            message = read_frame(lambda count: os.read(connection, count))
            started = time.process_time()
            arm(float(message["cpu_s"]))
            outcome = _outcome(message["claims"], agree)
            arm(0.0)
            os.write(connection, frame([outcome, time.process_time() - started]))
    finally:
        os._exit(0)


def seccomp() -> Any:
    """Return the module with the sandbox's filter of system calls; None if it is not installed.

    The filter allows no sockets, no processes and no files to write.
    """
    try:
        from harness_tasks.sandbox import confinement
    except ImportError:
        return None
    return confinement


def _confine(confinement: Any) -> Callable[[float], None]:
    """Put this process under its limits; return the function that sets its CPU limit in seconds (0 removes it)."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    base = _address_space()
    if base:
        resource.setrlimit(resource.RLIMIT_AS, (base + MEMORY_BYTES, base + MEMORY_BYTES))
    if confinement is None or not _filtered(confinement):
        return _arm
    return lambda cpu_s: confinement.arm(cpu_s, 0.0)  # the filter allows the address of this timer only


def _arm(cpu_s: float) -> None:
    signal.setitimer(signal.ITIMER_PROF, cpu_s)


def _filtered(confinement: Any) -> bool:
    """Filter this process's system calls if possible, and return whether they are filtered now."""
    program = confinement.compile_filter()
    try:
        confinement.give_up_privileges()
        if program is not None:
            confinement.install(program)
    except OSError:  # a container may forbid it; the other limits hold
        return False
    return program is not None


def _address_space() -> int:
    """Return the bytes of address space in use; 0 if the system does not tell, and then there is no limit."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 0


def _outcome(claims: list[Any], agree: Agree) -> str:
    """Return "equal" if all claims hold, else why not: also "memory" if the check needs too much of it."""
    try:
        return _holds(claims, agree)
    except MemoryError:
        return "memory"
    except Exception:  # sympy fails on many inputs
        return "unparsed"


def _holds(claims: list[Any], agree: Agree) -> str:
    """Return the outcome of the first claim that does not hold ("different", "unparsed", "gold"), else "equal".

    A claim is a pair of expressions, or a list with one table of claims (`equality.Matching`).
    """
    for claim in claims:
        outcome = agree(*claim) if isinstance(claim[0], str) else _matched(claim[0], agree)
        if outcome != "equal":
            return outcome
    return "equal"


def _matched(rows: list[list[Any]], agree: Agree) -> str:
    """Return "equal" if each row can be paired with a different column whose claims hold, else "different".

    Each row takes the first free column that fits: equality is transitive enough that any is as good.
    """
    free = list(range(len(rows)))
    for row in rows:
        fits = (column for column in free if row[column] is not None and _holds(row[column], agree) == "equal")
        partner = next(fits, None)
        if partner is None:
            return "different"
        free.remove(partner)
    return "equal"


# math-verify


def load() -> Agree:
    """Load math-verify and return a function that compares a reference with an answer.

    It returns "equal", "different", "unparsed", or "gold" if the reference does not parse.
    """
    import sympy.core.random
    from latex2sympy2_extended.latex2sympy2 import NormalizationConfig
    from math_verify import LatexExtractionConfig, parse, verify

    # The normal form has no units; math-verify's own list of units has `ab`, `c`, `t`, by which `2ab` would be 2.
    spelling = NormalizationConfig(units=False, malformed_operators=True, nits=True, boxed="last")
    one_box = [LatexExtractionConfig(boxed_match_priority=0, normalization_config=spelling)]

    def expression(text: str) -> Any:
        """Return the whole text as one expression, or None: no number is picked out of a text that does not parse."""
        boxed = "\\boxed{" + text + "}"
        parsed = parse(boxed, one_box, "no_fallback", "first_match", parsing_timeout=None)
        return parsed[0] if parsed else None

    gold_expression = lru_cache(maxsize=GOLDS)(expression)

    def agree(gold: str, answer: str) -> str:
        sympy.core.random.seed(0)
        left = gold_expression(gold)
        if left is None:
            return "gold"
        right = expression(answer)
        return "unparsed" if right is None else judged(left, right, gold + " " + answer)

    def judged(left: Any, right: Any, texts: str) -> str:
        digits = rounding(texts)
        equal = verify(left, right, float_rounding=digits, allow_set_relation_comp=True, timeout_seconds=None)
        return "equal" if equal and not _only_both_unsolvable(left, right) else "different"

    for gold, answer in _REHEARSED:
        agree(gold, answer)
    return agree


# Parsers and rules are built at their first use, which takes 60 to 200 ms (later ones 0.2 to 5 ms). Use them before
# children are forked.
_REHEARSED = (
    ("6-5i", r"\frac{2\cdot(6-5i)}{2}"),
    (r"\frac{\sqrt{3}}{3}", r"\frac{1}{\sqrt{3}}"),
    ("x^{2}-1", "(x-1)(x+1)"),
    ("[-2,7]", r"-2\le x\le7"),
    ("y=2x+3", "-2x+y-3=0"),
    (r"\cot x", r"\frac{1}{\tan x}"),
    ("3", r"\log_{2}8"),
)


def _only_both_unsolvable(gold: Any, answer: Any) -> bool:
    """Whether two equations have no solution and are not multiples of each other; math-verify takes them for equal."""
    from sympy import Eq, simplify, solve

    if not (isinstance(gold, Eq) and isinstance(answer, Eq)) or solve(gold, dict=True):
        return False
    ratio = simplify((gold.lhs - gold.rhs) / (answer.lhs - answer.rhs))
    return not (ratio.is_number and ratio.is_finite and ratio.is_nonzero)


_SMALL = re.compile(r"(?<![0-9.])0*\.(0+)[1-9]")


def rounding(text: str) -> int:
    """Return the number of decimals to which floats are compared: six, and more if the text has a small decimal.

    Each zero between the point and the first other digit of the smallest decimal adds one: 8 for 0.002.
    """
    return FLOAT_ROUNDING + max((len(zeros[1]) for zeros in _SMALL.finditer(text)), default=0)


if __name__ == "__main__":
    main()
