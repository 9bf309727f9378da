"""What a user gives beside responses: vectors, and the indices of responses that were verified before.

Vectors are one (n, d) array per problem id, each checked before it is used:

    .npz, .safetensors   arrays by problem id, read one at a time. In an .npz an array of texts `names` holds the names
                         of the only problem's responses (of several problems: `ID.names`). Or it holds an array
                         (d,) for each response, under the response's name.
    .npy                 one array, of no id
    .npz of scipy        one sparse matrix, of no id (`scipy.sparse.save_npz`)
    .csv, .parquet       one row a response, its numbers in columns, or in one column of lists. A column `problem_id`
                         says which problem a row belongs to, `name` or `id` names the response. A .csv may lack a
                         header. The whole table is in memory.

numpy, safetensors and pyarrow read the files, and nothing is unpickled. Here stands what they leave to their caller: a
bound on the memory of an array, and one line for each fault.
"""

from __future__ import annotations

import csv
import math
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from harness.errors import HarnessError
from harness.records import Floats
from harness.system.files import MAX_VECTORS_GB, RATIO, most_expanded, open_regular, opened
from harness.system.json_text import read_lines

from .record import text_in

LARGEST = 1e15
GB = 1e9
PROBLEM, NAMES = "problem_id", ("name", "id")
SPARSE = dict.fromkeys(("csr", "csc", "bsr"), ("data", "indices", "indptr")) | {"coo": ("data", "row", "col")}
BLOCK = 2**24  # bytes of a .csv that are parsed at once: no row may be longer

Arrays: TypeAlias = Mapping[str, Callable[[], Any]]  # name -> what reads the array


