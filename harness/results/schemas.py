"""JSON Schemas of what the harness writes for other programs: a cell, a row, the output of `harness select`.

They are generated from types, and are kept in docs/schemas/; a test compares them.
`python -m harness.results.schemas FOLDER` writes them again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NotRequired

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from .cells import CellFile
from .rows import Row


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
