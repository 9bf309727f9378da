"""`harness report`: write one run as one HTML page that shows why one selector beat another.

`results` finds the cells, and makes the table, the pass@k curves and the command. `browsing` makes the map of a
problem's responses with each selector's picks, `page` the file. This module lists all problems, and says which pools
are in the page itself and which in files beside it. All is read from the store; no code depends on the task.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from harness.results.inert_text import without_folders
from harness.results.legends import LEGENDS, TRUST, ordinal
from harness.results.rows import answer_remarks, beside_controls, not_told, verdict_remarks
from harness.scoring.metrics import random_samples_to_correct
from harness.system.files import disk_errors, write_atomically
from harness.system.json_text import digest
from harness.system.progress import Progress

from ..figures.looks import looks
from .browsing import ID, PICKS, Browser
from .page import BUDGET_BYTES, cut, encoded, fitted, page, side_file, visible
from .results import Cell, chosen_cells, commands, curves, table

Entry = Mapping[str, Any]
MOST_PROBLEMS = 100  # whose responses are in the page itself
PAGE_BYTES = 2_600_000  # of them, about
LIST_BYTES = 1_200_000  # of JSON; a longer list of problems holds the means of the trials' ranks, not each rank
PROMPT, PROMPTS_BYTES = 80, 300_000  # characters of a prompt that the search finds, if they all have room
FILES_BYTES = 100_000_000  # of all files beside the page; texts are cut so that they need no more
EXPLAINED = ("samples-to-correct", "improvement", "win/tie/loss", "pass@k", "oracle, anti-oracle")  # below the table
FILE_BYTES = (60_000, 1_000_000)  # of one file, at least and at most


def write_report(
    root: Path,
    keys: Sequence[str],
    out: Path | None,
    plugin_files: Sequence[Path],
    progress: Progress,
    pool: str | None = None,
) -> Path:
    """Write the report of the cells with these keys to `out`, and return its path.

    The pools that have no room in it are written beside it, to a folder (`report-files` for `report.html`).

    keys   or their beginnings; none: the newest cell and all that can be compared with it
    out    None: ROOT/report.html
    pool   the beginning of a pool's key: only cells of that pool
    """
    chosen = chosen_cells(root, keys, progress, pool)
    for line in chosen[0].besides:
        progress.say(f"not in this report: {line}")
    browser, out = Browser(root, chosen, plugin_files), out or root / "report.html"
    data = with_files(report_data(browser, progress), browser, out.with_name(f"{out.stem}-files"), progress)
    write_atomically(out, page(data))
    return out


def report_data(browser: Browser, progress: Progress) -> dict[str, Any]:
    """Return everything that the page itself shows, as plain data of about `BUDGET_BYTES` of JSON at most."""
    cells = browser.cells
    entries = hardest_first(cells[0].content["problems"])
    order = [entry["id"] for entry in entries]
    prompts = {name: stored.problem.prompt for name, stored in browser.stored.items()}
    shown, rows = looks([cell.name for cell in cells]), [cell.row for cell in cells]
    summary = {
        "about": without_folders(_about(cells)) | {"one_answer": list(answer_remarks(rows))},
        **table(cells),
        "curves": curves(cells),
        "selectors": [{"name": cell.name, "kind": cell.kind, "look": vars(shown[cell.name])} for cell in cells],
        "index": index(cells, order) | beginnings(order, prompts),
        "commands": commands(cells),
    }
    available = [entry for entry in entries if entry["id"] in browser.stored]
    views = _views(browser, available, order, progress)
    inside, cut_at = fitted(views, BUDGET_BYTES - len(encoded(summary)) - len(order))
    lacking = len(order) - len(available)
    note = f"{lacking:,} problems have no responses in the store." if lacking else ""
    if not available:
        note = "The responses of this run are not in the store, so there is nothing to browse."
    browsing = {"shown": len(inside), "total": len(order), "cut_at": cut_at, "note": note}
    return {**summary, "problems": inside, "browsing": browsing}


def _about(shown: Sequence[Cell]) -> dict[str, Any]:
    cell = shown[0]
    labels, row = cell.content["labels"], cell.row
    alike = [line[:-1] for line in not_told(beside_controls([each.row for each in (*shown, *cell.controls)]))]
    no_use = [] if row.solvable else ["no response is correct: no selector can differ here"]
    legend = [f"{name}: {LEGENDS[name]}" for name in EXPLAINED]
    legend += [] if row.trust == "nominal" else [f"intervals: {TRUST[row.trust]}."]
    besides = [f"the same store has also {'; '.join(cell.besides)}"] if cell.besides else []
    return {
        "title": list(dict.fromkeys(str(labels[name]) for name in ("task", "split", "model", "sampler"))),
        **{name: getattr(row, name) for name in ("n", "problems", "solvable", "errors", "flagged", "trust", "correct")},
        **{"least": int([*row.pass_at_k_random][-1]), "nth": "first" if row.correct == 1 else ordinal(row.correct)},
        **{name: labels[name] for name in ("trials", "seed")},
        "legend": legend,
        "remarks": [*verdict_remarks(row), *no_use, *alike, *besides],
        "pool": cell.pool,
        "versions": cell.content.get("versions", {}),
    }


# The list of all problems.


def hardest_first(entries: Iterable[Entry]) -> list[Entry]:
    """Return the problems sorted by their share of correct responses, then by id."""
    return sorted(entries, key=lambda entry: (entry["c"] / max(entry["n"], 1), entry["id"]))


def index(cells: Sequence[Cell], order: Sequence[str]) -> dict[str, Any]:
    """Return columns of equal length, in the order of these ids: `id`, `n`, `c`, and `ranks`, a column for each cell.

    A rank is that of the correct response counted to: a number if it is the same in all trials, else a list with the
    rank of each trial. A subset method has None in place of its column.
    """
    ranks = [[cell.by_id[name]["ranks"] for name in order] if cell.kind == "order" else None for cell in cells]
    listed = {
        "id": [cut(name, ID) for name in order],
        **{column: [cells[0].by_id[name][column] for name in order] for column in ("n", "c")},
        "ranks": [of and [each[0] if len(set(each)) == 1 else each for each in of] for of in ranks],
    }
    if len(encoded(listed)) > LIST_BYTES:
        listed["ranks"] = [of and [round(fmean(each), 1) for each in of] for of in ranks]
    return listed


def beginnings(order: Sequence[str], prompts: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the column `prompt`, the beginning of each problem's prompt ("" if unknown); {} if it has no room."""
    column = {"prompt": [visible(prompts.get(name, "")[:PROMPT]) for name in order]}
    return column if len(encoded(column)) <= PROMPTS_BYTES else {}


