"""Which cells a figure shows, what tells them apart, and one clear line where they are none, or too many."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from harness.results import cells
from harness.results.leaderboard import gather
from harness.results.rows import Row as ResultRow
from harness.scoring.metrics import Outcomes

from .request import Request, Row

# What can tell two cells apart, the most telling first, and how its value is written.
FIELDS = {
    "task": "{}",
    "model": "{}",
    "sampler": "{}",
    "selector": "{}",
    "embedder": "{}",
    "n": "n = {}",
    "problems": "{} problems",
    "split": "{}",
    "engine": "{}",
    "dim": "dim {}",
    "trials": "{} trials",
    "seed": "seed {}",
}
OPTIONS = ("task", "model", "sampler", "embedder", "selector")
PAPERS_EMBEDDER = "hidden-mean"
NO_EMBEDDER = "none"

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, eq=False)
class Chosen:
    """One cell to be shown."""

    key: str
    cell: cells.Cell

    @cached_property
    def outcomes(self) -> Outcomes:
        """Its outcomes as arrays."""
        return cells.outcomes(self.cell)

    @cached_property
    def metrics(self) -> ResultRow:
        """Its row of the leaderboard."""
        return cells.row(self.cell, self.key)

    @cached_property
    def about(self) -> Row:
        """Its value of each of `FIELDS`."""
        sizes = {"n": int(self.outcomes.n.max()), "problems": len(self.outcomes.n)}
        dim = (self.cell["inputs"].get("embedding") or {}).get("dim")
        return {name: ({**self.cell["labels"], **sizes, "dim": dim})[name] for name in FIELDS}

    @property
    def columns(self) -> Row:
        """What every row of a figure's table says of the cell."""
        names = ("task", "model", "sampler", "n", "problems", "selector", "embedder")
        return {"cell": self.key, **{name: self.about[name] for name in names}}

    @property
    def problems(self) -> tuple[str, ...]:
        """The problems' ids."""
        return tuple(entry["id"] for entry in self.cell["problems"])

    @property
    def pool(self) -> tuple[Any, ...]:
        """What cells must share to be compared: the pool, as many of it, its verdicts, and which problems."""
        inputs = self.cell["inputs"]
        return (inputs["pool"]["key"], inputs["verdict"]["key"], inputs["ranking"]["n"], self.problems)


def measured(request: Request) -> list[Chosen]:
    """The cells of the request's folders, narrowed by its options, in an order of their labels."""
    found = [Chosen(key, cell) for key, cell in _gathered(request).items()]
    for name in OPTIONS:
        wanted = getattr(request, name)
        if wanted:
            found = _narrowed(request, found, name, wanted)
    return sorted(found, key=lambda one: ([str(value) for value in one.about.values()], one.key))


def _gathered(request: Request) -> dict[str, cells.Cell]:
    for folder in request.folders:
        if not folder.is_dir():
            raise request.refused(f"no folder {folder}; `harness run` keeps its cells in runs/cells")
    found = gather(request.folders, orders=True)
    for fault in found.faults:
        request.say(f"not counted: {fault}")
    if not found.measured:
        where = ", ".join(map(str, request.folders))
        failed = f" ({len(found.failed)} that failed)" if found.failed else ""
        raise request.refused(f"no cells in {where}{failed}; `harness run` keeps its cells in runs/cells")
    return found.measured


def _narrowed(request: Request, found: Sequence[Chosen], name: str, wanted: str) -> list[Chosen]:
    """The cells with that label; a selector that reads no vectors goes with every embedder."""
    there = sorted({one.about[name] for one in found})
    if wanted not in there:
        raise request.refused(
            f"no cell of {name} {wanted!r}; there are {', '.join(there)}: name one of them, or run that one"
        )
    passed = {wanted, NO_EMBEDDER} if name == "embedder" else {wanted}
    return [one for one in found if one.about[name] in passed]


