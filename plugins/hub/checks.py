"""What a pool of strangers must be: which names its files may have, and what rows. What is pushed is checked so too.

    POOL/pool.json, POOL/problems.jsonl, POOL/KIND.NAME.KEY/column.json
    POOL/KIND.NAME.KEY/PROBLEM.FROM.SUM.parquet        responses and verdicts; vectors: .npy

A folder of a pool with any other name in it is refused, so no name leads out of it. A key must be that of the settings
beside it, a SUM that of the file (`harness.columns.store`), and rows such as a run makes. A parquet file of kilobytes
can hold gigabytes: one that unpacks to more than `LIMIT` is not unpacked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.columns.responses import SCORE
from harness.columns.store import ABOUT, Damaged, Memo, read, read_bytes
from harness.columns.stored import StoredPool
from harness.errors import HarnessError
from harness.records import FINISHES, STATUSES
from harness.system.json_text import digest, parsed
from harness.system.json_text import read as read_json
from harness.system.progress import Progress

LIMIT = 4 << 30  # bytes that a file of rows may unpack to
MOST_BYTES = {"pool.json": 1 << 20, "column.json": 1 << 20, "problems.jsonl": 256 << 20}

_KEYED = r"[\w-]{1,60}\.[0-9a-f]{12}"  # NAME.KEY, PROBLEM.FROM
_ROWS = rf"{_KEYED}\.[0-9a-f]{{16}}\."
_FILE = re.compile(
    rf"{_KEYED}/(pool\.json|problems\.jsonl|(responses|vectors|verdicts)\.{_KEYED}/column\.json"
    rf"|(responses|verdicts)\.{_KEYED}/{_ROWS}parquet|vectors\.{_KEYED}/{_ROWS}npy)",
    re.ASCII,
)

WORDS, TEXT = pa.dictionary(pa.int32(), pa.string()), pa.string()
RESPONSES = {"text": TEXT, "finish": WORDS, "length": pa.int64(), "logprob": pa.float64()}
RESPONSES |= {"token_ids": pa.list_(pa.int32())}
VERDICTS = {"status": WORDS, "reason": WORDS, "route": WORDS, "answer": TEXT}


def pool_in(files: Mapping[str, int]) -> str | None:
    """The folder of the pool among files (path -> bytes), None without one; HarnessError for what is no pool's file."""
    folders = [path.partition("/")[0] for path in files if path.endswith("/pool.json") and path.count("/") == 1]
    if len(folders) > 1:
        raise HarnessError(f"holds {len(folders)} pools, and one only is wanted")
    for path, size in files.items() if folders else ():
        if path.startswith(f"{folders[0]}/"):
            if not _FILE.fullmatch(path):
                raise HarnessError(f"{path!r:.200} is no file of a pool")
            if size > MOST_BYTES.get(path.rpartition("/")[2], size):
                raise HarnessError(f"{path} has {size:,} bytes: too many to be one")
    return folders[0] if folders else None


def check_settings(folder: Path) -> None:
    """HarnessError unless a pool's folders are named by the hash of what made them, and its list of problems is one."""
    if len(list(folder.glob("responses.*"))) != 1:
        raise HarnessError(f"{folder.name} is malformed: one column of responses is wanted")
    for path in [folder / "pool.json", *(each / "column.json" for each in folder.iterdir() if each.is_dir())]:
        made = read_json(path, "settings")
        kind = "responses" if path.parent == folder else path.parent.name.partition(".")[0]
        own = {name: value for name, value in made.items() if name != "responses"} if isinstance(made, dict) else {}
        if own.get("kind") != kind or digest(own, 12) != path.parent.name.rpartition(".")[2]:
            raise HarnessError(f"the settings of {path.parent.name} are not those of its key")
    memo = Memo(folder / "problems.jsonl")
    if memo.damaged:
        raise HarnessError(f"problems.jsonl is damaged: {memo.damaged} of its lines are not what was written")
    for value in memo.values:
        if not (isinstance(value, list) and len(value) == 4 and all(isinstance(part, str) for part in value)):
            raise HarnessError(f"problems.jsonl is malformed: {value!r:.80} is no problem")


def checked(pool: StoredPool, columns: Sequence[Path], progress: Progress) -> tuple[list[list[Path]], int]:
    """Each problem's files in these columns, that of its responses first, all read and checked; how many responses.

    HarnessError for what no run makes, Damaged for a file that does not hold what its name says.
    """
    every, total = [], 0
    with progress.stage("check", len(pool.questions), "problems", closing=False) as stage:
        for question in pool.questions.values():
            paths: list[Path] = []
            n = pool.about.get("n")
            for folder in columns:
                path = pool.path(folder, question, paths[:1])
                if path is None:
                    continue
                try:
                    rows, faults = _CHECKS[folder.name.partition(".")[0]](path)
                    faults[f"{rows} rows, and the pool has {n!r:.40} responses to a problem"] = n not in (None, rows)
                    fault = ", ".join(fault for fault, is_so in faults.items() if is_so)
                except Damaged:
                    raise
                except Exception as failure:
                    is_ours = isinstance(failure, HarnessError)
                    fault = str(failure) if is_ours else f"no rows of a pool ({type(failure).__name__})"
                if fault:
                    raise HarnessError(f"{folder.name}, problem {question.problem.id!r:.80}: {fault}")
                n = rows
                paths.append(path)
            every.append(paths)
            total += n or 0
            stage.advance()
    return every, total


