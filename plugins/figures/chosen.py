"""Choose the cells that a figure shows and the labels that tell them apart; refuse in one line if none or too many."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from harness.plugin_system.command_options import default_cells
from harness.records import Floats
from harness.results import cells, published
from harness.results.leaderboard import gather
from harness.results.legends import ordinal
from harness.results.rows import Row as ResultRow
from harness.results.rows import row
from harness.scoring.metrics import Outcomes, random_samples_to_correct

from .request import CHOICES, PAPERS_SELECTOR, Request, Row

# The labels that can tell two cells apart, the most useful first, and the format of their values.
FIELDS = {
    **dict.fromkeys(("task", "model", "sampler", "selector", "embedder"), "{}"),
    **{"n": "n = {}", "problems": "{} problems", "split": "{}", "engine": "{}"},
    **{"dim": "dim {}", "correct": "to the {} correct", "trials": "{} trials", "seed": "seed {}"},
}
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
        dim, m = (self.cell["inputs"].get("embedding") or {}).get("dim"), self.outcomes.correct
        more = {"dim": dim, "correct": ordinal(m) if m > 1 else None}
        return {name: ({**self.cell["labels"], **sizes, **more})[name] for name in FIELDS}

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
        counted = inputs["ranking"]["n"], self.outcomes.correct
        return (inputs["pool"]["key"], inputs["verdict"]["key"], *counted, self.problems)

    @cached_property
    def random_calls(self) -> Floats:
        """Random selection's samples-to-correct of each problem, exact: how hard the problem is."""
        return random_samples_to_correct(self.outcomes.n, self.outcomes.c, self.outcomes.correct)

    @cached_property
    def calls(self) -> Floats:
        """The selector's samples-to-correct of each problem, the mean over trials."""
        assert self.outcomes.ranks is not None
        return self.outcomes.ranks.mean(axis=1)

    def hardest_last(self, problems: Sequence[str], bins: int) -> tuple[Floats, list[Any]]:
        """Return how hard these of its problems are, and their places in bins of equal size, the easiest first.

        Bins differ by one problem at most, the easiest are the larger ones; equally hard problems go by their ids.
        """
        hard = dict(zip(self.problems, self.random_calls, strict=True))
        hardness = np.array([hard[problem] for problem in problems])
        return hardness, np.array_split(np.lexsort((np.array(problems), hardness)), bins)


def measured(request: Request, default: str | None = None) -> list[Chosen]:
    """Return the cells of the request's folders that match its options, sorted by their labels.

    default   the selector if the request names none; None: all selectors
    """
    gathered = gather(request.folders, orders=True, random_weights=request.random_weights)
    for fault in gathered.faults:
        request.say(f"not counted: {fault}")
    if not gathered.measured:
        where = ", ".join(map(str, request.folders))
        failed = f" ({len(gathered.failed)} that failed)" if gathered.failed else ""
        raise request.refused(f"no cells in {where}{failed}; `harness run` keeps its cells in runs/cells")
    kept = [Chosen(key, cell) for key, cell in gathered.measured.items()]
    named = request.selector
    kept = [each for each in kept if not each.cell.get("control") or each.cell["labels"]["selector"] == named] or kept
    kept = matching(request, kept, request.labels)
    if default and not request.selector:
        kept = _by_default(request, kept, "selector", default)
    return sorted(kept, key=lambda cell: ([str(value) for value in cell.about.values()], cell.key))


def matching(
    request: Request,
    items: Sequence[Any],
    labels: Row,
    about: Callable[[Any], Row] = lambda cell: cell.about,
    what: str = "cell",
) -> list[Any]:
    """Return the items with these labels; HarnessError if none has one of them, or if they have no such label.

    about   the labels of an item
    what    what an item is called in messages
    """
    kept = list(items)
    for name, wanted in labels.items():
        values = {about(item)[name] for item in kept if name in about(item)}
        if not values:
            raise request.refused(f"--{name} goes with cells: a {what} has no {name}")
        if wanted not in values:
            there = f"there are {', '.join(map(str, sorted(values)))}: name one of them, or run that one"
            raise request.refused(f"no {what} of {name} {wanted!r}; {there}")
        # A selector that reads no vectors goes with every embedder.
        passed = (wanted, NO_EMBEDDER) if name == "embedder" else (wanted,)
        kept = [item for item in kept if about(item)[name] in passed]
    return kept


def _by_default(request: Request, chosen: Sequence[Chosen], name: str, default: str) -> list[Chosen]:
    """The cells with a label that the request does not name; a line says which pools have none."""
    kept = matching(request, chosen, {name: default})
    pools = {cell.pool for cell in kept}
    leave_out(request, [cell for cell in chosen if cell.pool not in pools], f"has no cell of {default}")
    return kept


def leave_out(request: Request, cells: Iterable[Chosen], why: str) -> None:
    """Say which pools are left out, and why."""
    for name in dict.fromkeys(called(cell, ("task", "model", "sampler", "n", "seed")) for cell in cells):
        request.say(f"left out: {name} {why}")


