"""What a column is: a frozen dataclass whose fields are all that it depends on."""

from __future__ import annotations

import functools
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from harness.contracts import Charges, Report
from harness.errors import HarnessError
from harness.plugin_system.component import build, described, parameters, parse_spec, source_hash
from harness.plugin_system.registry import Registry, load_registry
from harness.records import Message, Problem
from harness.system.files import disk_errors, write_parts
from harness.system.json_text import digest, readable

from .store import Memo, Rows, Store, filed, read, stem, sum_of


@dataclass(frozen=True)
class Part:
    """A component by its spec, such as `repexp:lam=0.1`: plain data that any process can be sent, and builds once.

    Components themselves are never sent: an engine would take its loaded weights along.

    options  what the harness adds to its arguments
    plugins  files with plugins
    """

    kind: str
    spec: str
    options: tuple[tuple[str, Any], ...] = ()
    plugins: tuple[Path, ...] = ()

    @property
    def name(self) -> str:
        """Its name, without parameters."""
        return parse_spec(self.spec).name

    @property
    def built(self) -> Any:
        """The component; built once in a process, so that a model is loaded once."""
        return _built(self)

    @property
    def described(self) -> Any:
        """All that fixes what it makes: a part of keys."""
        return _described(self)


@functools.cache
def registry(plugins: tuple[Path, ...]) -> Registry:
    """What is installed, and what these files register; read once in a process, until `forget`."""
    return load_registry(plugins)


@functools.cache
def _built(part: Part) -> Any:
    return build(registry(part.plugins), part.kind, part.spec, **dict(part.options))


@functools.cache
def _described(part: Part) -> Any:
    component = part.built
    if part.kind == "engine":  # its code is in no key: responses are expensive
        return dict(component.identity())
    if part.kind == "sampler":  # its parameters fix all that it does, unless it steers
        steers = {"name": part.name, "code": source_hash(component)} if getattr(component, "steers", False) else {}
        return {**steers, **parameters(component)}
    registration = registry(part.plugins).find(part.kind, part.name)
    if part.kind == "task":
        return {"task": part.spec, "grader": component.grader, "code": source_hash(component, registration)}
    return described(registration, component)


CACHES = [registry.cache_clear, _built.cache_clear, _described.cache_clear]  # what `forget` calls


def forget() -> None:
    """Forget what was built: a plugin may have been installed or edited since."""
    for clear in CACHES:
        clear()


@dataclass(frozen=True, eq=False)
class Question:
    """A problem, and the chat in which a model is asked it (one message of plain text for a model without a chat)."""

    problem: Problem
    chat: Sequence[Message] = ()

    @cached_property
    def asked(self) -> str:
        """The hash of what the model sees: a changed reference asks for no new response."""
        return digest([self.problem.prompt, list(self.chat)])

    @cached_property
    def graded(self) -> str:
        """The hash of what a grader reads."""
        return digest([self.problem.prompt, repr(self.problem.reference)])


@dataclass(frozen=True, eq=False)
class Todo:
    """A problem whose rows of a column are to be made; plain data, until `given` reads.

    paths   the files that the rows are made from; None: the problem has its rows, and is only made along
    partly  the file of its rows, if some of these did not arrive
    """

    question: Question
    paths: Sequence[Path] | None
    partly: Path | None = None

    @property
    def problem(self) -> Problem:
        return self.question.problem

    @property
    def given(self) -> Mapping[str, Any]:
        """Kind -> the rows of each column that is read; read anew each time, and not kept."""
        return {path.parent.name.partition(".")[0]: read(path) for path in self.paths or ()}


# A field that came later: it is in no key as long as it has its default, so that files made before it stay.
LATER = {"later": True}

# What of a problem the rows of a kind depend on, beside the files that they are made from: orders on nothing else.
DEPENDS = {"responses": "asked", "vectors": "asked", "scores": "asked"}
DEPENDS |= {"verdicts": "graded", "audits": "graded", "chance": "graded"}

