"""Verify by a user's command: what is put into it, and what its end says.

The command is split as a shell would split it, and run without a shell. In each word these are replaced:

    {response_file}  the path of a file with the response      {problem_id}  the problem's id
    {prompt_file}    the path of a file with the prompt        {index}       the response's index, from 0

Exit code 0: correct. 1: wrong, unless the program itself failed (`system.verifier_programs`). Anything else, or no end
in time: error. A last line of stdout such as {"value": 3.2}, with exit code 0, is a measured value; one that cannot be
read is an error.
"""

from __future__ import annotations

import errno
import re
import shlex
import tempfile
from concurrent.futures import CancelledError
from pathlib import Path

from harness.errors import HarnessError, did_you_mean, one_line
from harness.jobs.selection import Candidates
from harness.pools.reading import file_digest
from harness.system.children import Ended, Lost, Wardens
from harness.system.json_text import NotJSON, parsed
from harness.system.verifier_programs import failed_itself, require_program

from .check import TOO_LATE, Check, measured
from .config import VerifyConfig

PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
QUOTED = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.""")
SHELL = re.compile(r"[|<>;]|&&")
OF_ONE_CHECK = (errno.E2BIG, errno.EINVAL)  # why a command cannot be started with this problem's id
GRACE_S = 2.0  # between SIGTERM and SIGKILL
NAMES = ("response_file", "prompt_file", "problem_id", "index")


class CommandVerifier:
    """Checks responses by the config's command, as many at once as it has workers; use it in a `with` block."""

    def __init__(self, config: VerifyConfig) -> None:
        self.config = config
        self.words = words_of(config.verifier or "")
        require_program(self.words, "verify: --verifier")
        self._wardens = Wardens()

    def __enter__(self) -> CommandVerifier:
        return self

    def __exit__(self, *failure: object) -> None:
        self._wardens.close()

    def __call__(self, candidates: Candidates, index: int) -> Check:
        """Check one response; HarnessError if the command cannot be started at all, CancelledError if it is closed."""
        name = candidates.problem.id
        try:
            with (
                self._wardens.one() as warden,
                tempfile.TemporaryDirectory(dir=warden.folder, ignore_cleanup_errors=True) as folder,
            ):
                words = self._filled(Path(folder), candidates, index)
                ended = warden.run(words, limit_s=self.config.timeout, grace_s=GRACE_S)
                return self._check(name, index, ended, f"{folder}/response.txt")
        except Lost:
            if self._wardens.closed:
                raise CancelledError from None
            return Check(name, index, "error", reason="the process that runs the command was killed")
        except OSError as failure:
            if failure.errno not in OF_ONE_CHECK:
                raise HarnessError(f"verifier {self.words[0]!r}: cannot be started ({failure.strerror})") from None
            return Check(name, index, "error", reason=f"cannot be started: {failure.strerror}")

    def _filled(self, folder: Path, candidates: Candidates, index: int) -> list[str]:
        """The command for one response, whose files are written."""
        problem = candidates.problem
        texts = {"response_file": candidates.responses.texts[index], "prompt_file": problem.prompt}
        values = {"problem_id": problem.id, "index": str(index)}
        for name, text in texts.items():
            path = folder / f"{name.removesuffix('_file')}.txt"
            path.write_bytes(text.encode("utf-8", "surrogatepass"))
            values[name] = str(path)
        return [PLACEHOLDER.sub(lambda match: values[match[1]], word) for word in self.words]

    def _check(self, problem_id: str, index: int, ended: Ended, response_file: str) -> Check:
        threshold = self.config.threshold
        if ended.status is None:
            reason = f"{TOO_LATE} {self.config.timeout:g} s"
        elif ended.status not in (0, 1) or (ended.status == 1 and failed_itself(ended.err, response_file)):
            reason = _how(ended.status, ended.err)
        elif ended.status == 1:
            return Check(problem_id, index, "wrong")
        else:
            try:
                value = _value(ended.out)
            except HarnessError as failure:
                return Check(problem_id, index, "error", reason=str(failure))
            if value is not None:
                return measured(problem_id, index, value, threshold)
            if not self.config.takes_values:
                return Check(problem_id, index, "correct")
            option = "--top" if threshold is None else "--threshold"
            reason = f'exit code 0, but no value: with {option} the last line of stdout must be {{"value": NUMBER}}'
        return Check(problem_id, index, "error", reason=reason)


def words_of(command: str) -> list[str]:
    """The words of a verifier's command; HarnessError if it cannot be run for a response."""
    try:
        words = shlex.split(command)
    except ValueError as failure:
        raise HarnessError(f"verify: --verifier {command!r}: {failure}") from None
    if operator := SHELL.search(QUOTED.sub("", command)):
        raise HarnessError(f"verify: --verifier: no shell reads {operator[0]!r}: write sh -c '...', or quote it")
    used = PLACEHOLDER.findall(command)
    for name in used:
        if name not in NAMES:
            guess = did_you_mean(name, NAMES).replace("installed", "known")
            raise HarnessError(f"verify: --verifier: nothing is put in for {{{name}}} {guess}")
    if not used:
        raise HarnessError("verify: --verifier: say where the response goes, e.g. 'python check.py {response_file}'")
    return words


def files_of(command: str) -> dict[str, str]:
    """The digests of the files that a command names: an edit of its program may change outcomes."""
    return {word: file_digest(Path(word)) for word in words_of(command) if Path(word).is_file()}


def _value(out: str) -> float | None:
    """The number of a last line {"value": NUMBER}; None if there is none. HarnessError for JSON that cannot be read."""
    try:
        line = parsed(out.rstrip().rpartition("\n")[2], "the last line of stdout", lenient=True)
    except NotJSON:
        return None
    value = line.get("value") if isinstance(line, dict) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _how(status: int, err: str) -> str:
    last = one_line(err.rstrip().rpartition("\n")[2])[:200]
    how = f"ended by signal {-status}" if status < 0 else f"exit code {status}"
    return f"{how}: {last}" if last else how
