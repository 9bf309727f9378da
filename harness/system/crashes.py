"""Whether a program that judged a response failed itself: Python ends with exit code 1 on an exception, too."""

from __future__ import annotations

import re
from collections.abc import Sequence

TRACEBACK = "Traceback (most recent call last):"
_EXCEPTION = re.compile(r"^([A-Za-z_][\w.]*)(?::|$)", re.MULTILINE)  # the first line of a traceback without indent
_UNREADABLE = re.compile(r"^(?:Syntax|Indentation|Tab)Error: ", re.MULTILINE)  # Python cannot read the program at all


def crashed(err: str, judged: Sequence[str]) -> bool:
    """Whether standard error ends with an exception that is the program's own fault, and not the response's.

    judged  texts by which a traceback names the response: its file's path

    A failed `assert` is a judgement. So is an exception of code of the response: in its file, or in a string, as `exec`
    names it. A test runner's summary below a traceback (`FAILED (errors=1)`) is one too.
    """
    start = max(err.rfind(TRACEBACK), 0)
    told = err[start:]
    if any(name in told for name in (*judged, 'File "<string>"')) or err.rstrip().rpartition("\n")[2].startswith(
        "FAILED"
    ):
        return False
    if TRACEBACK not in told:
        return _UNREADABLE.search(told) is not None
    exception = _EXCEPTION.search(told, len(TRACEBACK))
    return exception is None or exception[1].rpartition(".")[2] != "AssertionError"
