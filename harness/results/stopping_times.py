"""Runs that stopped at the first correct response: their files, and the row that is computed from them.

    STORE/sequences/KEY.json   one run of `harness run --until-correct`: a line a problem, and all inputs of the run

Such runs are scored by Kaplan and Meier's estimate (`scoring.survival`), kept apart from cells, and never averaged with
them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import HarnessError
from harness.scoring.metrics import budgets
from harness.scoring.survival import Survival, kaplan_meier
from harness.system import json_text
from harness.system.files import write_atomically

from . import cells

KIND, SCHEMA = "diversity-harness sequence", 1
FOLDER = cells.SEQUENCES

Record = dict[str, Any]


def write(root: Path, record: Record) -> None:
    """Set the record's "checksum", and write the record into the store at `root`."""
    record["checksum"] = cells.checksum(record)
    content = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_atomically(root / FOLDER / f"{cells.key_of(record)}.json", content.encode())


def read(path: Path) -> Record:
    """The record in a file; HarnessError if the file holds none, or was edited."""
    record: Record = json_text.read(path, "sequence")
    if not isinstance(record, dict) or record.get("kind") != KIND or record.get("schema") != SCHEMA:
        raise HarnessError(
            f"sequence {path}: is no sequence of schema {SCHEMA} (`harness run --until-correct` makes them)"
        )
    if not isinstance(record.get("problems"), list) or record.get("checksum") != cells.checksum(record):
        raise HarnessError(f"sequence {path}: was edited or cut after it was measured; run it again")
    return record


def row(records: Sequence[Record]) -> dict[str, Any]:
    """Compute one row, as a dict, from the records of runs that differ only in their seeds.

    The sequences of one problem are one cluster. A share or mean at a budget is None where the curve does not reach it.
    """
    entries = [entry for record in records for entry in record["problems"]]
    curve, n = survival_of(records), max(record["budget"] for record in records)
    solved = {str(k): curve.solved(k) or (None, None) for k in budgets(n)}
    means = {str(k): curve.restricted_mean(k) or (None, None) for k in budgets(n)}
    return {
        **records[0]["labels"],
        "seed": records[0]["labels"]["seed"] if len(records) == 1 else None,
        "seeds": [record["labels"]["seed"] for record in records],
        "n": n,
        "problems": len({entry["id"] for entry in entries}),
        "sequences": len(entries),
        "solved": sum(entry["solved"] for entry in entries),
        "censored": sum(not entry["solved"] for entry in entries),
        "responses": sum(entry["time"] for entry in entries),
        "tokens": sum(entry["tokens"] for entry in entries),
        "errors": sum(entry["errors"] for entry in entries),
        "share_solved": {k: share for k, (share, _) in solved.items()},
        "share_solved_se": {k: error for k, (_, error) in solved.items()},
        "restricted_mean": {k: mean for k, (mean, _) in means.items()},
        "restricted_mean_se": {k: error for k, (_, error) in means.items()},
    }


def survival_of(records: Iterable[Record]) -> Survival:
    """Kaplan and Meier's estimate from all sequences of the records."""
    entries = [(entry["time"], entry["solved"], entry["id"]) for record in records for entry in record["problems"]]
    times, solved, ids = zip(*entries, strict=True)
    return kaplan_meier(np.array(times), solved, ids)