# What a kind of column is made from, in the order in which the names of its files hash it.
READS: dict[str, tuple[str, ...]] = dict.fromkeys(("vectors", "scores", "verdicts", "audits", "chance"), ("responses",))
READS |= {"orders": ("responses", "verdicts", "vectors", "scores"), "choices": ("responses", "verdicts", "scores")}


@dataclass(frozen=True)
class Column:
    """One column of a pool: what one component makes of each problem's rows, from other columns, under settings.

    The fields are components (`Part`), the columns that are read (one of a kind), and settings. The hash of components
    and settings is the key; what is read is in the names of files. A field with `compare=False` is in neither key nor
    equality, as the path of a file whose hash is another field.

    kind       responses, vectors, scores, verdicts, orders, ...: a class each, or several, one for another
    verb       what making it is called in progress lines
    noun       what its rows are called where they are reused; "": a column that needs no line
    version    raise it where the class makes other rows of the same fields
    is_costly  a damaged file is not made again unasked, and a finished one waits for the disk
    by_rows    progress counts responses, not problems
    reports    `make` calls `out.report` itself, where it works in this process
    uses_model  it loads a model: an executor keeps that process, or gives it a GPU
    here       no other process can make it
    together   how many problems it makes best in one call
    most_tokens  the most tokens of one of its rows, by which the time left is estimated; 0: it makes none
    payer      the engine, if its tokens cost money: what making the column has cost is shown
    """

    kind: ClassVar[str]
    verb: ClassVar[str]
    noun: ClassVar[str] = ""
    version: ClassVar[int] = 1
    is_costly: ClassVar[bool] = False
    by_rows: ClassVar[bool] = False
    reports: ClassVar[bool] = False
    uses_model: ClassVar[bool] = False
    here: ClassVar[bool] = False
    together: ClassVar[int] = 1
    most_tokens: ClassVar[int] = 0
    payer: ClassVar[Charges | None] = None

    @property
    def name(self) -> str:
        """What the column is called beside its kind: its first component's name."""
        return next(value.name for value in self._values.values() if isinstance(value, Part))

    @cached_property
    def reads(self) -> list[Column]:
        """The columns that it is made from."""
        read = {value.kind: value for value in self._values.values() if isinstance(value, Column)}
        return [read[kind] for kind in READS.get(self.kind, tuple(read)) if kind in read]

    @property
    def pool(self) -> Column:
        """The column of responses that it belongs to."""
        return self.reads[0].pool if self.reads else self

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The fields as JSON, without the columns that are read: what the key is the hash of."""
        parts = {name: value for name, value in self._values.items() if isinstance(value, Part)}
        own = {name: value for name, value in self._values.items() if not isinstance(value, Column | None)}
        made = {"kind": self.kind, "version": self.version, **own}
        made |= {name: part.described for name, part in parts.items()}
        models = [part.built for part in parts.values() if part.kind in ("embedder", "scorer")]
        models = [dict(built.identity()) if hasattr(built, "identity") else {} for built in models]
        return made | ({"models": models} if any(models) else {})

    @property
    def described(self) -> dict[str, Any]:
        """The settings, and the folders of the columns that are read."""
        read = {name: value.folder for name, value in self._values.items() if isinstance(value, Column)}
        return self.settings | read

    @cached_property
    def folder(self) -> str:
        """KIND.NAME.KEY. What it reads is not in the key: each file's name says which files it was made from."""
        return f"{self.kind}.{readable(self.name)}.{self.key}"

    @cached_property
    def key(self) -> str:
        """The hash of the settings."""
        return digest(self.settings, 12)

    @cached_property
    def variant(self) -> str:
        """Which columns are read, all the way down: two columns of one folder may differ in that."""
        return " ".join(f"{each.folder} {each.variant}" for each in self.reads)

    @cached_property
    def pool_name(self) -> str:
        """The name of the pool's folder, where this is its column of responses."""
        return f"{readable(self.name)}.{self.key}"

    @property
    def _values(self) -> dict[str, Any]:
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.compare}
        later = {each.name: each.default for each in fields(self) if each.metadata == LATER}
        return {name: value for name, value in values.items() if name not in later or value != later[name]}

    def __getstate__(self) -> dict[str, Any]:
        """What another process is sent: the fields. It describes and builds the components itself.

        A column that only this process makes is sent by its name and what fixes its key: its files stay open here.
        """
        sent = {each.name: getattr(self, each.name) for each in fields(self) if each.compare or not self.here}
        return {**sent, "name": self.name} if self.here else sent

    def part(self, question: Question) -> Any:
        """What of a problem its rows depend on, beside what they are made from."""
        return getattr(question, DEPENDS.get(self.kind, ""), None)

    def brings(self, other: Column) -> bool:
        """Whether making this column gives the rows of the other too."""
        return False

    def rows(self, question: Question, read_from: Sequence[Path]) -> int:
        """How many rows a problem has, for progress."""
        return 1

    def make(self, todo: Sequence[Todo], out: Out) -> None:
        """Make the rows of some problems: call `out.keep` for each, as soon as it is finished."""
        raise NotImplementedError

    def require_most(self, store: Store, questions: Sequence[Question]) -> str:
        """A line about rows that did not arrive, "" if all did; HarnessError if too few are there to go on."""
        return ""


