"""The files of a pool in a repository of strangers: which names they may have, and what rows.

    POOL/pool.json, POOL/problems.jsonl, POOL/KIND.NAME.KEY/column.json
    POOL/KIND.NAME.KEY/PROBLEM.FROM.SUM.parquet        responses and verdicts; vectors: .npy

A folder of a pool with any other name in it is refused, so no name leads out of it. A key must be that of the settings
beside it, a SUM that of the file (`harness.columns.store`), and rows such as a run makes: as many as there are
responses, with known words and possible numbers. A parquet file of kilobytes can hold gigabytes: one that unpacks to
more than `LIMIT` is not unpacked. What is pushed is checked in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.columns.column import Question
from harness.columns.responses import SCORE, responses_of
from harness.columns.store import ABOUT, Damaged, Memo, read, read_bytes
from harness.columns.stored import StoredPool
from harness.errors import HarnessError
from harness.records import FINISHES, STATUSES
from harness.system.json_text import digest, parsed
from harness.system.json_text import read as read_json

LIMIT = 4 << 30  # bytes that a file of rows may unpack to
MOST_SCORES = 1000
MOST_BYTES = {"pool.json": 1 << 20, "column.json": 1 << 20, "problems.jsonl": 256 << 20}

_KEYED = r"[\w-]{1,60}\.[0-9a-f]{12}"  # NAME.KEY, PROBLEM.FROM
_ROWS = rf"{_KEYED}\.[0-9a-f]{{16}}\."
_FILE = re.compile(
    rf"{_KEYED}/(pool\.json|problems\.jsonl|(responses|vectors|verdicts)\.{_KEYED}/column\.json"
    rf"|(responses|verdicts)\.{_KEYED}/{_ROWS}parquet|vectors\.{_KEYED}/{_ROWS}npy)",
    re.ASCII,
)

WORDS = pa.dictionary(pa.int32(), pa.string())
RESPONSES = {"text": pa.string(), "finish": WORDS, "length": pa.int64(), "logprob": pa.float64()}
RESPONSES |= {"token_ids": pa.list_(pa.int32())}
VERDICTS = {"status": WORDS, "reason": WORDS, "route": WORDS, "answer": pa.string()}


def pool_in(files: Mapping[str, int]) -> str | None:
    """The folder of the pool among files (path -> bytes), None without one; HarnessError for what is no pool's file."""
    folders = [path.partition("/")[0] for path in files if path.endswith("/pool.json") and path.count("/") == 1]
    if not folders:
        return None
    if len(folders) > 1:
        raise HarnessError(f"holds {len(folders)} pools, and one only is wanted")
    for path, size in files.items():
        if path.startswith(f"{folders[0]}/"):
            if not _FILE.fullmatch(path):
                raise HarnessError(f"{path!r:.200} is no file of a pool")
            if size > MOST_BYTES.get(path.rpartition("/")[2], size):
                raise HarnessError(f"{path} has {size:,} bytes: too many to be one")
    return folders[0]


def check_settings(folder: Path) -> None:
    """HarnessError unless a pool's folder, and those of its columns, are named by the hash of what made them."""
    if len(list(folder.glob("responses.*"))) != 1:
        raise HarnessError(f"{folder.name} is malformed: one column of responses is wanted")
    for path in [folder / "pool.json", *(each / "column.json" for each in folder.iterdir() if each.is_dir())]:
        made = read_json(path, "settings")
        kind = "responses" if path.parent == folder else path.parent.name.partition(".")[0]
        own = {name: value for name, value in made.items() if name != "responses"} if isinstance(made, dict) else {}
        if own.get("kind") != kind or digest(own, 12) != path.parent.name.rpartition(".")[2]:
            raise HarnessError(f"the settings of {path.parent.name} are not those of its key")


def check_problems(path: Path) -> None:
    """HarnessError unless a list of problems holds what `list_problems` writes."""
    try:
        memo = Memo(path)
    except Exception as failure:
        raise HarnessError(f"{path.name} is malformed ({type(failure).__name__})") from failure
    if memo.damaged:
        raise HarnessError(f"{path.name} is damaged: {memo.damaged} of its lines are not what was written")
    for value in memo.values:
        texts = isinstance(value, list) and len(value) == 4 and all(isinstance(part, str) for part in value)
        if not texts or not all(re.fullmatch("[0-9a-f]{20}", part) for part in value[2:]):
            raise HarnessError(f"{path.name} is malformed: {value!r:.80} is no problem")


def checked(pool: StoredPool, question: Question, columns: Sequence[Path]) -> tuple[list[Path], int]:
    """A problem's files in these columns, that of its responses first, each read and checked; how many responses.

    HarnessError for what no run makes, Damaged for a file that does not hold what its name says.
    """
    responses, *others = columns
    first = pool.path(responses, question)
    assert first is not None
    paths = [first]
    with _one_line(first, question):
        n = _check_responses(_table(first, RESPONSES))
        if n != pool.about.get("n", n):
            raise HarnessError(f"has {n} responses, and the pool is of {pool.about['n']!r:.40}")
    for folder in others:
        if path := pool.path(folder, question, [first]):
            with _one_line(path, question):
                rows = _check_vectors(path) if path.suffix == ".npy" else _check_verdicts(_table(path, VERDICTS))
                if rows != n:
                    raise HarnessError(f"has {rows} rows for {n} responses")
            paths.append(path)
    return paths, n


