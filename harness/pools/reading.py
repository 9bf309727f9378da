"""Read a pool file, and find the problem of a task that each of its lines answers.

Our own layout is asked first, then those that plugins registered: of whole files, then of lines; of a folder layouts of
files first. What a layout gives is checked.

A line's problem is looked for in this order, each time by all ids or prompts of the line:

    --ids       the problem that the table gives; a line in the table joins to that problem or to none
    id          the line's id is the problem's
    prompt      the line's prompt is the problem's raw one
    rendered    ... or the problem as the task asks it: the contents of its chat messages, or that of the last one
    within      the line's prompt, say a rendered chat, holds the raw prompt, else the last message, of one problem

Before prompts are compared, each run of blanks becomes one blank. `within` needs at least 20 characters, and a match
must not cut a number at its ends. A line that fits several problems joins to none (few-shot prompts hold several).
Duplicates in a data set, with the same prompt and reference, are an exception: the first counts. 83 of the 4,096
problems of dapo-math are such duplicates.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from harness.contracts import Task
from harness.errors import HarnessError, contained, error_text
from harness.plugin_system.component import Spec, build, described
from harness.plugin_system.registry import Registration, Registry, load_registry
from harness.records import Problem
from harness.system.files import open_regular, opened
from harness.system.json_text import Line, digest, read_lines, storable

from .record import FileLayout, LineLayout, PoolRecord, Say, as_reference, column_in, scores_in, text_in, texts_in

BUILT_IN = "diversity-harness"  # the distribution whose layouts are part of no pool's key


def read_pool(path: Path, say: Say = lambda line: None, layouts: Layouts | None = None) -> Iterator[PoolRecord]:
    """Yield the records of a pool file or folder, each checked; `say` gets a line on a layout that is not ours."""
    empty = True
    try:
        if not path.exists():
            raise HarnessError(f"pool {path}: no such file")
        for record in _records(path, say, layouts or Layouts()):
            empty = False
            yield record
    except OSError as failure:
        raise HarnessError(f"pool {path}: cannot be read ({failure.strerror or failure})") from failure
    if empty:
        raise HarnessError(f"pool {path}: empty: it holds one JSON object a line, see docs/pools.md")


def _records(path: Path, say: Say, layouts: Layouts) -> Iterator[PoolRecord]:
    layout = layouts.of(path)
    if layout is OWN:
        layouts.options_of(layout, path)
        yield from OWN.read(_alike(OWN, read_lines(path)))
        return
    where, options = f"pool {path}: layout {layout.name!r}", layouts.options_of(layout, path)
    if isinstance(layout, FileLayout):
        read = _called(where, partial(layout.read, **options), path, say)
    else:
        first = _first_line(path)
        verdicts = [key for key in getattr(layout, "verdicts", ()) if first and key in first.value]
        untaken = f"; not taken as verdicts: {', '.join(verdicts)}" if verdicts else ""
        say(f"pool: read as {layout.name} samples{getattr(layout, 'remark', '')}{untaken}")
        read = _called(where, partial(layout.read, **options), _alike(layout, read_lines(path)))
    records = _called(where, iter, read)
    while record := _called(where, next, records, None):
        yield _checked(record, where)


def _called(where: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """What a plugin's layout returns; whatever it raises is one line that begins with `where`."""
    try:
        with contained():
            return function(*arguments)
    except (HarnessError, OSError):
        raise
    except Exception as failure:
        raise HarnessError(f"{where} {error_text(failure)}") from failure


def _alike(layout: LineLayout, lines: Iterator[Line]) -> Iterator[Line]:
    """The lines; HarnessError at the first that is of another layout."""
    for line in lines:
        if not layout.fits(line.value):
            raise HarnessError(
                f"{line.where}: the first line is {layout.name} ({layout.keys}), this one has the keys "
                f"{_shown_keys(line)}"
            )
        yield line


