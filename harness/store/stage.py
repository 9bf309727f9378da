"""The content-addressed store: each result is kept under the hash of the inputs that made it.

    STORE/pool/KEY/PROBLEM.parquet            texts, token ids, token counts, log-probabilities, finish reasons
    STORE/embedding/KEY/PROBLEM.safetensors   vectors (n, d) float32, projected, not centred
    STORE/score/KEY/PROBLEM.parquet           scores of a reward model
    STORE/verdict/KEY/PROBLEM.parquet         verdict, reason, route, canonical answer
    STORE/measure/KEY/PROBLEM.parquet         hash of a response, its measurements: shared by all pools and thresholds
    STORE/graded/KEY/PROBLEM.parquet          hash of what a verdict depends on, verdict: shared by all pools
    STORE/answer/KEY/PROBLEM.parquet          hash of a response, the answer that running it gave: shared by all pools
    STORE/audit/KEY/PROBLEM.json              a second grader's verdicts
    STORE/chance/KEY/PROBLEM.json             how many gradings against other problems' references were correct
    STORE/ranking/KEY/PROBLEM.json            per trial the indices up to where they were pulled
    STORE/cells/KEY.json                      one cell: all values from which a row of the table is computed
    STORE/pool/KEY/spent.ID.json              what a run, or a batch, paid a server for the pool (engine `openai`)
    STORE/pool/KEY/HASH.paid.jsonl            responses to one problem that are paid for and not in its shard yet
    STORE/.lock                               held by the processes that use the store (`in_use`)

KEY is the hash of the canonical JSON of the inputs, which are in `manifest.json` beside the shards. A shard is written
under a temporary name and then renamed, so it exists complete or not at all, and a killed run continues where it
stopped. A shard holds a checksum and its place in the store (`checksums`); every read checks both.
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

from . import in_use
from .keys import digest, shard_name
from .versions import versioned


@dataclass(frozen=True)
class Stage:
    """One folder of shards, one file per problem, all made from the same inputs. `begin` creates the folder."""

    folder: Path
    key: str
    suffix: str
    inputs: Mapping[str, Any]

    def begin(self) -> None:
        """Create the folder and its manifest, and remove temporary files that killed writers left.

        From now on this process uses the store (`in_use`).
        """
        in_use.use(self.folder.parents[1])
        manifest = self.folder / "manifest.json"
        with disk_errors(manifest):
            if not manifest.exists():
                write_atomically(manifest, (json.dumps(self.inputs, indent=1, sort_keys=True) + "\n").encode())
            _sweep(self.folder)

    def path(self, problem: Problem) -> Path:
        """The path of the problem's shard, whether or not it exists yet."""
        return self.folder / f"{shard_name(problem)}{self.suffix}"

    def missing(self, problems: Sequence[Problem]) -> list[Problem]:
        """The problems without a shard, in order; lists the folder once."""
        with disk_errors(self.folder):
            existing = {entry.name for entry in os.scandir(self.folder)} if self.folder.is_dir() else set()
        return [problem for problem in problems if f"{shard_name(problem)}{self.suffix}" not in existing]


class Store:
    """The folder that holds all stages; created when the first stage begins."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)

    def stage(self, kind: str, inputs: Mapping[str, Any], suffix: str) -> Stage:
        """The stage of these inputs; creates nothing on the disk.

        kind    one of `versions.STAGES`, such as "pool"
        suffix  of the shards' files, with the dot
        """
        inputs = versioned(kind, inputs)
        key = digest({"stage": kind, **inputs})
        return Stage(self.root / kind / key, key, suffix, inputs)

    @property
    def cells(self) -> Path:
        """The folder of cells, one file each."""
        return self.root / "cells"


def _sweep(folder: Path) -> None:
    """Remove what killed writers of this machine left behind (temporary files whose process is gone)."""
    prefix = f".{platform.node()}-"
    for leftover in folder.glob(".*.tmp"):
        pid = leftover.name.removeprefix(prefix).split(".")[0]
        if leftover.name.startswith(prefix) and pid.isdigit() and not _alive(int(pid)):
            with suppress(OSError):  # the store may be read-only
                leftover.unlink()


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
