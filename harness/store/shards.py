"""Read and write the shards of each kind: a file holds one problem's responses, vectors or verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from harness.records import Floats, Problem, Responses, Verdict
from harness.system.files import write_parts
from harness.system.json_text import parsed, shaped
from harness.task import Ran

from .checksums import BadShard, blank, sealed
from .json_files import write_record
from .keys import canonical_json, storable
from .shard_files import CHECKSUM, as_parquet, content_of, metadata_in, rows_in, table_in, unreadable

RESPONSES = pa.schema(
    [
        ("text", pa.string()),
        ("finish", pa.dictionary(pa.int8(), pa.string())),
        ("length", pa.int64()),
        ("logprob", pa.float64()),
        ("token_ids", pa.list_(pa.int32())),
    ]
)
VERDICTS = pa.schema(
    [
        ("verdict", pa.dictionary(pa.int8(), pa.string())),
        ("reason", pa.dictionary(pa.int32(), pa.string())),
        ("route", pa.dictionary(pa.int32(), pa.string())),
        ("answer", pa.string()),
    ]
)
SCORE = "score:"  # before a score's name, in the name of its column; a shard without scores has no such column
_RAN = pa.schema([("key", pa.binary(16)), ("answer", pa.string()), ("cpu_s", pa.float64())])
_GRADED = pa.schema([("key", pa.binary(16)), *[VERDICTS.field(name) for name in ("verdict", "reason", "route")]])


def count_rows(path: Path) -> int:
    """The number of responses, or verdicts, in one shard."""
    return rows_in(path)


def require_rows(path: Path, rows: int, n: int) -> None:
    """Raise HarnessError unless a shard's number of rows is n, the number of its problem's responses in the pool."""
    if rows != n:
        raise BadShard(path, f"holds {rows:,} rows and not {n:,}, as its pool does")


# Responses.


def write_responses(path: Path, problem: Problem, responses: Responses) -> None:
    """Write one problem's responses; waits for the disk, because responses are expensive."""
    columns = {
        "text": [storable(text) for text in responses.texts],
        "finish": list(responses.finish),
        "length": np.asarray(responses.lengths, np.int64),
        "logprob": np.asarray(responses.logprobs, np.float64),
        "token_ids": responses.token_ids if responses.token_ids is not None else [None] * len(responses),
    }
    scores = {SCORE + storable(name): np.asarray(values, np.float64) for name, values in responses.scores.items()}
    schema = pa.schema([*RESPONSES, *((name, pa.float64()) for name in scores)])
    about = {"problem_id": storable(problem.id), "prompt": storable(problem.prompt)}
    if responses.missing:
        about["missing"] = canonical_json({str(row): storable(why) for row, why in responses.missing.items()})
    write_parts(path, as_parquet(path, columns | scores, schema.with_metadata(about)), durable=True)


def read_responses(path: Path) -> Responses:
    """The responses in one shard, with their scores and without states."""
    table = table_in(path, RESPONSES, further=SCORE)
    token_ids = table["token_ids"]
    return Responses(
        texts=table["text"].to_pylist(),
        finish=table["finish"].to_pylist(),
        lengths=table["length"].to_numpy(),
        logprobs=table["logprob"].to_numpy(),
        token_ids=None if token_ids.null_count else token_ids.to_pylist(),
        missing=_missing_rows(path, table.schema.metadata or {}),
        scores=_scores(table),
    )


def read_scores(path: Path) -> dict[str, Floats]:
    """The scores in one shard of responses or of scores: name -> (n,) float64, NaN where unknown; {} if none."""
    return _scores(table_in(path))


def write_scores(path: Path, scores: Mapping[str, Floats]) -> None:
    """Write scores of one problem's responses, as `read_scores` reads them; waits for the disk, as they are costly."""
    columns = {SCORE + storable(name): np.asarray(values, np.float64) for name, values in scores.items()}
    schema = pa.schema([(name, pa.float64()) for name in columns])
    write_parts(path, as_parquet(path, columns, schema), durable=True)


