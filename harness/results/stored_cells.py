"""Read from a store what a cell was made from: pool, vectors, verdicts, ranking; rebuild its selector.

A shard's name holds a hash of the problem's reference, which the store does not keep. So names are read from the shards
of responses, which hold the problem's id: neither the task nor its data set is needed. A stored ranking ends at the
first correct response. To continue it, `rebuilt` builds the selector again, and `picks` ranks with the trial's own
random stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from harness.contracts import LearnsFromOutcomes
from harness.errors import HarnessError, contained
from harness.plugin_system.component import build, described, parse_spec
from harness.plugin_system.picks import picked
from harness.plugin_system.registry import Registry
from harness.records import Floats, Pool, Problem, Responses
from harness.results import cells
from harness.stages.rank import centred, pool_of, ranking_named
from harness.stages.response_scores import read_scores
from harness.stages.work import one_thread, ranking_rng
from harness.store import shard_files, shards
from harness.store.json_files import read_record
from harness.store.keys import storable
from harness.store.stage import Stage

SUFFIXES = {kind: shard_files.SUFFIXES[kind] for kind in ("pool", "embedding", "score", "verdict", "ranking")}


def key_of(cell: Mapping[str, Any], kind: str) -> str | None:
    """The key of the cell's stage `kind` ("pool", "ranking", ...); None for "embedding" if its selector reads none."""
    stage = cell["inputs"].get(kind)
    return stage and str(stage["key"])


def first_reason(root: Path, cell: str) -> str:
    """The reason of the first verdict that has one, of the cell with this key in the store; "" if it is not there."""
    path = root / "cells" / f"{cell}.json"
    verdicts = (
        root / "verdict" / str(cells.read(path)["inputs"]["verdict"]["key"]) if path.exists() else root / "absent"
    )
    for shard in sorted(verdicts.glob("*.parquet")):
        if reason := next((each.reason for each in shards.read_full_verdicts(shard)[0] if each.reason), ""):
            return reason
    return ""


@dataclass(frozen=True)
class _Named(Stage):
    """A stage from which one shard is read, by its file name without suffix."""

    name: str = ""

    def path(self, problem: Problem) -> Path:
        """The path of the named shard, whatever the problem."""
        return self.folder / f"{self.name}{self.suffix}"


@dataclass(frozen=True)
class StoredProblem:
    """One problem of a stored pool, and readers of what the stages stored about it.

    root     the store's folder
    problem  its id and prompt; the store does not keep the reference
    name     the file name, without suffix, of its shard in every stage
    """

    root: Path
    problem: Problem
    name: str

    def _stage(self, cell: Mapping[str, Any], kind: str) -> Stage:
        key = key_of(cell, kind) or ""
        return _Named(self.root / kind / key, key, SUFFIXES[kind], {}, self.name)

    def has(self, cell: Mapping[str, Any], kind: str) -> bool:
        """Whether the store still has this problem's shard of the cell's stage `kind` ("pool", "ranking", ...)."""
        return self._stage(cell, kind).path(self.problem).exists()

    def responses(self, cell: Mapping[str, Any]) -> Responses:
        """All responses to the problem, without states."""
        return shards.read_responses(self._stage(cell, "pool").path(self.problem))

    def vectors(self, cell: Mapping[str, Any], n: int) -> Floats:
        """The first n vectors (n, d) that the cell's selector read, not centred; (n, 0) if it reads none."""
        if key_of(cell, "embedding") is None:
            return np.zeros((n, 0), np.float32)
        vectors = shards.read_vectors(self._stage(cell, "embedding").path(self.problem))
        self._require(cell, "embedding", len(vectors), n)
        return vectors[:n]

    def scores(self, cell: Mapping[str, Any], n: int, responses: Responses) -> dict[str, Floats]:
        """The scores of the first n responses: those that the pool brings, and those of the cell's scorer, by name."""
        scores = dict(responses.scores)
        if key_of(cell, "score") is not None:
            scores |= read_scores(self._stage(cell, "score"), self.problem, len(responses))
        return {name: values[:n] for name, values in scores.items()}

    def verdicts(self, cell: Mapping[str, Any], n: int) -> list[str]:
        """The first n verdicts: "correct", "wrong" or "error"."""
        verdicts = shards.read_verdicts(self._stage(cell, "verdict").path(self.problem))
        self._require(cell, "verdict", len(verdicts), n)
        return verdicts[:n]

    def _require(self, cell: Mapping[str, Any], kind: str, rows: int, n: int) -> None:
        """Raise HarnessError if a shard has fewer rows than the cell was made from."""
        shards.require_rows(self._stage(cell, kind).path(self.problem), rows, max(n, rows))

    def ranking(self, cell: Mapping[str, Any]) -> dict[str, Any]:
        """This problem's ranking by the cell's selector, as stored: its kind (order or subset), n and trials."""
        return read_record(self._stage(cell, "ranking").path(self.problem))

    def pool(self, cell: Mapping[str, Any], n: int, responses: Responses | None = None) -> Pool:
        """The first n responses as the cell's selector saw them. `responses`: pass them if they were already read."""
        responses = self.responses(cell) if responses is None else responses
        answers = shards.read_answers(self._stage(cell, "verdict").path(self.problem))
        self._require(cell, "pool", len(responses), n)
        self._require(cell, "verdict", len(answers), n)
        return pool_of(
            f"store {self.root}, problem {self.problem.id!r}",
            texts=responses.texts[:n],
            embeddings=centred(self.vectors(cell, n)),
            logprobs=responses.logprobs[:n],
            lengths=responses.lengths[:n],
            answers=answers[:n],
            scores=self.scores(cell, n, responses),
        )


def stored_problems(root: Path, cell: Mapping[str, Any]) -> dict[str, StoredProblem]:
    """The cell's problems whose responses are in the store, by id, in the cell's order."""
    stored = {}
    for path in sorted((root / "pool" / str(key_of(cell, "pool"))).glob("*.parquet")):
        about = shards.read_about(path)
        stored[about["problem_id"]] = about["prompt"], path.stem
    problems = {}
    for entry in cell["problems"]:
        if (stored_id := storable(entry["id"])) in stored:
            prompt, name = stored[stored_id]
            problems[entry["id"]] = StoredProblem(root, Problem(entry["id"], prompt), name)
    return problems


def rebuilt(registry: Registry, cell: Mapping[str, Any]) -> Any:
    """Build the selector that made the cell; None if another version of it is installed.

    HarnessError if it is not installed.
    """
    spec = cell["labels"]["selector"]
    selector = build(registry, "selector", spec)
    now = described(registry.find("selector", parse_spec(spec).name), selector)
    return selector if now == cell["inputs"]["ranking"]["selector"] else None


def picks(selector: Any, cell: Mapping[str, Any], pool: Pool, problem: Problem, trial: int, most: int) -> list[int]:
    """The first `most` picks of one of the cell's trials (fewer if the ranking ends), each index checked.

    A selector is third-party code: any exception it raises passes through. HarnessError for one that learns: its picks
    depend on outcomes.
    """
    labels = cell["labels"]
    if isinstance(selector, LearnsFromOutcomes):
        raise HarnessError(f"selector {labels['selector']!r} learns from outcomes: it has no order without them")
    with contained(), one_thread(labels["selector"]), ranking_named(labels["selector"], problem):
        ranking = selector.rank(pool, ranking_rng(labels["seed"], problem, trial))
        return list(islice(picked(ranking, len(pool)), most))