def _checked(record: Any, where: str) -> PoolRecord:
    """The record that a plugin's layout gave, with a reference that the store can keep."""
    if not isinstance(record, PoolRecord):
        raise HarnessError(f"{where} must give PoolRecords, got {record!r:.60}")
    n, texts = len(record.responses), (*record.ids, *record.prompts, *record.responses)
    if not n or not all(isinstance(text, str) for text in texts):
        raise HarnessError(f"{where} must give texts, and at least one response, got {record!r:.200}")
    columns = (record.logprobs, record.correct, record.measurements, record.finish, record.names or None)
    if any(column is not None and len(column) != n for column in columns):
        raise HarnessError(f"{where} must give columns as long as the responses ({n}), got {record!r:.200}")
    scores_in(record.scores, n, where)
    return replace(record, reference=as_reference(record.reference))


# What is known of a pool before it is read


def file_digest(path: Path) -> str:
    """`sha256:` and the first 16 hex digits of the file's SHA-256."""
    with open_regular(path) as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()[:16]}"


def pool_digest(path: Path, layouts: Layouts) -> str:
    """The digest of a pool file; of a folder that of the names and contents of the files that its layout reads.

    A layout of folders says which by `files`; without it they are all files in the folder and below it, for a layout of
    lines its *.jsonl and *.jsonl.gz files.
    """
    if not path.is_dir():
        return file_digest(path)
    layout = layouts.of_file(path)
    if hasattr(layout, "files"):
        files = _called(f"pool {path}: layout {layout.name!r}", layout.files, path)
    else:
        names = ("*.jsonl", "*.jsonl.gz") if layout is None else ("**/*",)
        files = sorted(file for name in names for file in path.glob(name) if file.is_file())
    return f"sha256:{digest([[file.relative_to(path).as_posix(), file_digest(file)] for file in files], 16)}"


# Layouts


class OwnLayout:
    """The layout that `harness pool export` writes, one JSON line a problem; docs/pools.md lists its columns."""

    name, keys = "own", "problem_id, responses"

    def fits(self, value: Mapping[str, Any]) -> bool:
        """Whether a line has one of the two; if the other is missing, `read` says so."""
        return "problem_id" in value or "responses" in value

    def read(self, lines: Iterator[Line]) -> Iterator[PoolRecord]:
        return map(_own_record, lines)


OWN = OwnLayout()
COLUMNS: dict[str, tuple[str, Callable[[Any], bool], type]] = {  # name -> what it holds, its check, its type
    "logprobs": ("numbers", lambda entry: type(entry) in (int, float) and math.isfinite(entry), float),
    "correct": ("true and false", lambda entry: type(entry) is bool or entry in (0, 1), bool),
    "finish": ('"stop" and "length"', lambda entry: entry in ("stop", "length"), str),
    "names": ("texts", lambda entry: isinstance(entry, str), str),
}


def _own_record(line: Line) -> PoolRecord:
    value = line.value
    if "problem_id" not in value or "responses" not in value:
        got = json.dumps(value, ensure_ascii=False)
        raise HarnessError(f'{line.where}: expected {{"problem_id": ..., "responses": [...]}}, got {got[:60]!r}')
    problem_id = text_in(value, "problem_id", line.where)
    if not problem_id:
        raise HarnessError(f"{line.where}: problem_id must be a text, got {problem_id!r}")
    where = f"{line.where} ({problem_id})"
    known: dict[str, Any] = {"responses": texts_in(value, "responses", where), "reference": value.get("reference")}
    n = len(known["responses"])
    try:
        json.dumps(known["reference"], allow_nan=False)
    except ValueError as failure:
        raise HarnessError(f"{where}: reference must hold plain values, no NaN, none infinite") from failure
    for name in ("prompt", "logprob_kind"):
        known[name] = None if value.get(name) is None else text_in(value, name, where)
    for name, (holds, fits, kind) in COLUMNS.items():
        if value.get(name) is not None:
            entries = column_in(value[name], name, n, where)
            if not all(map(fits, entries)):
                raise HarnessError(f"{where}: {name} must hold {holds} only")
            known[name] = list(map(kind, entries))
    return PoolRecord(problem_id, scores=scores_in(value.get("scores"), n, where), **known)


