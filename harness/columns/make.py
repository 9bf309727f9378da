"""Make what is missing: column after column, the problems whose file the store lacks. Everything else asks here."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from harness.contracts import Executor
from harness.system.progress import Progress

from .column import Column, Out, Question, Todo
from .store import Damaged, Store, is_part, read, sum_of

T = TypeVar("T")
Batch = Sequence[tuple[Question, Sequence[Path] | None, Path | None]]
# Problems, with the files that they are made from (None: the problem has its rows, and is only made along), and with a
# file of theirs that lacks rows.


@dataclass(frozen=True)
class Fill:
    """Makes batches of a column's rows, in whatever process; an executor is given one, and may send it elsewhere.

    folder, plugin_files   what every machine must see
    model_bytes            about the memory of the model that each process loads; 0: none, or unknown
    """

    out: Out
    planned: dict[str, Any]
    owner: int = field(default_factory=os.getpid)

    @property
    def folder(self) -> Path:
        """The pool's folder."""
        return self.out.root / self.out.column.pool.pool_name

    @property
    def plugin_files(self) -> Sequence[Path]:
        """The files of plugins that are needed."""
        parts = [value for value in vars(self.out.column).values() if hasattr(value, "plugins")]
        return parts[0].plugins if parts else ()

    @property
    def model_bytes(self) -> float:
        """The column's."""
        return self.out.column.model_bytes

    def __call__(self, batch: Batch) -> None:
        """Read what the rows are made from, and write what is made."""
        if os.getpid() != self.owner and self.out.column.uses_model:
            self.out.require_same(self.planned)
        todo, sums = [], {}
        for question, paths, kept in batch:
            given = {path.parent.name.partition(".")[0]: read(path) for path in paths or ()}
            todo.append(Todo(question, given, kept and read(kept)))
            if paths is not None:
                sums[question.problem.id] = [sum_of(path) for path in paths]
        self.out.column.make(todo, replace(self.out, sums=sums))


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
        self._new: set[str] = set()  # ids of problems with rows made by this object

    @property
    def samples_here(self) -> bool:
        """Whether models run in this process."""
        return bool(getattr(self.executor, "models_here", False))

    def make(
        self,
        columns: Sequence[Column],
        questions: Sequence[Question],
        then: Callable[[], T] = lambda: None,  # type: ignore[assignment,return-value]
    ) -> T:
        """Make what the columns read, then the columns: for each, the problems that the store lacks. Return `then()`.

        A damaged file that shows itself, in `then` too, counts as missing, with a line, unless its column is costly.
        """
        every = in_order(columns)
        while True:
            try:
                for column in every:
                    self._fill(column, every, questions)
                return then()
            except Damaged as failure:
                folders = {self.store.folder(column) for column in every if not column.is_costly}
                if failure.path.parent not in folders:
                    raise
                self.progress.say(f"{failure.path} is damaged: it is made again")
                failure.path.unlink(missing_ok=True)
                self.store.forget()

    def _fill(self, column: Column, columns: Sequence[Column], questions: Sequence[Question]) -> None:
        missing = self.store.missing(column, questions)
        self._tell(column, questions, missing)
        if missing:
            wanted = [other for other in columns if column.brings(other)]
            for each in (column, *wanted):
                self.store.begin(each)
            batches = self._batches(column, questions, missing, with_all=bool(wanted))
            try:
                self._made(Out(self.store.root, column, wanted), batches)
            finally:
                self.store.forget()
        if remark := column.require_most(self.store, questions):
            self.progress.say(remark)

    def _tell(self, column: Column, questions: Sequence[Question], missing: Sequence[Question]) -> None:
        lacking = {question.problem.id for question in missing}
        reused = sum(question.problem.id not in lacking | self._new for question in questions)
        if reused and column.noun and column not in self._told:
            self.progress.say(f"{column.noun}: reused for {reused} of {len(questions)} problems")
        self._told.add(column)
        self._new |= lacking

    def _batches(
        self, column: Column, questions: Sequence[Question], missing: Sequence[Question], with_all: bool
    ) -> list[Batch]:
        """The problems to make, some at a time.

        with_all  cut the batches from all problems, and make a batch whole if one of its problems is missing: hidden
                  states depend in their last bits on what is sampled together, and a killed run shall end as any other
        """
        lacking = {question.problem.id for question in missing}
        from_all = questions if with_all else missing
        size = max(1, min(column.together, len(from_all)))
        batches: list[Batch] = []
        for start in range(0, len(from_all), size):
            group = from_all[start : start + size]
            if lacking.isdisjoint(question.problem.id for question in group):
                continue
            batches.append([self._item(column, question, question.problem.id in lacking) for question in group])
        return batches

    def _item(
        self, column: Column, question: Question, is_missing: bool
    ) -> tuple[Question, Sequence[Path] | None, Path | None]:
        paths = [self.store.required(each, question) for each in column.reads]
        path = self.store.path(column, question)
        return question, paths if is_missing else None, path if path and is_part(path) else None

    def _made(self, out: Out, batches: Sequence[Batch]) -> None:
        column = out.column
        apart = not column.here and not (column.uses_model and self.samples_here)
        counts = [sum(column.rows(each, paths or ()) for each, paths, _ in batch) for batch in batches]
        unit = "responses" if column.by_rows else "problems"
        with self.progress.stage(column.verb, sum(counts), unit, bool(column.noun), column.most_tokens) as stage:
            stage.note = column.spending
            reports = column.reports and not apart
            fill = Fill(replace(out, report=stage) if reports else out, column.described)
            try:
                done = self.executor.map(fill, batches, column.uses_model) if apart else map(fill, batches)
                for count, _ in zip(counts, done, strict=True):
                    if not reports:
                        stage.advance(count)
            finally:
                if line := column.bill():
                    self.progress.say(line)


def preview(columns: Sequence[Column], questions: Sequence[Question], store: Store) -> list[dict[str, Any]]:
    """For each column how many problems the store has ("there") and lacks ("to_make"), and its key. Nothing is made."""
    rows = []
    for column in in_order(columns):
        lacking = len(store.missing(column, questions))
        there = len(questions) - lacking
        rows.append({"stage": column.verb, "there": there, "to_make": lacking, "key": column.key})
    return rows


def batched(items: Sequence[T], size: int) -> Iterable[Sequence[T]]:
    """The items in groups of `size`, in order; the last may be smaller."""
    iterator = iter(items)
    return iter(lambda: list(itertools.islice(iterator, size)), [])
