"""Rows of a task's data: from the hub at a pinned commit, or from a local file or folder. Every fault is one line.

The hub is read through `datasets`. Three things it does are not wanted here (seen in 5.2.0). Where the hub is out of
reach it tries for 23 s, and for minutes where connections are taken but not answered; here its cache is asked first,
then the hub for any answer (`system.hub`). Then it serves the newest cached copy, of *any* revision, under the pinned
one's name; here the pinned one or none. And it prefers a folder `openai/gsm8k` that lies where the command runs.

A local file is known by its bytes, not by its name: parquet, a JSON array, or JSONL, each of the texts also gzipped.
A local folder is a clone of the dataset (`hf download openai/gsm8k --repo-type dataset --local-dir DIR`).
"""

from __future__ import annotations

import hashlib
import logging
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from harness import HarnessError, Problem
from harness.system.hub import hub_is_out_of_reach
from harness.system.json_lines import beginning, read_lines

if TYPE_CHECKING:
    import pyarrow as pa

Numbered: TypeAlias = Iterator[tuple[int, Mapping[str, Any]]]


@dataclass(frozen=True)
class Hub:
    """A dataset of the hub at one commit.

    task       who asks; every error begins with it
    repo       the dataset's id
    revision   the commit, in full
    instead    what those without the hub can give: an option, and of what the file is
    configs    the parts that make up a split, in this order; None is the one part of a dataset without parts
    named      its name for a split where ours is another
    """

    task: str
    repo: str
    revision: str
    instead: str
    configs: Sequence[str | None] = (None,)
    named: Mapping[str, str] = field(default_factory=dict)

    def split(self, ours: str) -> str:
        """The dataset's own name for a split."""
        return self.named.get(ours, ours)


@dataclass(frozen=True)
class Row:
    """One row: its values, and what an error or an id says of its place.

    number   in its split (and config), from 0: the row's number on the hub's pages
    config   the part it is from; None for a file, and for a dataset without parts
    place    for errors: `gsm8k: 'test.jsonl', line 3`
    """

    number: int
    config: str | None
    place: str
    values: Mapping[str, Any]

    def find(self, *columns: str) -> Any:
        """The value of the first of these columns that is here, else None; `a.b` is b within a; case is no matter."""
        return next((value for name in columns if (value := _value(self.values, name)) is not None), None)

    def text(self, *columns: str) -> str:
        """The same as text that is not blank (a whole number is written out); anything else is an error."""
        value = self.find(*columns)
        named = " or ".join(repr(name) for name in columns)
        if value is None:
            raise self.fault(f"no value in column {named} (columns: {', '.join(map(str, self.values)) or 'none'})")
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise self.fault(f"column {named} must be text, got {type(value).__name__}")
        if not str(value).strip():
            raise self.fault(f"column {named} is blank")
        return str(value)

    def fault(self, what: str) -> HarnessError:
        """The error that says what is wrong with this row."""
        return HarnessError(f"{self.place}: {what}")


def revision(hub: Hub, data: str | None) -> str:
    """The pinned commit, or `sha256:` and 16 hex digits over the bytes of a local file or folder."""
    return hub.revision if data is None else f"sha256:{_digest(hub.task, Path(data).expanduser())[:16]}"


def rows(hub: Hub, split: str, data: str | None, distinct: str = "") -> Iterator[Row]:
    """The rows of a split, config by config; those of a local file whatever the split.

    `distinct` names a column that tells copies: of rows that are equal in it the first alone is given. (Of a column
    store only that column is read for the others: the 1,791,700 rows of DAPO-Math-17k take seconds, not a minute.)
    """
    path = None if data is None else Path(data).expanduser()
    found = (
        _split_rows(hub, split, path, distinct) if path is None or path.is_dir() else _file_rows(hub, path, distinct)
    )
    first = next(found, None)
    if first is None:
        raise HarnessError(f"{hub.task}: {hub.repo if data is None else repr(data)} has no rows")
    yield first
    yield from found


