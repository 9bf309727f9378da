"""Where cells are: in a store a JSON file for each, published a parquet file for those of a task. Both are read alike.

A parquet file has a row for each cell and problem, with these columns (`SCHEMA`):

    cell       the cell's key
    about      the cell without its problems, as JSON; its checksum is in it
    problem    what every selector's cell of this pool says of the problem (id, n, c, ...), as JSON
    hits       of a subset method: the entry's `hits`, as JSON
    ranks      the entry's `ranks`, one a trial
    orders     the trials' orders, one after another: `cells.lengths` says where each ends
    found      the entry's `found`, a list a trial

Equal texts are stored once (dictionaries), equal orders once but for a few bytes (brotli over the whole column). What
is read back is the cell to the digit, or its checksum says that it is not. Runs until the first correct response
(`stopping_times`) have the same form. A file is made by `write`; the same cells give the same bytes. It holds a sum of
itself, which other readers of parquet skip.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import HarnessError
from harness.system.files import most_expanded, read_regular, write_atomically
from harness.system.json_text import parsed

from . import cells
from .cells import Cell

SUFFIX = ".parquet"
# Beside published cells: the reports of the conformance kit, and evaluations after RL; folders of sequences.
REPORTS, EVALUATION, SEQUENCES = "conformance.json", "rl-eval.json", "sequences"
REMEDY, SUM = "copy it anew", 16  # bytes

_TEXT, _LIST = pa.dictionary(pa.int32(), pa.string()), pa.list_(pa.field("element", pa.int32()))
_LISTS = pa.list_(pa.field("element", _LIST))
_TEXTS = ["cell", "about", "problem", "hits"]
SCHEMA = pa.schema({**dict.fromkeys(_TEXTS, _TEXT), "ranks": _LIST, "orders": _LIST, "found": _LISTS})
_SPLIT = ("ranks.list.element", "orders.list.element", "found.list.element.list.element")


@dataclass(frozen=True)
class Place:
    """Where a cell is: its file, and its key there. Of a parquet file that cannot be read the key is ""."""

    path: Path
    key: str

    def __str__(self) -> str:
        return f"{self.path}, {self.key}" if self.path.suffix == SUFFIX and self.key else str(self.path)


def places(folders: Iterable[Path], sequences: bool = False) -> Iterator[Place]:
    """Yield each cell in the folders and below, of a store (a folder with `cells`) those of its cells; or in files.

    sequences   yield what should be a run until the first correct response, not cells
    """
    for folder in folders:
        within = folder / "cells" if (folder / "cells").is_dir() else folder
        paths = [within] if within.is_file() else sorted([*within.rglob("*.json"), *within.rglob(f"*{SUFFIX}")])
        for path in paths:
            if not sequences and (path.parent.name == SEQUENCES or path.name in (REPORTS, EVALUATION)):
                continue
            if path.suffix == SUFFIX:
                if (path.parent / "column.json").exists():  # rows of a pool, in a store
                    continue
                try:
                    yield from (Place(path, key) for key in _held(path).spans)
                except HarnessError:
                    yield Place(path, "")
            else:
                yield Place(path, path.stem)


def named(name: str, folders: Iterable[Path], who: str) -> Place:
    """The place of the cell that `name` stands for: a file of one cell, or the beginning of one key in the folders."""
    is_file = Path(name).is_file()
    folders = [Path(name)] if is_file else list(dict.fromkeys(folders))
    matches = {place.key: place for place in places(folders) if is_file or place.key.startswith(name)}
    if len(matches) == 1:
        return next(iter(matches.values()))
    if not matches:
        for damaged in (place for place in places(folders) if not place.key):
            read(damaged)  # what is named may be in it: raises its line
        where = ", ".join(map(str, folders))
        raise HarnessError(f"{who}: no file {name!r}, and no cell whose key begins so in {where}")
    keys = ", ".join(sorted(matches)[:3])
    if is_file:
        raise HarnessError(f"{who}: {name} holds {len(matches)} cells: name one by its key ({keys}, ...)")
    raise HarnessError(f"{who}: {name!r} begins the keys of {len(matches)} cells ({keys}, ...): write more of it")


def read(place: Place, labels: Mapping[str, Any] | None = None) -> Cell:
    """The cell at a place; HarnessError (one line) if it is not a cell or cannot be trusted; `labels`: see `value`."""
    of_many = place.path.suffix == SUFFIX
    return cells.checked(value(place, labels), place.key, place) if of_many else cells.read(place.path)


def value(place: Place, labels: Mapping[str, Any] | None = None) -> Any:
    """What a parquet file holds under a key, unchecked; HarnessError if it cannot be put together.

    labels   do not put together what has other labels than these: HarnessError
    """
    held = _held(place.path)
    try:
        start, stop = held.spans[place.key]
        about = parsed(held.text("about", start) or "", f"cell {place}", REMEDY)
        ranking = about["inputs"].get("ranking", {})
        if not (labels or {}).items() <= about["labels"].items():
            raise HarnessError(f"cell {place}: has other labels than {labels}")
        return {**about, "problems": [held.entry(row, ranking) for row in range(start, stop)]}
    except HarnessError:
        raise
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as failure:
        raise HarnessError(f"cell {place}: cannot be put together ({failure!r:.80}); {REMEDY}") from None


def write(path: Path, made: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the cells, or sequences, by their keys, into a parquet file, completely or not at all.

    They must be sound, as `read` returns them.
    """
    rows: dict[str, list[Any]] = {name: [] for name in SCHEMA.names}
    order = sorted(made, key=lambda key: (list(map(str, made[key]["labels"].values())), key))
    for key in order:
        about = _json({name: value for name, value in made[key].items() if name != "problems"})
        for entry in made[key]["problems"]:
            own = {name: entry.get(name) for name in ("ranks", "orders", "found", "hits")}
            own["hits"] = own["hits"] and _json(own["hits"])
            own["orders"] = own["orders"] and [index for order in own["orders"] for index in order]
            same = _json({name: value for name, value in entry.items() if name not in own})
            for name, item in {"cell": key, "about": about, "problem": same, **own}.items():
                rows[name].append(item)
    table = pa.table(
        {field.name: pa.array(rows[field.name], pa.string() if field.type == _TEXT else field.type) for field in SCHEMA}
    )
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        **{"compression": "brotli", "compression_level": 11, "write_statistics": False, "store_schema": False},
        **{"use_dictionary": _TEXTS, "column_encoding": dict.fromkeys(_SPLIT, "BYTE_STREAM_SPLIT")},
        # One page a column: what is equal is found wherever it stands.
        **{"dictionary_pagesize_limit": 2**30, "data_page_size": 2**30},
    )
    content = sink.getvalue().to_pybytes()
    at = _footer(content)
    write_atomically(path, content[:at] + _sum(content) + content[at:])
    _loaded.cache_clear()


