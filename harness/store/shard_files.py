"""Read and write the files of shards: parquet content, checksums, and errors that name an unreadable file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from safetensors import SafetensorError

from harness.errors import HarnessError
from harness.system.json_text import BadJSON

from .checksums import UNSEALED, BadShard, blank, check, read_regular, sealed

SUFFIXES = {
    **dict.fromkeys(("pool", "sequence", "score", "verdict", "graded", "answer", "measure"), ".parquet"),
    **{"embedding": ".safetensors"},
    **dict.fromkeys(("audit", "chance", "ranking", "stopped"), ".json"),
}
CHECKSUM = "checksum"  # its name in a file's metadata
OLDER = "older.json"  # in the folder of a pool of an older version


def as_parquet(path: Path, columns: Mapping[str, Any], schema: pa.Schema) -> tuple[memoryview, bytes, memoryview]:
    """Return a parquet file's content in the three parts of `sealed`; the checksum is its last metadata entry."""
    schema = schema.with_metadata({**(schema.metadata or {}), CHECKSUM: blank(path)})
    sink = pa.BufferOutputStream()
    table = pa.table({name: pa.array(columns[name], schema.field(name).type) for name in schema.names}, schema=schema)
    pq.write_table(table, sink, compression="zstd")
    return sealed(path, sink.getvalue().to_pybytes())


def content_of(path: Path) -> bytes:
    """The content of a shard's file; BadShard unless it is exactly what was written."""
    content = read_regular(path)
    check(path, content)
    return content


def table_in(
    path: Path, schema: pa.Schema | None = None, columns: list[str] | None = None, further: str = ""
) -> pa.Table:
    """Read a shard's parquet file: its columns, cast to the schema if there is one.

    columns  the names of the columns; None: those of the schema, or all columns if there is no schema
    further  how the names of further columns begin, which are read as they are; "": there are none
    """
    with unreadable(path):
        # One thread: a shard is small, and more threads only cost memory and start-up time. `pq.read_table` first sets
        # up a data set of files, which takes three times as long as reading the verdicts of a problem.
        table = pq.ParquetFile(pa.BufferReader(content_of(path))).read(columns=columns, use_threads=False)
        if schema is None:
            return table
        others = [field for field in table.schema if further and field.name.startswith(further)]
        fields = [schema.field(name) for name in (schema.names if columns is None else columns)] + others
        table = table.select([field.name for field in fields])  # KeyError if one is missing
        return table.cast(pa.schema(fields, metadata=table.schema.metadata))


def metadata_in(path: Path) -> Mapping[bytes, bytes]:
    """The metadata of a parquet file; the whole file is read, because its checksum covers all of it."""
    with unreadable(path):
        return pq.ParquetFile(pa.BufferReader(content_of(path))).schema_arrow.metadata or {}


def rows_in(path: Path) -> int:
    """The number of rows of a parquet file."""
    with unreadable(path):
        count: int = pq.ParquetFile(pa.BufferReader(content_of(path))).metadata.num_rows
        return count


@contextmanager
def unreadable(path: Path) -> Iterator[None]:
    """Turn the errors of reading a shard into a HarnessError of one line that names the file."""
    try:
        yield
    except FileNotFoundError as failure:
        raise HarnessError(f"store: {path} is not there: run the command that makes it again") from failure
    except (pa.ArrowException, SafetensorError, KeyError, ValueError, RecursionError, OSError) as failure:
        reason = "it is no JSON" if isinstance(failure, BadJSON) else type(failure).__name__
        raise BadShard(path, f"cannot be read ({reason})") from failure


def is_unsealed(path: Path) -> bool:
    """Whether a shard can be read and has no checksum: an older version wrote it, or it is damaged."""
    try:
        with unreadable(path):
            check(path, read_regular(path))
    except BadShard as failure:
        return failure.fault == UNSEALED
    except HarnessError:
        return False
    return False
