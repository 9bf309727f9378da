"""Choose the cells that a figure shows and the labels that tell them apart; refuse in one line if none or too many."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from harness.records import Floats
from harness.results import cells
from harness.results.leaderboard import gather
from harness.results.rows import Row as ResultRow
from harness.results.rows import row
from harness.scoring.metrics import Outcomes, random_samples_to_correct

from .request import PAPERS_SELECTOR, Request, Row

# The labels that can tell two cells apart, the most useful first, and the format of their values.
FIELDS = {
    **dict.fromkeys(("task", "model", "sampler", "selector", "embedder"), "{}"),
    **{"n": "n = {}", "problems": "{} problems", "split": "{}", "engine": "{}"},
    **{"dim": "dim {}", "trials": "{} trials", "seed": "seed {}"},
}
OPTIONS = ("task", "model", "sampler", "embedder", "selector")
PAPERS_EMBEDDER, NO_EMBEDDER = "hidden-mean", "none"
MOST = 12  # panels, or series in one, that a reader can tell apart


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
    def seed(self) -> int:
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

    @cached_property
    def columns(self) -> Row:
        """The columns about the cell in every row of a figure's table."""
        names = ("task", "model", "sampler", "n", "problems", "selector", "embedder")
        return {"cell": self.key, **{name: self.about[name] for name in names}}

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """The problems' ids."""
        return tuple(entry["id"] for entry in self.cell["problems"])

    @cached_property
    def pool(self) -> tuple[Any, ...]:
        """What cells must share to be compared: the pool, its verdicts, the number of responses and the problems."""
        inputs = self.cell["inputs"]
        return (inputs["pool"]["key"], inputs["verdict"]["key"], inputs["ranking"]["n"], self.problems)

    @cached_property
    def calls(self) -> tuple[Floats, Floats]:
        """Samples-to-correct of each problem: random's, exact, and the selector's, the mean over trials."""
        assert self.outcomes.ranks is not None
        return random_samples_to_correct(self.outcomes.n, self.outcomes.c), self.outcomes.ranks.mean(axis=1)

    def hardness(self, problems: Sequence[str]) -> Floats:
        """How hard these of its problems are: random's expected samples-to-correct on its pool."""
        hard = dict(zip(self.problems, random_samples_to_correct(self.outcomes.n, self.outcomes.c), strict=True))
        return np.array([hard[problem] for problem in problems])


def measured(request: Request, default: str | None = None) -> list[Chosen]:
    """Return the cells of the request's folders that match its options, sorted by their labels.

    default   the selector if the request names none; None: all selectors
    """
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
    matching = [Chosen(key, cell) for key, cell in gathered.measured.items()]
    for name in OPTIONS:
        wanted, values = getattr(request, name), sorted({cell.about[name] for cell in matching})
        wanted = wanted or (default if name == "selector" else None)
        if wanted and wanted not in values:
            there = f"there are {', '.join(values)}: name one of them, or run that one"
            raise request.refused(f"no cell of {name} {wanted!r}; {there}")
        if wanted:  # a selector that reads no vectors matches every embedder
            passed = (wanted, NO_EMBEDDER) if name == "embedder" else (wanted,)
            matching = [cell for cell in matching if cell.about[name] in passed]
    return sorted(matching, key=lambda cell: ([str(value) for value in cell.about.values()], cell.key))


def of_one_selector(request: Request, ranks: bool = True) -> list[Chosen]:
    """Return the cells of one selector and of one embedder: the only one or, if there are several, the paper's.

    ranks   whether a selector that chooses sets, not an order, is refused: samples-to-correct is a rank
    """
    chosen = measured(request, PAPERS_SELECTOR)
    embedders = sorted({cell.about["embedder"] for cell in chosen} - {NO_EMBEDDER})
    if len(embedders) > 1:
        listed = f"{len(embedders)} embedders ({', '.join(embedders)})"
        if PAPERS_EMBEDDER not in embedders:
            raise request.refused(f"cells of {listed}: say which --embedder")
        request.say(f"{listed}: {PAPERS_EMBEDDER} is shown; --embedder chooses another")
        chosen = [cell for cell in chosen if cell.about["embedder"] in (PAPERS_EMBEDDER, NO_EMBEDDER)]
    if ranks:
        refuse_sets(request, chosen, "it has no samples-to-correct; `harness plot passk` draws it")
    return chosen


