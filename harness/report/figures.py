"""The table of a report, and pass@k of every selector, of random selection and of who knows the verdicts, with bands.

Bands: 95 %, pointwise, percentile bootstrap over problems (trials averaged inside a problem first), seeded by the cell.
Random's pass@k is exact on each problem; its band says what another draw of problems would change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..cells import outcomes as outcomes_of
from ..metrics import Outcomes, random_pass_at_k
from ..records import Floats
from .chosen import Cell

REFERENCES = {"random": "random (exact)", "oracle": "oracle", "anti_oracle": "anti-oracle"}
BUDGETS = ("1", "4", "16", "64", "256", "1024", "4096")
POINTS = 40
RESAMPLES = 1000


def ranked(cells: Sequence[Cell]) -> list[Cell]:
    """The cells by improvement, the best first; subset methods, which have none, last."""
    return sorted(cells, key=lambda cell: (-(cell.row["improvement"] or -1.0), cell.name))


def table(cells: Sequence[Cell]) -> dict[str, Any]:
    """The rows of the table as the page shows them: numbers, null where there is none."""
    first = cells[0].row
    budgets = [k for k in BUDGETS if k in first["pass_at_k_random"]]
    rows = [_reference(first, name, label, budgets) for name, label in REFERENCES.items()]
    return {"budgets": budgets, "rows": rows + [_measured(cell, budgets) for cell in cells]}


def _reference(row: Mapping[str, Any], name: str, label: str, budgets: Sequence[str]) -> dict[str, Any]:
    mean = row[f"samples_to_correct_{name}"]
    improvement = row["samples_to_correct_random"] / mean
    return {
        "name": label,
        "reference": True,
        "samples_to_correct": mean,
        "improvement": improvement,
        "passed": [row[f"pass_at_k_{name}"].get(k) for k in budgets],
    }


def _measured(cell: Cell, budgets: Sequence[str]) -> dict[str, Any]:
    row = cell.row
    return {
        "name": cell.name,
        "reference": False,
        "cell": cell.key,
        "samples_to_correct": row["samples_to_correct"],
        "improvement": row["improvement"],
        "interval": row["improvement_ci"],
        "shares": None if row["win"] is None else [row["win"], row["tie"], row["loss"]],
        "passed": [row["pass_at_k"].get(k) for k in budgets],
    }


def curves(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Per curve its name, the budgets, and at each the mean and the ends of the band; random and oracle come first."""
    first = outcomes_of(cells[0].content)
    seed = int(cells[0].key[:8], 16)
    ks = _budgets(int(first.n.min()))
    random = np.stack([random_pass_at_k(first.n, first.c, k) for k in ks], axis=1)
    oracle = np.repeat((first.c[:, None] > 0).astype(float), len(ks), axis=1)  # its first pick, where there is one
    found = [_curve("random", "random", ks, random, seed), _curve("oracle", "oracle", ks, oracle, None)]
    for cell in cells:
        outcomes = outcomes_of(cell.content)
        at, shares = _shares(outcomes, ks)
        found.append(_curve(cell.name, cell.kind, at, shares, int(cell.key[:8], 16)))
    return found


def _budgets(n: int) -> list[int]:
    """About `POINTS` budgets from 1 to n, even on a log axis, powers of two among them."""
    even = np.geomspace(1, n, POINTS).round().astype(int)
    return sorted({*even.tolist(), *(1 << power for power in range(n.bit_length()))})


def _shares(outcomes: Outcomes, ks: Sequence[int]) -> tuple[list[int], Floats]:
    """The budgets and, at each, per problem the share of trials that hold a correct response, (problems, budgets)."""
    if outcomes.ranks is None:
        hits = {k: found for k, found in (outcomes.hits or {}).items() if len(found) == len(outcomes.n)}
        return sorted(hits), np.stack([np.asarray(hits[k], float).mean(axis=1) for k in sorted(hits)], axis=1)
    return list(ks), (outcomes.ranks[:, :, None] <= np.array(ks)).mean(axis=1)  # no k reaches the N+1 of "none"


def _curve(name: str, kind: str, ks: Sequence[int], shares: Floats, seed: int | None) -> dict[str, Any]:
    low, high = band(np.asarray(shares, float), seed) if seed is not None and len(shares) > 1 else (None, None)
    return {"name": name, "kind": kind, "k": list(ks), "mean": _rounded(shares.mean(axis=0)), "low": low, "high": high}


def band(shares: Floats, seed: int) -> tuple[list[float], list[float]]:
    """The lower and the upper end of the band at each budget; shares (problems, budgets)."""
    problems = len(shares)
    drawn = np.random.default_rng(seed).multinomial(problems, np.full(problems, 1 / problems), size=RESAMPLES)
    low, high = np.percentile(drawn @ shares / problems, [2.5, 97.5], axis=0)
    return _rounded(low), _rounded(high)


def _rounded(values: Any) -> list[float]:
    return [round(float(value), 4) for value in values]