class Layouts:
    """The layouts of a registry (None: of the installed plugins), built when a file first needs one.

    Those of `--plugin` files and other distributions are asked before the built-in ones, so that a parquet file of
    another tool is not taken for lighteval's. One that cannot be built is left out: `say` gets a line (None: stderr).

    options  by name, of the options that only some layouts take (`takes`), those that the user gives
    """

    def __init__(
        self, registry: Registry | None = None, say: Say | None = None, options: Mapping[str, Any] | None = None
    ) -> None:
        self._registry, self._say = registry, say or (lambda line: print(line, file=sys.stderr))
        self._options = options or {}

    def of(self, path: Path) -> Any:
        """The layout of a pool. An empty file has our own. HarnessError if no layout fits."""
        try:
            first = None if path.is_dir() else _first_line(path)
        except HarnessError:  # no JSON
            if (layout := self.of_file(path)) is None:
                raise
            return layout
        if first is None or not OWN.fits(first.value):
            if (layout := self.of_file(path)) is not None:
                return layout
            first = first or _first_line(path)
        if first is None or OWN.fits(first.value):
            return OWN
        if (layout := self._first(LineLayout, first.value)) is not None:
            return layout
        known = [f"{OWN.name} ({OWN.keys})"]
        known += [f"{each.name} ({each.keys})" for _, each in self._built if isinstance(each, LineLayout)]
        known += [each.holds for _, each in self._built if isinstance(each, FileLayout)]
        hint = self._registry.hint() if self._registry else ""
        raise HarnessError(
            f"{first.where}: unknown layout: its keys are {_shown_keys(first)}; known are {'; '.join(known)}{hint}"
        )

    def of_file(self, path: Path) -> Any:
        """The first layout of files that fits a file or folder; None if none does."""
        return self._first(FileLayout, path)

    def options_of(self, layout: Any, path: Path) -> dict[str, Any]:
        """The options with which the layout reads a pool; HarnessError if it does not take one that says something."""
        takes = getattr(layout, "takes", ())
        if untaken := next((name for name, value in self._options.items() if name not in takes and value != ("",)), ""):
            raise HarnessError(f"pool {path}: read as {layout.name}, which takes no --{untaken.replace('_', '-')}")
        return {name: value for name, value in self._options.items() if name in takes}

    def in_key(self, path: Path) -> dict[str, Any] | None:
        """What fixes how a pool is read, for its key; None for ours and built-in layouts that are given no option.

        Name, distribution and code of a layout that is not built in, and the options.
        """
        layout = self.of(path)
        others = (registration for registration, built in self._built if built is layout)
        known = next((described(other, layout) for other in others if not _is_built_in(other)), None)
        options = self.options_of(layout, path)
        return {**(known or {}), "options": options} if options else known

    @cached_property
    def _built(self) -> list[tuple[Registration, LineLayout | FileLayout]]:
        """The layouts that could be built, in the order in which they are asked."""
        built: list[tuple[Registration, LineLayout | FileLayout]] = []
        self._registry = self._registry or load_registry()
        registered = [each for each in self._registry.registrations if each.kind == "layout"]
        for registration in sorted(registered, key=_is_built_in):  # else in the order in which they were registered
            try:
                layout = build(self._registry, "layout", Spec(registration.full_name))
                if not isinstance(layout, (LineLayout, FileLayout)):
                    raise HarnessError("it lacks name, fits, read, keys (of lines) or holds (of files)")
                built.append((registration, layout))
            except HarnessError as failure:
                self._say(f"pool: layout {registration.name!r} of {registration.origin} is left out: {failure}")
        return built

    def _first(self, kind: Any, value: Any) -> Any:
        fit = (each for _, each in self._built if isinstance(each, kind))
        return next((each for each in fit if _called(f"pool: layout {each.name!r}", each.fits, value)), None)


def _first_line(path: Path) -> Line | None:
    with closing(read_lines(path)) as lines:
        return next(lines, None)


def _is_built_in(registration: Registration) -> bool:
    return registration.origin.dist == BUILT_IN


def _shown_keys(line: Line) -> str:
    return f"{', '.join(map(repr, line.value)) or 'none':.300}"


# Joining


SHORTEST = 20  # characters of a prompt that is looked for within others
WAYS = {
    "--ids": "by the table of --ids",
    "id": "by id",
    "prompt": "by prompt",
    "rendered": "by the prompt as the task asks it",
    "within": "because their prompt holds the task's",
}


