"""What one answer chosen from k random responses is worth on a cell's pools: avg@k, maj@k, best-of-k.

They are properties of the pools: all selectors on a pool have the same values. A cell's entries hold maj@k and
best-of-k of each problem (`scoring.votes`), by the pool's scores and by those of a scorer that the cell's selector
reads; avg@k is c/n. A problem without any answer counts 0 in maj@k; one whose scores are all unknown counts c/n in
best-of-k. Cells of older versions have no such values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from harness.records import Floats
from harness.scoring.metrics import budgets

from .columns import BUDGETS
from .rows import ByBudget, Row


@dataclass(frozen=True)
class OneAnswer:
    """The chance that the one answer is correct, for each pool (rows) and budget (columns).

    ks        the budgets that all pools have, ascending
    average   (pools,) of a random response
    majority  (pools, ks) of the most frequent answer; None if no response has an answer
    best      name of a score -> (pools, ks) of the response with the highest score
    """

    ks: Sequence[int]
    average: Floats
    majority: Floats | None
    best: Mapping[str, Floats]

    def curves(self) -> dict[str, Floats]:
        """Each metric's name in plots -> (pools, ks); {} if there are neither answers nor scores."""
        majority = {} if self.majority is None else {"maj@k": self.majority}
        chosen = majority | {f"best of k by {name}": values for name, values in self.best.items()}
        average = np.repeat(self.average[:, None], len(self.ks), axis=1)
        return {"avg@k": average, **chosen} if chosen else {}


def of_entries(entries: Sequence[Mapping[str, Any]]) -> OneAnswer | None:
    """The values of the pools of these problems; None if an entry is of an older version."""
    if not all("best_of_k" in entry for entry in entries):
        return None
    ks = sorted(set.intersection(*(set(budgets(entry["n"])) for entry in entries)))
    average = np.array([entry["c"] / entry["n"] for entry in entries])

    def table(values: Sequence[Mapping[str, float] | None], unknown: Floats) -> Floats:
        rows = [
            [other] * len(ks) if each is None else [each[str(k)] for k in ks]
            for each, other in zip(values, unknown, strict=True)
        ]
        return np.array(rows)

    votes = [entry.get("maj_at_k") for entry in entries]
    names = dict.fromkeys(name for entry in entries for name in entry["best_of_k"])
    return OneAnswer(
        ks,
        average,
        table(votes, np.zeros(len(votes))) if any(votes) else None,
        {name: table([entry["best_of_k"].get(name) for entry in entries], average) for name in names},
    )


def of_cells(cells: Iterable[Sequence[Mapping[str, Any]]]) -> OneAnswer | None:
    """The values of cells of one pool, each given by its problems; best-of-k by the scores of all of them."""
    values = [each for each in map(of_entries, cells) if each]
    best = {name: table for each in values for name, table in each.best.items()}
    return replace(values[0], best=best) if values else None


def metrics(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """`avg_at_k`, `maj_at_k` and `best_of_k` of a row: means over its pools; {} if a cell is of an older version."""
    values = of_entries(entries)
    if values is None:
        return {}

    def mean(table: Floats) -> dict[str, float]:
        return dict(zip(map(str, values.ks), table.mean(axis=0).tolist(), strict=True))

    return {
        "avg_at_k": float(values.average.mean()),
        "maj_at_k": None if values.majority is None else mean(values.majority),
        "best_of_k": {name: mean(table) for name, table in values.best.items()},
    }


def remarks(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a remark on the pools that the rows share, without a full stop: avg@k, maj@k and best-of-k at some k."""
    row = next((row for row in rows if row.avg_at_k is not None), None)
    best = {name: by_k for row in rows for name, by_k in (row.best_of_k or {}).items()}
    if row is None or not (row.maj_at_k or best):
        return
    parts = [f"a random one (avg@k): {100 * (row.avg_at_k or 0.0):.1f}"]
    parts += [_at_budgets("the commonest answer (maj@", row.maj_at_k)] if row.maj_at_k else []
    parts += [_at_budgets(f"the highest {name} (best of ", by_k) for name, by_k in best.items()]
    yield f"one answer taken from k responses, % correct: {'; '.join(parts)}"


def _at_budgets(name: str, by_k: ByBudget) -> str:
    """The values at the tables' budgets above 1, where all are the average; for tiny pools at the largest one."""
    ks = [k for k in BUDGETS[1:] if k in by_k] or list(by_k)[-1:]
    return f"{name}{', '.join(ks)}): {', '.join(f'{100 * (by_k[k] or 0.0):.1f}' for k in ks)}"
