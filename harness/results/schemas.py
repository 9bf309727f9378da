"""JSON Schemas of what the harness writes for other programs: a cell, a row, the output of `harness select`.

They are generated from the types below and from `Row`, and are kept in docs/schemas/; a test compares them.
`python -m harness.results.schemas FOLDER` writes them again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NotRequired

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from .rows import Row


class CellProblem(TypedDict):
    """One problem of a cell: N, c, verifier errors; per trial the rank and the order, or the hits of subsets.

    maj_at_k and best_of_k (by name of a score) are of the pool, by budget; the first only if a response has an answer.
    A problem of a failed cell has only its id.
    """

    id: str
    n: NotRequired[int]
    c: NotRequired[int]
    errors: NotRequired[int]
    disputed: NotRequired[int | None]
    routes: NotRequired[dict[str, int]]
    chance: NotRequired[list[int]]
    maj_at_k: NotRequired[dict[str, float]]
    best_of_k: NotRequired[dict[str, dict[str, float]]]
    answering: NotRequired[list[float]]
    ranks: NotRequired[list[int]]
    orders: NotRequired[list[list[int]]]
    hits: NotRequired[dict[str, list[bool]]]


class CellLabels(TypedDict):
    """What was run together, by name; as in `Row`."""

    task: str
    split: str
    model: str
    engine: str
    sampler: str
    embedder: str
    selector: str
    trials: int
    seed: int


class CellPool(TypedDict):
    """What made the pool; its other entries depend on where the responses come from."""

    key: str
    n: NotRequired[int | None]
    task: NotRequired[str | dict[str, Any] | None]
    revision: NotRequired[str | None]


class CellVerdict(TypedDict):
    """What graded the responses; `given`: the maker of the pool did."""

    given: bool
    task: NotRequired[str | None]
    grader: NotRequired[str | None]


class CellSelector(TypedDict):
    """The selector, known by the hash of its code."""

    name: str
    params: dict[str, Any]
    dist: str
    code: str


class CellRanking(TypedDict):
    """What ranked the pool."""

    n: int | None
    selector: CellSelector
    learns: NotRequired[bool]


class CellInputs(TypedDict):
    """The inputs of every stage, whose hash is the cell's name."""

    pool: CellPool
    verdict: CellVerdict
    ranking: CellRanking
    embedding: NotRequired[dict[str, Any]]
    score: NotRequired[dict[str, Any]]


class CellWeights(TypedDict):
    """A model's weights."""

    is_random: bool


class CellFile(TypedDict):
    """A cell: one task, model, sampler, embedder and selector that were run together, in raw outcomes."""

    kind: str
    schema: int
    labels: CellLabels
    grader: NotRequired[str]
    inputs: CellInputs
    config: NotRequired[dict[str, Any]]
    versions: dict[str, str]
    hardware: dict[str, Any]
    weights: NotRequired[list[CellWeights]]
    conditions: NotRequired[dict[str, list[str]]]
    disputed: NotRequired[int | None]
    failed: NotRequired[str]
    checksum: str
    problems: list[CellProblem]


class Badge(TypedDict):
    """What the conformance kit says of a selector: how many checks pass, and the messages of those that fail."""

    selector: NotRequired[dict[str, Any]]
    kit: NotRequired[str]
    passed: int
    failed: list[str]


class SelectedProblem(TypedDict):
    """What to verify next of one problem: indices, best first if `ordered`; names if the responses have any."""

    problem_id: str
    order: list[int]
    ordered: bool
    names: NotRequired[list[str]]


TYPES: dict[str, Any] = {"cell": CellFile, "row": Row, "selected": SelectedProblem}


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema of one of `TYPES`, by its name: "cell", "row" or "selected"."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **TypeAdapter(TYPES[name]).json_schema()}


def text(name: str) -> str:
    """The text of the schema's file."""
    return json.dumps(schema(name), indent=1) + "\n"


if __name__ == "__main__":
    for kind in TYPES:
        Path(sys.argv[1], f"{kind}.json").write_text(text(kind), encoding="utf-8")
