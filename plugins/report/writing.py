"""`harness report`: write one run as one HTML page that shows why one selector beat another.

`chosen` finds the cells, `figures` makes the table and the pass@k curves, `index` lists all problems, `browsing` makes
the map of a problem's responses, `orders` each selector's picks, `reproduce` the command, `page` the file, `pool_files`
those beside it. Everything is read from the store; no code depends on the task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.columns.stored import key_of
from harness.results.inert_text import without_folders
from harness.results.rows import answer_remarks, verdict_remarks
from harness.system.files import write_atomically
from harness.system.progress import Progress

from ..figures.looks import looks
from .browsing import Browser, most_in_page, sampled
from .chosen import Cell, chosen_cells
from .figures import curves, ranked, table
from .index import beginnings, hardest_first, index, telling
from .page import BUDGET_BYTES, encoded, fitted, page
from .pool_files import with_files
from .reproduce import commands


def write_report(
    root: Path, keys: Sequence[str], out: Path | None, plugin_files: Sequence[Path], progress: Progress
) -> Path:
    """Write the report of the cells with these keys to `out`, and return its path.

    The pools that have no room in it are written beside it, to a folder (`report-files` for `report.html`).

    keys   or their beginnings; none: the newest cell and all that can be compared with it
    out    None: ROOT/report.html
    """
    cells = ranked(chosen_cells(root, keys, progress))
    out = out or root / "report.html"
    browser = Browser(root, cells, plugin_files)
    data = report_data(browser, progress)
    folder = out.with_name(f"{out.stem}-files")
    write_atomically(out, page(with_files(data, browser, folder, progress)))
    return out


def report_data(browser: Browser, progress: Progress) -> dict[str, Any]:
    """Return everything that the page itself shows, as plain data of about `BUDGET_BYTES` of JSON at most."""
    cells = browser.cells
    entries = hardest_first(cells[0].problems)
    order = [entry["id"] for entry in entries]
    prompts = {name: stored.problem.prompt for name, stored in browser.stored.items()}
    shown = looks([cell.name for cell in cells])
    summary = {
        "about": without_folders(_about(cells[0])) | {"one_answer": list(answer_remarks([cell.row for cell in cells]))},
        **table(cells),
        "curves": curves(cells),
        "selectors": [{"name": cell.name, "kind": cell.kind, "look": vars(shown[cell.name])} for cell in cells],
        "index": index(cells, order) | beginnings(order, prompts),
        "commands": commands(cells),
    }
    available = [entry for entry in entries if entry["id"] in browser.stored]
    views = _views(browser, available, order, progress)
    inside, cut_at = fitted(views, BUDGET_BYTES - len(encoded(summary)) - len(order))
    browsing = {"shown": len(inside), "total": len(order), "cut_at": cut_at, "note": _note(len(order), len(available))}
    return {**summary, "problems": inside, "browsing": browsing}


def _views(
    browser: Browser, available: Sequence[Mapping[str, Any]], order: Sequence[str], progress: Progress
) -> list[dict[str, Any]]:
    """The views of the problems that the page itself holds: all, or a sample with the one on which it opens."""
    if not available:
        return []
    cells = browser.cells
    first = telling(cells, [entry["id"] for entry in available])
    most = most_in_page(available, len(cells))
    sample = sampled(available, most, str(key_of(cells[0].content, "pool")), {first})
    views = []
    with progress.stage("report", len(sample), "problems") as stage:
        for entry in sample:
            views.append(browser.view(entry) | {"at": order.index(entry["id"])})
            stage.advance()
    return views


def _note(total: int, available: int) -> str:
    """What the page says of problems without responses in the store."""
    if not available:
        return "The responses of this run are not in the store, so there is nothing to browse."
    return f"{total - available:,} problems have no responses in the store." if available < total else ""


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
        "remarks": list(verdict_remarks(row)),
        "pool": key_of(cell.content, "pool"),
        "versions": cell.content.get("versions", {}),
    }
