"""The rows of a task's data: from the Hugging Face hub at a pinned commit, or from a local file or folder.

Every fault is a HarnessError of one line.

The hub is read through `datasets`, of which three habits are avoided (seen in version 5.2.0):
- If the hub cannot be reached, it tries for 23 s, or for minutes if connections open but nothing answers. This module
  looks in the cache of `datasets` first, and then checks whether the hub answers at all (`system.extras`).
- It then serves the newest cached copy, of *any* revision, as if it were the pinned one. This module takes the pinned
  revision or none.
- It prefers a folder `openai/gsm8k` in the current directory to the dataset of that name. This module names the hub.

A local file is parquet, a JSON array or JSONL, as its content tells (the last two also gzipped), or CSV by its name.
A local folder is a clone of the dataset (`hf download openai/gsm8k --repo-type dataset --local-dir DIR`).
"""

from __future__ import annotations

import csv
import hashlib
import logging
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import HarnessError, Problem
from harness.errors import Lacking
from harness.system.extras import hub_is_out_of_reach
from harness.system.files import beginning, opened
from harness.system.json_text import read_lines

if TYPE_CHECKING:
    import pyarrow as pa


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


def _value(values: Mapping[str, Any], name: str) -> Any:
    """Return the value at a dotted name; None if there is none."""
    head, _, rest = name.partition(".")
    value = next((value for key, value in values.items() if str(key).lower() == head.lower()), None)
    if not rest:
        return value
    return _value(value, rest) if isinstance(value, Mapping) else None


def revision(task: str, data: str | None, pinned: str = "1") -> str:
    """Return `sha256:` and 16 hex digits, the hash of a local file; of a folder that of its files, hidden ones not.

    Without `data` return the commit or version `pinned`.
    """
    if data is None:
        return pinned
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


def rows(hub: Hub, split: str, data: str | None, distinct: str = "") -> Iterator[Row]:
    """Yield the rows of a split, config by config; of a local file all rows, whatever the split.

    data       the path of a local file, or of a folder with a clone of the dataset; None: the hub
    distinct   a column by which copies are recognised: of rows with the same value in it, only the first is yielded.
               (In a column store only that column is read of the copies: the 1,791,700 rows of DAPO-Math-17k take
               seconds instead of a minute.)
    """
    folder = None if data is None else Path(data).expanduser()
    if data is not None and folder and not folder.is_dir():
        yield from file_rows(hub.task, data, distinct)
        return
    named = hub.named.get(split, split)
    for config in hub.configs:
        part = "/".join(filter(None, (config, named)))
        place = f"{hub.task}: {repr(str(folder)) if folder else hub.repo} {part}, row"
        for number, values in _table_rows(_batches(hub, config, named, folder), distinct):
            yield Row(number, config, f"{place} {number}", values)


def file_rows(task: str, data: str, distinct: str = "") -> Iterator[Row]:
    """Yield the rows of a local file, without copies as `rows`. Raises HarnessError if there are none."""
    path, number = Path(data).expanduser(), -1
    with _faults_in_one_line(task, path):
        for number, (place, values) in enumerate(_read(path, f"{task}: data", distinct)):
            yield Row(number, None, f"{task}: data {path}, {place}", values)
    if number < 0:
        raise HarnessError(f"{task}: {data!r} has no rows")


def _read(path: Path, what: str, distinct: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the rows of a file, each with its place in it."""
    if path.suffix == ".csv":  # not by pyarrow, which takes a text for a number
        with opened(path, what) as text:
            reader = csv.DictReader(text)
            yield from ((f"line {reader.line_num}", values) for values in reader)
    elif path.suffix == ".parquet" or beginning(path, 4) == b"PAR1":
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as file:
            yield from ((f"row {number}", values) for number, values in _table_rows(file.iter_batches(), distinct))
    else:
        seen: set[Any] = set()
        for line in read_lines(path, what):
            if not distinct or _is_new(_value(line.value, distinct), seen):
                yield line.place, line.value


def _is_new(key: Any, seen: set[Any]) -> bool:
    """Whether the key is not in `seen`, to which it is added; what is neither text nor an integer is always new."""
    if not isinstance(key, (str, int)):
        return True
    before = len(seen)
    seen.add(key)
    return len(seen) > before


@contextmanager
def _faults_in_one_line(task: str, path: Path) -> Iterator[None]:
    """Turn what reading a file raises into a HarnessError of one line that names the file."""
    import pyarrow as pa

    try:
        yield
    except HarnessError:
        raise
    except (OSError, ValueError, OverflowError, TypeError, csv.Error, pa.ArrowException) as failure:
        reason = getattr(failure, "strerror", None) or str(failure).split("\n")[0]
        raise HarnessError(f"{task}: cannot read {str(path)!r}: {reason:.200}") from failure


def _table_rows(batches: Iterable[pa.RecordBatch], distinct: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the rows with their numbers from 0; of rows with the same value in the column `distinct` only the first."""
    import pyarrow as pa

    seen: set[Any] = set()
    start, column = 0, distinct.partition(".")[0]
    for batch in batches:
        chosen = list(range(len(batch)))
        if column in batch.schema.names:
            keys = [_value(values, distinct) for values in batch.select([column]).to_pylist()]
            chosen = [i for i in chosen if _is_new(keys[i], seen)]
        for i, values in zip(chosen, batch.take(pa.array(chosen, pa.int64())).to_pylist(), strict=True):
            yield start + i, values
        start += len(batch)


# The hub, or a clone of one of its datasets


def _batches(hub: Hub, config: str | None, split: str, folder: Path | None) -> Iterable[pa.RecordBatch]:
    """Return the batches of one config's split, from the hub or from a local clone."""
    with tempfile.TemporaryDirectory() as scratch, _quiet():
        from datasets import load_dataset_builder

        try:
            if folder:  # not with the user's cache, where `datasets` could miss that a file has changed
                builder = load_dataset_builder(str(folder.resolve()), config, cache_dir=scratch)
            else:
                builder = _hub_builder(hub, config)
            builder.download_and_prepare()
            batches: Iterable[pa.RecordBatch] = builder.as_dataset(split=split).data.to_batches()
            return batches
        except HarnessError:
            raise
        except Exception as failure:  # the exceptions of `datasets` have no class in common
            reason = str(failure).strip().split("\n")[0][:200] or type(failure).__name__
            if folder is None:
                raise _out_of_reach(hub, f"the hub did not give it ({reason})") from failure
            raise HarnessError(f"{hub.task}: folder {str(folder)!r} is no clone of {hub.repo}: {reason}") from failure


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
    missing = f"{hub.task}: dataset {hub.repo} (revision {hub.revision}) is not on this machine"
    return Lacking(f"{missing}, and {reason}: give {hub.instead}")


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the progress bars, log lines and warnings of `datasets` and `huggingface_hub` for the time of a call."""
    import datasets

    disabled, had_bars = logging.root.manager.disable, not datasets.are_progress_bars_disabled()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        datasets.disable_progress_bars()
        try:
            yield
        finally:
            logging.disable(disabled)
            if had_bars:
                datasets.enable_progress_bars()
