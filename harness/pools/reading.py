"""Read a pool file: find its layout, our own or one that a plugin registered, and check what its reader gives.

Our own layout is asked first, then layouts of whole files, then those of lines; of a folder layouts of files first.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from harness.errors import HarnessError, contained, error_text
from harness.plugin_system.component import Spec, build, described
from harness.plugin_system.registry import Registration, Registry, load_registry
from harness.system.files import open_regular
from harness.system.json_text import Line, count_lines, digest, read_lines

from .record import FileLayout, LineLayout, PoolRecord, Say, as_reference, column_in, scores_in, text_in, texts_in

BUILT_IN = "diversity-harness"  # the distribution whose layouts are part of no pool's key

Layout: TypeAlias = LineLayout | FileLayout
T = TypeVar("T")


def read_pool(path: Path, say: Say = lambda line: None, layouts: Layouts | None = None) -> Iterator[PoolRecord]:
    """Yield the records of a pool file or folder, each checked; `say` gets a line on a layout that is not ours.

    layouts: None for those of the installed plugins.
    """
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
    layout = find_layout(path, layouts)
    if layout is OWN:
        yield from OWN.read(_alike(OWN, read_lines(path)))
        return
    where = f"pool {path}: layout {layout.name!r}"
    if isinstance(layout, FileLayout):
        by_file = layout
        records = _called(where, lambda: iter(by_file.read(path, say)))
    else:
        by_line, first = layout, _first_line(path)
        assert first is not None
        verdicts = [key for key in getattr(layout, "verdicts", ()) if key in first.value]
        untaken = f"; not taken as verdicts: {', '.join(verdicts)}" if verdicts else ""
        say(f"pool: read as {layout.name} samples{getattr(layout, 'remark', '')}{untaken}")
        records = _called(where, lambda: iter(by_line.read(_alike(by_line, read_lines(path)))))
    while record := _called(where, lambda: _checked(next(records, None), where)):
        yield record


def _called(where: str, call: Callable[[], T]) -> T:
    """What a plugin's layout returns; whatever it raises is one line that begins with `where`."""
    try:
        with contained():
            return call()
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


def _checked(record: Any, where: str) -> PoolRecord | None:
    """The record that a plugin's layout gave, with a reference that the store can keep; None after the last."""
    if record is None:
        return None
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


def count_problems(path: Path, layouts: Layouts | None = None) -> int:
    """Return how many problems a pool file has if each line is one; 0 for other layouts, folders and broken files.

    Blank lines are counted too: the number is for progress only.
    """
    try:
        layout = find_layout(path, layouts or Layouts()) if path.is_file() else None
        return count_lines(path) if getattr(layout, "one_line_a_problem", False) else 0
    except (HarnessError, OSError):  # read_pool will say what is wrong
        return 0


def pool_files(path: Path, layouts: Layouts | None = None) -> Sequence[Path]:
    """Return the files that a pool is made of: the file itself, or files of the folder, as its layout decides.

    A layout of folders says which by `files`; without it they are all files in the folder and below it, for a layout of
    lines its *.jsonl and *.jsonl.gz files.
    """
    if not path.is_dir():
        return [path]
    layout: Any = (layouts or Layouts()).of_file(path)
    if hasattr(layout, "files"):
        return _called(f"pool {path}: layout {layout.name!r}", lambda: list(layout.files(path)))
    names = ("*.jsonl", "*.jsonl.gz") if layout is None else ("**/*",)
    return sorted(file for name in names for file in path.glob(name) if file.is_file())


def file_digest(path: Path) -> str:
    """`sha256:` and the first 16 hex digits of the file's SHA-256."""
    with open_regular(path) as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()[:16]}"


def pool_digest(path: Path, layouts: Layouts | None = None) -> str:
    """The digest of a pool file; for a folder the digest of its files' names and contents."""
    if not path.is_dir():
        return file_digest(path)
    files = [[file.relative_to(path).as_posix(), file_digest(file)] for file in pool_files(path, layouts)]
    return f"sha256:{digest(files, 16)}"


def takes_scores(path: Path, layouts: Layouts) -> bool:
    """Whether a pool of our own layout or a built-in one has scores, judged by its layout and its first line."""
    layout = find_layout(path, layouts)
    if layout is OWN:
        first = _first_line(path)
        return bool(first and first.value.get("scores"))
    return getattr(layout, "scores", False)


def other_layout(path: Path, layouts: Layouts) -> dict[str, Any] | None:
    """What fixes how a pool is read (name, distribution, code), for its key; None for our own and built-in layouts."""
    layout = find_layout(path, layouts)
    others = (registration for registration, built in layouts.built if built is layout)
    return next((described(other, layout) for other in others if not _is_built_in(other)), None)


# Layouts


class OwnLayout:
    """The layout that `harness pool export` writes, one JSON line a problem; docs/pools.md lists its columns."""

    name, keys, one_line_a_problem = "own", "problem_id, responses", True

    def fits(self, value: Mapping[str, Any]) -> bool:
        """Whether a line has "problem_id" or "responses"; if the other one is missing, `read` says so."""
        return "problem_id" in value or "responses" in value

    def read(self, lines: Iterator[Line]) -> Iterator[PoolRecord]:
        """Yield a record for each line; HarnessError for a malformed line, or a problem's second line."""
        places: dict[str, str] = {}
        for line in lines:
            record = _own_record(line)
            if record.problem_id in places:
                raise HarnessError(
                    f"{line.where}: problem_id {record.problem_id!r} stands on {places[record.problem_id]} already: "
                    "one line a problem"
                )
            places[record.problem_id] = line.place
            yield record


