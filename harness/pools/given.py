"""Your own vectors, from a file or from memory: one (n, d) array per problem id, each checked before it is used.

    .npz, .safetensors   arrays by problem id, read one at a time
    .npy                 one array, of no id
    .csv, .parquet       one row a response, its numbers in columns, or in one column of lists. A column `problem_id`
                         says which problem a row belongs to, `id` names the response. A .csv may lack a header. The
                         whole table is in memory.

numpy, safetensors and pyarrow read the files, and nothing is unpickled. Here stands what they leave to their caller: a
bound on the memory of an array, a bound on how far an archive may expand, and one line for whatever is wrong.
"""

from __future__ import annotations

import csv
import math
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from harness.contracts import Task
from harness.errors import HarnessError
from harness.records import Floats, Problem
from harness.system.files import MAX_VECTORS_GB, RATIO, most_expanded, open_regular, opened

LARGEST = 1e15
GB = 1e9
PROBLEM, NAME = "problem_id", "id"
BLOCK = 2**24  # bytes of a .csv that are parsed at once: no row may be longer


class PoolTask(Task):
    """The task of a pool that has none: the problems are those in the pool file."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self._problems = problems

    def problems(self, split: str) -> Iterable[Problem]:
        """The problems given at construction: lines of the pool file, whatever the split."""
        return self._problems


class GivenVectors:
    """Your own vectors: one (n, d) array per problem id, from a file as the module's docstring lists them.

    An array of no id, in a `.npy` or a table without problem_id, has the file's name without its suffix; it is that of
    a pool's only problem.

    `names`: those of the arrays, in the file's order. `lines`: problem id -> its id in the pool file, by which an array
    may be named too. `max_gb`: the most memory for one array. `held`: arrays in memory in place of the file's, also
    sparse ones of scipy; `path` is then only their name.
    """

    def __init__(
        self,
        path: Path,
        lines: Mapping[str, str] | None = None,
        max_gb: float = MAX_VECTORS_GB,
        held: Mapping[str, Any] | None = None,
    ) -> None:
        self.path, self.lines, self.where = path, lines or {}, f"embeddings {path}"
        self._arrays = _open(path, self.where, max_gb) if held is None else _Arrays(list(held), held.__getitem__)
        self.names = dict.fromkeys(self._arrays.names)

    def row_names(self, name: str) -> Sequence[str]:
        """The names of the array's rows, in a table with a column `id`; empty for other files."""
        return self._arrays.row_names.get(name, ())

    def get(self, problem_id: str, n: int | None = None) -> Any:
        """The problem's vectors (n, d) float32, sparse if they are; HarnessError if absent, misshapen or not finite.

        n  how many rows it must have; None: any number

        Values beyond 1e15 are refused too: float32 ends at 3e38, and selectors sum squares.
        """
        where = f"{self.where}: {problem_id!r}"
        if problem_id not in self.names:
            problem_id = self.lines.get(problem_id, problem_id)
        if self._arrays.unnamed and len(self.names) == len(self.lines) == 1:
            (problem_id,) = self.names
        if problem_id not in self.names:
            names = ", ".join(f"{name!r:.60}" for name in [*self.names][:3]) + (", ..." if len(self.names) > 3 else "")
            raise HarnessError(f"{where} is not in the file ({len(self.names)} other ids are: {names or 'none'})")
        with _one_line(where):
            array = self._arrays.read(problem_id)
            array = array if hasattr(array, "toarray") else np.asarray(array)
        if array.dtype.kind not in "fiub":
            raise HarnessError(f"{where} must hold numbers, got {array.dtype}; save them as float32")
        if array.ndim != 2 or n not in (None, array.shape[0]):
            expected = "n" if n is None else n
            raise HarnessError(f"{where} has shape {array.shape}, expected ({expected}, d): one row a response")
        largest = _largest(array)
        if len(bad := np.flatnonzero(~np.isfinite(largest))):
            raise HarnessError(
                f"{where} must hold finite numbers, got NaN or inf in {len(bad)} of {len(largest)} rows, row {bad[0]} "
                "the first"
            )
        if (most := float(largest.max(initial=0))) > LARGEST:
            raise HarnessError(f"{where} holds {most:.3g}: float32 vectors must stay within {LARGEST:g}, scale them")
        return np.asarray(array, np.float32) if isinstance(array, np.ndarray) else array.tocsr().astype(np.float32)


