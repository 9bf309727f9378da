"""The rows of a task's data: from the Hugging Face hub at a pinned commit, or from a local file or folder.

Every fault is a HarnessError of one line.

The hub is read through `datasets`, of which three habits are avoided (seen in version 5.2.0):
- If the hub cannot be reached, it tries for 23 s, or for minutes if connections open but nothing answers. This module
  looks in the cache of `datasets` first, and then checks whether the hub answers at all (`system.hub`).
- It then serves the newest cached copy, of *any* revision, as if it were the pinned one. This module takes the pinned
  revision or none.
- It prefers a folder `openai/gsm8k` in the current directory to the dataset of that name. This module names the hub.

The format of a local file is recognised by its content: parquet, a JSON array, or JSONL; the last two also gzipped.
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
from harness.errors import Lacking
from harness.system.extras import hub_is_out_of_reach
from harness.system.files import beginning
from harness.system.json_text import read_lines

if TYPE_CHECKING:
    import pyarrow as pa

Numbered: TypeAlias = Iterator[tuple[int, Mapping[str, Any]]]


@dataclass(frozen=True)
class Hub:
    """A dataset of the hub at one commit.

    task       the task that reads it; every error message begins with its name
    instead    for error messages: what to give if the hub cannot be reached, an option and a description of its file
    configs    the configs that make up a split, in this order; None for a dataset without configs
    named      the dataset's names of splits, if they differ from the task's
    """

    task: str
    repo: str
    revision: str
    instead: str
    configs: Sequence[str | None] = (None,)
    named: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """One row of a dataset, and its place.

    number   its number in its split (and config), from 0: the number that the hub's pages show; in a local file the
             number among the rows that are used, without copies
    config   the config that it is from; None for a local file, and for a dataset without configs
    place    for error messages: `gsm8k: 'test.jsonl', line 3`
    values   its values by column
    """

    number: int
    config: str | None
    place: str
    values: Mapping[str, Any]

    def find(self, *columns: str) -> Any:
        """Return the value of the first of these columns that has one (not None), else None.

        `a.b` is the field b of column a. Upper and lower case are the same.
        """
        return next((value for name in columns if (value := _value(self.values, name)) is not None), None)

    def text(self, *columns: str) -> str:
        """Return the value of the first of these columns as text; an integer is converted.

        Raises HarnessError if it is missing, blank or neither text nor an integer.
        """
        value = self.find(*columns)
        named = " or ".join(repr(name) for name in columns)
        if value is None:
            raise self.fault(f"no value in column {named} (columns: {', '.join(map(str, self.values)) or 'none'})")
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise self.fault(f"column {named} must be text, got {type(value).__name__}")
        if not str(value).strip():
            raise self.fault(f"column {named} is blank")
        return str(value)

    def fault(self, message: str) -> HarnessError:
        """Return an error that names this row's place and what is wrong with it."""
        return HarnessError(f"{self.place}: {message}")


def revision(hub: Hub, data: str | None) -> str:
    """Return the pinned commit, or the hash of the local file or folder `data`."""
    return hub.revision if data is None else file_revision(hub.task, data)


def file_revision(task: str, data: str) -> str:
    """Return `sha256:` and 16 hex digits, the hash of a local file; of a folder that of its files, hidden ones not."""
    path = Path(data).expanduser()
    with _faults_in_one_line(task, path):
        if not path.is_dir():
            return f"sha256:{_file_hash(path)[:16]}"
        whole = hashlib.sha256()
        for file in sorted(path.rglob("*")):
            name = file.relative_to(path)
            if file.is_file() and not any(part.startswith(".") for part in name.parts):
                whole.update(f"{name.as_posix()} {_file_hash(file)}\n".encode())
        return f"sha256:{whole.hexdigest()[:16]}"


def _file_hash(path: Path) -> str:
    with path.open("rb") as binary:
        return hashlib.file_digest(binary, "sha256").hexdigest()


