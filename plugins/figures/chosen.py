"""Choose the cells that a figure shows and the labels that tell them apart; refuse in one line if none or too many."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from harness.results import cells
from harness.results.leaderboard import gather
from harness.results.rows import Row as ResultRow
from harness.results.rows import row
from harness.scoring.metrics import Outcomes

from .request import Request, Row

# The labels that can tell two cells apart, the most useful first, and the format of their values.
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
    """One cell that the figure shows."""

    key: str
    cell: cells.Cell

    @cached_property
    def outcomes(self) -> Outcomes:
        """Its outcomes as arrays."""
        return cells.outcomes(self.cell)

    @cached_property
    def resampling_seed(self) -> int:
        """The seed of its intervals."""
        return cells.resampling_seed(self.cell)

    @cached_property
    def metrics(self) -> ResultRow:
        """Its row of the leaderboard."""
        return row(self.cell, self.key)

    @cached_property
    def about(self) -> Row:
        """Its value of each of `FIELDS`."""
        sizes = {"n": int(self.outcomes.n.max()), "problems": len(self.outcomes.n)}
        dim = (self.cell["inputs"].get("embedding") or {}).get("dim")
        return {name: ({**self.cell["labels"], **sizes, "dim": dim})[name] for name in FIELDS}

    @property
    def columns(self) -> Row:
        """The columns about the cell in every row of a figure's table."""
        names = ("task", "model", "sampler", "n", "problems", "selector", "embedder")
        return {"cell": self.key, **{name: self.about[name] for name in names}}

    @property
    def problems(self) -> tuple[str, ...]:
        """The problems' ids."""
        return tuple(entry["id"] for entry in self.cell["problems"])

    @property
    def pool(self) -> tuple[Any, ...]:
        """What cells must share to be compared: the pool, its verdicts, the number of responses and the problems."""
        inputs = self.cell["inputs"]
        return (inputs["pool"]["key"], inputs["verdict"]["key"], inputs["ranking"]["n"], self.problems)


def measured(request: Request) -> list[Chosen]:
    """Return the cells of the request's folders that match its options, sorted by their labels."""
    matching = [Chosen(key, cell) for key, cell in _gathered(request).items()]
    for name in OPTIONS:
        wanted = getattr(request, name)
        if wanted:
            matching = _narrowed(request, matching, name, wanted)
    return sorted(matching, key=lambda chosen: ([str(value) for value in chosen.about.values()], chosen.key))


def _gathered(request: Request) -> dict[str, cells.Cell]:
    for folder in request.folders:
        if not folder.is_dir():
            raise request.refused(f"no folder {folder}; `harness run` keeps its cells in runs/cells")
    gathered = gather(request.folders, orders=True)
    for fault in gathered.faults:
        request.say(f"not counted: {fault}")
    if not gathered.measured:
        where = ", ".join(map(str, request.folders))
        failed = f" ({len(gathered.failed)} that failed)" if gathered.failed else ""
        raise request.refused(f"no cells in {where}{failed}; `harness run` keeps its cells in runs/cells")
    return gathered.measured


def _narrowed(request: Request, candidates: Sequence[Chosen], name: str, wanted: str) -> list[Chosen]:
    """The cells with this label; a selector that reads no vectors matches every embedder."""
    values = sorted({candidate.about[name] for candidate in candidates})
    if wanted not in values:
        raise request.refused(
            f"no cell of {name} {wanted!r}; there are {', '.join(values)}: name one of them, or run that one"
        )
    passed = {wanted, NO_EMBEDDER} if name == "embedder" else {wanted}
    return [candidate for candidate in candidates if candidate.about[name] in passed]


