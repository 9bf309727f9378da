"""Verify a response by a user's command, or by a Python function.

A command is split as a shell would split it, and run without a shell. In each word these are replaced:

    {response_file}  the path of a file with the response      {problem_id}  the problem's id
    {prompt_file}    the path of a file with the prompt        {index}       the response's index, from 0

Exit code 0: correct. 1: wrong, unless the program itself failed (`system.children`). Anything else, or no end
in time: error. A last line of stdout such as {"value": 3.2}, with exit code 0, is a measured value; one that cannot be
read is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from harness.errors import HarnessError, contained, error_text, one_line
from harness.jobs.selection import Candidates
from harness.pools.reading import file_digest
from harness.system.children import PLACEHOLDER, Lost, Wardens, checked, require_program, words_of
from harness.system.json_text import NotJSON, parsed

from .config import VerifyConfig
from .journal import TOO_LATE, Check, measured

OPTION = "verify: --verifier"
NAMES = ("response_file", "prompt_file", "problem_id", "index")
GRACE_S = 2.0  # between SIGTERM and SIGKILL

Function: TypeAlias = Callable[[str, int, str], bool | float | None]
Verifier: TypeAlias = Callable[[Candidates, int], Check]


def called(function: Function, config: VerifyConfig) -> AbstractContextManager[Verifier]:
    """The verifier that calls a function with problem id, index and text."""

    def verify_one(candidates: Candidates, index: int) -> Check:
        name = candidates.problem.id
        try:
            with contained():
                outcome = function(name, index, candidates.responses.texts[index])
                if outcome is None:
                    return Check(name, index, "skip")
                if isinstance(outcome, bool | np.bool_):
                    return Check(name, index, "correct" if outcome else "wrong")
                return measured(name, index, float(outcome), config.threshold)
        except Exception as failure:
            return Check(name, index, "error", reason=error_text(failure))

    return nullcontext(verify_one)


class CommandVerifier(AbstractContextManager[Verifier]):
    """Checks responses by the config's command, as many at once as it has workers; use it in a `with` block."""

    def __init__(self, config: VerifyConfig) -> None:
        self.config, self._wardens = config, Wardens()
        self.words = words_of(config.verifier or "", NAMES, OPTION)
        require_program(self.words, OPTION)

    def __enter__(self) -> Verifier:
        return self

    def __exit__(self, *failure: object) -> None:
        self._wardens.close()

    def __call__(self, candidates: Candidates, index: int) -> Check:
        """Check one response; HarnessError if the command cannot be started at all, CancelledError if it is closed."""
        problem = candidates.problem
        texts = {"response": candidates.responses.texts[index], "prompt": problem.prompt}
        values = {"problem_id": problem.id, "index": str(index)}
        try:
            ended, failed = checked(
                self._wardens, self.words, texts, values, lambda folder: (), self.config.timeout, GRACE_S
            )
        except Lost:
            if self._wardens.closed:
                raise CancelledError from None
            return Check(problem.id, index, "error", reason="the process that runs the command was killed")
        except OSError as failure:
            raise HarnessError(f"verifier {self.words[0]!r}: cannot be started ({failure.strerror})") from None
        status = ended.status
        if status == 1 and not failed:
            return Check(problem.id, index, "wrong")
        if status == 0:
            return self._passed(problem.id, index, ended.out)
        reason = f"{TOO_LATE} {self.config.timeout:g} s"
        if status is not None:
            last = one_line(ended.err.rstrip().rpartition("\n")[2])[:200]
            reason = f"ended by signal {-status}" if status < 0 else f"exit code {status}"
            reason += f": {last}" if last else ""
        return Check(problem.id, index, "error", reason=reason)

    def _passed(self, problem_id: str, index: int, out: str) -> Check:
        """The check that ended with exit code 0: its value, if the last line has one, else correct."""
        try:
            line: Any = parsed(out.rstrip().rpartition("\n")[2], "the last line of stdout", lenient=True)
        except NotJSON:
            line = None
        except HarnessError as failure:
            return Check(problem_id, index, "error", reason=str(failure))
        value = line.get("value") if isinstance(line, dict) else None
        if isinstance(value, int | float) and not isinstance(value, bool):
            return measured(problem_id, index, float(value), self.config.threshold)
        if not self.config.takes_values:
            return Check(problem_id, index, "correct")
        option = "--top" if self.config.threshold is None else "--threshold"
        reason = f'exit code 0, but no value: with {option} the last line of stdout must be {{"value": NUMBER}}'
        return Check(problem_id, index, "error", reason=reason)


def files_of(command: str) -> dict[str, str]:
    """The digests of the files that a command names: an edit of its program may change outcomes. {} for a function."""
    words = words_of(command, NAMES, OPTION) if PLACEHOLDER.search(command) else []
    return {word: file_digest(Path(word)) for word in words if Path(word).is_file()}