def refuse_sets(request: Request, chosen: Sequence[Chosen], why: str) -> None:
    """Raise HarnessError if the cells' selector chooses sets, not an order."""
    if any(cell.outcomes.ranks is None for cell in chosen):
        raise request.refused(f"selector {chosen[0].about['selector']!r} chooses sets, not an order: {why}")


def telling(request: Request, shown: Sequence[Chosen], always: Sequence[str] = ()) -> list[str]:
    """Return the fields in `always`, and those others, tried in the order of `FIELDS`, that tell more cells apart.

    HarnessError if two cells have the same values of all fields.
    """

    def apart(fields: Iterable[str]) -> int:
        return len({called(cell, fields) for cell in shown})

    fields = [name for name in FIELDS if name in always]
    for name in FIELDS:
        more = [each for each in FIELDS if each in fields or each == name]
        if apart(more) > apart(fields):
            fields = more
    if apart(fields) < len(shown):
        one, other, *_ = next(group for group in grouped(shown, lambda cell: called(cell, fields)) if len(group) > 1)
        raise request.refused(
            f"cells {one.key} and {other.key} ({called(one, FIELDS)}) differ in nothing that a figure can name "
            "(a version, a setting): give a folder that holds one of them"
        )
    return fields


def called(cell: Chosen, fields: Iterable[str]) -> str:
    """Return a cell's name: its values of these fields."""
    return " · ".join(FIELDS[name].format(cell.about[name]) for name in fields if cell.about[name] is not None)


def named(
    request: Request, shown: Sequence[Chosen], always: Sequence[str], without: Sequence[str] = (), what: str = "panels"
) -> list[str]:
    """Return each cell's name, the fewest labels that tell it from the others; HarnessError if there are too many.

    `always` and `without` are labels that are in every name, and in none.
    """
    at_most(request, len(shown), what)
    fields = [name for name in telling(request, shown, always) if name not in without]
    return [called(cell, fields) for cell in shown]


def grouped(chosen: Iterable[Chosen], key: Callable[[Chosen], Hashable]) -> list[list[Chosen]]:
    """Return the cells as a list of groups with equal `key(cell)`, in the order of each group's first cell."""
    groups: dict[Hashable, list[Chosen]] = {}
    for cell in chosen:
        groups.setdefault(key(cell), []).append(cell)
    return list(groups.values())


def one_each(request: Request, shown: Sequence[Chosen], by: Sequence[str]) -> None:
    """Raise HarnessError if two cells have the same values of the fields `by`: the figure shows one of each."""
    for group in grouped(shown, lambda cell: called(cell, by)):
        if len(group) > 1:
            differ = [name for name in telling(request, group) if name not in by]
            options = [f"--{name}" for name in differ if name in OPTIONS]
            narrow = f"narrow them by {' '.join(options)}" if options else "give a folder that holds one of them"
            raise request.refused(
                f"{called(group[0], by)}: {len(group)} cells, which differ in {', '.join(differ)}: {narrow}"
            )


def at_most(request: Request, count: int, what: str, most: int = MOST) -> None:
    """Raise HarnessError if there are more series or panels (`what`) than a reader can tell apart."""
    if count > most:
        raise request.refused(
            f"{count} {what}, and {most} can be told apart: narrow them by --task, --model, --sampler, --selector or "
            "--embedder, or give fewer folders"
        )


def references(request: Request) -> list[Chosen]:
    """Return the cells of --reference, a file or a folder; none without it."""
    path = request.reference
    if path is None:
        return []
    if not path.exists():
        raise request.refused(f"--reference {path}: no such cell or folder")
    held = {path.stem: cells.read(path)} if path.is_file() else gather([path]).measured
    return [Chosen(key, cell) for key, cell in sorted(held.items())]


def holding(request: Request, every: Sequence[Chosen], problems: Sequence[str], whose: str = "") -> list[Chosen]:
    """Return those cells of --reference that hold all these problems; HarnessError if none does."""
    same = [each for each in every if set(problems) <= set(each.problems)]
    if not same:
        raise request.refused(
            f"--reference {request.reference}: no cell there holds all {len(problems)} problems{whose}"
        )
    return same