def rows(hub: Hub, split: str, data: str | None, distinct: str = "") -> Iterator[Row]:
    """Yield the rows of a split, config by config; of a local file all rows, whatever the split.

    data       the path of a local file, or of a folder with a clone of the dataset; None: the hub
    distinct   a column by which copies are recognised: of rows with the same value in it, only the first is yielded.
               (In a column store only that column is read of the copies: the 1,791,700 rows of DAPO-Math-17k take
               seconds instead of a minute.)

    Raises HarnessError if there are no rows.
    """
    path = None if data is None else Path(data).expanduser()
    row = None
    if path is None or path.is_dir():
        named = hub.named.get(split, split)
        for config in hub.configs:
            part = "/".join(filter(None, (config, named)))
            place = f"{hub.task}: {repr(str(path)) if path else hub.repo} {part}, row"
            for number, values in _table_rows(_batches(hub, config, named, path), distinct):
                yield (row := Row(number, config, f"{place} {number}", values))
    else:
        for row in _file_rows(hub.task, path, distinct):
            yield row
    if row is None:
        raise HarnessError(f"{hub.task}: {hub.repo if data is None else repr(data)} has no rows")


def problems(rows: Iterable[Row], make: Callable[[Row], Problem]) -> list[Problem]:
    """Return `make(row)` for each row, in the rows' order. Raises HarnessError if two problems have the same id."""
    by_id: dict[str, Problem] = {}
    places: dict[str, str] = {}
    for row in rows:
        problem = make(row)
        if problem.id in by_id:
            raise row.fault(f"problem {problem.id!r} is there already ({places[problem.id].rpartition(', ')[2]})")
        by_id[problem.id], places[problem.id] = problem, row.place
    return list(by_id.values())


def refuse_swapped(task: str, split: str, count: int, sizes: Mapping[str, int]) -> None:
    """Raise HarnessError if the number of rows is that of another split: then the other split's file was given."""
    other = next((name for name, size in sizes.items() if size == count), split)
    if other != split:
        raise HarnessError(f"{task}: --data has {count:,} rows, as split {other!r} has, not {split!r}: is it its file?")


def _value(values: Mapping[str, Any], name: str) -> Any:
    """Return the value at a dotted name; None if there is none."""
    head, _, rest = name.partition(".")
    value = next((value for key, value in values.items() if str(key).lower() == head.lower()), None)
    if not rest:
        return value
    return _value(value, rest) if isinstance(value, Mapping) else None


# A local file


def _file_rows(task: str, path: Path, distinct: str) -> Iterator[Row]:
    """Yield the rows of a local file; they are numbered without the copies that are left out."""
    source = f"{task}: data"
    with _faults_in_one_line(task, path):
        if path.suffix == ".parquet" or beginning(path, 4) == b"PAR1":
            import pyarrow.parquet as pq

            with pq.ParquetFile(path) as file:
                for number, (place, values) in enumerate(_table_rows(file.iter_batches(), distinct)):
                    yield Row(number, None, f"{source} {path}, row {place}", values)
            return
        seen: set[Any] = set()
        lines = read_lines(path, source)
        kept = (line for line in lines if not distinct or _first_seen([_value(line.value, distinct)], seen))
        for number, line in enumerate(kept):
            yield Row(number, None, line.where, line.value)


def _first_seen(keys: Sequence[Any], seen: set[Any]) -> list[int]:
    """Return the indices of the keys that are not in `seen`, and add them to it. Only text and integers are keys."""
    first = []
    for i, key in enumerate(keys):
        is_key = isinstance(key, (str, int))
        if not (is_key and key in seen):
            first.append(i)
        if is_key:
            seen.add(key)
    return first


@contextmanager
def _faults_in_one_line(task: str, path: Path) -> Iterator[None]:
    """Turn what reading a file raises into a HarnessError of one line that names the file."""
    import pyarrow as pa

    try:
        yield
    except (OSError, ValueError, OverflowError, TypeError, pa.ArrowException) as failure:
        reason = getattr(failure, "strerror", None) or str(failure).split("\n")[0]
        raise HarnessError(f"{task}: cannot read {str(path)!r}: {reason:.200}") from failure


