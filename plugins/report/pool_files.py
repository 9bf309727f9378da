"""Write the pools that have no room in the page to files beside it, one a problem; the page loads them on demand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from harness.system.files import disk_errors, write_atomically
from harness.system.json_text import digest
from harness.system.progress import Progress

from .browsing import Browser
from .index import hardest_first
from .page import fitted, side_file

ALL_BYTES = 100_000_000  # of all files; texts are cut so that they need no more
BYTES = (60_000, 1_000_000)  # of one file, at least and at most


def with_files(data: dict[str, Any], browser: Browser, folder: Path, progress: Progress) -> dict[str, Any]:
    """Write the pools that the page does not hold to the folder; return the data with `files` and `where` each pool is.

    `where` has a letter for each problem: "p" (in the page), "f" (in a file) or "-" (not in the store). A file is named
    by its problem's place in the list. Files of an earlier report are removed.
    """
    entries = hardest_first(browser.cells[0].problems)
    inside = {view["at"] for view in data["problems"]}
    beside = {at: entry for at, entry in enumerate(entries) if at not in inside and entry["id"] in browser.stored}
    report = digest([cell.key for cell in browser.cells])
    written = set()
    for at, view in _views(browser, beside, progress):
        write_atomically(folder / f"{at}.js", side_file(report, view))
        written.add(at)
    _remove_others(folder, written)
    where = "".join("p" if at in inside else "f" if at in written else "-" for at in range(len(entries)))
    files = {"folder": folder.name, "report": report, "count": len(written)} if written else None
    return {**data, "index": {**data["index"], "where": where}, "files": files}


def _views(
    browser: Browser, beside: Mapping[int, Mapping[str, Any]], progress: Progress
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The views of these problems, with the picks in the store and texts cut to the budget of a file."""
    if not beside:
        return
    budget = int(np.clip(ALL_BYTES // len(beside), *BYTES))
    with progress.stage("report files", len(beside), "problems") as stage:
        for at, entry in beside.items():
            views, _ = fitted([browser.view(entry, again=False)], budget)
            for view in views:  # none if the pool is too large whatever is cut
                yield at, view
            stage.advance()


def _remove_others(folder: Path, written: set[int]) -> None:
    for path in folder.glob("*.js"):
        if path.stem.isdecimal() and int(path.stem) not in written:
            with disk_errors(path):
                path.unlink()
