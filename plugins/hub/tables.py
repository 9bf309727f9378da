"""Convert a store's shards to the few large parquet files of a hub repository, and back.

A store has one file per problem; the hub, its viewer and `datasets` work best with few files of plain columns. So each
stage becomes one table with a row per response, problem after problem: `problem_id`, `index` and the shards' columns. A
row group holds whole problems, and a file ends at `PART_BYTES`. Writing and reading thus need the memory of one problem
or 64 MB, whichever is more, and a broken transfer loses at most one file.

Files to read are not trusted: each table must have exactly these columns and the rows listed in the manifest. A group
that unpacks to more than `GROUP_LIMIT` is refused (a parquet file of kilobytes can hold gigabytes).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.errors import HarnessError
from harness.records import FINISHES, STATUSES, Floats, Problem, Responses, Verdict
from harness.store import shards as store
from harness.system.hashing import canonical_json, named_shard
from harness.system.json_text import parsed

PART_BYTES = 256 << 20
GROUP_BYTES = 64 << 20
GROUP_ROWS = 1024
GROUP_LIMIT = 4 << 30


@dataclass(frozen=True)
class Shard:
    """One problem of a stage: its id, the hash in its file's name, and its number of rows."""

    problem_id: str
    hashed: str
    n: int

    @property
    def stem(self) -> str:
        """The file's name in a store, without suffix."""
        return named_shard(self.problem_id, self.hashed)


@dataclass(frozen=True)
class Kind:
    """A kind of stage, with the conversions between its shards and columns.

    name        the name of its folder in a store
    folder      how the name of its folder in a repository begins (see `manifest.folder_of`)
    suffix      of its shards in a store
    columns     besides problem_id and index; those in `optional` may hold nulls
    read        converts a shard's file to columns, by name
    value       converts one problem's rows to the content of a shard; HarnessError for invalid rows
    keep        writes one problem's rows as a shard, to the given path
    """

    name: str
    folder: str
    suffix: str
    columns: pa.Schema
    optional: frozenset[str]
    read: Callable[[Path], Mapping[str, Any]]
    value: Callable[[pa.Table], Any]
    keep: Callable[[Path, Shard, pa.Table], None]

    @property
    def schema(self) -> pa.Schema:
        """All columns of its table, dictionary columns as plain ones, since `datasets` reads no dictionary columns."""
        return pa.schema([("problem_id", pa.string()), ("index", pa.int32()), *map(_plain, self.columns)])


def _plain(field: pa.Field) -> pa.Field:
    return pa.field(field.name, field.type.value_type) if pa.types.is_dictionary(field.type) else field


# Responses.


def with_scores(kind: Kind, names: Sequence[str]) -> Kind:
    """Return the kind of responses with a column of numbers for each score; null where a problem has no such score."""
    columns = [store.SCORE + name for name in names]
    schema = pa.schema([*kind.columns, *((name, pa.float64()) for name in columns)])
    return replace(kind, columns=schema, optional=kind.optional | set(columns))


def _responses_out(path: Path) -> dict[str, Any]:
    responses = store.read_responses(path)
    scores = {store.SCORE + name: values for name, values in responses.scores.items()}
    return scores | {
        "prompt": [store.read_about(path)["prompt"]] * len(responses),
        "text": responses.texts,
        "finish": responses.finish,
        "length": responses.lengths,
        "logprob": responses.logprobs,
        "token_ids": responses.token_ids if responses.token_ids is not None else [None] * len(responses),
    }


def responses_of(table: pa.Table) -> Responses:
    """Return the responses in the rows of one problem; HarnessError for values that no engine gives."""
    _require_known(table, "finish", FINISHES)
    _check_counts(table)
    token_ids = table["token_ids"]
    return Responses(
        texts=table["text"].to_pylist(),
        finish=table["finish"].to_pylist(),
        lengths=table["length"].to_numpy(),
        logprobs=table["logprob"].to_numpy(),
        token_ids=None if token_ids.null_count else token_ids.to_pylist(),
        scores=_scores_of(table),
    )


def _scores_of(table: pa.Table) -> dict[str, Floats]:
    """The scores of which some row is not null, with NaN for null; HarnessError for an infinite one."""
    names = [name for name in table.column_names if name.startswith(store.SCORE)]
    given = [name for name in names if table[name].null_count < len(table)]
    scores: dict[str, Floats] = {name.removeprefix(store.SCORE): table[name].to_numpy() for name in given}
    for name, values in scores.items():
        if (impossible := np.isinf(values)).any():
            raise HarnessError(f"a score {name!r:.40} is {values[impossible.argmax()]}")
    return scores


