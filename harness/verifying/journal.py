"""The journal of `harness verify`: a JSON line for each outcome, on the disk before the next pick is made.

    {"journal": "harness verify", "version": 1, "pool": "sha256:...", "selector": "repexp", "seed": 0, ...}
    {"problem_id": "4-5-6-10", "index": 17, "outcome": "wrong"}
    {"asked": [["4-5-6-10", 3], ["1-1-4-6", 8]]}

The first line says what the outcomes belong to; another pool, selector or verifier is refused. `asked` are the picks
that `--ask` has given out. `verifier_files` on a later line are files of the verifier that have changed. A line that a
killed process wrote in part is cut away. The file is locked while it is open.
"""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from typing_extensions import TypedDict

from harness.errors import HarnessError
from harness.system.json_text import parsed, shaped

KIND, VERSION = "harness verify", 1
FILES = "verifier_files"  # the digests of the files that the verifier's command names
POOL_FILE = "pool_file"  # in the first line: for messages; a file may be moved
RESTORE = "restore the file, or name another --journal"
TOO_LATE = "no end within"  # begins the reason of a check that took too long
OUTCOMES = ("correct", "wrong", "measured", "error", "skip")

Pick = tuple[str, int]


@dataclass(frozen=True)
class Check:
    """The outcome of verifying one response.

    outcome  "correct", "wrong", "measured" (a value alone), "error" (the verifier failed; it counts as a call), or
             "skip" (nobody could check it; no call)
    value    what the verifier measured; None if it measured nothing
    reason   of an error, one line
    """

    problem_id: str
    index: int
    outcome: str
    value: float | None = None
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """The check as a line of the journal."""
        line = {"problem_id": self.problem_id, "index": self.index, "outcome": self.outcome}
        line |= {} if self.value is None else {"value": self.value}
        return line | ({"reason": self.reason} if self.reason else {})

    @property
    def is_call(self) -> bool:
        """Whether it used up a call."""
        return self.outcome != "skip"

    def is_success(self, threshold: float | None) -> bool:
        """Whether it is what is looked for: a value of at least the threshold, else the outcome "correct"."""
        if threshold is not None and self.value is not None:
            return self.value >= threshold
        return self.outcome == "correct"

    @property
    def known(self) -> float | None:
        """What a selector that learns is told: the value, else 1.0 or 0.0; None after an error or a skip."""
        return {"correct": 1.0, "wrong": 0.0}.get(self.outcome) if self.value is None else self.value


def measured(problem_id: str, index: int, value: float, threshold: float | None) -> Check:
    """The check that gave a value; an error if the value is not finite."""
    if not math.isfinite(value):
        return Check(problem_id, index, "error", reason=f"the value {value} is not finite")
    if threshold is None:
        return Check(problem_id, index, "measured", value)
    return Check(problem_id, index, "correct" if value >= threshold else "wrong", value)


class _Line(TypedDict, total=False):
    """What a line of a journal may hold; the first line holds other keys too."""

    journal: str
    verifier_files: dict[str, str]
    pool_file: str | None
    asked: list[list[str | int]]
    problem_id: str
    index: int
    outcome: str
    value: float | None
    reason: str