def _largest(vectors: Any) -> Floats:
    """The largest absolute values of the rows of vectors (n, d), dense or scipy-sparse: (n,); NaN if a row has one."""
    if not vectors.shape[1]:
        return np.zeros(vectors.shape[0], np.float32)
    if vectors.dtype.kind != "f":
        vectors = vectors.astype(np.float64)
    largest: Any = np.abs(vectors).max(axis=1)
    return largest if isinstance(largest, np.ndarray) else largest.toarray().ravel()


# Kinds of files


@dataclass(frozen=True)
class _Arrays:
    """Arrays by name. `unnamed`: there is one, of no problem id. `row_names`: name -> the names of its rows."""

    names: Sequence[str]
    read: Callable[[str], Any]
    unnamed: bool = False
    row_names: Mapping[str, Sequence[str]] = field(default_factory=dict)


def _open(path: Path, where: str, max_gb: float) -> _Arrays:
    kinds = {".npz": _npz, ".safetensors": _safetensors, ".npy": _npy, ".csv": _table, ".parquet": _table}
    if path.suffix not in kinds:
        raise HarnessError(
            f"{where}: must be .npz or .safetensors, one (n, d) array per problem id, or .npy, .csv or .parquet"
        )
    with _one_line(where):
        if not path.is_file():
            raise HarnessError(f"{where}: no such file")
        return kinds[path.suffix](path, where, max_gb)


@contextmanager
def _one_line(where: str) -> Iterator[None]:
    """Turn whatever a library raises on a broken file, MemoryError too, into a HarnessError."""
    try:
        yield
    except HarnessError:
        raise
    except Exception as failure:
        reason = (isinstance(failure, OSError) and failure.strerror) or str(failure) or type(failure).__name__
        raise HarnessError(f"{where} cannot be read ({reason})") from failure


def _check_size(where: str, size: int, max_gb: float) -> None:
    if size > max_gb * GB:
        raise HarnessError(
            f"{where} would take {size / GB:.3g} GB of memory, more than --max-vectors-gb {max_gb:g} allows"
        )


def _npy(path: Path, where: str, max_gb: float) -> _Arrays:
    def read(name: str) -> Any:
        _check_size(where, path.stat().st_size, max_gb)
        with open_regular(path) as file:
            return _array_in(file)

    return _Arrays([path.stem], read, unnamed=True)


def _npz(path: Path, where: str, max_gb: float) -> _Arrays:
    archive = zipfile.ZipFile(path)
    members = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
    if {"format", "indices", "indptr"} <= set(members):
        raise HarnessError(
            f"{where}: is scipy's file of a sparse matrix: write np.savez(file, **{{problem_id: matrix.toarray()}})"
        )

    def read(name: str) -> Any:
        entry, of = members[name], f"{where}: {name!r}"
        if entry.file_size > most_expanded(min(entry.compress_size, path.stat().st_size)):
            raise HarnessError(
                f"{of} expands to {entry.file_size:,} bytes, over {RATIO} times its size in the file: write it by "
                "np.savez, uncompressed, if that is right"
            )
        _check_size(of, entry.file_size, max_gb)
        with archive.open(entry) as file:
            return _array_in(file)

    return _Arrays(list(members), read)


def _array_in(file: Any) -> Any:
    array = np.lib.format.read_array(file, allow_pickle=False)
    if file.read(1):  # also: at the end a zip's checksum is compared
        raise ValueError(f"it goes on after the array of shape {array.shape} that its header declares")
    return array