def _check_counts(table: pa.Table) -> None:
    """Refuse lengths, log-probabilities and token ids that no engine gives.

    NaN means that a log-probability is unknown. If one response has token ids, all must, and as many as its length.
    """
    lengths, logprobs, token_ids = table["length"], table["logprob"].to_numpy(), table["token_ids"]
    if pc.min(lengths).as_py() < 0:
        raise HarnessError(f"a response is {pc.min(lengths).as_py()} tokens long")
    impossible = np.isinf(logprobs)
    if impossible.any():
        raise HarnessError(f"a log-probability is {logprobs[impossible.argmax()]}")
    if token_ids.null_count == len(token_ids):
        return
    if token_ids.null_count:
        raise HarnessError(f"{token_ids.null_count} of its {len(token_ids)} responses have no token ids")
    ids = pa.concat_arrays([chunk.flatten() for chunk in token_ids.chunks])
    if ids.null_count:
        raise HarnessError("a token id is missing")
    if len(ids) and pc.min(ids).as_py() < 0:
        raise HarnessError(f"a token id is {pc.min(ids).as_py()}")
    counts = pc.list_value_length(token_ids)
    differ = pc.not_equal(counts, lengths)
    if pc.any(differ).as_py():
        at = pc.index(differ, True).as_py()
        raise HarnessError(f"response {at} is {lengths[at].as_py()} tokens long and has {counts[at].as_py()} token ids")


def _responses_in(path: Path, shard: Shard, table: pa.Table) -> None:
    prompt = table["prompt"][0].as_py() if "prompt" in table.column_names else ""
    store.write_responses(path, Problem(shard.problem_id, prompt), responses_of(table))


# Vectors.


def _vectors_out(path: Path) -> dict[str, Any]:
    vectors = store.read_vectors(path)
    n, d = vectors.shape
    offsets = np.arange(0, n * d + 1, d, dtype=np.int32) if d else np.zeros(n + 1, np.int32)
    return {"vector": pa.ListArray.from_arrays(pa.array(offsets), pa.array(vectors.reshape(-1)))}


def vectors_of(table: pa.Table) -> Floats:
    """Return the vectors (n, d) float32 in the rows of one problem; HarnessError for unequal widths, NaN or inf."""
    column = table["vector"].combine_chunks()
    widths = set(pc.list_value_length(column).to_pylist())
    values = column.flatten()
    if len(widths) != 1 or values.null_count:
        raise HarnessError("its vectors are not equally wide")
    vectors: Floats = values.to_numpy(zero_copy_only=False).reshape(len(column), widths.pop())
    if not np.isfinite(vectors).all():
        raise HarnessError("its vectors hold NaN or infinity")
    return vectors


def _vectors_in(path: Path, shard: Shard, table: pa.Table) -> None:
    store.write_vectors(path, vectors_of(table))


# Verdicts.


def _verdicts_out(path: Path) -> dict[str, Any]:
    verdicts, answers = store.read_full_verdicts(path)
    return {
        "verdict": [verdict.status for verdict in verdicts],
        "reason": [verdict.reason for verdict in verdicts],
        "route": [verdict.route for verdict in verdicts],
        "answer": answers,
        "conditions": [canonical_json(store.read_conditions(path))] * len(verdicts),
    }


def verdicts_of(table: pa.Table) -> tuple[list[Verdict], list[str | None], dict[str, str]]:
    """Return the verdicts in the rows of one problem, their canonical answers (None: no answer) and conditions.

    The conditions, name -> value, are those under which the verdicts were made. HarnessError for invalid rows.
    """
    _require_known(table, "verdict", STATUSES)
    columns = table.to_pydict()
    try:
        conditions = parsed(columns["conditions"][0], "conditions")
    except HarnessError:
        conditions = None
    if not isinstance(conditions, dict) or not all(isinstance(value, str) for value in conditions.values()):
        raise HarnessError("it does not say under what conditions its verdicts were made")
    return list(map(Verdict, columns["verdict"], columns["reason"], columns["route"])), columns["answer"], conditions


def _verdicts_in(path: Path, shard: Shard, table: pa.Table) -> None:
    store.write_verdicts(path, *verdicts_of(table))


def _require_known(table: pa.Table, name: str, known: set[str]) -> None:
    unknown = set(pc.unique(table[name]).to_pylist()) - known
    if unknown:
        raise HarnessError(f"{name} must be one of {', '.join(sorted(known))}, got {sorted(map(repr, unknown))[0]:.40}")


RESPONSES = Kind(
    "pool",
    "responses",
    ".parquet",
    store.RESPONSES,
    frozenset({"token_ids"}),
    _responses_out,
    responses_of,
    _responses_in,
)
WITH_PROMPTS = Kind(
    "pool",
    "responses",
    ".parquet",
    pa.schema([("prompt", pa.string()), *store.RESPONSES]),
    frozenset({"token_ids"}),
    _responses_out,
    responses_of,
    _responses_in,
)
VECTORS = Kind(
    "embedding",
    "vectors",
    ".safetensors",
    pa.schema([("vector", pa.list_(pa.float32()))]),
    frozenset(),
    _vectors_out,
    vectors_of,
    _vectors_in,
)
VERDICTS = Kind(
    "verdict",
    "verdicts",
    ".parquet",
    pa.schema([*store.VERDICTS, ("conditions", pa.string())]),
    frozenset({"answer"}),
    _verdicts_out,
    verdicts_of,
    _verdicts_in,
)


# Files.