def read_ratings(path: Path) -> dict[str, Floats]:
    """By what the best of a pool's responses can be chosen: its scores, and "mean-logprob", the mean over its tokens.

    name -> (n,) float64, the larger the better, NaN where unknown; without those that are unknown for all.
    """
    table = table_in(path)
    length = np.maximum(table["length"].to_numpy(), 1)
    ratings = _scores(table) | {"mean-logprob": table["logprob"].to_numpy() / length}
    return {name: values for name, values in ratings.items() if not np.isnan(values).all()}


def _scores(table: pa.Table) -> dict[str, Floats]:
    names = [name for name in table.column_names if name.startswith(SCORE)]
    return {name.removeprefix(SCORE): table[name].to_numpy() for name in names}


def read_about(path: Path) -> dict[str, str]:
    """The problem_id and prompt that a shard of responses belongs to."""
    metadata = metadata_in(path)
    return {key: metadata[key.encode()].decode() for key in ("problem_id", "prompt")}


def read_missing(path: Path) -> dict[int, str]:
    """The rows that one shard of responses lacks -> the reason."""
    return _missing_rows(path, metadata_in(path))


def _missing_rows(path: Path, metadata: Mapping[bytes, bytes]) -> dict[int, str]:
    with unreadable(path):
        return {int(row): why for row, why in _texts(path, metadata, b"missing").items()}


def _texts(path: Path, metadata: Mapping[bytes, bytes], name: bytes) -> dict[str, str]:
    """An entry of a shard's metadata that is an object of texts; {} if the shard has no such entry."""
    if name not in metadata:
        return {}
    return shaped(parsed(metadata[name], str(path)), dict[str, str], str(path))


# Vectors.


def write_vectors(path: Path, vectors: Floats) -> None:
    """Write one problem's vectors (n, d), as float32."""
    tensors = {"vectors": np.ascontiguousarray(vectors, dtype=np.float32)}
    write_parts(path, sealed(path, save_tensors(tensors, {CHECKSUM: blank(path)})))


def read_vectors(path: Path) -> Floats:
    """The vectors (n, d) float32 in one shard."""
    with unreadable(path):
        vectors: Floats = load_tensors(content_of(path))["vectors"]
        return vectors


# Verdicts.


def write_verdicts(
    path: Path,
    verdicts: Sequence[Verdict],
    answers: Sequence[str | None],
    conditions: Mapping[str, str] | None = None,
    answers_cpu_s: float | None = None,
) -> None:
    """Write one problem's verdicts and canonical answers, and the conditions (name -> value) of the grading.

    answers_cpu_s  CPU seconds that the answers cost, if responses were run for them
    """
    columns = _verdict_columns(verdicts)
    columns["answer"] = [None if answer is None else storable(answer) for answer in answers]
    cost = {} if answers_cpu_s is None else {"answers_cpu_s": repr(answers_cpu_s)}
    schema = VERDICTS.with_metadata({"conditions": canonical_json(dict(conditions or {})), **cost})
    write_parts(path, as_parquet(path, columns, schema), durable=True)


def _verdict_columns(verdicts: Iterable[Verdict]) -> dict[str, Any]:
    return {
        "verdict": [verdict.status for verdict in verdicts],
        "reason": [storable(verdict.reason) for verdict in verdicts],
        "route": [storable(verdict.route) for verdict in verdicts],
    }


def read_verdicts(path: Path) -> list[str]:
    """One problem's verdicts: "correct", "wrong" or "error", n of them."""
    verdicts: list[str] = table_in(path, VERDICTS, ["verdict"])["verdict"].to_pylist()
    return verdicts


def read_routes(path: Path) -> tuple[list[str], list[str]]:
    """The verdicts in one shard, and the route of each ("" if its grader has only one)."""
    columns = table_in(path, VERDICTS, ["verdict", "route"]).to_pydict()
    return columns["verdict"], columns["route"]