def _safetensors(path: Path, where: str, max_gb: float) -> _Arrays:
    from safetensors import safe_open

    file: Any = safe_open(path, framework="numpy")

    def read(name: str) -> Any:
        dtype, of = file.get_slice(name).get_dtype(), f"{where}: {name!r}"
        if dtype not in ("F64", "F32", "F16"):
            raise HarnessError(f"{of} must hold numbers, got {dtype}; save them as float32")
        _check_size(of, math.prod(file.get_slice(name).get_shape()) * int(dtype[1:]) // 8, max_gb)
        return file.get_tensor(name)

    return _Arrays(list(file.keys()), read)


def _table(path: Path, where: str, max_gb: float) -> _Arrays:
    import pyarrow as pa

    batches, size = [], 0
    for batch in _batches(path, where):
        size += batch.nbytes
        _check_size(where, size, max_gb)
        batches.append(batch)
    if not batches:
        return _Arrays([], str)
    table = pa.Table.from_batches(batches)
    vectors, columns = _numbers(table, where), set(table.schema.names)
    ids = table[PROBLEM].to_pylist() if PROBLEM in columns else [path.stem] * len(vectors)
    rows: dict[str, list[int]] = {}
    for row, problem in enumerate(ids):
        if problem is None or not str(problem).strip():
            raise HarnessError(f"{where}, row {row}: its problem_id is blank")
        rows.setdefault(str(problem).strip(), []).append(row)
    names = [str(name or "") for name in table[NAME].to_pylist()] if NAME in columns else []
    return _Arrays(
        names=list(rows),
        read=lambda problem: vectors[rows[problem]],
        unnamed=PROBLEM not in columns,
        row_names={problem: [names[row] for row in places] for problem, places in rows.items()} if names else {},
    )


def _numbers(table: Any, where: str) -> Floats:
    """The numbers of a pyarrow table, (rows, d) float64; HarnessError, which names the row, where one is missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = [(name, table[name]) for name in table.schema.names if name not in (PROBLEM, NAME)]
    for name, column in columns:
        if column.null_count:
            row = column.is_null().to_pylist().index(True)
            raise HarnessError(f"{where}, row {row}: column {name!r} is empty: fill it, or leave the row out")
    name, column = columns[0]
    if not pa.types.is_nested(column.type):
        return np.column_stack([column.to_numpy() for _, column in columns]).astype(np.float64, copy=False)
    lengths, flat = pc.list_value_length(column).to_numpy(), pc.list_flatten(column)
    if len(other := np.flatnonzero(lengths != lengths[0])):
        row = other[0]
        raise HarnessError(f"{where}, row {row}: {name!r} has {lengths[row]} numbers, in row 0 it has {lengths[0]}")
    if flat.null_count:
        row = flat.is_null().to_pylist().index(True) // lengths[0]
        raise HarnessError(f"{where}, row {row}: {name!r} lacks a number: fill it, or leave the row out")
    numbers: Floats = flat.to_numpy().reshape(len(lengths), lengths[0]).astype(np.float64, copy=False)
    return numbers


def _batches(path: Path, where: str) -> Iterator[Any]:
    """The record batches of a table of vectors; HarnessError, or what pyarrow raises, for any other table."""
    import pyarrow as pa
    import pyarrow.csv as pa_csv
    import pyarrow.parquet as pq

    file: Any
    if path.suffix == ".parquet":
        with pq.ParquetFile(path) as file:
            _check_columns(file.schema_arrow, where)
            yield from file.iter_batches(1024)
        return
    with opened(path, "embeddings") as file:
        header = [cell.strip() for cell in next(csv.reader([file.readline()]), [])]
        has_header = not all(map(_is_number, header))
        if any(";" in cell for cell in header):
            raise HarnessError(f"{where} cannot be read: its separator is ';': save it with commas, and decimal points")
        if has_header and "" in header:
            raise HarnessError(
                f"{where} cannot be read: a column has no name, as the index has that pandas writes: save it with "
                "index=False"
            )
        columns = header if has_header else [str(place) for place in range(len(header))]
        types = [(name, pa.string() if name in (PROBLEM, NAME) else pa.float64()) for name in columns]
        _check_columns(pa.schema(types), where)
        file.seek(0)
        reading = pa_csv.ReadOptions(
            use_threads=False, block_size=BLOCK, skip_rows=int(has_header), column_names=columns
        )
        as_numbers = pa_csv.ConvertOptions(column_types=dict(types), null_values=[""], strings_can_be_null=False)
        try:
            yield from pa_csv.open_csv(file.buffer, read_options=reading, convert_options=as_numbers)
        except pa.ArrowInvalid as failure:
            raise HarnessError(
                f"{where} cannot be read ({failure}): only problem_id and id may be text, and a header must name them"
            ) from failure


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _check_columns(schema: Any, where: str) -> None:
    """HarnessError unless all columns but problem_id and id hold numbers, or one of them lists of numbers."""
    import pyarrow as pa

    twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if twice:
        raise HarnessError(f"{where} cannot be read: it has two columns {twice[0]!r}")
    fields = [field for field in schema if field.name not in (PROBLEM, NAME)]
    if not fields:
        raise HarnessError(f"{where} cannot be read: it has no column of numbers")
    for column in fields:
        kind, is_list = column.type, False
        if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            kind, is_list = kind.value_type, True
        if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)) or (is_list and len(fields) > 1):
            raise HarnessError(
                f"{where} cannot be read: column {column.name!r} must hold numbers, or all of them as its lists, got "
                f"{column.type}"
            )


def is_table(path: Path) -> bool:
    """Whether a `.csv` or `.parquet` file holds vectors, and not responses: none of its other columns is text."""
    try:
        with _one_line(""):
            return path.suffix in (".csv", ".parquet") and next(_batches(path, ""), None) is not None
    except HarnessError:
        return False
