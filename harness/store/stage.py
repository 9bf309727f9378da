"""The content-addressed store: what was made, under the hash of what made it.

    STORE/pool/KEY/PROBLEM.parquet            texts, token ids, token counts, log-probabilities, finish reasons
    STORE/embedding/KEY/PROBLEM.safetensors   vectors (n, d) float32, projected, not centred
    STORE/verdict/KEY/PROBLEM.parquet         verdict, reason, route, canonical answer
    STORE/measure/KEY/PROBLEM.parquet         hash of a response, its figures: shared by all pools and thresholds
    STORE/graded/KEY/PROBLEM.parquet          hash of what a verdict depends on, verdict: shared by all pools
    STORE/audit/KEY/PROBLEM.json              a second grader's verdicts
    STORE/chance/KEY/PROBLEM.json             how many gradings against other problems' references were correct
    STORE/ranking/KEY/PROBLEM.json            per trial the indices as far as they were pulled
    STORE/cells/KEY.json                      one cell: all that a row of the table is computed from

KEY is the hash of the canonical JSON of the inputs, which stand in `manifest.json` beside the shards. A shard is
written under a temporary name and renamed, so it is there whole or not at all; a killed run goes on where it stopped.
It carries a checksum and its place in the store (`checksums`), which are looked at whenever it is read.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.records import Problem

from .keys import digest, shard_name
from .versions import versioned

READ_ONLY = (errno.EACCES, errno.EROFS, errno.EPERM)


@dataclass(frozen=True)
class Stage:
    """One folder of shards: what one set of inputs made, a file a problem. Touches no disk until `begin`."""

    folder: Path
    key: str
    suffix: str
    inputs: Mapping[str, Any]

    def begin(self) -> None:
        """Make the folder and its manifest, and sweep away what killed writers left."""
        manifest = self.folder / "manifest.json"
        with disk_errors(manifest):
            if not manifest.exists():
                write_atomically(manifest, (json.dumps(self.inputs, indent=1, sort_keys=True) + "\n").encode())
            _sweep(self.folder)

    def path(self, problem: Problem) -> Path:
        """Where the problem's shard is, or will be."""
        return self.folder / f"{shard_name(problem)}{self.suffix}"

    def missing(self, problems: Sequence[Problem]) -> list[Problem]:
        """The problems without a shard, in order; one listing of the folder, however many there are."""
        with disk_errors(self.folder):
            there = {entry.name for entry in os.scandir(self.folder)} if self.folder.is_dir() else set()
        return [problem for problem in problems if f"{shard_name(problem)}{self.suffix}" not in there]


class Store:
    """The folder that holds it all; made when the first shard is."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)

    def stage(self, kind: str, inputs: Mapping[str, Any], suffix: str) -> Stage:
        """The stage of that kind for those inputs."""
        inputs = versioned(kind, inputs)
        key = digest({"stage": kind, **inputs})
        return Stage(self.root / kind / key, key, suffix, inputs)

    @property
    def cells(self) -> Path:
        """Where cells are, a file each."""
        return self.root / "cells"


# Files written whole or not at all.


def write_atomically(path: Path, content: bytes, durable: bool = False) -> None:
    """Write whole or not at all; `durable` waits for the disk (for what was expensive to make)."""
    write_parts(path, [content], durable)


def write_parts(path: Path, parts: Iterable[bytes | memoryview | Path], durable: bool = False) -> None:
    """The same for a content in parts, some of them files."""
    temporary = temporary_name(path, os.getpid())
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(temporary, "wb") as file:
                for part in parts:
                    if isinstance(part, Path):
                        with open(part, "rb") as source:
                            shutil.copyfileobj(source, file)
                    else:
                        file.write(part)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def temporary_name(path: Path, pid: int) -> Path:
    """Where a process of this machine writes a file before it is renamed; stores may be shared between machines."""
    return path.with_name(f".{platform.node()}-{pid}.{path.name}.tmp")


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """A full or read-only disk, or a place where nothing can be made, as one line."""
    try:
        yield
    except OSError as failure:
        if failure.errno in (errno.ENOSPC, errno.EDQUOT):
            raise HarnessError(
                f"store: no space left on the disk of {path.parent}: make room and run the same command again; "
                "finished problems are kept"
            ) from failure
        raise HarnessError(f"store: cannot write {path}: {failure.strerror}; choose another --store") from failure


def _sweep(folder: Path) -> None:
    """Remove what killed writers of this machine left behind (temporary files whose process is gone)."""
    mine = f".{platform.node()}-"
    for leftover in folder.glob(".*.tmp"):
        pid = leftover.name.removeprefix(mine).split(".")[0]
        if leftover.name.startswith(mine) and pid.isdigit() and not _alive(int(pid)):
            with suppress(OSError):  # a store that is only read
                leftover.unlink()


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
