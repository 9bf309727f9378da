"""Runs that stopped at the first correct response: their files, the Kaplan-Meier estimate, and the row made from it.

    STORE/sequences/KEY.json   one run of `harness run --until-correct`: a line a problem, and all inputs of the run

Sequences and cells are never averaged together (docs/engines.md). A sequence without a correct response when its budget
ends is *censored*: only a lower bound of its stopping time is known. It counts as at risk up to that call and not
afterwards (Kaplan and Meier, JASA 53, 1958). Times are whole verifier calls, 1 = the first response; S(k) is the
probability of no correct response in k calls, and

    share solved within k = 1 − S(k),    restricted mean at k = E min(T, k + 1) = S(0) + ... + S(k)

the latter being the calls used when stopping after k, and one more if none was correct.

Standard errors come from the infinitesimal jackknife, summed over each problem first, since several seeds on one
problem are not independent. Where each sequence is its own cluster they equal Greenwood's (1926), term for term.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import HarnessError
from harness.records import Floats, Ints
from harness.scoring.metrics import budgets
from harness.system import json_text
from harness.system.files import write_atomically

from . import cells, published

KIND, SCHEMA = "diversity-harness sequence", 1
FOLDER = published.SEQUENCES

Record = dict[str, Any]


def write(root: Path, record: Record) -> None:
    """Set the record's "checksum", and write the record into the store at `root`."""
    record["checksum"] = cells.checksum(record)
    content = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_atomically(root / FOLDER / f"{cells.key_of(record)}.json", content.encode())


def read(path: Path) -> Record:
    """The record in a JSON file; HarnessError if the file holds none, or was edited."""
    return _checked(json_text.read(path, "sequence"), path)


def records(folders: Iterable[Path]) -> Iterator[Record | HarnessError]:
    """Yield each record in the folders and below, in files of one or of many; an error for what is none."""
    for place in published.places(folders, sequences=True):
        try:
            is_of_many = place.path.suffix == published.SUFFIX
            yield _checked(published.value(place), place) if is_of_many else read(place.path)
        except HarnessError as fault:
            yield fault


def _checked(record: Any, where: object) -> Record:
    if not isinstance(record, dict) or record.get("kind") != KIND or record.get("schema") != SCHEMA:
        raise HarnessError(
            f"sequence {where}: is no sequence of schema {SCHEMA} (`harness run --until-correct` makes them)"
        )
    if not isinstance(record.get("problems"), list) or record.get("checksum") != cells.checksum(record):
        raise HarnessError(f"sequence {where}: was edited or cut after it was measured; run it again")
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


@dataclass(frozen=True, eq=False)
class Survival:
    """The survival curve: S(k) for k = 0, 1, ... as `left` (calls + 1,), and the `influence` of each cluster on it.

    influence (clusters, calls + 1). The curve ends at the last call at which any sequence was still at risk; where S is
    0 at that call, it stays 0.
    """

    left: Floats
    influence: Floats

    def solved(self, k: int) -> tuple[float, float] | None:
        """The share solved within k calls and its standard error; None beyond the last call at risk, unless S is 0."""
        last = len(self.left) - 1
        if k > last and self.left[-1] > 0:
            return None
        at = min(k, last)
        return 1 - float(self.left[at]), float(np.sqrt((self.influence[:, at] ** 2).sum()))

    def restricted_mean(self, k: int) -> tuple[float, float] | None:
        """E min(T, k + 1) and its standard error; None as in `solved`."""
        if self.solved(k) is None:
            return None
        influence = self.influence[:, : k + 1].sum(axis=1)
        return float(self.left[: k + 1].sum()), float(np.sqrt((influence**2).sum()))


def survival_of(records: Iterable[Record]) -> Survival:
    """Kaplan and Meier's estimate from all sequences of the records; those of one problem are a cluster."""
    entries = [(entry["time"], entry["solved"], entry["id"]) for record in records for entry in record["problems"]]
    times, solved, ids = zip(*entries, strict=True)
    return kaplan_meier(np.array(times), solved, ids)


def kaplan_meier(times: Ints, solved: Sequence[Any], clusters: Sequence[Any]) -> Survival:
    """The Kaplan-Meier estimate of the stopping time; each argument has one entry for each sequence.

    times     the verifier call, from 1, at which the sequence was solved or its budget ended
    solved    whether it was solved; else it is censored
    clusters  labels: sequences with equal labels form one cluster
    """
    times, events = np.asarray(times, np.int64), np.asarray(solved, bool)
    calls = np.arange(1, int(times.max()) + 1)
    at_risk = times[:, None] >= calls  # (sequences, calls)
    ended = (times[:, None] == calls) & events[:, None]
    risk, deaths = at_risk.sum(0), ended.sum(0)
    left = np.cumprod(1 - deaths / risk)
    remaining = np.where(risk > deaths, risk - deaths, np.inf)  # inf where S becomes 0: its error is then 0 too
    per_sequence = np.cumsum((ended - at_risk * (deaths / risk)) / remaining, axis=1) * -left
    names = {name: place for place, name in enumerate(dict.fromkeys(clusters))}
    influence = np.zeros((len(names), len(calls)))
    np.add.at(influence, [names[name] for name in clusters], per_sequence)
    return Survival(np.concatenate([[1.0], left]), np.pad(influence, ((0, 0), (1, 0))))
