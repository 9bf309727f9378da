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
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from typing_extensions import TypedDict

from harness.errors import HarnessError
from harness.system.json_text import parsed, shaped

from .check import OUTCOMES, Check

KIND, VERSION = "harness verify", 1
FILES = "verifier_files"  # the digests of the files that the verifier's command names
POOL_FILE = "pool_file"  # in the first line: for messages; a file may be moved

RESTORE = "restore the file, or name another --journal"

Pick = tuple[str, int]


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
        self.path, self.remark = path, ""
        self.checks: dict[str, dict[int, Check]] = {name: {} for name in sizes}
        self.failed: dict[str, list[Check]] = {name: [] for name in sizes}
        self.asked: list[Pick] = []
        self._files: dict[str, str] = {}
        self.row = 0
        self._file = _opened(path)
        try:
            self._read({"journal": KIND, "version": VERSION, **header}, sizes)
            self._compare_files(header.get(FILES, {}), retry)
            if retry:
                self._forget_errors()
        except BaseException:
            self._file.close()
            raise

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

    def _forget_errors(self) -> None:
        """Take the responses whose check ended in an error as not verified; their lines stay in the file."""
        self.row = 0
        for name, checks in self.checks.items():
            for check in [check for check in checks.values() if check.outcome == "error"]:
                self.failed[name].append(checks.pop(check.index))

    def _compare_files(self, now: Mapping[str, str], retry: bool) -> None:
        """Refuse files of the verifier that have changed; with `retry` write down that they have."""
        changed = {name: digest for name, digest in now.items() if self._files.get(name, digest) != digest}
        if changed and not retry:
            raise HarnessError(
                f"journal {self.path}: {next(iter(changed))} has changed since: --journal NEW starts anew; "
                "--retry-errors keeps the outcomes, but checks again what ended in an error"
            )
        if changed:
            self._write([{FILES: changed}])

    def _count(self, check: Check) -> None:
        before = self.checks[check.problem_id].pop(check.index, None)
        if before and before.outcome == "error":
            self.failed[check.problem_id].append(before)
        self.row = self.row + 1 if check.outcome == "error" else 0
        self.checks[check.problem_id][check.index] = check
        self.asked = [pick for pick in self.asked if pick != (check.problem_id, check.index)]

    def _write(self, lines: Sequence[Mapping[str, Any]]) -> None:
        content = "".join(json.dumps(line, ensure_ascii=True) + "\n" for line in lines).encode()
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

    def _read(self, header: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
        whole, _, torn = self._file.read().rpartition(b"\n")
        if torn or not whole:
            self._file.truncate(len(whole) + 1 if whole else 0)
        if torn:
            self.remark = f"journal {self.path}: cut away the last line, which was written in part"
        self._file.seek(0, os.SEEK_END)
        first, *lines = whole.split(b"\n")
        if not first:
            self._write([header])
            return
        begun = self._parsed(first, 1)
        _require_same(begun, header, self.path)
        self._files.update(begun.get(FILES, {}))  # none in a journal of an older version
        for number, line in enumerate(lines, 2):
            self._take(self._parsed(line, number), sizes, f"journal {self.path}, line {number}")

    def _take(self, line: Mapping[str, Any], sizes: Mapping[str, int], where: str) -> None:
        if "asked" in line:
            self.asked += [_pick(each, sizes, where) for each in line["asked"]]
            return
        if FILES in line:
            self._files.update(line[FILES])
            return
        name, index = _pick((line.get("problem_id"), line.get("index")), sizes, where)
        outcome, value = line.get("outcome"), line.get("value")
        if outcome not in OUTCOMES:
            raise HarnessError(f"{where}: no outcome of a response; {RESTORE}")
        self._count(Check(name, index, outcome, None if value is None else float(value), line.get("reason", "")))

    def _parsed(self, line: bytes, number: int) -> Mapping[str, Any]:
        where = f"journal {self.path}, line {number}"
        value = shaped(parsed(line, where, RESTORE), _Line, where, RESTORE)
        if number == 1 and value.get("journal") != KIND:
            raise HarnessError(f"journal {self.path}: is no journal of `harness verify`; {RESTORE}")
        return value


def _opened(path: Path) -> IO[bytes]:
    """The file, made if need be, and locked for this process alone."""
    try:
        is_new = not path.exists()
        if not is_new and not stat.S_ISREG(path.stat().st_mode):
            raise HarnessError(f"journal {path}: is no file; name another --journal")
        file = path.open("a+b" if is_new else "r+b", buffering=0)
        if is_new:
            _sync_folder(path)
    except OSError as failure:
        raise HarnessError(f"journal {path}: cannot be opened ({failure.strerror})") from None
    try:
        with suppress(OSError):  # a disk without locks
            _lock(file, path)
    except HarnessError:
        file.close()
        raise
    file.seek(0)
    return file


def _lock(file: IO[bytes], path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise HarnessError(
            f"journal {path}: another process uses it: wait until that has ended, or name another --journal"
        ) from None


def _sync_folder(path: Path) -> None:
    """Wait until the disk knows the new file's name."""
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def _require_same(found: Mapping[str, Any], header: Mapping[str, Any], path: Path) -> None:
    for name, value in header.items():
        if name in (FILES, POOL_FILE) or found.get(name) == value:
            continue
        was, now = f"{found.get(name)!r:.80}", f"{value!r:.80}"
        if name == "pool" and found.get(POOL_FILE):
            was, now = str(found[POOL_FILE]), str(header.get(POOL_FILE))
            now = "other responses" if now == was else now
        raise HarnessError(
            f"journal {path}: is of another {name} ({was}, now {now}): "
            "name another --journal, or give the same options as before"
        )


def _pick(pair: Sequence[Any], sizes: Mapping[str, int], where: str) -> Pick:
    """A problem's id and an index; HarnessError unless the pool has them."""
    if len(pair) == 2:
        name, index = pair
        if isinstance(name, str) and name in sizes and type(index) is int and 0 <= index < sizes[name]:
            return name, index
    raise HarnessError(f"{where}: {pair!r:.80} is no response of the pool")
