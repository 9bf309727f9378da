"""The behaviour of a program: a digest of what it returns on a few inputs. No expected output is read.

Programs with equal behaviour are clusters: Li et al. 2022 (AlphaCode, arXiv:2203.07814) submit one program of each, the
largest first; Shi et al. 2022 (MBR-exec, arXiv:2204.11454) take the program whose results agree with most others. We
differ: behaviours must be equal on all inputs, and the inputs come from the prompt (`example_inputs`).

Values that are equal by Python's `==` have equal text (`sandbox.loose`): True and 1, sets in any order. Beyond that,
floats count to `DIGITS` digits, and NaN and objects of any class that is no value (generators, functions, a program's
own classes) are one and the same; nothing of such an object is called. An exception counts by the name of its type.

A program has no behaviour if it cannot be loaded, ends or exceeds a limit before its first result, or raises on every
input: a broken Python program often shows only when it is called. Where a program ends later, how it ended is part of
its behaviour, since a mutated input may be one that no program can bear.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any

from harness.contracts import Ran

from ..sandbox import Malformed, Sandbox, Suite, encode, loose
from .program_text import Program

DIGITS = 6  # significant digits of a float
TEST_S, GRACE_S = 1.0, 2.0  # CPU seconds of one input, and more for the whole run
OUTPUT_BYTES = 1 << 16  # of a program's results together

_FLOAT = r"-?(?:inf|nan|[0-9][0-9.e+-]*+)"
# In canonical text: what equals nothing, not even itself; a float or complex number; a string, which stays as it is.
_TOKEN = re.compile(
    r"(?P<nothing>(?<![0-9a-z/-])(?:[XM]|nfloat[0-9]++:fnan;)|(?<![0-9a-z/-])fnan)"
    rf"|(?<![0-9a-z/-])(?P<kind>[fc])(?P<real>{_FLOAT})(?P<imaginary>;{_FLOAT})?"
    r'|"(?:[^"\\]|\\.)*+"'
)
NO_VALUE = encode("<no value>")


def behaviours(
    sandbox: Sandbox, entry_point: str, inputs: Sequence[Sequence[Any]], programs: Sequence[Program]
) -> list[Ran | None]:
    """Return the behaviour of each program on the inputs (positional arguments), in order.

    It is 32 hex digits, None for a program without behaviour, and comes with the CPU seconds of the program's process.
    Of a program for which the sandbox failed nothing is known: None.
    """
    limits = [TEST_S] * len(inputs)
    suite = Suite(entry_point, inputs, limits, output_bytes=OUTPUT_BYTES, total_cpu_s=sum(limits) + GRACE_S)
    results: list[list[str]] = [[] for _ in programs]

    def keep(program: int, test: int, text: str) -> bool:
        """Store a digest of the text, or `E` and one; a program whose worker was lost begins again, with test 0."""
        raised = "E" if text.startswith("E") else ""
        results[program][test:] = [raised + _digest(normal(text))]
        return True

    sources, lent = [program.source for program in programs], [program.lent for program in programs]
    made: list[Ran | None] = []
    for run, each in zip(sandbox.run_all(suite, sources, keep, stop_at_raise=False, lent=lent), results, strict=True):
        returns = any(not result.startswith("E") for result in each)
        ran = Ran(_digest(" ".join([*each, run.status])) if returns else None, run.process_cpu_s)
        made.append(None if run.status == "error" else ran)
    return made


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def normal(text: str) -> str:
    """Return a result's canonical text in a form that is equal for all results that count as the same.

    Text that is not canonical was written by the program itself, and stays as it is: no honest result has it.
    """
    try:
        return text if text.startswith("E") else loose(_TOKEN.sub(_normal_token, text))
    except (Malformed, ValueError):
        return text


def _normal_token(match: re.Match[str]) -> str:
    if match["nothing"]:
        return NO_VALUE
    if not match["kind"]:
        return match[0]
    imaginary = match["imaginary"]
    return match["kind"] + _rounded(match["real"]) + (f";{_rounded(imaginary[1:])}" if imaginary else "")


def _rounded(number: str) -> str:
    return repr(float(f"{float(number):.{DIGITS}g}"))