def ignored(count: int) -> None:
    """A report that nobody reads."""


@dataclass(frozen=True, eq=False)
class Out:
    """Where a column's rows go. It is plain data: any process on any machine that sees the store can be sent it.

    wanted   other columns whose rows this one brings, that are to be kept too
    planned  the column's folder in the process of the run
    report   called with a number of rows just made; nobody is told of those that another process makes
    """

    root: Path
    column: Column
    wanted: Sequence[Column] = ()
    planned: str = ""
    report: Report = ignored

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "report": ignored}

    @property
    def tokens(self) -> Report:
        """What to call with tokens just sampled: the report's own count, or nothing where it has none."""
        counts: Report = getattr(self.report, "tokens", ignored)
        return counts

    def keep(
        self,
        todo: Todo,
        rows: Rows,
        brought: Mapping[Column, Callable[[], Rows]] | None = None,
        partly: bool = False,
    ) -> None:
        """Write a problem's rows. Those of columns that are brought along are written before a problem is complete.

        So a file of this column says that what came with it is there too.
        partly   some rows did not arrive
        """
        if todo.paths is None:
            return
        question, sums = todo.question, [sum_of(path) for path in todo.paths]
        folder = self.root / self.column.pool.pool_name
        path, content = filed(folder / self.column.folder, stem(self.column, question, sums), rows, partly)
        for column, its_rows in (brought or {}).items():
            name = stem(column, question, [sum_of(path)])
            write_parts(*filed(folder / column.folder, name, its_rows()), durable=column.is_costly)
        write_parts(path, content, durable=self.column.is_costly)
        if todo.partly and todo.partly != path:  # its rows are in the new file
            with disk_errors(todo.partly):
                todo.partly.unlink(missing_ok=True)

    def paid(self, question: Question) -> Path:
        """The file in which an engine may keep rows that were paid for until they are stored."""
        hashed = stem(self.column, question, ()).rpartition(".")[2]
        return paid(self.root, self.column) / f"{hashed}.paid.jsonl"

    def require_same(self) -> None:
        """HarnessError if this process builds another model than the one that the run was planned with."""
        if self.planned and replace(self.column).folder != self.planned:
            raise HarnessError(
                f"{self.column.noun}: on {platform.node()} it would be another than where the run was started: name "
                "what differs (a dtype, a device, a revision), or start the run on a machine like it"
            )


def memo(root: Path, name: str, made_by: Any, problem: Problem) -> Memo:
    """Values that all pools of a store share, of what makes them and a problem."""
    hashed = digest([problem.id, problem.prompt, repr(problem.reference)], 12)
    return Memo(root / "memo" / f"{name}.{digest(made_by, 12)}" / f"{readable(problem.id)}.{hashed}.jsonl")


def paid(root: Path, column: Column) -> Path:
    """The folder in which an engine keeps what a pool has cost."""
    return root / column.pool.pool_name / "paid"