# Column stores: parquet, and the tables of `datasets`


def _table_rows(batches: Iterable[pa.RecordBatch], distinct: str) -> Numbered:
    """Yield the rows with their numbers from 0; of rows with the same value in the column `distinct` only the first."""
    import pyarrow as pa

    seen: set[Any] = set()
    start = 0
    for batch in batches:
        keys = _keys(batch, distinct)
        chosen = range(len(batch)) if keys is None else _first_seen(keys, seen)
        chosen_rows = batch if keys is None else batch.take(pa.array(chosen, pa.int64()))
        for i, values in zip(chosen, chosen_rows.to_pylist(), strict=True):
            yield start + i, values
        start += len(batch)


def _keys(batch: pa.RecordBatch, dotted: str) -> list[Any] | None:
    """Return a column's values (`a.b` is the field b of column a); None if there is no such column."""
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
    values: list[Any] = column.to_pylist()
    return values


# The hub, or a clone of one of its datasets


def _batches(hub: Hub, config: str | None, split: str, folder: Path | None) -> Iterable[pa.RecordBatch]:
    """Return the batches of one config's split, from the hub or from a local clone."""
    with tempfile.TemporaryDirectory() as scratch, _quiet(), _loading_faults(hub, folder):
        if folder:  # not with the user's cache, where `datasets` could miss that a file has changed
            from datasets import load_dataset_builder

            builder = load_dataset_builder(str(folder.resolve()), config, cache_dir=scratch)
        else:
            builder = _hub_builder(hub, config)
        builder.download_and_prepare()
        batches: Iterable[pa.RecordBatch] = builder.as_dataset(split=split).data.to_batches()
        return batches


def _hub_builder(hub: Hub, config: str | None) -> Any:
    """Return a builder at the pinned commit: over what an earlier run downloaded, else from the hub."""
    from datasets import load_dataset_builder
    from datasets.packaged_modules.cache.cache import Cache

    name = hub.repo.rpartition("/")[2]
    cached = Cache(repo_id=hub.repo, dataset_name=name, config_name=config, version="0.0.0", hash=hub.revision)
    if Path(cached.cache_dir).is_dir():
        return cached
    if hub_is_out_of_reach():
        raise _out_of_reach(hub, "the hub cannot be reached from here")
    builder = load_dataset_builder(f"hf://datasets/{hub.repo}", config, revision=hub.revision)
    if builder.hash != hub.revision:  # the hub did not answer, and `datasets` took another revision from its cache
        raise _out_of_reach(hub, f"the hub did not give it (revision {builder.hash} is cached, but is another)")
    return builder


def _out_of_reach(hub: Hub, reason: str) -> Lacking:
    """Return the error that says which data are missing, why, and what to give instead."""
    return Lacking(
        f"{hub.task}: dataset {hub.repo} (revision {hub.revision}) is not on this machine, and {reason}: "
        f"give {hub.instead}"
    )


@contextmanager
def _loading_faults(hub: Hub, folder: Path | None) -> Iterator[None]:
    """Turn what `datasets` raises into a HarnessError of one line; its exceptions have no class in common."""
    try:
        yield
    except HarnessError:
        raise
    except Exception as failure:
        reason = str(failure).strip().split("\n")[0][:200] or type(failure).__name__
        if folder is None:
            raise _out_of_reach(hub, f"the hub did not give it ({reason})") from failure
        raise HarnessError(f"{hub.task}: folder {str(folder)!r} is no clone of {hub.repo}: {reason}") from failure


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the progress bars, log lines and warnings of `datasets` and `huggingface_hub` for the time of a call."""
    import datasets

    loggers = [logging.getLogger(name) for name in ("datasets", "huggingface_hub")]
    levels, had_bars = [logger.level for logger in loggers], not datasets.are_progress_bars_disabled()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        datasets.disable_progress_bars()
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
            if had_bars:
                datasets.enable_progress_bars()
