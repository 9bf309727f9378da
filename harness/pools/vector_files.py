"""Read arrays by name from an `.npz` or `.safetensors` file, one at a time, or the one of an `.npy`; never unpickled.

A header may be wrong: memory is allocated only after checking that the file really holds the bytes that the header
declares. An array may take no more than the file's size permits (`expansion`), and no more than the caller allows.
"""

from __future__ import annotations

import csv
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from harness.errors import HarnessError
from harness.records import Floats
from harness.system.files import RATIO, beginning, most_expanded, open_regular

from .vector_tables import Table

_NPY, _ZIP = b"\x93NUMPY", b"PK"
_ENCRYPTED = 0x1
GB = 1e9


SUFFIXES = (".npz", ".safetensors", ".npy", ".csv", ".parquet")


def open_vectors(path: Path, where: str, max_gb: float) -> _Npz | _Npy | _Safetensors | Table:
    """Open a file of arrays; HarnessError, beginning with `where`, if it is of another kind or broken.

    `names` are those of the arrays in the file's order. `shape(name)` returns an array's shape, from its header.
    `read(name)` returns the array; HarnessError if it is broken, holds no floats or takes more than `max_gb` GB.
    `unnamed`: the file has one array without a problem's id; its name is then the file's, without the suffix.
    """
    if path.suffix not in SUFFIXES:
        raise HarnessError(
            f"{where}: must be .npz or .safetensors, one (n, d) array per problem id, or .npy, .csv or .parquet"
        )
    kinds: dict[str, type[_Npz | _Npy | _Safetensors]] = {".npz": _Npz, ".npy": _Npy, ".safetensors": _Safetensors}
    with _faults(where):
        if not path.is_file():
            raise HarnessError(f"{where}: no such file")
        if path.suffix in kinds:
            return kinds[path.suffix](path, where, max_gb)
        return Table(path, where, lambda size: _check_size(where, size, max_gb))


@contextmanager
def _faults(where: str) -> Iterator[None]:
    """Turn the errors of a broken file into a HarnessError of one line."""
    from safetensors import SafetensorError

    try:
        yield
    except OSError as failure:
        raise HarnessError(f"{where} cannot be read ({failure.strerror or failure})") from failure
    except (
        *(ValueError, TypeError, KeyError, IndexError, AttributeError, EOFError, RecursionError, struct.error),
        *(SyntaxError, tokenize.TokenError),  # of a header
        *(zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, SafetensorError, csv.Error),
    ) as failure:
        raise HarnessError(f"{where} cannot be read ({failure})") from failure


def _check_size(where: str, size: int, max_gb: float) -> None:
    if size > max_gb * GB:
        raise HarnessError(
            f"{where} would take {size / GB:.3g} GB of memory, more than --max-vectors-gb {max_gb:g} allows"
        )


@dataclass(frozen=True)
class _Header:
    """What the header of a `.npy` says, and how many bytes it has itself."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    length: int


def _array_in(file: IO[bytes], file_bytes: int, where: str, max_gb: float) -> Floats:
    """The array of a `.npy` of so many bytes, read without `np.load`, which allocates as the header says."""
    header = _npy_header(file)
    _check_floats(where, str(header.dtype), header.dtype.kind in "fiu")
    size = math.prod(header.shape) * header.dtype.itemsize
    held = file_bytes - header.length
    if size != held:
        raise HarnessError(f"{where} cannot be read: its header is of {size:,} bytes, {held:,} are there")
    _check_size(where, size, max_gb)
    content = file.read(size)
    if len(content) != size:
        raise HarnessError(f"{where} cannot be read: it ends after {len(content):,} of {size:,} bytes")
    file.read(1)  # the end, where a zip's checksum is compared
    array: Floats = np.frombuffer(content, header.dtype)
    if header.dtype.kind in "iu":
        array = _exact_floats(array, where)
    return array.reshape(header.shape, order="F" if header.fortran else "C")


def _exact_floats(integers: np.ndarray[Any, Any], where: str) -> Floats:
    """The integers as float32; HarnessError if one of them may be no float32."""
    if integers.size and max(-int(integers.min()), int(integers.max())) > 2**24:
        raise HarnessError(f"{where} cannot be read: integers over 2^24 are not exact in float32; save it as floats")
    return integers.astype(np.float32)


class _Npy:
    """A `.npy` file with one array (n, d), which has the file's name."""

    unnamed = True

    def __init__(self, path: Path, where: str, max_gb: float) -> None:
        self.path, self.where, self.max_gb, self.names = path, where, max_gb, [path.stem]

    def shape(self, name: str) -> Sequence[int]:
        with _faults(self.where), open_regular(self.path) as file:
            return _npy_header(file).shape

    def read(self, name: str) -> Floats:
        with _faults(self.where), open_regular(self.path) as file:
            return _array_in(file, self.path.stat().st_size, self.where, self.max_gb)


