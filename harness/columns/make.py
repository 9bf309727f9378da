"""Make what is missing: column after column, the problems whose file the store lacks. Everything else asks here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from harness.contracts import Executor
from harness.system.progress import Progress

from .column import Column, Out, Part, Question, Todo
from .store import Damaged, Store, is_part

T = TypeVar("T")


class Fill(partial[None]):
    """`column.make` with its `Out`: what an executor is given, and may send to other processes.

    folder, plugin_files   what every machine must see
    """

    folder: Path
    plugin_files: Sequence[Path]


def in_order(columns: Iterable[Column]) -> list[Column]:
    """The columns and all that they read, each once, none before what it reads."""
    ordered: dict[Column, None] = {}
    for column in columns:
        ordered |= dict.fromkeys([*in_order(column.reads), column])
    return list(ordered)


class Maker:
    """Makes columns of one store by one executor, and tells what it does."""

    def __init__(self, store: Store, executor: Executor, progress: Progress) -> None:
        self.store, self.executor, self.progress = store, executor, progress
        self._told: set[Column] = set()
        self._brought: dict[Column, set[Question]] = {}  # what came along with other columns is not reused
        self.samples_here = bool(getattr(executor, "models_here", False))  # whether models run in this process

    def make(
        self,
        columns: Sequence[Column],
        questions: Sequence[Question],
        then: Callable[[], T] = lambda: None,  # type: ignore[assignment,return-value]
        groups: int = 1,
    ) -> T:
        """Make what the columns read, then the columns: for each, the problems that the store lacks. Return `then()`.

        All problems are cut into at least so many `groups`, if there are as many problems: so many engines have work.
        They do not depend on the executor, since the last bits of states and log-probabilities depend on the group.

        A damaged file that shows itself, in `then` too, counts as missing, with a line, unless its column is costly.
        """
        every = in_order(columns)
        while True:
            try:
                for column in every:
                    missing = self.store.missing(column, questions)
                    is_new = column not in self._told
                    if not is_new:  # rows that did not come are asked for once
                        missing = [each for each in missing if self.store.path(column, each) is None]
                    self._told.add(column)
                    reused = len(set(questions) - set(missing) - self._brought.get(column, set()))
                    if reused and column.noun and is_new:
                        self.progress.say(f"{column.noun}: reused for {reused} of {len(questions)} problems")
                    if missing:
                        wanted = [other for other in every if column.brings(other)]
                        for each in (column, *wanted):
                            self.store.begin(each)
                            self._brought.setdefault(each, set()).update(missing)
                        batches = self._batches(column, questions, missing, groups, with_all=bool(wanted))
                        own = column.here or (column.uses_model and self.samples_here)
                        with self._shown(column, batches) as (stage, counts):
                            fill = self._fill(column, wanted, stage, reports=own and column.reports)
                            done = map(fill, batches) if own else self.executor.map(fill, batches, column.uses_model)
                            for count, _ in zip(counts, done, strict=True):
                                stage.advance(0 if own and column.reports else count)
                    remark = column.require_most(self.store, questions)
                    if remark and is_new:
                        self.progress.say(remark)
                return then()
            except Damaged as failure:
                folders = {self.store.folder(column) for column in every if not column.is_costly}
                if failure.path.parent not in folders:
                    raise
                self.progress.say(f"{failure.path} is damaged: it is made again")
                failure.path.unlink(missing_ok=True)
                self.store.forget()

    def _fill(self, column: Column, wanted: list[Column], stage: Any, reports: bool) -> Fill:
        """What makes a batch of a column's problems, and of the columns `wanted` that it brings, and `reports` rows."""
        out = Out(self.store.root, column, wanted, column.folder)
        fill = Fill(column.make, out=replace(out, report=stage) if reports else out)
        parts = [value for value in vars(column).values() if isinstance(value, Part)]
        fill.folder = self.store.folder(column).parent
        fill.plugin_files = parts[0].plugins if parts else ()
        return fill

    def _batches(
        self, column: Column, questions: Sequence[Question], missing: Sequence[Question], groups: int, with_all: bool
    ) -> list[list[Todo]]:
        """The problems to make, some at a time.

        with_all  cut the batches from all problems, and make a batch whole if one of its problems is missing: hidden
                  states depend in their last bits on what is sampled together, and a killed run shall end as any other
        """
        lacking = set(missing)
        size = max(1, min(column.together, len(questions) // groups))
        batches = []
        for batch in batched(questions if with_all else missing, size):
            if lacking.intersection(batch):
                todo = []
                for each in batch:
                    path = self.store.path(column, each)
                    paths = [self.store.required(read, each) for read in column.reads] if each in lacking else None
                    todo.append(Todo(each, paths, path if path and is_part(path) else None))
                batches.append(todo)
        return batches

    @contextmanager
    def _shown(self, column: Column, batches: Sequence[Sequence[Todo]]) -> Iterator[tuple[Any, list[int]]]:
        """Show the progress of making a column, and what it cost; yields the stage, and how much each batch counts."""
        counts = [sum(column.rows(each.question, each.paths or ()) for each in batch) for batch in batches]
        unit = "responses" if column.by_rows else "problems"
        try:
            with self.progress.stage(column.verb, sum(counts), unit, bool(column.noun), column.most_tokens) as stage:
                if column.payer:
                    stage.note = column.payer.spending
                yield stage, counts
        finally:
            self.store.forget()
            if column.payer and (line := column.payer.bill()):
                self.progress.say(line)


def preview(
    columns: Sequence[Column], questions: Sequence[Question], store: Store, shown: set[Column]
) -> list[dict[str, Any]]:
    """For each column how many problems the store has ("there") and lacks ("to_make"), and its key. Nothing is made.

    shown  columns to leave out; those of the rows are added
    """
    rows = []
    for column in in_order(columns):
        if column in shown:
            continue
        shown.add(column)
        lacking = len(store.missing(column, questions))
        there = len(questions) - lacking
        rows.append({"stage": column.verb, "there": there, "to_make": lacking, "key": column.key})
    return rows


def batched(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The items in groups of `size`, in order; the last may be smaller."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
