"""Pools from lighteval's details: one parquet file a task, one row a document.

Up to 0.10 a row has `example`, `full_prompt`, `predictions` and `gold`, some versions with every column cast to text.
From 0.11 on it has the structs `doc` (`query`, `id`, `task_name`, `specific`, ...), `model_response` (`text`: a list of
the responses as the model wrote them) and `metric`. The layouts were read off releases 0.10.0, 0.11.0 and
0.13.0. Metrics are of all responses together: no verdicts.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import HarnessError
from harness.pools.record import PoolRecord, Say, grouped
from harness.system.files import beginning

from .documents import PROMPTS, first_texts, generated, messages_text

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
                is_new = set(_NEW) <= set(columns)
                if not is_new and not ("predictions" in columns and {"example", "full_prompt"} & set(columns)):
                    raise HarnessError(
                        f"pool {path}: unknown layout: its columns are {', '.join(columns):.300}; of parquet files "
                        "those of lighteval are known (doc and model_response, or full_prompt and predictions)"
                    )
                say(
                    "pool: read as lighteval details; their metrics are of all responses together: not taken as "
                    "verdicts"
                )
                known = [name for name in (*_OLD, *_NEW) if name in columns]
                batches = file.iter_batches(batch_size=_ROWS_AT_ONCE, columns=known, use_threads=False)
                rows = (row for batch in batches for row in batch.to_pylist())
                yield from grouped(_distinct(path, rows, _new if is_new else _old))
        except (pa.ArrowException, OSError, ValueError, OverflowError, TypeError, KeyError) as failure:
            raise HarnessError(f"pool {path}: this parquet file cannot be read ({failure})") from failure


Row = Mapping[str, Any]


def _distinct(
    path: Path, rows: Iterable[Row], read: Callable[[Row, str], tuple[Hashable, PoolRecord]]
) -> Iterator[tuple[Hashable, PoolRecord]]:
    """Each row's document and record; a row that repeats another's responses (for another metric) is passed over."""
    seen: set[Hashable] = set()
    for number, row in enumerate(rows, 1):
        key, record = read(row, f"pool {path}, row {number}")
        content = (key, hash(tuple(record.responses)))
        if content not in seen:
            seen.add(content)
            yield key, replace(record, problem_id=f"row-{number}")


def _new(row: Row, where: str) -> tuple[Hashable, PoolRecord]:
    doc, response = row["doc"] or {}, row["model_response"] or {}
    if not (isinstance(doc, Mapping) and isinstance(response, Mapping)):
        raise HarnessError(f"{where}: doc and model_response must be structs, as lighteval writes them")
    prompts = (*first_texts(doc.get("specific"), PROMPTS), *first_texts(doc, ("original_query", "query")))
    responses = generated(response.get("text"), where)
    record = PoolRecord("", responses, reference=doc.get("choices"), more_prompts=prompts)
    return (str(doc.get("task_name")), str(doc.get("id")), prompts), record


def _old(row: Row, where: str) -> tuple[Hashable, PoolRecord]:
    # The full prompt may hold other problems as examples: it counts only where the bare one is missing.
    prompt = messages_text(_value(row.get("example"))) or messages_text(_value(row.get("full_prompt")))
    responses = generated(_value(row["predictions"]), where)
    return prompt, PoolRecord("", responses, prompt, reference=_value(row.get("gold")))


def _value(column: Any) -> Any:
    """The value of a column that may have been cast to text: `"['a', 'b']"` is a list, any other text itself."""
    if not isinstance(column, str) or not column.startswith("["):
        return column
    try:
        with warnings.catch_warnings(action="ignore"):  # of odd escapes in a prompt that only looks like a list
            return ast.literal_eval(column)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return column
