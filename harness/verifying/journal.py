"""The journal of `harness verify`: a JSON line for each outcome, on the disk before the next pick is made.

    {"journal": "harness verify", "version": 1, "pool": "sha256:...", "selector": "repexp", "seed": 0, ...}
    {"problem_id": "4-5-6-10", "index": 17, "outcome": "wrong"}
    {"asked": [["4-5-6-10", 3], ["1-1-4-6", 8]]}

The first line says what the outcomes belong to, by content: another pool, selector or verifier is refused, and the same
vectors from a file or from memory are the same. `asked` are the picks that `--ask` has given out. Candidates that have
names are also called by them: `name` of an outcome, `names` of picks. `verifier_files` on a later line are files of the
verifier that have changed. A line that a killed process wrote in part is cut away. The file is locked while it is open.
"""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from typing_extensions import TypedDict

from harness.errors import HarnessError
from harness.system.json_text import parsed, shaped

KIND, VERSION = "harness verify", 1
FILES = "verifier_files"  # the digests of the files that the verifier's command names
POOL_FILE = "pool_file"  # in the first line: for messages; a file may be moved
PROBLEM = "problem"  # in the first line: what the only problem is called, whatever a file calls it
OF_FILE = "sha256:"  # begins the digest of vectors in journals of before; it was that of their file
RESTORE = "restore the file, or name another --journal"
TOO_LATE = "no end within"  # begins the reason of a check that took too long

Pick = tuple[str, int]
Outcome = Literal["correct", "wrong", "measured", "error", "skip"]


@dataclass(frozen=True)
class Check:
    """The outcome of verifying one response.

    outcome  "correct", "wrong", "measured" (a value alone), "error" (the verifier failed; it counts as a call), or
             "skip" (nobody could check it; no call)
    value    what the verifier measured; None if it measured nothing
    reason   of an error, one line
    name     what the response is called; "" if it has no name
    """

    problem_id: str
    index: int
    outcome: Outcome
    value: float | None = None
    reason: str = ""
    name: str = field(default="", compare=False)

    @property
    def line(self) -> dict[str, Any]:
        """The check as a line of the journal."""
        optional = {"value": self.value, "reason": self.reason or None, "name": self.name or None}
        line = {"problem_id": self.problem_id, "index": self.index, "outcome": self.outcome}
        return line | {name: value for name, value in optional.items() if value is not None}

    @property
    def is_call(self) -> bool:
        return self.outcome != "skip"

    def says_as(self, other: Check) -> bool:
        """Whether both say the same: a value is the same whatever threshold judged it."""
        return self.value == other.value and (self.value is not None or self.outcome == other.outcome)

    def is_success(self, threshold: float | None) -> bool:
        """Whether it is what is looked for: a value of at least the threshold, else the outcome "correct"."""
        return self.outcome == "correct" if threshold is None or self.value is None else self.value >= threshold

    @property
    def known(self) -> float | None:
        """What a selector that learns is told: the value, else 1.0 or 0.0; None after an error or a skip."""
        return {"correct": 1.0, "wrong": 0.0}.get(self.outcome) if self.value is None else self.value


def measured(problem_id: str, index: int, value: float, threshold: float | None) -> Check:
    """The check that gave a value; an error if the value is not finite."""
    if not math.isfinite(value):
        return Check(problem_id, index, "error", reason=f"the value {value} is not finite")
    outcome: Outcome = "measured" if threshold is None else "correct" if value >= threshold else "wrong"
    return Check(problem_id, index, outcome, value)


class _Line(TypedDict, total=False):
    """What a line that is no `Check` may hold; the first line holds other keys too."""

    journal: str
    verifier_files: dict[str, str]
    pool_file: str | None
    asked: list[list[str | int]]
    names: list[str]


