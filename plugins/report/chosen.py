"""Choose the cells that a report shows: those given by key, or those of the last run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.results import cells
from harness.results.rows import Row, row
from harness.system.json_text import digest
from harness.system.progress import Progress


@dataclass(frozen=True)
class Cell:
    """One cell of a store; `name` is its selector, with its embedder if the report shows several embedders."""

    key: str
    content: dict[str, Any]
    name: str = ""

    @cached_property
    def row(self) -> Row:
        """Its row of the leaderboard."""
        return row(self.content, self.key)

    @property
    def problems(self) -> list[dict[str, Any]]:
        """For each problem: id, n, c, errors, and ranks or hits."""
        entries: list[dict[str, Any]] = self.content["problems"]
        return entries

    @cached_property
    def by_id(self) -> dict[str, dict[str, Any]]:
        """The entry of each problem."""
        return {entry["id"]: entry for entry in self.problems}

    @property
    def kind(self) -> str:
        """What the selector returns: "order", or "subset" if it chooses a set for each budget."""
        return "subset" if "hits" in self.problems[0] else "order"

    @cached_property
    def compared(self) -> str:
        """A hash of what cells in one table must share: pool, verdicts, n, trials, seed and problems."""
        labels = self.content["labels"]
        ids = [entry["id"] for entry in self.problems]
        inputs = self.content["inputs"]
        shared = [inputs["pool"]["key"], inputs["verdict"]["key"], inputs["ranking"].get("n")]
        return digest([*shared, labels["trials"], labels["seed"], ids])


def chosen_cells(root: Path, keys: Sequence[str], progress: Progress) -> list[Cell]:
    """Return the cells with these keys or prefixes of keys; without keys, the newest cell and all comparable ones.

    Of cells with the same selector and embedder (a selector whose file was edited) only one is returned: the first in
    the order of `keys`, without keys the newest. HarnessError if there is no cell, or cells of the keys differ in what
    they must share (`Cell.compared`).
    """
    paths = sorted((root / "cells").glob("*.json"), key=lambda path: (-path.stat().st_mtime_ns, path.name))
    if not paths:
        raise HarnessError(f"report: no cells in {root / 'cells'}: `harness run` makes some, --store says where")
    candidates = [_cell(_matching(paths, key)) for key in dict.fromkeys(keys)] or list(_readable(paths, progress))
    if not candidates:
        raise HarnessError(f"report: no cell in {root / 'cells'} has results")
    alike = [cell for cell in candidates if cell.compared == candidates[0].compared]
    if keys and len(alike) < len(candidates):
        other = next(cell for cell in candidates if cell.compared != candidates[0].compared)
        raise HarnessError(
            f"report: cells {candidates[0].key} and {other.key} differ in pool, verdicts, problems, trials or seed: "
            "one report shows one pool"
        )
    return _named(alike)


def _matching(paths: Sequence[Path], key: str) -> Path:
    matches = [path for path in paths if path.stem.startswith(key)]
    if len(matches) != 1:
        matched = f"{len(matches)} cells" if matches else "no cell"
        raise HarnessError(
            f"report: {key!r} begins the key of {matched} of {paths[0].parent}; write it as the table does"
        )
    return matches[0]


def _readable(paths: Sequence[Path], progress: Progress) -> Iterator[Cell]:
    """The cells with results, of paths from the newest; a failure is told unless the selector has a newer result."""
    measured = set[str]()
    for path in paths:
        try:
            content = cells.read(path)
            ranked = digest([content["labels"], content["inputs"]["pool"].get("key")])
            if "failed" in content and ranked in measured:
                continue
            yield _cell(path, content)
            measured.add(ranked)
        except HarnessError as failure:
            progress.say(f"left out: {failure}")


def _cell(path: Path, content: cells.Cell | None = None) -> Cell:
    """Read a cell from a file; HarnessError, one line, if it is not a cell or holds a failure instead of results.

    `content`: what the file holds, if it was read already.
    """
    content = content or cells.read(path)
    if "failed" in content:
        raise HarnessError(f"cell {path}: failed ({content['failed']})")
    for entry in content["problems"]:
        if "orders" in entry:
            entry["orders"] = entry["orders"][:1]  # the page shows the first trial
    return Cell(path.stem, content)


def _named(alike: Sequence[Cell]) -> list[Cell]:
    """One cell for each selector and embedder, with names that tell them apart."""
    first: dict[tuple[str, str], Cell] = {}
    for cell in alike:
        labels = cell.content["labels"]
        first.setdefault((str(labels["selector"]), str(labels["embedder"])), cell)
    embedders = {embedder for _, embedder in first if embedder != "none"}
    return [
        replace(cell, name=f"{selector} · {embedder}" if len(embedders) > 1 and embedder != "none" else selector)
        for (selector, embedder), cell in first.items()
    ]
