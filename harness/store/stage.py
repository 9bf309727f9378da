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

import json
import os
import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.records import Problem
from harness.system.files import disk_errors, write_atomically

from .keys import digest, shard_name
from .versions import versioned


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