def telling(cells: Sequence[Cell], order: Sequence[str]) -> str:
    """Return the problem on which the page opens: where the first and the last ranker differ most, by their mean ranks.

    A single ranker is compared with random selection. Of equal ones the first in `order`.
    """
    rankers = [cell.by_id for cell in cells if cell.kind == "order"]

    def gap(name: str) -> float:
        entry, other = rankers[0][name], rankers[-1][name]
        random = float(random_samples_to_correct(entry["n"], entry["c"], cells[0].row.correct))
        calls = fmean(other["ranks"]) if len(rankers) > 1 else random
        return abs(math.log(fmean(entry["ranks"]) / calls))

    return max(order, key=gap) if rankers else order[0]


# The pools in the page, and those beside it.


def _views(browser: Browser, available: Sequence[Entry], order: Sequence[str], progress: Progress) -> list[Any]:
    """The views of the problems that the page itself holds: all, or a sample with the one on which it opens."""
    if not available:
        return []
    n = max(entry["n"] for entry in available)
    # A response takes 24 bytes and a short text, a pick 10 bytes.
    bytes_each = n * 60 + min(n, PICKS) * len(browser.cells) * 10
    most = int(np.clip(PAGE_BYTES // bytes_each, 1, MOST_PROBLEMS))
    first = telling(browser.cells, [entry["id"] for entry in available])
    sample = sampled(available, most, browser.cells[0].pool, {first})
    views = []
    with progress.stage("report", len(sample), "problems") as stage:
        for entry in sample:
            views.append(browser.view(entry) | {"at": order.index(entry["id"])})
            stage.advance()
    return views


def sampled(entries: Sequence[Entry], most: int, seed: str, always: Collection[str] = ()) -> list[Entry]:
    """Return one problem from each of `most` equal parts of problems that are sorted by hardness; all if they are few.

    The hash of seed and id decides which one of a part, so that the same store always shows the same problems. One with
    an id in `always` is taken instead.
    """
    if len(entries) <= most:
        return list(entries)

    def lot(entry: Entry) -> tuple[bool, bytes]:
        text = f"{seed} {entry['id']}".encode("utf-8", "surrogatepass")
        return entry["id"] not in always, hashlib.sha256(text).digest()

    parts = np.array_split(np.arange(len(entries)), most)
    return [min((entries[place] for place in part), key=lot) for part in parts]


def with_files(data: dict[str, Any], browser: Browser, folder: Path, progress: Progress) -> dict[str, Any]:
    """Write the pools that the page does not hold to the folder; return the data with `files` and `where` each pool is.

    `where` has a letter for each problem: "p" (in the page), "f" (in a file) or "-" (not in the store). A file is named
    by its problem's place in the list; its picks are those in the store. Files of an earlier report are removed.
    """
    entries = hardest_first(browser.cells[0].content["problems"])
    inside, written = {view["at"] for view in data["problems"]}, set()
    beside = {at: entry for at, entry in enumerate(entries) if at not in inside and entry["id"] in browser.stored}
    report = digest([cell.key for cell in browser.cells])
    if beside:
        budget = int(np.clip(FILES_BYTES // len(beside), *FILE_BYTES))
        with progress.stage("report files", len(beside), "problems") as stage:
            for at, entry in beside.items():
                views, _ = fitted([browser.view(entry, again=False)], budget)
                for view in views:  # none if it is too large, however cut
                    write_atomically(folder / f"{at}.js", side_file(report, view))
                    written.add(at)
                stage.advance()
    for path in folder.glob("*.js"):
        if path.stem.isdecimal() and int(path.stem) not in written:
            with disk_errors(path):
                path.unlink()
    where = "".join("p" if at in inside else "f" if at in written else "-" for at in range(len(entries)))
    files = {"folder": folder.name, "report": report, "count": len(written)} if written else None
    return {**data, "index": {**data["index"], "where": where}, "files": files}
