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
from harness.system.files import read_regular, write_atomically
from harness.system.hashing import digest
from harness.system.json_text import parsed

from . import cells

KIND, SCHEMA = "diversity-harness sequence", 1
FOLDER = cells.SEQUENCES

Record = dict[str, Any]


def write(root: Path, record: Record) -> None:
    """Set the record's "checksum", and write the record into the store at `root`."""
    key = digest({**record["inputs"], "problems": [entry["id"] for entry in record["problems"]]})
    record["checksum"] = cells.checksum(record)
    content = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_atomically(root / FOLDER / f"{key}.json", content.encode())


def read(path: Path) -> Record:
    """The record in a file; HarnessError if the file holds none, or was edited."""
    try:
        content = read_regular(path)
    except (HarnessError, OSError) as failure:
        raise HarnessError(f"sequence {path}: cannot be read ({type(failure).__name__})") from None
    record: Record = parsed(content, f"sequence {path}")
    if not isinstance(record, dict) or record.get("kind") != KIND or record.get("schema") != SCHEMA:
        raise HarnessError(
            f"sequence {path}: is no sequence of schema {SCHEMA} (`harness run --until-correct` makes them)"
        )
    if record.get("checksum") != cells.checksum(record):
        raise HarnessError(f"sequence {path}: was edited or cut after it was measured; run it again")
    return record


def row(records: Sequence[Record]) -> dict[str, Any]:
    """Compute one row, as a dict, from the records of runs that differ only in their seeds.

    The sequences of one problem are one cluster. A share or mean at a budget is None where the curve does not reach it.
    """
    entries = [(entry, record) for record in records for entry in record["problems"]]
    curve = survival_of(records)
    ks = budgets(max(record["budget"] for record in records))
    solved = {str(k): curve.solved(k) for k in ks}
    means = {str(k): curve.restricted_mean(k) for k in ks}
    return {
        **records[0]["labels"],
        "seed": records[0]["labels"]["seed"] if len(records) == 1 else None,
        "seeds": [record["labels"]["seed"] for record in records],
        "n": max(record["budget"] for record in records),
        "problems": len({entry["id"] for entry, _ in entries}),
        "sequences": len(entries),
        "solved": sum(entry["solved"] for entry, _ in entries),
        "censored": sum(not entry["solved"] for entry, _ in entries),
        "responses": sum(entry["time"] for entry, _ in entries),
        "tokens": sum(entry["tokens"] for entry, _ in entries),
        "errors": sum(entry["errors"] for entry, _ in entries),
        "share_solved": _part(solved, 0),
        "share_solved_se": _part(solved, 1),
        "restricted_mean": _part(means, 0),
        "restricted_mean_se": _part(means, 1),
    }


def survival_of(records: Iterable[Record]) -> Survival:
    """Kaplan and Meier's estimate from all sequences of the records."""
    entries = [(entry["time"], entry["solved"], entry["id"]) for record in records for entry in record["problems"]]
    times, solved, ids = zip(*entries, strict=True)
    return kaplan_meier(np.array(times), solved, ids)


def _part(estimates: dict[str, tuple[float, float] | None], place: int) -> dict[str, float | None]:
    return {k: None if both is None else both[place] for k, both in estimates.items()}