def problems(found: Iterable[Row], make: Callable[[Row], Problem]) -> list[Problem]:
    """A problem of each row, in the rows' order; no id twice."""
    made: dict[str, Problem] = {}
    places: dict[str, str] = {}
    for row in found:
        problem = make(row)
        if problem.id in made:
            raise row.fault(f"problem {problem.id!r} is there already ({places[problem.id].rpartition(', ')[2]})")
        made[problem.id], places[problem.id] = problem, row.place
    return list(made.values())


def refuse_unknown(task: str, split: str, splits: Sequence[str]) -> None:
    """Raise unless the task has that split."""
    if split not in splits:
        raise HarnessError(f"{task}: unknown split {split!r} (choose from {', '.join(splits)})")


def refuse_swapped(task: str, split: str, count: int, sizes: Mapping[str, int]) -> None:
    """Raise where a split's rows are exactly as many as another split has: its file was given by mistake."""
    other = next((name for name, size in sizes.items() if size == count), split)
    if other != split:
        raise HarnessError(f"{task}: --data has {count:,} rows, as split {other!r} has, not {split!r}: is it its file?")


def _split_rows(hub: Hub, split: str, folder: Path | None, distinct: str) -> Iterator[Row]:
    for config in hub.configs:
        part = "/".join(filter(None, (config, hub.split(split))))
        place = f"{hub.task}: {repr(str(folder)) if folder else hub.repo} {part}, row"
        for number, values in _table_rows(_batches(hub, config, hub.split(split), folder), distinct):
            yield Row(number, config, f"{place} {number}", values)


def _value(values: Mapping[str, Any], name: str) -> Any:
    """The value at a dotted name; None where there is none."""
    head, _, rest = name.partition(".")
    value = next((value for key, value in values.items() if str(key).lower() == head.lower()), None)
    if not rest:
        return value
    return _value(value, rest) if isinstance(value, Mapping) else None


# A local file


def _file_rows(hub: Hub, path: Path, distinct: str) -> Iterator[Row]:
    what = f"{hub.task}: data"
    with _one_line(hub.task, path):
        parquet = path.suffix == ".parquet" or beginning(path, 4) == b"PAR1"
        if parquet:
            for number, (row, values) in enumerate(_parquet_rows(path, distinct)):
                yield Row(number, None, f"{what} {path}, row {row}", values)
            return
        seen: set[Any] = set()
        new = (line for line in read_lines(path, what) if not distinct or _new([_value(line.value, distinct)], seen))
        for number, line in enumerate(new):
            yield Row(number, None, line.where, line.value)


def _parquet_rows(path: Path, distinct: str) -> Numbered:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        yield from _table_rows(file.iter_batches(), distinct)


def _new(keys: Sequence[Any], seen: set[Any]) -> list[int]:
    """Which of these keys are not seen yet (and now are); what is no key, neither text nor a number, is always new."""
    found = []
    for i, key in enumerate(keys):
        if not isinstance(key, (str, int)):
            found.append(i)
        elif key not in seen:
            found.append(i)
            seen.add(key)
    return found


@contextmanager
def _one_line(task: str, path: Path) -> Iterator[None]:
    """What reading a file raises, as one line that names it."""
    import pyarrow as pa

    try:
        yield
    except (OSError, ValueError, OverflowError, TypeError, pa.ArrowException) as failure:
        reason = getattr(failure, "strerror", None) or str(failure).split("\n")[0]
        raise HarnessError(f"{task}: cannot read {str(path)!r}: {reason:.200}") from failure


def _digest(task: str, path: Path) -> str:
    """SHA-256 of a file; of a folder over its files' names and bytes, hidden ones left out."""
    with _one_line(task, path):
        if not path.is_dir():
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        whole = hashlib.sha256()
        for each in sorted(path.rglob("*")):
            name = each.relative_to(path)
            if each.is_file() and not any(part.startswith(".") for part in name.parts):
                whole.update(f"{name.as_posix()} {_digest(task, each)}\n".encode())
        return whole.hexdigest()


# Column stores: parquet, and what `datasets` makes


def _table_rows(batches: Iterable[pa.RecordBatch], distinct: str) -> Numbered:
    """The rows with their numbers from 0; of rows equal in the column `distinct` the first alone."""
    import pyarrow as pa

    seen: set[Any] = set()
    start = 0
    for batch in batches:
        keys = _keys(batch, distinct)
        chosen = range(len(batch)) if keys is None else _new(keys, seen)
        taken = batch if keys is None else batch.take(pa.array(chosen, pa.int64()))
        for i, values in zip(chosen, taken.to_pylist(), strict=True):
            yield start + i, values
        start += len(batch)