def of_one_selector(request: Request, order_for: str | None, embedders: bool = False) -> list[Chosen]:
    """Return the cells of one selector: that of the request, else the paper's.

    order_for   what a selector that chooses sets, not an order, has none of, and is refused for; None: it is shown
    embedders   whether its cells on all embedders are shown, not of one: the only one, else the paper's
    """
    chosen = measured(request, PAPERS_SELECTOR)
    several = sorted({cell.about["embedder"] for cell in chosen} - {NO_EMBEDDER})
    if len(several) > 1 and not embedders:
        listed = f"{len(several)} embedders ({', '.join(several)})"
        if PAPERS_EMBEDDER not in several:
            raise request.refused(f"cells of {listed}: say which --embedder")
        request.say(f"{listed}: {PAPERS_EMBEDDER} is shown; --embedder chooses another")
        chosen = _by_default(request, chosen, "embedder", PAPERS_EMBEDDER)
    if order_for and any(cell.outcomes.ranks is None for cell in chosen):
        why = f"chooses sets, not an order: it has no {order_for}; `harness plot passk` draws it"
        raise request.refused(f"selector {chosen[0].about['selector']!r} {why}")
    return chosen


def telling(
    request: Request, shown: Sequence[Chosen], always: Sequence[str] = (), without: Sequence[str] = ()
) -> list[str]:
    """Return the fields in `always`, and those others, tried in the order of `FIELDS`, that tell more cells apart.

    HarnessError if two cells have the same values of all fields but those in `without`, which are never returned.
    """
    usable = [name for name in FIELDS if name not in without]

    def apart(fields: Iterable[str]) -> int:
        return len({called(cell, fields) for cell in shown})

    fields = [name for name in usable if name in always]
    for name in usable:
        more = [each for each in usable if each in fields or each == name]
        if apart(more) > apart(fields):
            fields = more
    if apart(fields) < len(shown):
        one, other, *_ = next(group for group in grouped(shown, lambda cell: called(cell, fields)) if len(group) > 1)
        raise request.refused(
            f"cells {one.key} and {other.key} ({called(one, usable)}) differ in nothing that a figure can name "
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
    fields = telling(request, shown, always, without)
    return [called(cell, fields) for cell in shown]


def grouped(chosen: Iterable[Chosen], key: Callable[[Chosen], Hashable]) -> list[list[Chosen]]:
    """Return the cells as a list of groups with equal `key(cell)`, in the order of each group's first cell."""
    groups: dict[Hashable, list[Chosen]] = {}
    for cell in chosen:
        groups.setdefault(key(cell), []).append(cell)
    return list(groups.values())


def several(
    request: Request, groups: Sequence[list[Chosen]], names: Sequence[str], field: str, remedy: str
) -> list[list[Chosen]]:
    """Return the groups that have at least two values of the field; a line says which are left out.

    names    the labels by which a group is called in messages
    remedy   the option of `harness run` that makes a second value

    HarnessError if no group has two values, a group has two cells of one value, or there are too many of them.
    """
    comparable = [group for group in groups if len({cell.about[field] for cell in group}) > 1]
    for group in groups:
        if group not in comparable:
            run = f"{called(group[0], names)} was run with one {field} ({group[0].about[field]})"
            if not comparable:
                raise request.refused(f"{run}: run others too, `harness run {remedy}`")
            request.say(f"left out: {run}")
    for group in comparable:
        for alike in grouped(group, lambda cell: cell.about[field]):
            if len(alike) > 1:
                differ = [name for name in telling(request, alike) if name != field]
                options = [f"--{name}" for name in differ if name in CHOICES]
                narrow = f"narrow them by {' '.join(options)}" if options else "give a folder that holds one of them"
                who = f"{called(alike[0], (*names, field))}: {len(alike)} cells"
                values = ((name, sorted({cell.about[name] for cell in alike})) for name in differ)
                listed = ", ".join(f"{name} ({', '.join(map(str, each))})" for name, each in values)
                raise request.refused(f"{who}, which differ in {listed}: {narrow}")
        at_most(request, len(group), f"{field}s")
    return comparable


def at_most(request: Request, count: int, what: str, most: int = MOST) -> None:
    """Raise HarnessError if there are more series or panels (`what`) than a reader can tell apart."""
    if count > most:
        narrow = f"narrow them by --{', --'.join(CHOICES)}, or give fewer folders"
        raise request.refused(f"{count} {what}, and {most} can be told apart: {narrow}")


def references(request: Request) -> list[Chosen]:
    """Return the cells of --reference, a folder, a file or a key; none without it."""
    path = request.reference
    if path is None:
        return []
    if path.is_dir():
        held = gather([path]).measured
    else:
        place = published.named(str(path), default_cells(), f"plot {request.name}: --reference")
        held = {place.key: published.read(place)}
    return [Chosen(key, cell) for key, cell in sorted(held.items())]


def judge(request: Request, every: Sequence[Chosen], task: str, problems: Sequence[str], whose: str) -> Chosen:
    """Return the cell of --reference that says how hard these problems are, whatever its selector.

    HarnessError if none holds them all, or if cells of several pools do.
    """
    same = [each for each in every if each.about["task"] == task and set(problems) <= set(each.problems)]
    if not same:
        lack = f"no cell there holds all {len(problems)} problems of {whose}: run the reference's model on them"
        raise request.refused(f"--reference {request.reference}: {lack}")
    pools = [group[0] for group in grouped(same, lambda other: other.pool)]
    if len(pools) > 1:
        listed = "; ".join(called(other, telling(request, pools)) for other in pools)
        reason = f"holds {len(pools)} pools of these problems ({listed}): give one cell's file"
        raise request.refused(f"--reference {request.reference}: {reason}")
    return same[0]