class Journal:
    """An open journal; use it in a `with` block.

    checks  problem id -> index -> the last outcome of that response, in the order verified
    asked   the picks that were given out and have no outcome yet, in order
    failed  problem id -> checks that ended in an error, of responses that are to be checked again or were
    row     how many errors are the last outcomes, with no other outcome between them
    remark  one line on what was recovered; "" if nothing was

    With `retry`, errors are checked again, and files of the verifier may have changed.
    """

    def __init__(self, path: Path, header: Mapping[str, Any], sizes: Mapping[str, int], retry: bool = False) -> None:
        self.path, self.remark, self.row = path, "", 0
        self.checks: dict[str, dict[int, Check]] = {name: {} for name in sizes}
        self.failed: dict[str, list[Check]] = {name: [] for name in sizes}
        self.asked: list[Pick] = []
        self._sizes = sizes
        self._file = _opened(path)
        try:
            files = self._read({"journal": KIND, "version": VERSION, **header})
            self._compare_files(files, header.get(FILES, {}), retry)
        except BaseException:
            self._file.close()
            raise
        if retry:  # the lines of errors stay in the file
            self.row = 0
            for name, checks in self.checks.items():
                for check in [check for check in checks.values() if check.outcome == "error"]:
                    self.failed[name].append(checks.pop(check.index))

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *failure: object) -> None:
        self._file.close()

    def add(self, checks: Sequence[Check]) -> None:
        """Write outcomes to the disk."""
        self._write([check.to_json() for check in checks])
        for check in checks:
            self._count(check)

    def ask(self, picks: Sequence[Pick]) -> None:
        """Write down that these picks are given out."""
        if picks:
            self._write([{"asked": [list(pick) for pick in picks]}])
            self.asked += picks

    def _write(self, lines: Sequence[Mapping[str, Any]]) -> None:
        content = "".join(json.dumps(line) + "\n" for line in lines).encode()
        end = self._file.seek(0, os.SEEK_END)
        try:
            if self._file.write(content) < len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file.fileno())
        except OSError as failure:
            with suppress(OSError):
                self._file.truncate(end)  # no line may follow a part of one
            raise HarnessError(
                f"journal {self.path}: cannot be written ({failure.strerror}): make room and run the same command again"
            ) from failure

    def _count(self, check: Check) -> None:
        before = self.checks[check.problem_id].pop(check.index, None)
        if before and before.outcome == "error":
            self.failed[check.problem_id].append(before)
        self.row = self.row + 1 if check.outcome == "error" else 0
        self.checks[check.problem_id][check.index] = check
        self.asked = [pick for pick in self.asked if pick != (check.problem_id, check.index)]

    def _read(self, header: Mapping[str, Any]) -> dict[str, str]:
        """Read what is there, or begin the file; return the digests of the verifier's files that it names."""
        whole, _, torn = self._file.read().rpartition(b"\n")
        if torn or not whole:
            self._file.truncate(len(whole) + 1 if whole else 0)
        if torn:
            self.remark = f"journal {self.path}: cut away the last line, which was written in part"
        if not whole:
            self._write([header])
            return {}
        files: dict[str, str] = {}
        for number, text in enumerate(whole.split(b"\n"), 1):
            where = f"journal {self.path}, line {number}"
            line: Mapping[str, Any] = shaped(parsed(text, where, RESTORE), _Line, where, RESTORE)
            if number == 1:
                self._require_same(line, header)
            files.update(line.get(FILES, {}))
            self.asked += [self._pick(pair, where) for pair in line.get("asked", ())]
            if number > 1 and not {"asked", FILES} & set(line):
                name, index = self._pick((line.get("problem_id"), line.get("index")), where)
                outcome, value = line.get("outcome"), line.get("value")
                if outcome not in OUTCOMES:
                    raise HarnessError(f"{where}: no outcome of a response; {RESTORE}")
                value = None if value is None else float(value)
                self._count(Check(name, index, str(outcome), value, line.get("reason", "")))
        return files

    def _pick(self, pair: Sequence[Any], where: str) -> Pick:
        name, index = pair if len(pair) == 2 else ("", None)
        if name not in self._sizes or type(index) is not int or not 0 <= index < self._sizes[name]:
            raise HarnessError(f"{where}: {pair!r:.80} is no response of the pool")
        return name, index

    def _require_same(self, begun: Mapping[str, Any], header: Mapping[str, Any]) -> None:
        if begun.get("journal") != KIND:
            raise HarnessError(f"journal {self.path}: is no journal of `harness verify`; {RESTORE}")
        changed = [name for name in header if name not in (FILES, POOL_FILE) and begun.get(name) != header[name]]
        for name in changed:
            was, now = f"{begun.get(name)!r:.80}", f"{header[name]!r:.80}"
            if name == "pool" and begun.get(POOL_FILE):
                was, now = str(begun[POOL_FILE]), str(header.get(POOL_FILE))
                now = "other responses" if now == was else now
            raise HarnessError(
                f"journal {self.path}: is of another {name} ({was}, now {now}): "
                "name another --journal, or give the same options as before"
            )

    def _compare_files(self, before: Mapping[str, str], now: Mapping[str, str], retry: bool) -> None:
        """Refuse files of the verifier that have changed; with `retry` write down that they have."""
        changed = {name: digest for name, digest in now.items() if before.get(name, digest) != digest}
        if changed and not retry:
            raise HarnessError(
                f"journal {self.path}: {next(iter(changed))} has changed since: --journal NEW starts anew; "
                "--retry-errors keeps the outcomes, but checks again what ended in an error"
            )
        if changed:
            self._write([{FILES: changed}])


def _opened(path: Path) -> IO[bytes]:
    """The file, made if need be, and locked for this process alone."""
    try:
        file = path.open("a+b", buffering=0)
    except OSError as failure:
        raise HarnessError(f"journal {path}: cannot be opened ({failure.strerror})") from None
    fault = "" if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else "is no file; name another --journal"
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        fault = "another process uses it: wait until that has ended, or name another --journal"
    except OSError:  # a disk without locks
        pass
    if fault:
        file.close()
        raise HarnessError(f"journal {path}: {fault}")
    file.seek(0)
    return file
