"""Read vectors from a table, `.csv` or `.parquet`: one row a response, its numbers in columns or in one list column.

A column `problem_id` says which problem a row belongs to, a column `id` names the response; all other columns are
numbers. Without `problem_id` all rows are of one problem, which has the file's name. A `.csv` may lack a header. The
whole table is in memory, so the limit on one array's memory holds for all of it.
"""

from __future__ import annotations

import csv
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from harness.errors import HarnessError
from harness.records import Floats
from harness.system.files import opened

PROBLEM, NAME = "problem_id", "id"
NUMBER_BYTES = 8
GUESSED = 20  # rows of a .csv by which `is_table` decides

Row = tuple[str, str, Sequence[Any]]  # a problem's id, the response's name, its numbers


class Table:
    """The arrays of a table. `row_names`: problem id -> the responses' names, where the table has them."""

    def __init__(self, path: Path, where: str, check_size: Callable[[int], None]) -> None:
        self.where, self.unnamed = where, True
        values: dict[str, array[float]] = {}
        widths: dict[str, int] = {}
        self.row_names: dict[str, list[str]] = {}
        size = 0
        for problem, name, numbers in (_csv_rows if path.suffix == ".csv" else _parquet_rows)(path, where, check_size):
            if problem:
                self.unnamed = False
            key = problem or path.stem
            if widths.setdefault(key, len(numbers)) != len(numbers):
                _refuse(where, f"{key!r} has rows of {widths[key]} and of {len(numbers)} numbers")
            size += NUMBER_BYTES * len(numbers)
            check_size(size)
            values.setdefault(key, array("d")).extend(numbers)
            self.row_names.setdefault(key, []).append(name)
        self.names = list(values)
        self._arrays = {key: np.frombuffer(held).reshape(-1, widths[key]) for key, held in values.items()}

    def shape(self, name: str) -> Sequence[int]:
        """The array's shape."""
        return self._arrays[name].shape

    def read(self, name: str) -> Floats:
        """The array, float64."""
        return self._arrays[name]


def is_table(path: Path) -> bool:
    """Whether a `.csv` or `.parquet` file holds vectors, and not responses: none of its other columns is text."""
    try:
        if path.suffix == ".csv":
            return bool(list(islice(_csv_rows(path, "", lambda size: None), GUESSED)))
        return path.suffix == ".parquet" and bool(_parquet_columns(path, ""))
    except (HarnessError, csv.Error, OSError, ValueError):
        return False


def _refuse(where: str, reason: str) -> NoReturn:
    raise HarnessError(f"{where} cannot be read: {reason}")


def _csv_rows(path: Path, where: str, check_size: Callable[[int], None]) -> Iterator[Row]:
    with opened(path, "embeddings") as file:
        rows = csv.reader(file)
        first = next(rows, [])
        header = [cell.strip() for cell in first]
        has_header = not all(map(_is_number, header))
        if any(";" in cell for cell in first):
            _refuse(where, "its separator is ';': save it with commas, and decimal points")
        if has_header and "" in header:
            _refuse(where, "a column has no name, as the index has that pandas writes: save it with index=False")
        columns = header if has_header else [str(place) for place in range(len(header))]
        _require_numbers(columns, where)
        for cells in rows if has_header else chain([first], rows):
            if cells:
                place = f"line {rows.line_num}"
                if len(cells) != len(columns):
                    _refuse(where, f"{place} has {len(cells)} columns, the first line {len(columns)}")
                yield _row(columns, cells, f"{where}, {place}")


def _row(columns: Sequence[str], cells: Sequence[str], where: str) -> Row:
    words = {PROBLEM: "", NAME: ""}
    numbers = []
    for column, cell in zip(columns, cells, strict=True):
        if column in words:
            words[column] = cell.strip()
        elif _is_number(cell):
            numbers.append(float(cell))
        elif not cell.strip():
            raise HarnessError(f"{where}: column {column!r} is empty: fill it, or leave the row out")
        else:
            raise HarnessError(
                f"{where}: column {column!r} must hold numbers, got {cell!r:.40}: only problem_id and id may be text, "
                "and a header must name them"
            )
    if PROBLEM in columns and not words[PROBLEM]:
        raise HarnessError(f"{where}: its problem_id is blank")
    return words[PROBLEM], words[NAME], numbers


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _require_numbers(columns: Iterable[str], where: str) -> None:
    listed = list(columns)
    twice = sorted({name for name in listed if listed.count(name) > 1})
    if twice:
        _refuse(where, f"it has two columns {twice[0]!r}")
    if not set(listed) - {PROBLEM, NAME}:
        _refuse(where, "it has no column of numbers")


def _parquet_columns(path: Path, where: str) -> list[str]:
    """The columns of numbers: many, or one of lists. HarnessError if another column is no number."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def is_number(kind: Any) -> bool:
        return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))

    def is_list(kind: Any) -> bool:
        lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
        return any(check(kind) for check in lists) and is_number(kind.value_type)

    schema = pq.read_schema(path)
    _require_numbers(schema.names, where)
    fields = [field for field in schema if field.name not in (PROBLEM, NAME)]
    for field in fields:
        if not (is_number(field.type) or (is_list(field.type) and len(fields) == 1)):
            _refuse(where, f"column {field.name!r} must hold numbers, or all of them as its lists, got {field.type}")
    return [field.name for field in fields]


def _parquet_rows(path: Path, where: str, check_size: Callable[[int], None]) -> Iterator[Row]:
    import pyarrow.parquet as pq

    columns = _parquet_columns(path, where)
    with pq.ParquetFile(path) as file:
        about = file.metadata
        groups = [about.row_group(place) for place in range(about.num_row_groups)]
        chunks = [group.column(place) for group in groups for place in range(group.num_columns)]
        check_size(NUMBER_BYTES * sum(c.num_values for c in chunks if c.path_in_schema.split(".")[0] in columns))
        number = 0
        for batch in file.iter_batches(1024):
            for values in batch.to_pylist():
                yield _parquet_row(values, columns, f"{where}, row {number}")
                number += 1


def _parquet_row(values: dict[str, Any], columns: Sequence[str], where: str) -> Row:
    numbers: Any = [values[name] for name in columns]
    if len(columns) == 1 and isinstance(numbers[0], list):
        numbers = numbers[0]
    problem = values.get(PROBLEM, "")
    if None in numbers or problem is None:
        raise HarnessError(f"{where}: a value is missing")
    return str(problem), str(values.get(NAME) or ""), numbers