def of_one_embedder(request: Request, found: Sequence[Chosen]) -> list[Chosen]:
    """The cells of one embedder: the only one that there is, else the paper's."""
    embedders = sorted({one.about["embedder"] for one in found} - {NO_EMBEDDER})
    if len(embedders) < 2:
        return list(found)
    if PAPERS_EMBEDDER not in embedders:
        raise request.refused(f"cells of {len(embedders)} embedders ({', '.join(embedders)}): say which --embedder")
    request.say(f"embedder: {PAPERS_EMBEDDER}, of {', '.join(embedders)} (--embedder says another)")
    return [one for one in found if one.about["embedder"] in (PAPERS_EMBEDDER, NO_EMBEDDER)]


def of_one_ranker(request: Request) -> list[Chosen]:
    """The cells of one selector and embedder; the selector must order, since samples-to-correct is a rank."""
    request = request.of_one_selector()
    found = of_one_embedder(request, measured(request))
    if any(one.outcomes.ranks is None for one in found):
        raise request.refused(
            f"selector {request.selector!r} chooses sets, not an order: it has no samples-to-correct; "
            "`harness plot passk` draws it"
        )
    return found


def telling(request: Request, found: Sequence[Chosen], always: Sequence[str] = ()) -> list[str]:
    """The fewest fields that tell the cells apart, beside those that are shown `always`."""
    fields = [name for name in FIELDS if name in always]
    for name in FIELDS:
        more = sorted({*fields, name}, key=list(FIELDS).index)
        if _distinct(found, more) > _distinct(found, fields):
            fields = more
    if _distinct(found, fields) < len(found):
        twins = next(group for group in grouped(found, lambda one: called(one, fields)) if len(group) > 1)
        raise request.refused(
            f"cells {twins[0].key} and {twins[1].key} ({called(twins[0], FIELDS)}) differ in nothing that a figure "
            "can name (a version, a setting): give a folder that holds one of them"
        )
    return fields


def _distinct(found: Iterable[Chosen], fields: Iterable[str]) -> int:
    return len({called(one, fields) for one in found})


def called(one: Chosen, fields: Iterable[str]) -> str:
    """A cell's name: its values of those fields."""
    return " · ".join(FIELDS[name].format(one.about[name]) for name in fields if one.about[name] is not None)


def grouped(found: Iterable[Chosen], key: Callable[[Chosen], Key]) -> list[list[Chosen]]:
    """The cells in groups of equal keys, in the order of each group's first."""
    groups: dict[Key, list[Chosen]] = {}
    for one in found:
        groups.setdefault(key(one), []).append(one)
    return list(groups.values())


def one_each(request: Request, found: Sequence[Chosen], by: Sequence[str]) -> None:
    """Raise HarnessError where two cells have the same values of those fields: the figure shows one of each."""
    for group in grouped(found, lambda one: called(one, by)):
        if len(group) > 1:
            differ = [name for name in telling(request, group) if name not in by]
            options = [f"--{name}" for name in differ if name in OPTIONS]
            narrow = f"narrow them by {' '.join(options)}" if options else "give a folder that holds one of them"
            raise request.refused(
                f"{called(group[0], by)}: {len(group)} cells, which differ in {', '.join(differ)}: {narrow}"
            )


def at_most(request: Request, count: int, limit: int, what: str) -> None:
    """Raise HarnessError where there is more to draw than can be told apart."""
    if count > limit:
        raise request.refused(
            f"{count} {what}, and {limit} can be told apart: narrow them by --task, --model, --sampler, --selector or "
            "--embedder, or give fewer folders"
        )


def reference_of(request: Request, path: Path) -> list[Chosen]:
    """The cells of a reference, a file or a folder."""
    if path.is_file():
        return [Chosen(path.stem, cells.read(path))]
    if not path.is_dir():
        raise request.refused(f"--reference {path}: no such cell or folder")
    return [Chosen(key, cell) for key, cell in sorted(gather([path]).measured.items())]
