"""A pool's shards by problem id.

A shard's name holds a hash of the reference, which the store does not keep, so names are read from the shards of
responses, which say whose they are: no task is needed, and no data set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .. import store
from ..records import Floats, Pool, Problem
from ..store import Stage
from ..work import centred
from .chosen import Cell

SUFFIXES = {"pool": ".parquet", "embedding": ".safetensors", "verdict": ".parquet", "ranking": ".json"}


@dataclass(frozen=True)
class NamedStage(Stage):
    """A stage whose shards are found by problem id. `stems`: problem id -> the shard's name without suffix."""

    stems: Mapping[str, str] = field(default_factory=dict)

    def path(self, problem: Problem) -> Path:
        """Where the problem's shard is."""
        return self.folder / f"{self.stems[problem.id]}{self.suffix}"


@dataclass(frozen=True)
class Shards:
    """The shards of one pool: the problems that have one, and their names."""

    root: Path
    problems: Mapping[str, Problem]
    stems: Mapping[str, str]

    def stage(self, kind: str, key: str) -> NamedStage:
        """One stage over the pool."""
        return NamedStage(self.root / kind / key, key, SUFFIXES[kind], {}, self.stems)

    def pool(self, cell: Cell, problem: Problem, n: int) -> Pool:
        """The pool of n responses as the cell's selector saw it."""
        responses = store.read_responses(self.stage("pool", cell.pool), problem)
        verdicts = self.stage("verdict", cell.stage("verdict")["key"])
        return Pool(
            texts=responses.texts[:n],
            embeddings=centred(self.vectors(cell.stage("embedding").get("key"), problem, n)),
            logprobs=responses.logprobs[:n],
            lengths=responses.lengths[:n],
            answers=store.read_answers(verdicts, problem)[:n],
        )

    def vectors(self, key: str | None, problem: Problem, n: int) -> Floats:
        """The first n vectors (n, d) of that embedding, not centred; (n, 0) without one."""
        if key is None:
            return np.zeros((n, 0), np.float32)
        return store.read_vectors(self.stage("embedding", key), problem)[:n]

    def verdicts(self, cell: Cell, problem: Problem, n: int) -> list[str]:
        """The first n verdicts."""
        return store.read_verdicts(self.stage("verdict", cell.stage("verdict")["key"]), problem)[:n]

    def ranking(self, cell: Cell, problem: Problem) -> dict[str, Any]:
        """The cell's ranking of the problem as stored: kind, n, trials."""
        found: dict[str, Any] = store.read_json(self.stage("ranking", cell.stage("ranking")["key"]).path(problem))
        return found


def find_shards(root: Path, cells: Sequence[Cell], ids: Sequence[str]) -> Shards:
    """The shards of those problems that have all that the cells were made from."""
    first = cells[0]
    folder, verdicts = root / "pool" / first.pool, root / "verdict" / first.stage("verdict")["key"]
    wanted = {store.storable(problem_id): problem_id for problem_id in ids}
    needed = [root / "ranking" / cell.stage("ranking")["key"] for cell in cells]
    problems, stems = {}, {}
    for path in sorted(folder.glob("*.parquet")):
        there = (verdicts / path.name).exists() and all((one / f"{path.stem}.json").exists() for one in needed)
        about = store.about_shard(path) if there else {}
        if about.get("problem_id") in wanted:
            own = wanted[about["problem_id"]]
            problems[own], stems[own] = Problem(own, about["prompt"]), path.stem
    return Shards(root, problems, stems)