class Journal:
    """An open journal; use it in a `with` block. `open` opens it again, and reads what was added.

    entries  what its lines held when it was opened: outcomes, and lists of picks that were given out
    remark   one line on what was recovered; "" if nothing was

    header      what the outcomes belong to
    sizes       problem id -> how many responses it has
    retry       errors are checked again, and files of the verifier may have changed
    patience_s  how long to wait for another process that uses the file
    """

    def __init__(
        self,
        path: Path,
        header: Mapping[str, Any],
        sizes: Mapping[str, int],
        retry: bool = False,
        patience_s: float = 0.0,
    ) -> None:
        self.path, self.remark = path, ""
        self.entries: list[Check | list[Pick]] = []
        self._header = {"journal": KIND, "version": VERSION, **header}
        self._sizes, self._retry, self._patience_s = sizes, retry, patience_s
        self._end, self._lines, self._inode = 0, 0, 0  # of what was read and written
        self.open()

    def open(self) -> None:
        """Open and lock the file; `entries` is then what was added since it was last open."""
        try:
            self._file = self.path.open("a+b", buffering=0)
        except OSError as failure:
            raise HarnessError(f"journal {self.path}: cannot be opened ({failure.strerror})") from None
        try:
            self._lock()
            self._read()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *failure: object) -> None:
        self._file.close()

    def write(self, *lines: Mapping[str, Any]) -> None:
        """Write lines to the disk, all or none."""
        content = "".join(json.dumps(line) + "\n" for line in lines).encode()
        end = self._file.seek(0, os.SEEK_END)
        try:
            if self._file.write(content) < len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file.fileno())
            self._end, self._lines = end + len(content), self._lines + len(lines)
        except OSError as failure:
            with suppress(OSError):
                self._file.truncate(end)  # no line may follow a part of one
            raise HarnessError(
                f"journal {self.path}: cannot be written ({failure.strerror}): make room and run the same command again"
            ) from failure

    def _lock(self) -> None:
        """Lock the file, if need be after waiting for it."""
        until = time.monotonic() + self._patience_s
        while True:
            try:
                return fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= until:
                    remedy = "wait until that has ended, or name another --journal"
                    raise HarnessError(f"journal {self.path}: another process uses it: {remedy}") from None
                time.sleep(0.01)
            except OSError:  # a disk without locks
                return

    def _read(self) -> None:
        """Read what was added, or begin the file."""
        status, header, self.entries = os.fstat(self._file.fileno()), self._header, []
        if self._end and (status.st_ino != self._inode or status.st_size < self._end):
            raise HarnessError(f"journal {self.path}: was replaced while it was in use: begin the search anew")
        self._inode, begun = status.st_ino, self._end
        self._file.seek(begun)
        whole, _, torn = self._file.read().rpartition(b"\n")
        if torn or not (whole or begun):
            self._file.truncate(begun + (len(whole) + 1 if whole else 0))
        if torn:
            self.remark = f"journal {self.path}: cut away the last line, which was written in part"
        if not whole and not begun:
            return self.write(header)
        files: dict[str, str] = {}
        for number, text in enumerate(whole.split(b"\n") if whole else (), self._lines + 1):
            where = f"journal {self.path}, line {number}"
            line = parsed(text, where, RESTORE)
            if number > 1 and not (isinstance(line, dict) and line.keys() & {"asked", FILES}):
                check = shaped(line, Check, where, RESTORE)
                _pick([check.problem_id, check.index], self._sizes, where)
                self.entries.append(check)
                continue
            other = shaped(line, _Line, where, RESTORE)
            files.update(other.get("verifier_files", {}))
            if number == 1:
                self._require_same(other, header)
            else:
                self.entries.append([_pick(pair, self._sizes, where) for pair in other.get("asked", ())])
        self._lines += whole.count(b"\n") + bool(whole)
        self._end = self._file.seek(0, os.SEEK_END)
        changed = {name: now for name, now in header.get(FILES, {}).items() if files.get(name, now) != now}
        if changed and not self._retry:
            raise HarnessError(
                f"journal {self.path}: {next(iter(changed))} has changed since: --journal NEW starts anew; "
                "--retry-errors keeps the outcomes, but checks again what ended in an error"
            )
        if changed:
            self.write({FILES: changed})

    def _require_same(self, begun: Mapping[str, Any], header: Mapping[str, Any]) -> None:
        if begun.get("journal") != KIND:
            raise HarnessError(f"journal {self.path}: is no journal of `harness verify`; {RESTORE}")
        changed = [
            name for name in header if name not in (FILES, POOL_FILE, PROBLEM) and begun.get(name) != header[name]
        ]
        for name in changed:
            was, now = repr(begun.get(name)), repr(header[name])
            if name == "pool" and begun.get(POOL_FILE):
                was, now = str(begun[POOL_FILE]), str(header.get(POOL_FILE))
                now = "other responses" if now == was else now
            raise HarnessError(
                f"journal {self.path}: is of another {name} ({was:.80}, now {now:.80}): "
                "name another --journal, or give the same options as before"
            )


def begun_by(path: Path) -> dict[str, Any]:
    """The first line of a journal; {} where there is none, or none that can be read: `Journal` says what is wrong."""
    with suppress(OSError, HarnessError), path.open("rb") as file:
        if isinstance(line := parsed(file.readline(), str(path)), dict):
            return line
    return {}


def read_journal(path: Path) -> tuple[dict[str, Any], list[Check | list[tuple[Pick, str]]]]:
    """The first line of a journal, and what its other whole lines hold: outcomes, and picks with their names.

    Nothing is locked or changed, and no pool is known. HarnessError for a file that is no journal.
    """
    try:
        whole = path.read_bytes().rpartition(b"\n")[0]
    except OSError as failure:
        raise HarnessError(f"journal {path}: cannot be read ({failure.strerror})") from None
    header, entries = begun_by(path), list[Check | list[tuple[Pick, str]]]()
    if header.get("journal") != KIND:
        raise HarnessError(f"journal {path}: is no journal of `harness verify`")
    for number, text in enumerate(whole.split(b"\n")[1:], 2):
        where = f"journal {path}, line {number}"
        line = parsed(text, where, RESTORE)
        if not (isinstance(line, dict) and line.keys() & {"asked", FILES}):
            entries.append(shaped(line, Check, where, RESTORE))
            continue
        picks = [(str(name), int(index)) for name, index in shaped(line, _Line, where, RESTORE).get("asked", ())]
        entries.append(list(zip(picks, line.get("names") or [""] * len(picks), strict=True)))
    return header, entries


def _pick(pair: Sequence[Any], sizes: Mapping[str, int], where: str) -> Pick:
    name, index = pair if len(pair) == 2 else ("", None)
    if name not in sizes or type(index) is not int or not 0 <= index < sizes[name]:
        raise HarnessError(f"{where}: {pair!r:.80} is no response of the pool")
    return name, index