def of_one_embedder(request: Request, candidates: Sequence[Chosen]) -> list[Chosen]:
    """Return the cells of one embedder: the only one or, if there are several, the paper's.

    Cells whose selector reads no vectors are returned too. HarnessError if there are several without the paper's.
    """
    embedders = sorted({candidate.about["embedder"] for candidate in candidates} - {NO_EMBEDDER})
    if len(embedders) < 2:
        return list(candidates)
    if PAPERS_EMBEDDER not in embedders:
        raise request.refused(f"cells of {len(embedders)} embedders ({', '.join(embedders)}): say which --embedder")
    request.say(
        f"{len(embedders)} embedders ({', '.join(embedders)}): {PAPERS_EMBEDDER} is shown; --embedder chooses another"
    )
    return [candidate for candidate in candidates if candidate.about["embedder"] in (PAPERS_EMBEDDER, NO_EMBEDDER)]


def of_one_ranker(request: Request) -> list[Chosen]:
    """Return the cells of one embedder and of the request's selector, by default the paper's.

    HarnessError if the selector chooses sets, not an order: samples-to-correct is a rank.
    """
    request = request.of_one_selector()
    candidates = of_one_embedder(request, measured(request))
    if any(candidate.outcomes.ranks is None for candidate in candidates):
        raise request.refused(
            f"selector {request.selector!r} chooses sets, not an order: it has no samples-to-correct; "
            "`harness plot passk` draws it"
        )
    return candidates


def telling(request: Request, shown: Sequence[Chosen], always: Sequence[str] = ()) -> list[str]:
    """Return the fields in `always`, and those others, tried in the order of `FIELDS`, that tell more cells apart.

    HarnessError if two cells have the same values of all fields.
    """
    fields = [name for name in FIELDS if name in always]
    for name in FIELDS:
        more = sorted({*fields, name}, key=list(FIELDS).index)
        if _distinct(shown, more) > _distinct(shown, fields):
            fields = more
    if _distinct(shown, fields) < len(shown):
        twins = next(group for group in grouped(shown, lambda candidate: called(candidate, fields)) if len(group) > 1)
        raise request.refused(
            f"cells {twins[0].key} and {twins[1].key} ({called(twins[0], FIELDS)}) differ in nothing that a figure "
            "can name (a version, a setting): give a folder that holds one of them"
        )
    return fields


def _distinct(shown: Iterable[Chosen], fields: Iterable[str]) -> int:
    return len({called(candidate, fields) for candidate in shown})


def called(chosen: Chosen, fields: Iterable[str]) -> str:
    """Return a cell's name: its values of these fields."""
    return " · ".join(FIELDS[name].format(chosen.about[name]) for name in fields if chosen.about[name] is not None)


def grouped(candidates: Iterable[Chosen], key: Callable[[Chosen], Key]) -> list[list[Chosen]]:
    """Return the cells as a list of groups with equal `key(cell)`, in the order of each group's first cell."""
    groups: dict[Key, list[Chosen]] = {}
    for candidate in candidates:
        groups.setdefault(key(candidate), []).append(candidate)
    return list(groups.values())


def one_each(request: Request, shown: Sequence[Chosen], by: Sequence[str]) -> None:
    """Raise HarnessError if two cells have the same values of the fields `by`: the figure shows one of each."""
    for group in grouped(shown, lambda candidate: called(candidate, by)):
        if len(group) > 1:
            differ = [name for name in telling(request, group) if name not in by]
            options = [f"--{name}" for name in differ if name in OPTIONS]
            narrow = f"narrow them by {' '.join(options)}" if options else "give a folder that holds one of them"
            raise request.refused(
                f"{called(group[0], by)}: {len(group)} cells, which differ in {', '.join(differ)}: {narrow}"
            )


def at_most(request: Request, count: int, limit: int, what: str) -> None:
    """Raise HarnessError if count > limit: more series or panels (`what`) than a reader can tell apart."""
    if count > limit:
        raise request.refused(
            f"{count} {what}, and {limit} can be told apart: narrow them by --task, --model, --sampler, --selector or "
            "--embedder, or give fewer folders"
        )


def reference_of(request: Request, path: Path) -> list[Chosen]:
    """Return the cells of a reference, which is a file or a folder."""
    if path.is_file():
        return [Chosen(path.stem, cells.read(path))]
    if not path.is_dir():
        raise request.refused(f"--reference {path}: no such cell or folder")
    return [Chosen(key, cell) for key, cell in sorted(gather([path]).measured.items())]