class _Npz:
    """A zip archive with a `.npy` for each array."""

    unnamed = False

    def __init__(self, path: Path, where: str, max_gb: float) -> None:
        start = beginning(path, len(_NPY))
        if start == _NPY:
            raise HarnessError(
                f"{where}: is a .npy file, whose one array has no name: write np.savez(file, **{{problem_id: array}})"
            )
        if not start.startswith(_ZIP):
            raise HarnessError(f"{where}: cannot be read (it is no zip archive, which .npz is)")
        self.where, self.max_gb, self.size = where, max_gb, path.stat().st_size
        self.archive = zipfile.ZipFile(path)
        self.members = {entry.filename.removesuffix(".npy"): entry for entry in self.archive.infolist()}
        self.names = list(self.members)
        if {"format", "indices", "indptr"} <= set(self.names):
            raise HarnessError(
                f"{where}: is scipy's file of a sparse matrix: write np.savez(file, **{{problem_id: matrix.toarray()}})"
            )

    def shape(self, name: str) -> Sequence[int]:
        where = f"{self.where}: {name!r}"
        with _faults(where), self._member(name, where) as file:
            return _npy_header(file).shape

    def read(self, name: str) -> Floats:
        where = f"{self.where}: {name!r}"
        with _faults(where), self._member(name, where) as file:
            return _array_in(file, self.members[name].file_size, where, self.max_gb)

    def _member(self, name: str, where: str) -> IO[bytes]:
        entry = self.members[name]
        if entry.flag_bits & _ENCRYPTED:
            raise HarnessError(f"{where} cannot be read: it is encrypted")
        if entry.file_size > most_expanded(min(entry.compress_size, self.size)):
            raise HarnessError(
                f"{where} expands to {entry.file_size:,} bytes, over {RATIO} times its size in the file: write it by "
                "np.savez, uncompressed, if that is right"
            )
        _check_size(where, entry.file_size, self.max_gb)
        return self.archive.open(entry)


def _npy_header(file: IO[bytes]) -> _Header:
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"its format is .npy {version[0]}.{version[1]}, which is for records")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    if min(shape, default=0) < 0:
        raise ValueError(f"its shape is {shape}")
    return _Header(tuple(map(int, shape)), bool(fortran), dtype, file.tell())


class _Safetensors:
    """A `.safetensors` file, mapped into memory; its reader compares the header with the file's size."""

    unnamed = False

    def __init__(self, path: Path, where: str, max_gb: float) -> None:
        from safetensors import safe_open

        self.where, self.max_gb = where, max_gb
        file: Any = safe_open(path, framework="numpy")
        self.file, self.names = file, list[str](file.keys())

    def shape(self, name: str) -> Sequence[int]:
        with _faults(f"{self.where}: {name!r}"):
            shape: list[int] = self.file.get_slice(name).get_shape()
            return shape

    def read(self, name: str) -> Floats:
        where = f"{self.where}: {name!r}"
        with _faults(where):
            slice_ = self.file.get_slice(name)
            dtype, shape = slice_.get_dtype(), slice_.get_shape()
            _check_floats(where, dtype, dtype in ("F64", "F32", "F16"))
            _check_size(where, math.prod(shape) * int(dtype[1:]) // 8, self.max_gb)
            array: Floats = self.file.get_tensor(name)
            return array


class HeldArrays:
    """Arrays in memory, read as those of a file are; whole numbers, booleans and scipy's sparse matrices will do."""

    unnamed = False

    def __init__(self, arrays: Mapping[str, Any], where: str) -> None:
        self.where, self.names = where, list(arrays)
        self.arrays = {name: self._array(name, value) for name, value in arrays.items()}

    def _array(self, name: str, value: Any) -> Any:
        try:
            array = value if hasattr(value, "toarray") else np.asarray(value)
        except (ValueError, TypeError, RuntimeError) as failure:
            raise HarnessError(f"{self.where}: {name!r} is no array ({failure})") from None
        if array.dtype.kind not in "fiub":
            raise HarnessError(f"{self.where}: {name!r} must hold numbers, got {array.dtype}")
        return array

    def shape(self, name: str) -> Sequence[int]:
        """The array's shape."""
        return tuple(self.arrays[name].shape)

    def read(self, name: str) -> Any:
        """The array, dense or sparse."""
        return self.arrays[name]


def _check_floats(where: str, dtype: str, floats: bool) -> None:
    if not floats:
        raise HarnessError(f"{where} cannot be read: it must hold finite numbers, got {dtype}; save them as float32")