def _keys(batch: pa.RecordBatch, dotted: str) -> list[Any] | None:
    """A column's values, `a.b` being b within a; None where there is no such column."""
    import pyarrow as pa
    import pyarrow.compute as pc

    head, *inner = dotted.split(".")
    if head not in batch.schema.names:
        return None
    column = batch.column(head)
    for name in inner:
        if not pa.types.is_struct(column.type) or column.type.get_field_index(name) < 0:
            return None
        column = pc.struct_field(column, name)
    return column.to_pylist()


# The hub, or a clone of one of its datasets


def _batches(hub: Hub, config: str | None, split: str, folder: Path | None) -> Iterable[pa.RecordBatch]:
    """The batches of one part of a split."""
    with tempfile.TemporaryDirectory() as scratch, _quiet(), _loading(hub, folder):
        builder = _folder_builder(config, folder, scratch) if folder else _hub_builder(hub, config)
        return builder.as_dataset(split=split).data.to_batches()


def _folder_builder(config: str | None, folder: Path, scratch: str) -> Any:
    """A builder over a local clone, with a cache of its own: with the user's it could miss that a file has changed."""
    from datasets import load_dataset_builder

    builder = load_dataset_builder(str(folder.resolve()), config, cache_dir=scratch)
    builder.download_and_prepare()
    return builder


def _hub_builder(hub: Hub, config: str | None) -> Any:
    """A builder at the pinned commit: from the cache of `datasets`, else from the hub."""
    cached = _cached_builder(hub, config)
    if cached is not None:
        return cached
    if hub_is_out_of_reach():
        raise _not_here(hub, "the hub cannot be reached from here")
    from datasets import load_dataset_builder

    builder = load_dataset_builder(f"hf://datasets/{hub.repo}", config, revision=hub.revision)
    if builder.hash != hub.revision:  # the hub failed it, and it took another revision from its cache
        raise _not_here(hub, f"the hub did not give it (revision {builder.hash} is cached, but is another)")
    builder.download_and_prepare()
    return builder


def _cached_builder(hub: Hub, config: str | None) -> Any:
    """A builder over what an earlier run has fetched at the pinned commit; None where there is nothing."""
    from datasets.packaged_modules.cache.cache import Cache

    name = hub.repo.rpartition("/")[2]
    builder = Cache(repo_id=hub.repo, dataset_name=name, config_name=config, version="0.0.0", hash=hub.revision)
    if not Path(builder.cache_dir).is_dir():
        return None
    builder.download_and_prepare()
    return builder


def _not_here(hub: Hub, reason: str) -> HarnessError:
    return HarnessError(
        f"{hub.task}: dataset {hub.repo} (revision {hub.revision}) is not on this machine, and {reason}: "
        f"give {hub.instead}"
    )


@contextmanager
def _loading(hub: Hub, folder: Path | None) -> Iterator[None]:
    """What `datasets` raises (it has no common class for it), as one line."""
    try:
        yield
    except HarnessError:
        raise
    except Exception as failure:
        reason = str(failure).strip().split("\n")[0][:200] or type(failure).__name__
        if folder is None:
            raise _not_here(hub, f"the hub did not give it ({reason})") from failure
        raise HarnessError(f"{hub.task}: folder {str(folder)!r} is no clone of {hub.repo}: {reason}") from failure


@contextmanager
def _quiet() -> Iterator[None]:
    """Neither progress bars nor log lines nor warnings of the two libraries; as before afterwards."""
    import datasets

    loggers = [logging.getLogger(name) for name in ("datasets", "huggingface_hub")]
    levels, bars = [each.level for each in loggers], not datasets.are_progress_bars_disabled()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for each in loggers:
            each.setLevel(logging.ERROR)
        datasets.disable_progress_bars()
        try:
            yield
        finally:
            for each, level in zip(loggers, levels, strict=True):
                each.setLevel(level)
            if bars:
                datasets.enable_progress_bars()
