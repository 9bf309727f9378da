"""Grade a response by a program of the user's: exit code 0 correct, 1 wrong, anything else an error.

The program reads the response, the reference and the prompt from files. It runs in bubblewrap: it may read what the
user may read, write only to TMPDIR (a file system in memory), and has no network and no other processes. Where that
does not work, or the environment variable HARNESS_SANDBOX_TIER is `none`, it runs outside, if the user allows it by
`--unsafe-exec`.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from harness import HarnessError, Verdict, correct, error, wrong
from harness.system.children import Wardens, failed_itself

UNSAFE_EXEC = "HARNESS_UNSAFE_EXEC"  # set by `check`, as by the code tasks: worker processes inherit it
TIER = "HARNESS_SANDBOX_TIER"
FILES = ("response", "reference", "prompt")
SCRATCH_BYTES = 256 << 20
LONGEST = 2000  # characters of a reason
_wardens = Wardens()
_PLACEHOLDER = re.compile(r"(?<!\$)\{([a-z_]+)\}")


def words_of(command: str) -> list[str]:
    """Return the command's words, with `{response_file}` and the like; HarnessError if it cannot be run."""
    try:
        words = shlex.split(command)
    except ValueError as failure:
        raise HarnessError(f"own: command {command!r} is no command line ({failure})") from None
    if not any("{response_file}" in word for word in words):
        raise HarnessError(f"own: command must name {{response_file}}, which holds the response, got {command!r}")
    for name in _PLACEHOLDER.findall(command):
        if name.removesuffix("_file") not in FILES or name in FILES:
            listed = ", ".join(f"{{{which}_file}}" for which in FILES)
            raise HarnessError(f"own: command: nothing is put in for {{{name}}}: use {listed}, or a file for a program")
    return words


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
    code, printed, response_file = _ended(words_of(command), texts, confined, timeout_s)
    last = printed.strip().rpartition("\n")[2].strip()[-LONGEST:]
    if confined and code == 1 and last.startswith("bwrap: "):
        return error(f"the command could not be run: {last}")
    if code == 1 and failed_itself(printed, response_file):
        return error(f"the command ended with an exception: {last}")
    if code in (0, 1, None):
        return correct() if code == 0 else wrong(last if code == 1 else f"timeout ({timeout_s:g} s)")
    return error(f"the command ended with exit code {code}: {last}" if last else f"exit code {code}")


def _ended(words: list[str], texts: Mapping[str, str], confined: bool, limit_s: float) -> tuple[int | None, str, str]:
    """Run a program; return its exit code (None: ended by us), the end of its standard error, and the response's file.

    Files hold the texts; the folder `tmp` beside them is for what the program writes.
    """
    with _wardens.one() as warden, tempfile.TemporaryDirectory(dir=warden.folder) as folder:
        scratch = f"{folder}/tmp"
        os.mkdir(scratch)
        for which, text in texts.items():
            Path(folder, which).write_bytes(text.encode("utf-8", "replace"))
            words = [word.replace(f"{{{which}_file}}", f"{folder}/{which}") for word in words]
        if confined:
            options = (
                "--unshare-all --die-with-parent --new-session --cap-drop ALL --ro-bind / / --dev /dev --proc /proc"
            )
            size = ["--size", str(SCRATCH_BYTES), "--tmpfs", scratch]
            words = ["bwrap", *options.split(), *size, "--chdir", os.getcwd(), "--", *words]
        ended = warden.run(words, {"TMPDIR": scratch}, limit_s=limit_s, grace_s=0.0)
        return ended.status, ended.err, f"{folder}/response"


@cache
def _fault() -> str:
    """Return why bubblewrap cannot be used here; "" if it can."""
    if shutil.which("bwrap") is None:
        return "bubblewrap (bwrap) is not installed"
    code, printed, _ = _ended(["true"], {}, True, 30.0)
    return "" if code == 0 else f"bwrap: {printed.strip() or f'exit code {code}'}"
