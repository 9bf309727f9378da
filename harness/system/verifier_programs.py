"""A user's program that checks a response: whether it is there, and whether it judged or failed by itself.

It judges by its exit code alone: 0 is correct, 1 is wrong. But Python ends with 1, too, when nothing catches an
exception, or when it cannot start.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from harness.errors import HarnessError

_INTERPRETER = re.compile(r"(?:python|pypy|perl|ruby|node|bash|dash|zsh|sh|Rscript|julia|lua|php)[0-9.]*")
_SCRIPT = re.compile(r".+\.(?:py|pl|rb|js|mjs|cjs|sh|bash|R|r|jl|lua|php)")
_CODE = re.compile(r"-\w*[cempr]")  # options after which code or a module's name may stand, and no script

_TRACEBACK = "Traceback (most recent call last):"
_HANDLED = (  # ends the traceback of an exception that was caught, and followed by another one
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # Python 3.13, with FORCE_COLOR
_FRAME = re.compile(r'^  File "(.+)", line \d+(?:, in (.+))?$', re.MULTILINE)
_END = re.compile(r"^\S.*", re.MULTILINE)  # what ends the frames: the exception
_ASSERTION = re.compile(r"AssertionError(?::|$)")
_GENERATED = re.compile(r"__\w+__")  # the functions that dataclasses make of a string, too
_UNREADABLE = re.compile(  # Python cannot read the program: there is no traceback
    r'^  File ".+", line \d+\n(?:    .*\n)*(?:Syntax|Indentation|Tab)Error: ', re.MULTILINE
)
_NO_START = re.compile(
    r"^(?:Fatal Python error: |.*(?:python|pypy)[\d.]*: (?:No module named |Error while finding module specification "
    r"|can't find '__main__' module in ))",
    re.MULTILINE,
)


def require_program(words: Sequence[str], what: str) -> None:
    """HarnessError if a command's program is not there, or the script that it names to python, sh or the like.

    The script is the word after the interpreter, or the first one that ends as scripts do. What only a run can show
    (modules, files in a container, the words of `sh -c`) is not looked for.

    what  the option that has the command, as messages begin: "verify: --verifier"
    """
    program, *rest = words
    if shutil.which(program) is None:
        if Path(program).is_file():
            raise HarnessError(
                f"{what}: {program!r} is no program: `chmod +x` it, or name what runs it: python, sh, ..."
            )
        raise HarnessError(f"{what}: there is no program {program!r}: give its path, or one that is on PATH")
    if not _INTERPRETER.fullmatch(Path(program).name):
        return
    for place, word in enumerate(rest):
        if "{" in word or _CODE.fullmatch(word):
            return
        if not word.startswith("-") and (place == 0 or _SCRIPT.fullmatch(word)):
            if not any(Path(word + end).exists() for end in ("", ".js")) and shutil.which(word) is None:
                raise HarnessError(f"{what}: there is no file {word!r} in {Path.cwd()}: give its path from there")
            return


def failed_itself(err: str, response_file: str) -> bool:
    """Whether a program that ended with 1 did not judge, by its standard error.

    That is so if an exception stands there that was not handled by raising another one, unless it is a failed `assert`
    or was raised in the response's code: in its file, or in a string that the program executes. Only the lines of
    frames and the exception's type are read, no message: a response whose text a message quotes can at most turn an
    error into a wrong or a wrong into an error, and a traceback too many makes an error.
    """
    err = _COLOUR.sub("", err)
    before, *tracebacks = err.split(_TRACEBACK)
    unread = _UNREADABLE.search(before)
    ends = [each for each in tracebacks[:-1] if not each.rstrip().endswith(_HANDLED)] + tracebacks[-1:]
    ends += [unread[0]] if unread else []
    return any(not _judges(each, response_file) for each in ends) or _NO_START.search(before) is not None


def _judges(traceback: str, response_file: str) -> bool:
    """Whether an exception is a judgement: a failed `assert`, or one of the response's code."""
    end = _END.search(traceback)
    if end is None or _ASSERTION.match(end[0]):
        return end is not None
    frames = _FRAME.findall(traceback[: end.start()])
    # The outermost string is the program itself: `python -c`.
    return any(path == response_file for path, _ in frames) or any(
        path == "<string>" and not _GENERATED.fullmatch(name) for path, name in frames[1:]
    )
