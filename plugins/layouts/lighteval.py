"""Pools from lighteval's details: one parquet file a task, one row a document.

Up to 0.10 a row has `example`, `full_prompt`, `predictions` and `gold`, some versions with every column cast to text.
From 0.11 on it has the structs `doc` (`query`, `id`, `task_name`, `specific`, ...), `model_response` (`text`: a list of
the responses as the model wrote them) and `metric`. The layouts were read off releases 0.10.0, 0.11.0 and
0.13.0. Metrics are of all responses together: no verdicts.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import HarnessError
from harness.pools.record import PoolRecord, Say, grouped
from harness.system.files import beginning

from .documents import PROMPTS, first_texts

_PARQUET = b"PAR1"
_OLD = ("example", "full_prompt", "predictions", "gold")
_NEW = ("doc", "model_response")
_ROWS_AT_ONCE = 64


class Lighteval:
    """Details of lighteval (`--save-details`): parquet with a row for each document, up to 0.10 or from 0.11 on.

    The two have different columns.
    """

    name, holds = "lighteval", "lighteval parquet"

    def fits(self, path: Path) -> bool:
        """Return whether the path is a parquet file, whatever its columns; `read` refuses unknown ones."""
        return path.is_file() and beginning(path, len(_PARQUET)) == _PARQUET

    def read(self, path: Path, say: Say) -> Iterator[PoolRecord]:
        """Yield a record per document; rows that repeat a document's responses for another metric are left out.

        HarnessError if the columns are not lighteval's, or the file cannot be read. `say` gets a line on the metrics.
        """
        try:
            with pq.ParquetFile(path) as file:
                columns = file.schema_arrow.names
                read = _reader(columns, path)
                say(
                    "pool: read as lighteval details; their metrics are of all responses together: not taken as "
                    "verdicts"
                )
                yield from grouped(_distinct(_rows(file, columns, path), read))
        except (pa.ArrowException, OSError, ValueError, OverflowError, TypeError, KeyError) as failure:
            raise HarnessError(f"pool {path}: this parquet file cannot be read ({failure})") from failure


Row = Mapping[str, Any]
Read = Callable[[Row, int, str], tuple[Hashable, PoolRecord]]


def _reader(columns: Sequence[str], path: Path) -> Read:
    if set(_NEW) <= set(columns):
        return _new
    if "predictions" in columns and {"example", "full_prompt"} & set(columns):
        return _old
    raise HarnessError(
        f"pool {path}: unknown layout: its columns are {', '.join(columns):.300}; of parquet files those of lighteval "
        "are known (doc and model_response, or full_prompt and predictions)"
    )


def _rows(file: pq.ParquetFile, columns: Sequence[str], path: Path) -> Iterator[tuple[Row, int, str]]:
    known = [name for name in (*_OLD, *_NEW) if name in columns]
    number = 0
    for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE, columns=known, use_threads=False):
        for row in batch.to_pylist():
            number += 1
            yield row, number, f"pool {path}, row {number}"


def _distinct(rows: Iterator[tuple[Row, int, str]], read: Read) -> Iterator[tuple[Hashable, PoolRecord]]:
    """Each row's document and record; a row that repeats another's responses (for another metric) is passed over."""
    seen: set[Hashable] = set()
    for row, number, where in rows:
        key, record = read(row, number, where)
        content = (key, hash(tuple(record.responses)))
        if content not in seen:
            seen.add(content)
            yield key, record


def _new(row: Row, number: int, where: str) -> tuple[Hashable, PoolRecord]:
    doc, response = _struct(row, "doc", where), _struct(row, "model_response", where)
    prompts = (*first_texts(doc.get("specific"), PROMPTS), *first_texts(doc, ("original_query", "query")))
    record = PoolRecord(
        problem_id=f"row-{number}",
        responses=_responses(response.get("text"), where),
        reference=doc.get("choices"),
        more_prompts=prompts,
    )
    return (str(doc.get("task_name")), str(doc.get("id")), prompts), record


def _struct(row: Row, name: str, where: str) -> Row:
    value = row[name] or {}
    if not isinstance(value, Mapping):
        raise HarnessError(f"{where}: {name} must be a struct, as lighteval writes it, got {value!r:.60}")
    return value


def _old(row: Row, number: int, where: str) -> tuple[Hashable, PoolRecord]:
    # The full prompt may hold other problems as examples: it counts only where the bare one is missing.
    prompt = _messages_text(_value(row.get("example"))) or _messages_text(_value(row.get("full_prompt")))
    record = PoolRecord(
        problem_id=f"row-{number}",
        responses=_responses(_value(row["predictions"]), where),
        reference=_value(row.get("gold")),
        prompt=prompt,
    )
    return prompt, record


def _responses(value: Any, where: str) -> list[str]:
    """The responses; they may stand in lists of lists."""
    texts: list[Any] = []
    for entry in value if isinstance(value, list) else [value]:
        texts += entry if isinstance(entry, list) else [entry]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise HarnessError(
            f"{where}: holds no responses (those of a multiple-choice task are log-likelihoods): "
            "only tasks that generate make a pool"
        )
    return texts


def _value(column: Any) -> Any:
    """The value of a column that may have been cast to text: `"['a', 'b']"` is a list, any other text itself."""
    if not isinstance(column, str) or not column.startswith("["):
        return column
    try:
        with warnings.catch_warnings(action="ignore"):  # of odd escapes in a prompt that only looks like a list
            return ast.literal_eval(column)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return column


def _messages_text(prompt: Any) -> str:
    """A prompt as text: itself, or the contents of its chat messages."""
    if isinstance(prompt, list):
        return "\n".join(str(message.get("content")) for message in prompt if isinstance(message, Mapping))
    return prompt if isinstance(prompt, str) else ""