def delete(keys: Sequence[str], folder: Path) -> list[Place]:
    """Delete the cells that the keys name from their parquet files, and return their places.

    All others in these files are checked first; a file without cells goes.
    """
    gone = [named(key, [folder], "results delete") for key in keys]
    if alone := next((place for place in gone if place.path.suffix != SUFFIX), None):
        raise HarnessError(f"results delete: {alone} is one cell's own file: delete the file")
    kept = {path: [each for each in places([path]) if each not in gone] for path in {place.path for place in gone}}
    made = {path: {place.key: read(place) for place in several} for path, several in kept.items()}
    for path, several in made.items():
        if several:
            write(path, several)
        else:
            path.unlink()
    return gone


def _footer(content: bytes) -> int:
    """Where a parquet file's footer begins; before it is room for what readers skip: our sum of all other bytes."""
    return len(content) - 8 - int.from_bytes(content[-8:-4], "little")


def _sum(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()[:SUM]


def _json(part: Mapping[str, Any]) -> str:
    return json.dumps(part, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


@dataclass(frozen=True, eq=False)
class _Held:
    """A parquet file's rows.

    spans   key -> the first row of its cell, and the row after its last
    texts   column of texts -> its distinct texts, and which of them each row has
    lists   column of lists -> each row's list, or None
    """

    spans: Mapping[str, tuple[int, int]]
    texts: Mapping[str, tuple[Sequence[str], Sequence[int | None]]]
    lists: Mapping[str, Sequence[list[Any] | None]]
    parse: Callable[[str], dict[str, Any]]

    def text(self, column: str, row: int) -> str | None:
        distinct, chosen = self.texts[column]
        return None if (at := chosen[row]) is None else distinct[at]

    def entry(self, row: int, ranking: Mapping[str, Any]) -> dict[str, Any]:
        """The entry of the problem in a row."""
        entry = {**self.parse(self.text("problem", row) or "")}
        own = {name: column[row] for name, column in self.lists.items()}
        hits = self.text("hits", row)
        entry |= {name: value for name, value in own.items() if value is not None}
        if own["orders"] is not None:
            entry["orders"], start = [], 0
            for length in cells.lengths(entry, ranking):
                entry["orders"].append(own["orders"][start : start + length])
                start += length
        return entry if hits is None else entry | {"hits": self.parse(hits)}


def _held(path: Path) -> _Held:
    """The rows of a file; HarnessError if it is none, or is damaged."""
    try:
        stat = path.stat()
        return _loaded(path, stat.st_mtime_ns, stat.st_size)
    except HarnessError:
        raise
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, IndexError) as failure:
        reason = getattr(failure, "strerror", None) or " ".join(str(failure).split())
        raise HarnessError(f"cells {path}: cannot be read ({reason:.120}); {REMEDY}") from None


@lru_cache(maxsize=1)
def _loaded(path: Path, *stamp: int) -> _Held:
    content = read_regular(path)
    at = max(0, _footer(content))
    if content[at - SUM : at] != _sum(content[: at - SUM] + content[at:]):  # on some damage the reader ends the process
        raise HarnessError(f"cells {path}: is damaged, or no file of cells; {REMEDY}, or move it elsewhere")
    file = pq.ParquetFile(pa.BufferReader(content), read_dictionary=_TEXTS)
    if not file.schema_arrow.equals(SCHEMA):
        raise HarnessError(f"cells {path}: has other columns than this version reads; {REMEDY}")
    meta = file.metadata
    columns = [meta.row_group(group).column(at) for group in range(meta.num_row_groups) for at in range(len(SCHEMA))]
    if sum(max(column.num_values, column.total_uncompressed_size) for column in columns) > most_expanded(len(content)):
        raise HarnessError(f"cells {path}: expands to more than {most_expanded(len(content)):,} bytes; {REMEDY}")
    table = file.read(use_threads=False).unify_dictionaries()
    texts, lists = {}, {}
    for name in SCHEMA.names:
        column = table[name].combine_chunks()
        if name in _TEXTS:
            texts[name] = column.dictionary.to_pylist(), column.indices.to_pylist()
        else:
            flat, ends, absent = column.values.to_pylist(), column.offsets.to_pylist(), column.is_null().to_pylist()
            lists[name] = [None if absent[row] else flat[ends[row] : ends[row + 1]] for row in range(len(table))]
    names, chosen = texts["cell"]
    starts = np.flatnonzero(np.diff(chosen, prepend=-1)).tolist() if chosen else []
    ends = [*starts[1:], len(table)]
    spans = {names[chosen[start]]: (start, end) for start, end in zip(starts, ends, strict=True)}
    return _Held(spans, texts, lists, lru_cache(maxsize=None)(lambda text: parsed(text, f"cells {path}", REMEDY)))
