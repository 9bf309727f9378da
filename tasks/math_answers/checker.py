"""The checker process: math-verify behind a socket; a hostile expression hangs, crashes or fills nothing of ours.

Run as a program by its path, `python -P checker.py`; file descriptor 0 is a socket to the process that grades (see
`workers`). It loads sympy and math-verify once, then obeys: "fork", which comes with one end of a socket pair, starts a
child that serves checks there; a child's process id ends that child and tells how it ended. A fork takes milliseconds,
a fresh process over a second. When the socket is closed, because the grading process closed it or died, all end.

A child lives under limits that nothing in it can lift or swallow: CPU seconds a check by the kernel (ITIMER_PROF with
SIGPROF's default action; Python code sees no exception), address space, no file growth, no core files, and the code
sandbox's seccomp filter, in case a parser can be talked into running what it reads (30 tries, none did). The time
limits of math-verify are off: they use SIGALRM and an exception that code can swallow.

Only the standard library is imported before the program starts, so that `workers` can share the frames: 4 bytes of
length, big-endian, then JSON in ASCII. Nothing is ever unpickled.
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

MEMORY_BYTES = 2 << 30  # of address space, beyond what the loaded libraries take
MAX_FRAME = 1 << 20
FLOAT_ROUNDING = 6  # decimals, math-verify's default; more for small numbers, so that six digits count
GOLDS = 1024  # parsed references kept


# Frames


def frame(message: Any) -> bytes:
    """One message as bytes."""
    body = json.dumps(message).encode("ascii")
    return struct.pack("!I", len(body)) + body


def read_frame(receive: Callable[[int], bytes]) -> Any:
    """The next message from what `receive(at most so many bytes)` gives.

    Raises EOFError when the other end is closed, ValueError on what is no frame.
    """
    [length] = struct.unpack("!I", _exactly(receive, 4))
    if length > MAX_FRAME:
        raise ValueError(f"a frame of {length} bytes")
    return json.loads(_exactly(receive, length))


def _exactly(receive: Callable[[int], bytes], count: int) -> bytes:
    received = bytearray()
    while len(received) < count:
        part = receive(count - len(received))
        if not part:
            raise EOFError("the other end is closed")
        received += part
    return bytes(received)


# The zygote

Agree = Callable[[str, str], str]


def main() -> None:
    """Load math-verify, then fork and reap children as asked, until the socket is closed."""
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
            _obey(control, children, lambda connection: _serve(connection, agree, confinement))
    except (EOFError, OSError):
        pass
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)


def _obey(control: socket.socket, children: set[int], serve: Callable[[int], None]) -> None:
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
    """A message of the control socket and the file descriptor that came with it, if one did."""
    head, descriptors, _, _ = socket.recv_fds(control, 4, 1, socket.MSG_WAITALL)
    if len(head) < 4:
        raise EOFError("the other end is closed")
    body = _exactly(control.recv, struct.unpack("!I", head)[0])
    return json.loads(body), descriptors[0] if descriptors else None


# A child


def _serve(connection: int, agree: Agree, confinement: Any) -> None:
    """Answer checks until the socket is closed; never returns. Reads and writes it as a file: seccomp knows no recv."""
    try:
        arm = _confine(confinement)
        while True:
            message = read_frame(lambda count: os.read(connection, count))
            began = time.process_time()
            arm(float(message["cpu_s"]))
            outcome = _outcome(message["claims"], agree)
            arm(0.0)
            os.write(connection, frame([outcome, time.process_time() - began]))
    finally:
        os._exit(0)


def seccomp() -> Any:
    """The sandbox's filter of system calls (no sockets, processes, files to write); None where it is not to be had."""
    try:
        from harness_tasks.sandbox import confinement
    except ImportError:
        return None
    return confinement


def _confine(confinement: Any) -> Callable[[float], None]:
    """Put this process under its limits; what sets its CPU limit from then on (0 lifts it)."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    base = _address_space()
    if base:
        resource.setrlimit(resource.RLIMIT_AS, (base + MEMORY_BYTES, base + MEMORY_BYTES))
    if confinement is None or not _filtered(confinement):
        return _arm
    return lambda cpu_s: confinement.arm(cpu_s, 0.0)  # the filter knows the address of this timer


def _arm(cpu_s: float) -> None:
    signal.setitimer(signal.ITIMER_PROF, cpu_s)


def _filtered(confinement: Any) -> bool:
    """Whether this process's system calls are filtered now."""
    program = confinement.compile_filter()
    try:
        confinement.give_up_privileges()
        if program is not None:
            confinement.install(program)
    except OSError:  # a container that forbids it; the other limits hold
        return False
    return program is not None


def _address_space() -> int:
    """Bytes of address space in use; 0 where the system does not say (there the limit is off)."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 0


def _outcome(claims: list[Any], agree: Agree) -> str:
    """Whether all claims hold ("equal") or why not; "memory" where that took too much of it."""
    try:
        return _holds(claims, agree)
    except MemoryError:
        return "memory"
    except Exception:  # sympy stumbles over what it was given
        return "unparsed"


def _holds(claims: list[Any], agree: Agree) -> str:
    """What the first claim that does not hold gives ("different", "unparsed", "gold"), else "equal".

    A claim is a pair of expressions, or a list of one table of claims (`equality.Matching`).
    """
    for claim in claims:
        outcome = agree(*claim) if isinstance(claim[0], str) else _matched(claim[0], agree)
        if outcome != "equal":
            return outcome
    return "equal"


def _matched(rows: list[list[Any]], agree: Agree) -> str:
    """Find each row a column of its own; equality is transitive enough that the first partner is as good as another."""
    free = list(range(len(rows)))
    for row in rows:
        fits = (place for place in free if row[place] is not None and _holds(row[place], agree) == "equal")
        partner = next(fits, None)
        if partner is None:
            return "different"
        free.remove(partner)
    return "equal"


# math-verify


def load() -> Agree:
    """The judge of two expressions: "equal", "different", "unparsed", or "gold" where the reference does not parse."""
    import sympy.core.random
    from latex2sympy2_extended.latex2sympy2 import NormalizationConfig
    from math_verify import LatexExtractionConfig, parse, verify

    # Units are gone already; math-verify's own list has `ab`, `c`, `t`: `2ab` would be 2.
    spelling = NormalizationConfig(units=False, malformed_operators=True, nits=True, boxed="last")
    whole = [LatexExtractionConfig(boxed_match_priority=0, normalization_config=spelling)]

    def expression(text: str) -> Any:
        """The whole text as one expression, or None: no number is picked out of what does not parse."""
        boxed = "\\boxed{" + text + "}"
        parsed = parse(boxed, whole, "no_fallback", "first_match", parsing_timeout=None)
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


# Parsers and rules are built on first use (60 to 200 ms here, then 0.2 to 5): use them before children are forked.
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
    """Whether two equations have no solution, which is all that math-verify asks of them, and are not multiples."""
    from sympy import Eq, simplify, solve

    if not (isinstance(gold, Eq) and isinstance(answer, Eq)) or solve(gold, dict=True):
        return False
    ratio = simplify((gold.lhs - gold.rhs) / (answer.lhs - answer.rhs))
    return not (ratio.is_number and ratio.is_finite and ratio.is_nonzero)


_SMALL = re.compile(r"(?<![0-9.])0*\.(0+)[1-9]")


def rounding(text: str) -> int:
    """To how many decimals floats are compared: as many more as the smallest decimal has zeros behind its point."""
    return FLOAT_ROUNDING + max((len(zeros[1]) for zeros in _SMALL.finditer(text)), default=0)


if __name__ == "__main__":
    main()