def table_of(kind: Kind, shard: Shard, path: Path) -> pa.Table:
    """Return the rows of the shard at `path`, in a store; HarnessError if their number differs from `shard.n`."""
    columns = kind.read(path)
    given = {"problem_id": [shard.problem_id] * shard.n, "index": np.arange(shard.n, dtype=np.int32), **columns}
    schema = kind.schema
    given = {name: [None] * shard.n for name in schema.names if name.startswith(store.SCORE)} | given
    arrays = {name: pa.array(given[name], schema.field(name).type) for name in schema.names}
    if any(len(array) != shard.n for array in arrays.values()):
        raise HarnessError(f"store: {path} is not as long as the pool's {shard.n} responses: delete it")
    return pa.table(arrays, schema=schema)


def write_parts(folder: Path, kind: Kind, tables: Iterable[pa.Table]) -> list[Path]:
    """Write the problems' tables to `folder`/00000.parquet, 00001.parquet, ...; return the paths.

    The folder must not exist yet. The same tables give files with the same bytes.
    """
    folder.mkdir(parents=True)
    paths: list[Path] = []
    groups = _groups(tables)
    group = next(groups, None)
    while group is not None:
        paths.append(folder / part_name(len(paths)))
        with pa.OSFile(str(paths[-1]), "wb") as file, pq.ParquetWriter(file, kind.schema, compression="zstd") as writer:
            begun = False
            while group is not None and not (begun and file.tell() >= PART_BYTES):
                writer.write_table(group, row_group_size=group.num_rows)
                begun, group = True, next(groups, None)
    return paths


def part_name(number: int) -> str:
    """Return the name of file `number`, counted from 0, in a stage's folder: `00000.parquet`."""
    return f"{number:05d}.parquet"


def _groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Join tables until a row group is large enough to be worth its overhead."""
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if sum(map(len, waiting)) >= GROUP_ROWS or sum(rows.nbytes for rows in waiting) >= GROUP_BYTES:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def read_parts(paths: Sequence[Path], kind: Kind, shards: Sequence[Shard]) -> Iterator[tuple[Shard, pa.Table]]:
    """Yield each problem with its rows, in the order of `shards`; HarnessError if the files hold other rows."""
    expected = iter(shards)
    for path in paths:
        with _one_line_errors(path):
            for group in _groups_in(path, kind):
                start = 0
                while start < group.num_rows:
                    shard = next(expected, None)
                    if shard is None:
                        raise HarnessError("holds more problems than the manifest says")
                    yield shard, _checked(group.slice(start, shard.n), kind, shard)
                    start += shard.n
    left = next(expected, None)
    if left is not None:
        raise HarnessError(f"{kind.folder}: the files end before problem {left.problem_id!r}")


def _checked(rows: pa.Table, kind: Kind, shard: Shard) -> pa.Table:
    ids = set(pc.unique(rows["problem_id"]).to_pylist())
    if ids != {shard.problem_id} or rows["index"].to_pylist() != list(range(shard.n)):
        raise HarnessError(f"the rows of problem {shard.problem_id!r:.80} are not the {shard.n} that the manifest says")
    for name in rows.column_names:
        if rows[name].null_count and name not in kind.optional:
            raise HarnessError(f"problem {shard.problem_id!r:.80} has a row without {name}")
    return rows


def _groups_in(path: Path, kind: Kind) -> Iterator[pa.Table]:
    texts = [field.name for field in kind.schema if pa.types.is_string(field.type)]
    with pq.ParquetFile(path) as file:
        schema = file.schema_arrow.remove_metadata()
    if schema != kind.schema:
        raise HarnessError(f"has other columns than {', '.join(kind.schema.names)}")
    with pq.ParquetFile(path, read_dictionary=texts) as file:
        for number in range(file.num_row_groups):
            _refuse_a_bomb(file.metadata.row_group(number))
            table = file.read_row_group(number, use_threads=False)
            if sum(_unpacked(table[name]) for name in texts) > GROUP_LIMIT:
                raise HarnessError(_BOMB)
            yield table.cast(kind.schema)


_BOMB = f"a group of its rows unpacks to more than {GROUP_LIMIT >> 30} GiB"


def _refuse_a_bomb(group: Any) -> None:
    values = max((group.column(number).num_values for number in range(group.num_columns)), default=0)
    if max(group.total_byte_size, 8 * values) > GROUP_LIMIT:
        raise HarnessError(_BOMB)


def _unpacked(column: pa.ChunkedArray) -> int:
    """The bytes of the unpacked texts, computed from the dictionary before anything is unpacked."""
    total = 0
    for chunk in column.chunks:
        lengths = pc.binary_length(chunk.dictionary).fill_null(0).to_numpy(zero_copy_only=False)
        counts = np.bincount(chunk.indices.drop_null().to_numpy(), minlength=len(lengths))
        total += int(np.dot(counts.astype(object), lengths.astype(object))) if len(lengths) else 0
    return total


@contextmanager
def _one_line_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except HarnessError as failure:
        raise HarnessError(f"{path.parent.name}/{path.name}: {failure}") from failure
    except (pa.ArrowException, OSError, ValueError, KeyError) as failure:
        raise HarnessError(
            f"{path.parent.name}/{path.name}: no table of a pool ({type(failure).__name__})"
        ) from failure
