"""Grade a response by a program of the user's: exit code 0 correct, 1 wrong, anything else an error.

The program reads the response, the reference and the prompt from files. It runs in bubblewrap: it may read what the
user may read, write only to TMPDIR (a file system in memory), and has no network and no other processes. Where that
does not work, or the environment variable HARNESS_SANDBOX_TIER is `none`, it runs outside, if the user allows it by
`--unsafe-exec`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from harness import HarnessError, Verdict, correct, error, wrong
from harness.system.children import Ended, Wardens, checked, words_of

UNSAFE_EXEC = "HARNESS_UNSAFE_EXEC"  # set by `check`, as by the code tasks: worker processes inherit it
TIER = "HARNESS_SANDBOX_TIER"
NAMES = ("response_file", "reference_file", "prompt_file")
OPTION = "own: command"
SCRATCH_BYTES = 256 << 20
LONGEST = 2000  # characters of a reason
_wardens = Wardens()


def tier(unsafe_exec: bool) -> tuple[str, str]:
    """Return "bwrap" or "none", and a line about it for the user; HarnessError if nothing confines the program."""
    fault = "as asked for" if os.environ.get(TIER) == "none" else _fault()
    if not fault:
        return "bwrap", "sandbox: bwrap; the command has no network, and writes to its TMPDIR only"
    if not unsafe_exec:
        raise HarnessError(
            f"own: nothing here confines the command ({fault}): install bubblewrap, or accept the risk with "
            "--unsafe-exec"
        )
    return "none", f"sandbox: NONE ({fault}); the command can do all that you can do"


def run(command: str, texts: dict[str, str], timeout_s: float) -> Verdict:
    """Return the program's verdict; a program that takes longer than `timeout_s` is ended, and the response wrong.

    texts   what the files hold: "response", "reference", "prompt"
    """
    confined = tier(os.environ.get(UNSAFE_EXEC) == "1")[0] == "bwrap"
    ended, failed = _ended(words_of(command, NAMES, OPTION), texts, confined, timeout_s)
    code, last = ended.status, ended.err.strip().rpartition("\n")[2].strip()[-LONGEST:]
    if confined and code == 1 and last.startswith("bwrap: "):
        return error(f"the command could not be run: {last}")
    if failed:
        return error(f"the command ended with an exception: {last}")
    if code in (0, 1, None):
        return correct() if code == 0 else wrong(last if code == 1 else f"timeout ({timeout_s:g} s)")
    return error(f"the command ended with exit code {code}: {last}" if last else f"exit code {code}")


def _ended(words: Sequence[str], texts: Mapping[str, str], confined: bool, limit_s: float) -> tuple[Ended, bool]:
    """Run a program, as `checked`; the folder `tmp` beside its files is for what it writes."""

    def inside(folder: Path) -> list[str]:
        scratch = folder / "tmp"
        scratch.mkdir()
        if not confined:
            return ["env", f"TMPDIR={scratch}"]
        options = "--unshare-all --die-with-parent --new-session --cap-drop ALL --ro-bind / / --dev /dev --proc /proc"
        writes = ["--size", str(SCRATCH_BYTES), "--tmpfs", str(scratch), "--setenv", "TMPDIR", str(scratch)]
        return ["bwrap", *options.split(), *writes, "--chdir", os.getcwd(), "--"]

    return checked(_wardens, words, texts, {}, inside, limit_s, 0.0)


@cache
def _fault() -> str:
    """Return why bubblewrap cannot be used here; "" if it can."""
    if shutil.which("bwrap") is None:
        return "bubblewrap (bwrap) is not installed"
    ended, _ = _ended(["true"], {}, True, 30.0)
    return "" if ended.status == 0 else f"bwrap: {ended.err.strip() or f'exit code {ended.status}'}"