def _responses(path: Path) -> tuple[int, dict[str, Any]]:
    """The number of rows, and fault -> whether they have it. NaN is an unknown log-probability or score."""
    rows = _table(path, RESPONSES)
    ids, numbers = rows["token_ids"], [name for name in rows.column_names if name.startswith((SCORE, "logprob"))]
    each = pa.concat_arrays([chunk.flatten() for chunk in ids.chunks])
    return len(rows), {
        f"a finish that is none of {', '.join(sorted(FINISHES))}": set(pc.unique(rows["finish"]).to_pylist())
        - set(FINISHES),
        "responses that did not come": _about(rows),
        "a negative length": pc.min(rows["length"]).as_py() < 0,
        "an infinite number": any(np.isinf(rows[name].to_numpy()).any() for name in numbers),
        "responses without token ids beside others": ids.null_count not in (0, len(ids)),
        "a token id that is missing or negative": each.null_count or (len(each) and pc.min(each).as_py() < 0),
        "not as many token ids as tokens": pc.any(pc.not_equal(pc.list_value_length(ids), rows["length"])).as_py(),
    }


def _vectors(path: Path) -> tuple[int, dict[str, Any]]:
    vectors: Any = read(path)
    of_floats = vectors.dtype == np.float32 and vectors.ndim == 2 and np.isfinite(vectors).all()
    return len(vectors), {"no finite vectors in float32": not of_floats}


def _verdicts(path: Path) -> tuple[int, dict[str, Any]]:
    rows = _table(path, VERDICTS)
    made = _about(rows)
    conditions, cpu_s = made.get("conditions"), made.get("cpu_s", 0.0)
    texts = isinstance(conditions, dict) and all(isinstance(value, str) for value in conditions.values())
    return len(rows), {
        f"a status that is none of {', '.join(sorted(STATUSES))}": set(pc.unique(rows["status"]).to_pylist())
        - set(STATUSES),
        "conditions of grading that are none": not texts or set(made) - {"conditions", "cpu_s"},
        "a time that is no number": type(cpu_s) not in (int, float),
    }


_CHECKS = {"responses": _responses, "vectors": _vectors, "verdicts": _verdicts}


def _table(path: Path, types: Mapping[str, pa.DataType]) -> pa.Table:
    """The rows of a parquet file with these columns, scores and names, unless they would fill the memory."""
    content = pa.BufferReader(read_bytes(path))
    file = pq.ParquetFile(content)
    there = dict(zip(file.schema_arrow.names, file.schema_arrow.types, strict=True))
    more = {name: pa.float64() for name in there if name.startswith(SCORE)} | {"name": TEXT}
    more = {name: kind for name, kind in more.items() if name in there and types is RESPONSES}
    if len(there) != len(file.schema_arrow) or there != {**types, **more}:
        raise HarnessError(f"other columns than {', '.join(types)}")
    texts = [name for name, kind in there.items() if kind in (WORDS, TEXT)]
    groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
    values = sum(group.column(number).num_values for group in groups for number in range(group.num_columns))
    size = max(sum(group.total_byte_size for group in groups), 8 * values)
    if size <= LIMIT:  # then the dictionaries of its texts can be read, which say how long each row is
        for column in pq.ParquetFile(content, read_dictionary=texts).read(columns=texts, use_threads=False).columns:
            longest = [pc.max(pc.binary_length(chunk.dictionary)).as_py() or 0 for chunk in column.chunks]
            size += sum(len(chunk) * most for chunk, most in zip(column.chunks, longest, strict=True))
    if size > LIMIT:
        raise HarnessError(f"its rows unpack to more than {LIMIT >> 30} GiB")
    rows = pq.ParquetFile(content).read(use_threads=False)
    lacking = [name for name in there if rows[name].null_count and name not in ("token_ids", "answer")]
    if lacking or not len(rows):
        raise HarnessError(f"a row is without {lacking[0]:.40}" if lacking else "no rows")
    return rows


def _about(rows: pa.Table) -> dict[str, Any]:
    made = parsed((rows.schema.metadata or {}).get(ABOUT, b"{}"), "about")
    return made if isinstance(made, dict) else {"": made}
