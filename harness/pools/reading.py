"""Read a pool file: find its layout, our own or one that a plugin registered, and check what its reader gives.

Our own layout is asked first, then layouts of whole files, then those of lines; of a folder layouts of files first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

from harness.errors import HarnessError, contained, error_text
from harness.system.json_text import Line, count_lines, read_lines

from .layout import FileLayout, LineLayout, NamesFiles
from .own import OWN
from .record import PoolRecord, Say, as_reference, scores_in
from .registered_layouts import Layout, Layouts, shown_keys

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


def count_problems(path: Path, layouts: Layouts | None = None) -> int:
    """Return how many problems a pool file has if each line is one; 0 for other layouts, folders and broken files.

    Blank lines are counted too: the number is for progress only.
    """
    try:
        layout = find_layout(path, layouts or Layouts())[0] if path.is_file() else None
        return count_lines(path) if getattr(layout, "one_line_a_problem", False) else 0
    except (HarnessError, OSError):  # read_pool will say what is wrong
        return 0


def pool_files(path: Path, layouts: Layouts | None = None) -> Sequence[Path]:
    """Return the files that a pool is made of: the file itself, or files of the folder, as its layout decides.

    A layout of folders that is a `NamesFiles` says which; for any other layout of folders they are all files in the
    folder and below it, for a layout of lines its *.jsonl and *.jsonl.gz files.
    """
    if not path.is_dir():
        return [path]
    layout = (layouts or Layouts()).of_file(path)
    if isinstance(layout, NamesFiles):
        return _called(f"pool {path}: layout {layout.name!r}", lambda: list(layout.files(path)))
    names = ("*.jsonl", "*.jsonl.gz") if layout is None else ("**/*",)
    return sorted(file for name in names for file in path.glob(name) if file.is_file())


def other_layout(path: Path, layouts: Layouts) -> dict[str, Any] | None:
    """What fixes how a pool is read, for its key, where its layout is neither our own nor built in; else None."""
    return layouts.identity(find_layout(path, layouts)[0]) if layouts.has_others else None


def takes_scores(path: Path, layouts: Layouts) -> bool:
    """Whether a pool of our own layout or a built-in one has scores, judged by its layout and its first line."""
    layout, lines = find_layout(path, layouts)
    if layout is OWN:
        return any(line.value.get("scores") for line in islice(lines, 1))
    return getattr(layout, "scores", False)


def find_layout(path: Path, layouts: Layouts) -> tuple[Layout, Iterator[Line]]:
    """Return the layout of a pool and its lines; no lines for a layout of whole files.

    An empty file has our own layout. HarnessError if no layout fits.
    """
    lines, is_folder = read_lines(path), path.is_dir()
    try:
        first = None if is_folder else next(lines, None)
    except HarnessError:  # no JSON
        layout = layouts.of_file(path)
        if layout is None:
            raise
        return layout, iter(())
    if first is None or not OWN.fits(first.value):
        layout = layouts.of_file(path)
        if layout is not None:
            return layout, iter(())
    if is_folder:
        first = next(lines, None)
    if first is None:
        return OWN, iter(())
    return OWN if OWN.fits(first.value) else layouts.of_line(first), chain([first], lines)


def _records(path: Path, say: Say, layouts: Layouts) -> Iterator[PoolRecord]:
    layout, lines = find_layout(path, layouts)
    if layout is OWN:
        yield from OWN.read(_alike(OWN, lines))
        return
    where, records = f"pool {path}: layout {layout.name!r}", _read_by(layout, path, lines, say)
    while record := _called(where, lambda: _checked(next(records, None), where)):
        yield record


def _read_by(layout: Layout, path: Path, lines: Iterator[Line], say: Say) -> Iterator[PoolRecord]:
    if isinstance(layout, FileLayout):
        yield from layout.read(path, say)
    else:
        first = next(lines)
        verdicts = [key for key in getattr(layout, "verdicts", ()) if key in first.value]
        untaken = f"; not taken as verdicts: {', '.join(verdicts)}" if verdicts else ""
        say(f"pool: read as {layout.name} samples{getattr(layout, 'remark', '')}{untaken}")
        yield from layout.read(_alike(layout, chain([first], lines)))


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
                f"{shown_keys(line)}"
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
    reference = as_reference(record.reference)
    return record if reference is record.reference else replace(record, reference=reference)