class Joined:
    """Iterate over a pool file: pairs of a line and its problem, without the lines that join to no problem.

    After each pass `index` lists what it joined. Without a `join` each line is its own problem.
    """

    def __init__(self, path: Path, join: Joiner | None, layouts: Layouts | None = None) -> None:
        self.path, self.join, self.layouts = path, join, layouts or Layouts()
        self._index: dict[str, list[Any]] = {}  # what `index` returns

    def __iter__(self) -> Iterator[tuple[PoolRecord, Problem]]:
        self._index = {"entries": [], "lost": [], "notes": []}
        taken: dict[str, str] = {}
        for record in read_pool(self.path, self._index["notes"].append, self.layouts):
            prompt = next(iter(record.prompts), "")
            problem: Problem | None = Problem(record.problem_id, prompt, record.reference)
            problem, way = self.join(record) if self.join else (problem, "")
            if problem is None:
                self._index["lost"].append(record.problem_id)
                continue
            name = storable(problem.id)  # as a cell has it
            if name in taken:
                two = f"{record.problem_id!r} and {taken[name]!r}"
                raise HarnessError(f"pool {self.path}: {two} both join to problem {problem.id!r}: one line a problem")
            taken[name] = record.problem_id
            entry = {
                "id": problem.id,
                "line": record.problem_id,
                "way": way,
                "prompt": prompt,
                "reference": record.reference,
                "n": len(record.responses),
                "graded": record.correct is not None,
                "figures": bool(record.measurements),
            }
            self._index["entries"].append(entry)
            yield record, problem

    def index(self) -> dict[str, Any]:
        """What the last pass joined; HarnessError if no line joined, or none by the table of --ids.

        entries  for each joined problem what the file says of it
        lost     the ids of lines that fit no problem, or several
        notes    how the file was read
        """
        ids, entries, lost = self.join and self.join.ids, self._index["entries"], self._index["lost"]
        if not entries:
            raise HarnessError(
                f"pool {self.path}: none of its {len(lost)} problems is the task's, by id or by prompt; the first is "
                f"{lost[0]!r}: check the split, or {'the table' if ids else 'give a table of --ids'}"
            )
        if ids and not any(entry["way"] == "--ids" for entry in entries):
            raise HarnessError(
                f"ids {ids.path}: names no line of pool {self.path}; its first is {entries[0]['line']!r}"
            )
        return self._index


def remarks(index: Mapping[str, Any]) -> Iterator[str]:
    """Lines for the user about an `index`: how its file was read, how its lines joined, which joined to none."""
    lost, ways = index["lost"], Counter(entry["way"] for entry in index["entries"])
    yield from index["notes"]
    if set(ways) - {"", "id"}:
        yield "pool: joined " + ", ".join(f"{ways[way]:,} {text}" for way, text in WAYS.items() if ways[way])
    if lost:
        first = ", ".join(map(repr, lost[:5])) + (", ..." if len(lost) > 5 else "")
        yield f"pool: {len(lost)} of {len(lost) + ways.total()} problems join to none of the task's: {first}"


class Joiner:
    """Find the problem of a task that a line of a pool answers; the module's docstring lists the ways."""

    def __init__(self, task: Task, problems: Iterable[Problem], ids: IdTable | None = None) -> None:
        raw, rendered, last = [], [], []
        for problem in problems:
            contents = [message["content"] for message in task.messages(problem)]
            raw.append((problem.prompt, problem))
            rendered.append(("\n".join(contents), problem))
            last += [(content, problem) for content in contents[-1:]]
        self.ids = ids
        self.by_id = {problem.id: problem for _, problem in raw}
        by_raw, by_last = _by_prompt(raw), _by_prompt(last)
        self._ways = (("prompt", by_raw), ("rendered", _by_prompt(rendered)), ("rendered", by_last))
        self._within = (_within(by_raw), _within(by_last))

    def __call__(self, record: PoolRecord) -> tuple[Problem | None, str]:
        """Return the problem, None where there is none, and the way it was found."""
        if self.ids and (mapped := self.ids.find(record)) is not None:
            return self.by_id.get(mapped), "--ids"
        if known := [name for name in record.ids if name in self.by_id]:
            return self.by_id[known[0]], "id"
        prompts = [_squeezed(prompt) for prompt in record.prompts]
        for way, problems in self._ways:
            if fits := [problems[prompt] for prompt in prompts if prompt in problems]:
                return fits[0], way
        for find in self._within:
            if held := {id(problem): problem for prompt in prompts for problem in find(prompt)}:
                return (next(iter(held.values())), "within") if len(held) == 1 else (None, "")
        return None, ""


