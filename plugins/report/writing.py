"""`harness report`: write one run as one HTML file that shows why one selector beat another.

`chosen` finds the cells, `figures` makes the table and the pass@k curves, `browsing` the map of a problem's responses,
`orders` each selector's picks, `page` the file. Everything is read from the store; no code depends on the task.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.results.stored_cells import key_of
from harness.results.verdict_quality import remarks
from harness.system.files import write_atomically
from harness.system.progress import Progress

from .browsing import browsable
from .chosen import Cell, chosen_cells
from .figures import curves, ranked, table
from .page import BUDGET_BYTES, encoded, fitted, page


def write_report(
    root: Path, keys: Sequence[str], out: Path | None, plugin_files: Sequence[Path], progress: Progress
) -> Path:
    """Write the report of the cells with these keys to `out`, and return its path.

    keys   or their beginnings; none: the newest cell and all that can be compared with it
    out    None: ROOT/report.html
    """
    cells = chosen_cells(root, keys, progress)
    out = out or root / "report.html"
    write_atomically(out, page(report_data(root, cells, plugin_files, progress)))
    return out


def report_data(root: Path, cells: Sequence[Cell], plugin_files: Sequence[Path], progress: Progress) -> dict[str, Any]:
    """Return everything that the page shows, as plain data of about `BUDGET_BYTES` of JSON at most."""
    cells = ranked(cells)
    summary = {"about": _about(cells[0]), **table(cells), "curves": curves(cells)}
    views, note = browsable(root, cells, plugin_files, progress)
    shown, cut_at = fitted(views, BUDGET_BYTES - len(encoded(summary)))
    total = len(cells[0].problems)
    return {
        **summary,
        "selectors": [{"name": cell.name, "kind": cell.kind} for cell in cells],
        "problems": shown,
        "browsing": {"shown": len(shown), "total": total, "cut_at": cut_at, "note": note},
    }


def _about(cell: Cell) -> dict[str, Any]:
    labels, row = cell.content["labels"], cell.row
    parts = [labels[name] for name in ("task", "split", "model", "sampler")]
    return {
        "title": list(dict.fromkeys(map(str, parts))),
        "n": row.n,
        "problems": row.problems,
        "solvable": row.solvable,
        "trials": labels["trials"],
        "seed": labels["seed"],
        "errors": row.errors,
        "flagged": row.flagged,
        "trust": row.trust,
        "remarks": list(remarks(row)),
        "pool": key_of(cell.content, "pool"),
        "versions": cell.content.get("versions", {}),
    }