@contextmanager
def _one_line(path: Path, question: Question) -> Iterator[None]:
    where = f"{path.parent.name}, problem {question.problem.id!r:.80}"
    try:
        yield
    except Damaged:
        raise
    except HarnessError as failure:
        raise HarnessError(f"{where}: {failure}") from failure
    except Exception as failure:
        raise HarnessError(f"{where}: no rows of a pool ({type(failure).__name__})") from failure


def _table(path: Path, types: Mapping[str, pa.DataType]) -> pa.Table:
    """The rows of a parquet file with these columns and scores, unless they would fill the memory."""
    content = pa.BufferReader(read_bytes(path))
    schema = pq.ParquetFile(content).schema_arrow
    columns = dict(zip(schema.names, schema.types, strict=True))
    scores = {name: pa.float64() for name in columns if name.startswith(SCORE) and types is RESPONSES}
    if len(columns) != len(schema) or columns != {**types, **scores} or len(scores) > MOST_SCORES:
        raise HarnessError(f"has other columns than {', '.join(types)}")
    texts = [name for name, kind in columns.items() if kind in (WORDS, pa.string())]
    file = pq.ParquetFile(content, read_dictionary=texts)
    groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
    values = sum(group.column(number).num_values for group in groups for number in range(group.num_columns))
    if max(sum(group.total_byte_size for group in groups), 8 * values) > LIMIT:
        raise HarnessError(f"its rows unpack to more than {LIMIT >> 30} GiB")
    if sum(_unpacked(column) for column in file.read(columns=texts, use_threads=False).columns) > LIMIT:
        raise HarnessError(f"its rows unpack to more than {LIMIT >> 30} GiB")
    rows = pq.ParquetFile(content).read(use_threads=False)
    for name in columns:
        if rows[name].null_count and name not in ("token_ids", "answer"):
            raise HarnessError(f"a row is without {name}")
    if not len(rows):
        raise HarnessError("has no rows")
    return rows


def _unpacked(column: pa.ChunkedArray) -> int:
    """The bytes of the unpacked texts, computed from the dictionary before anything is unpacked."""
    total = 0
    for chunk in column.chunks:
        lengths = pc.binary_length(chunk.dictionary).fill_null(0).to_numpy(zero_copy_only=False)
        counts = np.bincount(chunk.indices.drop_null().to_numpy(), minlength=len(lengths))
        total += int(np.dot(counts.astype(object), lengths.astype(object))) if len(lengths) else 0
    return total


def _check_responses(rows: pa.Table) -> int:
    """The number of rows; HarnessError for words, lengths, numbers and token ids that no engine gives.

    NaN is an unknown log-probability or score. If one response has token ids, all must, as many as its length.
    """
    _require_known(rows, "finish", FINISHES)
    if _about(rows):
        raise HarnessError("some of its responses did not come")
    if pc.min(rows["length"]).as_py() < 0:
        raise HarnessError(f"a response is {pc.min(rows['length']).as_py()} tokens long")
    for name in ("logprob", *(name for name in rows.column_names if name.startswith(SCORE))):
        if np.isinf(rows[name].to_numpy()).any():
            raise HarnessError(f"a {name!r:.40} is infinite")
    ids = rows["token_ids"]
    if ids.null_count not in (0, len(ids)):
        raise HarnessError(f"{ids.null_count} of its {len(ids)} responses have no token ids")
    each = pa.concat_arrays([chunk.flatten() for chunk in ids.chunks])
    if each.null_count or (len(each) and pc.min(each).as_py() < 0):
        raise HarnessError("a token id is missing or negative")
    if pc.any(pc.not_equal(pc.list_value_length(ids), rows["length"])).as_py():
        raise HarnessError("a response has not as many token ids as it is long")
    return len(responses_of(rows))


def _check_vectors(path: Path) -> int:
    vectors = read(path)
    if vectors.dtype != np.float32 or vectors.ndim != 2 or not np.isfinite(vectors).all():
        raise HarnessError("its vectors are no finite numbers in float32, a row each")
    return len(vectors)


def _check_verdicts(rows: pa.Table) -> int:
    _require_known(rows, "status", STATUSES)
    made = _about(rows)
    conditions, cpu_s = made.get("conditions"), made.get("cpu_s", 0.0)
    texts = isinstance(conditions, dict) and all(isinstance(value, str) for value in conditions.values())
    if not texts or type(cpu_s) not in (int, float) or set(made) - {"conditions", "cpu_s"}:
        raise HarnessError("it does not say under what conditions its verdicts were made")
    return len(rows)


def _about(rows: pa.Table) -> dict[str, Any]:
    made = parsed((rows.schema.metadata or {}).get(ABOUT, b"{}"), "about")
    return made if isinstance(made, dict) else {"": made}


def _require_known(rows: pa.Table, name: str, known: Iterable[str]) -> None:
    unknown = set(pc.unique(rows[name]).to_pylist()) - set(known)
    if unknown:
        raise HarnessError(f"{name} must be one of {', '.join(sorted(known))}, got {sorted(map(repr, unknown))[0]:.40}")
