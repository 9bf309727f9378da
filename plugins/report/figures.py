"""Make a report's table and its pass@k curves: every selector, random selection and the oracle, with bands.

Beside them are the curves of what one answer chosen from k random responses is worth: avg@k, maj@k and best-of-k.

The table's rows are those of the leaderboard. q controls the false discovery rate over the selectors on the page.
Random's band shows how much another sample of problems would change the curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.records import Floats
from harness.results.cells import outcomes as outcomes_of
from harness.results.cells import resampling_seed
from harness.results.rows import Row, one_answer_of, references, with_q
from harness.scoring.curves import band, budgets, oracle_shares, random_shares, selected_shares

from .chosen import Cell

BUDGETS = ("1", "4", "16", "64", "256", "1024", "4096")


def ranked(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells sorted by improvement, the best first; subset methods, which have none, come last."""
    return sorted(cells, key=lambda cell: (-(cell.row.improvement or -1.0), cell.name))


def table(cells: Sequence[Cell]) -> dict[str, Any]:
    """Return {"budgets", "rows"}: the budgets shown, and the table's rows, first the references', then the cells'.

    A missing value is None.
    """
    first = cells[0].row
    ks = [k for k in BUDGETS if k in first.pass_at_k_random]
    rows = with_q([cell.row for cell in cells])
    known = [
        {
            "name": reference.label,
            "reference": True,
            "samples_to_correct": reference.samples_to_correct,
            "improvement": reference.improvement,
            "k95": reference.k95,
            "passed": [reference.pass_at_k.get(k) for k in ks],
        }
        for reference in references(first)
    ]
    return {"budgets": ks, "rows": known + [_measured(*each, ks) for each in zip(cells, rows, strict=True)]}


def _measured(cell: Cell, row: Row, ks: Sequence[str]) -> dict[str, Any]:
    return {
        "name": cell.name,
        "reference": False,
        "cell": cell.key,
        "samples_to_correct": row.samples_to_correct,
        "improvement": row.improvement,
        "interval": row.improvement_ci,
        "no_interval": row.no_interval.get("improvement_ci"),
        "shares": None if row.win is None else [row.win, row.tie, row.loss],
        "passed": [row.pass_at_k.get(k) for k in ks],
        "p": row.p,
        "q": row.q_random,
        "k95": row.k95,
        "calls_saved": row.calls_saved,
        "trust": row.trust if row.improvement_ci else None,
    }


def curves(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Return a dict for each curve, random and the oracle first: name, kind, budgets `k`, and `mean`, `low` and `high`.

    The last three have a value per budget. `low` and `high`, the band's ends, are None for the oracle and for the kind
    "answer" (avg@k, maj@k, best-of-k), and if there is only one problem.
    """
    first, seed = outcomes_of(cells[0].content), resampling_seed(cells[0].content)
    ks = budgets(int(first.n.min()))
    rows = [
        _curve("random", "random", ks, random_shares(first, ks), seed),
        _curve("oracle", "oracle", ks, oracle_shares(first, ks), None),
    ]
    answer = one_answer_of(cell.problems for cell in cells)
    rows += [_curve(name, "answer", answer.ks, shares, None) for name, shares in answer.curves().items()]
    for cell in cells:
        shares = selected_shares(outcomes_of(cell.content), ks)
        rows.append(_curve(cell.name, cell.kind, *shares, resampling_seed(cell.content)))
    return rows


def _curve(name: str, kind: str, ks: Sequence[int], shares: Floats, seed: int | None) -> dict[str, Any]:
    ends = map(_rounded, band(shares, seed)) if seed is not None and len(shares) > 1 else (None, None)
    low, high = ends
    return {"name": name, "kind": kind, "k": list(ks), "mean": _rounded(shares.mean(axis=0)), "low": low, "high": high}


def _rounded(values: Any) -> list[float]:
    return [round(float(value), 4) for value in values]