class GivenVectors:
    """Your own vectors: one (n, d) array per problem id, from a file as the module's docstring lists them.

    An array of no id, in a `.npy`, a table without problem_id, an `.npz` of scipy or of rows, has the file's name
    without its suffix; it is that of a pool's only problem.

    names   those of the arrays, in the file's order
    lines   problem id -> its id in the pool file, by which an array may be named too
    max_gb  the most memory for one array
    held    arrays in memory in place of the file's, also sparse ones of scipy; `path` is then only their name
    """

    def __init__(
        self,
        path: Path,
        lines: Mapping[str, str] | None = None,
        max_gb: float = MAX_VECTORS_GB,
        held: Mapping[str, Any] | None = None,
    ) -> None:
        self.path, self.lines, self.where, self._max_gb = path, lines or {}, f"embeddings {path}", max_gb
        self._unnamed = held is None and path.suffix == ".npy"
        self._row_names: dict[str, list[str]] = {}
        if held is not None:
            self.names: Arrays = {name: partial(held.__getitem__, name) for name in held}
            return
        kinds = {".npz": self._npz, ".safetensors": self._safetensors, ".npy": self._npy}
        kinds |= {".csv": self._table, ".parquet": self._table}
        if path.suffix not in kinds:
            raise HarnessError(
                f"{self.where}: must be .npz or .safetensors, one (n, d) array per problem id, or .npy, .csv, .parquet"
            )
        if not path.is_file():
            raise HarnessError(f"{self.where}: no such file")
        with _one_line(self.where):
            self.names = kinds[path.suffix]()

    def row_names(self, name: str) -> Sequence[str]:
        """The names of the array's rows; empty if the file has none."""
        return self._row_names.get(name, ())

    def get(self, problem_id: str, n: int | None = None) -> Any:
        """The problem's vectors (n, d) float32, sparse if they are; HarnessError if absent, misshapen or not finite.

        n  how many rows it must have; None: any number

        Values beyond 1e15 are refused: float32 ends at 3e38, and selectors sum squares.
        """
        where = f"{self.where}: {problem_id!r}"
        name = problem_id if problem_id in self.names else self.lines.get(problem_id, problem_id)
        if self._unnamed and len(self.names) == len(self.lines) == 1:
            (name,) = self.names
        if name not in self.names:
            others = ", ".join(f"{name!r:.60}" for name in [*self.names][:3]) + (", ..." if len(self.names) > 3 else "")
            raise HarnessError(f"{where} is not in the file ({len(self.names)} other ids are: {others or 'none'})")
        with _one_line(where):
            array = self.names[name]()
            array = array if hasattr(array, "toarray") else np.asarray(array)
        if array.dtype.kind not in "fiub":
            raise HarnessError(f"{where} must hold numbers, got {array.dtype}; save them as float32")
        if array.ndim != 2 or n not in (None, array.shape[0]):
            expected = "n" if n is None else n
            raise HarnessError(f"{where} has shape {array.shape}, expected ({expected}, d): one row a response")
        largest = _largest(array)
        if len(bad := np.flatnonzero(~(largest <= LARGEST))):  # NaN too
            raise HarnessError(
                f"{where} must hold finite numbers up to {LARGEST:g}, got {largest[bad[0]]:.3g} in {len(bad)} of "
                f"{len(largest)} rows, row {bad[0]} the first"
            )
        return np.asarray(array, np.float32) if isinstance(array, np.ndarray) else array.tocsr().astype(np.float32)

    def _check_size(self, size: int, where: str) -> None:
        if size > self._max_gb * GB:
            raise HarnessError(
                f"{where} would take {size / GB:.3g} GB of memory, more than --max-vectors-gb {self._max_gb:g} allows"
            )

    def _npy(self) -> Arrays:
        def read() -> Any:
            self._check_size(self.path.stat().st_size, self.where)
            with open_regular(self.path) as file:
                return _array_in(file)

        return {self.path.stem: read}

    def _npz(self) -> Arrays:
        archive = zipfile.ZipFile(self.path)

        def read(name: str, entry: zipfile.ZipInfo) -> Any:
            where, size = f"{self.where}: {name!r}", entry.file_size
            if size > most_expanded(self.path.stat().st_size):
                raise HarnessError(f"{where} expands to {size:,} bytes, over {RATIO} times its size in the file")
            self._check_size(size, where)
            with archive.open(entry) as file:
                return _array_in(file)

        names = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
        arrays = {name: partial(read, name, entry) for name, entry in names.items()}
        if is_sparse := {"format", "shape", "data"} <= arrays.keys():
            arrays = {self.path.stem: partial(self._sparse, arrays)}
        for key in [key for key in names if key == "names" or key.endswith(".names")]:
            try:
                texts = read(key, names[key])
            except ValueError:  # of objects, as pandas gives them
                raise HarnessError(f"{self.where}: {key!r} must hold texts: save np.array(names, str)") from None
            if texts.dtype.kind == "U" and texts.ndim == 1:
                arrays.pop(key, None)
                of = key.removesuffix(".names") if key != "names" else next(iter(arrays), "")
                self._row_names[of] = texts.tolist()
                if of not in arrays or (key == "names" and len(arrays) > 1):
                    raise HarnessError(
                        f"{self.where}: {key!r} holds names, and the file has {len(arrays)} arrays: write names for "
                        "that of one, ID.names for those of several"
                    )
        is_of_rows = not is_sparse and len(arrays) > 1 and all(_is_row(archive, names[name]) for name in arrays)
        self._unnamed = is_sparse or is_of_rows
        if is_of_rows:
            self._row_names = {self.path.stem: [*arrays]}
            return {self.path.stem: lambda: np.stack([array() for array in arrays.values()])}
        return arrays

    def _sparse(self, arrays: Arrays) -> Any:
        """The matrix of the parts that `scipy.sparse.save_npz` writes; ValueError unless its indices lie within it."""
        import scipy.sparse

        kind, (rows, width) = str(arrays["format"]().astype(str)), (int(size) for size in arrays["shape"]())
        self._check_size(4 * (rows + width), f"{self.where}: a matrix of {rows:,} x {width:,}")
        parts = [arrays[name]() for name in SPARSE.get(kind, ())]
        if not parts:
            raise ValueError(f"a sparse matrix of the format {kind!r:.40}; those known are {', '.join(SPARSE)}")
        made: Any = getattr(scipy.sparse, f"{kind}_matrix")
        if kind == "coo":
            return made((parts[0], tuple(parts[1:])), shape=(rows, width)).tocsr()
        matrix = made(tuple(parts), shape=(rows, width))
        matrix.check_format(full_check=True)  # a foreign index would be read outside the array
        return matrix.tocsr()

    def _safetensors(self) -> Arrays:
        from safetensors import safe_open

        file: Any = safe_open(self.path, framework="numpy")

        def read(name: str) -> Any:
            of, where = file.get_slice(name), f"{self.where}: {name!r}"
            if (dtype := of.get_dtype()) not in ("F64", "F32", "F16"):
                raise HarnessError(f"{where} must hold numbers, got {dtype}; save them as float32")
            self._check_size(math.prod(of.get_shape()) * int(dtype[1:]) // 8, where)
            return file.get_tensor(name)

        return {name: partial(read, name) for name in file.keys()}  # noqa: SIM118

    def _table(self) -> Arrays:
        import pyarrow as pa

        batches, size = [], 0
        for batch in _batches(self.path):
            size += batch.nbytes
            self._check_size(size, self.where)
            batches.append(batch)
        table = pa.Table.from_batches(batches)
        vectors, columns = _numbers(table), table.schema.names
        self._unnamed = PROBLEM not in columns
        ids = [self.path.stem] * len(vectors) if self._unnamed else table[PROBLEM].to_pylist()
        rows: dict[str, list[int]] = {}
        for row, problem in enumerate(ids):
            if problem is None or not str(problem).strip():
                raise HarnessError(f"{self.where}, row {row}: its problem_id is blank")
            rows.setdefault(str(problem).strip(), []).append(row)
        if naming := [name for name in NAMES if name in columns]:
            names = ["" if name is None else str(name) for name in table[naming[0]].to_pylist()]
            self._row_names = {problem: [names[row] for row in places] for problem, places in rows.items()}
        return {problem: partial(vectors.__getitem__, places) for problem, places in rows.items()}


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


def _largest(vectors: Any) -> Floats:
    """The largest absolute values of the rows of vectors (n, d), dense or scipy-sparse: (n,); NaN if a row has one."""
    if not vectors.shape[1]:
        return np.zeros(vectors.shape[0])
    if vectors.dtype.kind != "f":  # the smallest whole number has no absolute value
        vectors = vectors.astype(np.float64)
    largest: Any = np.abs(vectors).max(axis=1)
    dense = largest if isinstance(largest, np.ndarray) else largest.toarray().ravel()
    return np.asarray(dense, np.float64)  # float16 knows no 1e15


def _is_row(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bool:
    """Whether an array has one dimension, by its header."""
    with suppress(Exception), archive.open(entry) as file:
        is_first = np.lib.format.read_magic(file) == (1, 0)
        read = np.lib.format.read_array_header_1_0 if is_first else np.lib.format.read_array_header_2_0
        return len(read(file)[0]) == 1
    return False  # whoever reads it says what is wrong


def _array_in(file: Any) -> Any:
    array = np.lib.format.read_array(file, allow_pickle=False)
    if file.read(1):  # also: at the end a zip's checksum is compared
        raise ValueError(f"it goes on after the array of shape {array.shape} that its header declares")
    return array


# Tables


def is_table(path: Path) -> bool:
    """Whether a `.csv` or `.parquet` file holds vectors, and not responses: none of its other columns is text."""
    try:
        return path.suffix in (".csv", ".parquet") and len(_numbers(next(_batches(path)))) > 0
    except Exception:  # whatever a library raises: who reads the file as responses says what is wrong
        return False


def _batches(path: Path) -> Iterator[Any]:
    """The record batches of a table; of a .csv with all columns but problem_id, name and id as numbers."""
    import pyarrow as pa
    import pyarrow.csv as pa_csv
    import pyarrow.parquet as pq

    file: Any
    if path.suffix == ".parquet":
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(1024)
        return
    with opened(path, "embeddings") as file:
        names = [cell.strip() for cell in next(csv.reader([file.readline()]), [])]
        has_header = not all(map(_is_number, names))
        if has_header and "" in names:
            raise ValueError("a column has no name, as the index has that pandas writes: save it with index=False")
        names = names if has_header else [str(place) for place in range(len(names))]
        types = {name: pa.string() if name in (PROBLEM, *NAMES) else pa.float64() for name in names}
        file.seek(0)
        reading = pa_csv.ReadOptions(use_threads=False, block_size=BLOCK, skip_rows=int(has_header), column_names=names)
        as_numbers = pa_csv.ConvertOptions(column_types=types)
        try:
            yield from pa_csv.open_csv(file.buffer, read_options=reading, convert_options=as_numbers)
        except pa.ArrowInvalid as failure:
            raise ValueError(
                f"{failure}; only problem_id, name and id may be text, and a header must name them"
            ) from failure


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _numbers(table: Any) -> Floats:
    """The numbers of a pyarrow table, (rows, d) float64; NaN where one is missing."""
    names = table.schema.names
    columns = [np.asarray(table[name]) for name in names if name not in (PROBLEM, *NAMES)]
    if not columns:
        raise ValueError(f"it needs numbers in columns, or all in one column of lists, got {', '.join(names):.200}")
    is_of_lists = len(columns) == 1 and len(columns[0]) and isinstance(columns[0][0], np.ndarray)
    return (np.stack(columns[0].tolist()) if is_of_lists else np.column_stack(columns)).astype(np.float64, copy=False)


# What was verified before


def read_verified(path: Path, sizes: Mapping[str, int]) -> dict[str, list[int]]:
    """Problem id -> the indices that a file (`harness select --verified`) gives, in its order.

    sizes  problem id -> its number of responses; HarnessError for another id, or an index that is too large

    Lines are `{"problem_id": ..., "indices": [...]}`, or those of `harness select --jsonl`, whose picks stand under
    "order". Lines of the same problem count together.
    """
    verified: dict[str, list[int]] = {}
    for line in read_lines(path, "verified"):
        indices = line.value.get("indices", line.value.get("order"))
        if "problem_id" not in line.value or indices is None:
            keys = ", ".join(map(repr, line.value)) or "none"
            raise HarnessError(
                f'{line.where}: expected {{"problem_id": ..., "indices": [...]}}, got the keys {keys:.200}'
            )
        name = text_in(line.value, "problem_id", line.where)
        more = _indices(name, indices, sizes, line.where)
        verified[name] = list(dict.fromkeys([*verified.get(name, ()), *more]))
    return verified


def check_verified(given: Mapping[str, Sequence[int]], sizes: Mapping[str, int]) -> dict[str, list[int]]:
    """Return what `read_verified` does of indices in memory; HarnessError for the same faults."""
    return {name: _indices(name, list(indices), sizes, "verified") for name, indices in given.items()}


def _indices(name: str, indices: Any, sizes: Mapping[str, int], where: str) -> list[int]:
    if name not in sizes:
        raise HarnessError(f"{where}: problem {name!r:.80} is none of the {len(sizes)} of the pool")
    where, n = f"{where} ({name})", sizes[name]
    if not isinstance(indices, list):
        raise HarnessError(f"{where}: indices must be a list of whole numbers, got {indices!r:.60}")
    wrong = [index for index in indices if type(index) is not int or not 0 <= index < n]
    if wrong := wrong or [index for index, times in Counter(indices).items() if times > 1]:
        raise HarnessError(f"{where}: indices must be whole numbers from 0 to {n - 1}, each once, got {wrong[0]!r:.60}")
    return indices