def read_full_verdicts(path: Path) -> tuple[list[Verdict], list[str | None]]:
    """The verdicts in one shard with reason and route, and the canonical answers."""
    columns = table_in(path, VERDICTS).to_pydict()
    verdicts = list(map(Verdict, columns["verdict"], columns["reason"], columns["route"]))
    return verdicts, columns["answer"]


def read_answers(path: Path) -> list[str | None]:
    """One problem's canonical answers, without the verdicts on them."""
    answers: list[str | None] = table_in(path, VERDICTS, ["answer"])["answer"].to_pylist()
    return answers


def read_conditions(path: Path) -> dict[str, str]:
    """The conditions under which the verdicts in one shard were made."""
    with unreadable(path):
        return _texts(path, metadata_in(path), b"conditions")


def read_answers_cpu_s(path: Path) -> float | None:
    """The CPU seconds that the answers in one shard of verdicts cost; None if no response was run for them."""
    seconds = metadata_in(path).get(b"answers_cpu_s")
    return None if seconds is None else float(seconds)


# Shared by all pools: verdicts, answers and measurements by hash.


def write_graded(path: Path, verdicts: Mapping[str, Verdict]) -> None:
    """Write verdicts on one problem: hash of a verdict key (32 hex digits) -> verdict."""
    columns = {"key": [bytes.fromhex(key) for key in verdicts], **_verdict_columns(verdicts.values())}
    write_parts(path, as_parquet(path, columns, _GRADED))


def read_graded(path: Path) -> dict[str, Verdict]:
    """Read what `write_graded` wrote; {} if there is no file."""
    if not path.exists():
        return {}
    columns = table_in(path, _GRADED).to_pydict()
    verdicts = map(Verdict, columns["verdict"], columns["reason"], columns["route"])
    return {key.hex(): verdict for key, verdict in zip(columns["key"], verdicts, strict=True)}


def write_ran(path: Path, ran: Mapping[str, Ran]) -> None:
    """Write the answers that running responses to one problem gave: hash of a response (32 hex digits) -> `Ran`."""
    columns = {
        "key": [bytes.fromhex(key) for key in ran],
        "answer": [None if each.answer is None else storable(each.answer) for each in ran.values()],
        "cpu_s": [each.cpu_s for each in ran.values()],
    }
    write_parts(path, as_parquet(path, columns, _RAN), durable=True)


def read_ran(path: Path) -> dict[str, Ran]:
    """Read what `write_ran` wrote; {} if there is no file."""
    if not path.exists():
        return {}
    return {row["key"].hex(): Ran(row["answer"], row["cpu_s"]) for row in table_in(path, _RAN).to_pylist()}


def write_measurements(path: Path, measurements: Mapping[str, Mapping[str, float]]) -> None:
    """Write measurements of one problem's responses: `text_hash` of a response -> {name: value}.

    Waits for the disk, because measurements are costly.
    """
    names = sorted({name for values in measurements.values() for name in values})
    fields = [("key", pa.binary(16)), *((name, pa.float64()) for name in names)]
    columns: dict[str, Any] = {"key": [bytes.fromhex(key) for key in measurements]}
    columns |= {name: [values.get(name) for values in measurements.values()] for name in names}
    write_parts(path, as_parquet(path, columns, pa.schema(fields)), durable=True)


def read_measurements(path: Path) -> dict[str, dict[str, float]]:
    """Read what `write_measurements` wrote; {} if there is no file."""
    if not path.exists():
        return {}
    rows = table_in(path).to_pylist()
    return {row.pop("key").hex(): {name: value for name, value in row.items() if value is not None} for row in rows}


def write_audit(path: Path, problem: Problem, verdicts: Sequence[Verdict | None]) -> None:
    """Write the second grader's verdict on each response: [status, reason], or null if it gives none."""
    entries = [verdict and [verdict.status, storable(verdict.reason)] for verdict in verdicts]
    write_record(path, {"problem_id": problem.id, "said": entries})