OWN = OwnLayout()


def _own_record(line: Line) -> PoolRecord:
    value = line.value
    if "problem_id" not in value or "responses" not in value:
        got = json.dumps(value, ensure_ascii=False)
        raise HarnessError(f'{line.where}: expected {{"problem_id": ..., "responses": [...]}}, got {got[:60]!r}')
    problem_id = text_in(value, "problem_id", line.where)
    if not problem_id:
        raise HarnessError(f"{line.where}: problem_id must be a text, got {problem_id!r}")
    where = f"{line.where} ({problem_id})"
    responses = texts_in(value, "responses", where)
    try:
        json.dumps(value.get("reference"), allow_nan=False)
    except ValueError as failure:
        raise HarnessError(f"{where}: reference must hold plain values, no NaN, none infinite") from failure

    def column(name: str, holds: str, fits: Callable[[Any], bool], kept: Callable[[Any], Any]) -> Any:
        if value.get(name) is None:
            return None
        entries = column_in(value[name], name, len(responses), where)
        if not all(map(fits, entries)):
            raise HarnessError(f"{where}: {name} must hold {holds} only")
        return [kept(entry) for entry in entries]

    def number(entry: Any) -> bool:
        return type(entry) in (int, float) and math.isfinite(entry)

    return PoolRecord(
        problem_id=problem_id,
        responses=responses,
        prompt=None if value.get("prompt") is None else text_in(value, "prompt", where),
        reference=value.get("reference"),
        logprobs=column("logprobs", "numbers", number, float),
        logprob_kind=None if value.get("logprob_kind") is None else text_in(value, "logprob_kind", where),
        correct=column("correct", "true and false", lambda entry: type(entry) is bool or entry in (0, 1), bool),
        finish=column("finish", '"stop" and "length"', lambda entry: entry in ("stop", "length"), str),
        scores=scores_in(value.get("scores"), len(responses), where),
    )


class Layouts:
    """The layouts of a registry (None: of the installed plugins), built when a file first needs one.

    Those of `--plugin` files and other distributions are asked before the built-in ones, so that a parquet file of
    another tool is not taken for lighteval's; else they are asked in the order of registration. A broken one is left
    out: `say` gets a line (None: stderr), and the message on an unknown layout names it.
    """

    def __init__(self, registry: Registry | None = None, say: Say | None = None) -> None:
        self._given, self._say = registry, say or (lambda line: print(line, file=sys.stderr))
        self._broken: list[str] = []

    @cached_property
    def _registry(self) -> Registry:
        return self._given or load_registry()

    @cached_property
    def built(self) -> list[tuple[Registration, Layout]]:
        """The layouts that could be built, in the order in which they are asked."""
        built = []
        for registration in sorted(self._registry.registrations, key=_is_built_in):
            if registration.kind != "layout":
                continue
            try:
                layout = build(self._registry, "layout", Spec(registration.full_name))
                if not isinstance(layout, (LineLayout, FileLayout)):
                    raise HarnessError("it lacks name, fits, read, keys (of lines) or holds (of files)")
                built.append((registration, layout))
            except HarnessError as failure:
                self._leave_out(registration, str(failure))
        return built

    def _leave_out(self, registration: Registration, reason: str) -> None:
        name = f"{registration.name!r} of {registration.origin}"
        if name not in self._broken:
            self._broken.append(name)
            self._say(f"pool: layout {name} is left out: {reason}")

    def of_file(self, path: Path) -> FileLayout | None:
        """The first layout of files that fits a file or folder."""
        layout: FileLayout | None = self._first(FileLayout, path)
        return layout

    def of_line(self, line: Line) -> LineLayout:
        """The first layout of lines that fits; HarnessError, which names all that are known, where none does."""
        layout: LineLayout | None = self._first(LineLayout, line.value)
        if layout is not None:
            return layout
        layouts = [OWN, *(layout for _, layout in self.built)]
        known = [f"{layout.name} ({layout.keys})" for layout in layouts if isinstance(layout, LineLayout)]
        known += [layout.holds for layout in layouts if isinstance(layout, FileLayout)]
        left_out = f"; left out as broken: {', '.join(self._broken)}" if self._broken else ""
        raise HarnessError(
            f"{line.where}: unknown layout: its keys are {_shown_keys(line)}; known are {'; '.join(known)}{left_out}"
            f"{self._registry.hint()}"
        )

    def _first(self, kind: Any, value: Any) -> Any:
        for registration, layout in self.built:
            try:
                with contained():
                    if isinstance(layout, kind) and layout.fits(value):
                        return layout
            except (HarnessError, OSError):
                raise
            except Exception as failure:
                self._leave_out(registration, error_text(failure))
        return None


def find_layout(path: Path, layouts: Layouts) -> Layout:
    """Return the layout of a pool. An empty file has our own. HarnessError if no layout fits."""
    try:
        first = None if path.is_dir() else _first_line(path)
    except HarnessError:  # no JSON
        if (layout := layouts.of_file(path)) is None:
            raise
        return layout
    if first is None or not OWN.fits(first.value):
        if (layout := layouts.of_file(path)) is not None:
            return layout
        first = first or _first_line(path)
    return OWN if first is None or OWN.fits(first.value) else layouts.of_line(first)


def _first_line(path: Path) -> Line | None:
    with closing(read_lines(path)) as lines:
        return next(lines, None)


def _is_built_in(registration: Registration) -> bool:
    return registration.origin.dist == BUILT_IN


def _shown_keys(line: Line) -> str:
    return f"{', '.join(map(repr, line.value)) or 'none':.300}"