def _by_prompt(pairs: Iterable[tuple[str, Problem]]) -> dict[str, Problem | None]:
    """Squeezed prompt -> its problem; of several that are graded alike (reference and meta) the first, else None."""
    known: dict[str, Problem | None] = {}
    for prompt, problem in pairs:
        first = known.setdefault(_squeezed(prompt), problem)
        if first and repr([first.reference, first.meta]) != repr([problem.reference, problem.meta]):
            known[_squeezed(prompt)] = None
    return known


def _within(prompts: Mapping[str, Problem | None]) -> Callable[[str], Iterator[Problem | None]]:
    """A function that yields the problems whose prompts a longer text holds; of nested prompts only the longer."""
    starts: dict[str, list[str]] = {}
    for prompt in sorted(prompts, key=len, reverse=True):
        if len(prompt) >= SHORTEST:
            starts.setdefault(prompt[:SHORTEST], []).append(prompt)

    def stands(prompt: str, text: str, start: int) -> bool:
        after = text[start + len(prompt) : start + len(prompt) + 2]
        runs_on = prompt[0].isdigit() and re.search(r"\d\.?$", text[max(0, start - 2) : start])
        return text.startswith(prompt, start) and not (runs_on or (prompt[-1].isdigit() and re.match(r"\.?\d", after)))

    def find(text: str) -> Iterator[Problem | None]:
        end = 0
        for start in range(len(text) - SHORTEST + 1 if starts else 0):
            for prompt in starts.get(text[start : start + SHORTEST], ()):
                if start + len(prompt) > end and stands(prompt, text, start):
                    end = start + len(prompt)
                    yield prompts[prompt]
                    break

    return find


def _squeezed(text: str) -> str:
    return " ".join(text.split())


class IdTable:
    """A table, JSONL or .csv: `task_id`, the problem's id, and `pool_id` or `prompt` of the line that answers it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._by_id: dict[str, str] = {}
        self._by_prompt: dict[str, str | None] = {}
        for where, row in _rows(path):
            cells = ("" if row.get(name) is None else str(row[name]) for name in ("task_id", "pool_id", "prompt"))
            task_id, pool_id, prompt = map(str.strip, cells)
            if not task_id or not (pool_id or prompt):
                raise HarnessError(
                    f"{where}: expected the task's id (task_id) and the pool's line (pool_id or prompt), got "
                    f"{', '.join(map(repr, row)):.300}"
                )
            if not pool_id:
                before = self._by_prompt.setdefault(_squeezed(prompt), task_id)
                self._by_prompt[_squeezed(prompt)] = task_id if before == task_id else None  # of several: names none
            elif (known := self._by_id.setdefault(pool_id, task_id)) != task_id:
                raise HarnessError(f"{where}: {pool_id!r} is {task_id!r} here and {known!r} in a row before")
        if not self._by_id and not self._by_prompt:
            raise HarnessError(f"ids {path}: no rows: it holds a task's id and a pool's line each, see docs/pools.md")

    def find(self, record: PoolRecord) -> str | None:
        """The id of the task's problem; None where the table does not name the line, or gives its prompt to several."""
        named = [self._by_id.get(name) for name in record.ids]
        named += [self._by_prompt.get(_squeezed(prompt)) for prompt in record.prompts]
        return next((name for name in named if name is not None), None)


def _rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The rows of a table, each with its place for messages."""
    if ".csv" not in path.suffixes:
        yield from ((line.where, line.value) for line in read_lines(path, "ids"))
        return
    with opened(path, "ids") as file:
        reader = csv.DictReader(file, strict=True)
        try:
            yield from ((f"ids {path}, line {reader.line_num}", row) for row in reader)
        except csv.Error as failure:
            raise HarnessError(f"ids {path}, line {reader.line_num}: not CSV ({failure})") from failure
