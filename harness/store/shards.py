"""The content-addressed store: what was made, under the hash of what made it.

    STORE/pool/KEY/PROBLEM.parquet            texts, token ids, token counts, log-probabilities, finish reasons
    STORE/embedding/KEY/PROBLEM.safetensors   vectors (n, d) float32, projected, not centred
    STORE/verdict/KEY/PROBLEM.parquet         verdict, reason, route, canonical answer
    STORE/measure/KEY/PROBLEM.parquet         hash of a response, its figures: shared by all pools and thresholds
    STORE/graded/KEY/PROBLEM.parquet          hash of what a verdict depends on, verdict: shared by all pools
    STORE/audit/KEY/PROBLEM.json              a second grader's verdicts
    STORE/chance/KEY/PROBLEM.json             how many gradings against other problems' references were correct
    STORE/ranking/KEY/PROBLEM.json            per trial the indices as far as they were pulled
    STORE/cells/KEY.json                      one cell: all that a row of the table is computed from

KEY is the hash of the canonical JSON of the inputs, which stand in `manifest.json` beside the shards. A shard is
written under a temporary name and renamed, so it is there whole or not at all; a killed run goes on where it stopped.
It carries a checksum and its place in the store (`checksums`), which are looked at whenever it is read.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import platform
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from harness.errors import HarnessError
from harness.records import Floats, Problem, Responses, Verdict

from .checksums import BadShard, blank, read_regular, sealed
from .shard_files import CHECKSUM, as_parquet, content_of, metadata_in, rows_in, table_in, unreadable
from .versions import versioned

READ_ONLY = (errno.EACCES, errno.EROFS, errno.EPERM)


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no blanks: equal values, equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: Any, length: int = 20) -> str:
    """The first `length` hex digits of the SHA-256 of the value's canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()[:length]


def shard_name(problem: Problem) -> str:
    """A readable file stem for a problem, distinct for distinct prompts and references: `4-5-6-10.1f0c9a2b`."""
    return named_shard(problem.id, digest([problem.id, problem.prompt, repr(problem.reference)], 12))


def named_shard(problem_id: str, hashed: str) -> str:
    """The file stem for a problem of which only the id and the hash are known: `4-5-6-10.1f0c9a2b`."""
    readable = re.sub(r"[^A-Za-z0-9-]+", "_", problem_id)[:80]
    return f"{readable}.{hashed}"


@dataclass(frozen=True)
class Stage:
    """One folder of shards: what one set of inputs made, a file a problem. Touches no disk until `begin`."""

    folder: Path
    key: str
    suffix: str
    inputs: Mapping[str, Any]

    def begin(self) -> None:
        """Make the folder and its manifest, and sweep away what killed writers left."""
        manifest = self.folder / "manifest.json"
        with disk_errors(manifest):
            if not manifest.exists():
                write_atomically(manifest, (json.dumps(self.inputs, indent=1, sort_keys=True) + "\n").encode())
            _sweep(self.folder)

    def path(self, problem: Problem) -> Path:
        """Where the problem's shard is, or will be."""
        return self.folder / f"{shard_name(problem)}{self.suffix}"

    def missing(self, problems: Sequence[Problem]) -> list[Problem]:
        """The problems without a shard, in order; one listing of the folder, however many there are."""
        with disk_errors(self.folder):
            there = {entry.name for entry in os.scandir(self.folder)} if self.folder.is_dir() else set()
        return [problem for problem in problems if f"{shard_name(problem)}{self.suffix}" not in there]


class Store:
    """The folder that holds it all; made when the first shard is."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)

    def stage(self, kind: str, inputs: Mapping[str, Any], suffix: str) -> Stage:
        """The stage of that kind for those inputs."""
        inputs = versioned(kind, inputs)
        key = digest({"stage": kind, **inputs})
        return Stage(self.root / kind / key, key, suffix, inputs)

    @property
    def cells(self) -> Path:
        """Where cells are, a file each."""
        return self.root / "cells"


def write_atomically(path: Path, content: bytes, durable: bool = False) -> None:
    """Write whole or not at all; `durable` waits for the disk (for what was expensive to make)."""
    write_parts(path, [content], durable)


def write_parts(path: Path, parts: Iterable[bytes | memoryview | Path], durable: bool = False) -> None:
    """The same for a content in parts, some of them files."""
    temporary = temporary_name(path, os.getpid())
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(temporary, "wb") as file:
                for part in parts:
                    if isinstance(part, Path):
                        with open(part, "rb") as source:
                            shutil.copyfileobj(source, file)
                    else:
                        file.write(part)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def temporary_name(path: Path, pid: int) -> Path:
    """Where a process of this machine writes a file before it is renamed; stores may be shared between machines."""
    return path.with_name(f".{platform.node()}-{pid}.{path.name}.tmp")


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """A full or read-only disk, or a place where nothing can be made, as one line."""
    try:
        yield
    except OSError as failure:
        if failure.errno in (errno.ENOSPC, errno.EDQUOT):
            raise HarnessError(
                f"store: no space left on the disk of {path.parent}: make room and run the same command again; "
                "finished problems are kept"
            ) from failure
        raise HarnessError(f"store: cannot write {path}: {failure.strerror}; choose another --store") from failure


def _sweep(folder: Path) -> None:
    """Remove what killed writers of this machine left behind (temporary files whose process is gone)."""
    mine = f".{platform.node()}-"
    for leftover in folder.glob(".*.tmp"):
        pid = leftover.name.removeprefix(mine).split(".")[0]
        if leftover.name.startswith(mine) and pid.isdigit() and not _alive(int(pid)):
            with suppress(OSError):  # a store that is only read
                leftover.unlink()


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


# Shards of each kind: to bytes and back.
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
_GRADED = pa.schema([("key", pa.binary(16)), *[VERDICTS.field(name) for name in ("verdict", "reason", "route")]])


def write_responses(stage: Stage, problem: Problem, responses: Responses) -> None:
    """Keep one problem's responses; waits for the disk, since they are what costs."""
    keep_responses(stage.path(problem), problem.id, problem.prompt, responses)


def keep_responses(path: Path, problem_id: str, prompt: str, responses: Responses) -> None:
    """Write the shard that `path` names."""
    columns = {
        "text": [storable(text) for text in responses.texts],
        "finish": list(responses.finish),
        "length": np.asarray(responses.lengths, np.int64),
        "logprob": np.asarray(responses.logprobs, np.float64),
        "token_ids": responses.token_ids if responses.token_ids is not None else [None] * len(responses),
    }
    about = {"problem_id": storable(problem_id), "prompt": storable(prompt)}
    if responses.missing:
        about["missing"] = canonical_json({str(row): storable(why) for row, why in responses.missing.items()})
    write_parts(path, as_parquet(path, columns, RESPONSES.with_metadata(about)), durable=True)


def read_responses(stage: Stage, problem: Problem) -> Responses:
    """One problem's responses, without states."""
    return responses_in(stage.path(problem))


def about_shard(path: Path) -> dict[str, str]:
    """The problem_id and prompt that a shard of responses belongs to."""
    metadata = metadata_in(path)
    return {key: metadata[key.encode()].decode() for key in ("problem_id", "prompt")}


def missing_in(path: Path) -> dict[int, str]:
    """The rows that one shard of responses lacks, and why."""
    return _missing_rows(metadata_in(path))


def _missing_rows(metadata: Mapping[bytes, bytes]) -> dict[int, str]:
    return {int(row): why for row, why in json.loads(metadata.get(b"missing", b"{}")).items()}


def count_in(path: Path) -> int:
    """How many responses, or verdicts, are in one shard."""
    return rows_in(path)


def responses_in(path: Path) -> Responses:
    """The responses in one shard, without states."""
    table = table_in(path, RESPONSES)
    token_ids = table["token_ids"]
    return Responses(
        texts=table["text"].to_pylist(),
        finish=table["finish"].to_pylist(),
        lengths=table["length"].to_numpy(),
        logprobs=table["logprob"].to_numpy(),
        token_ids=None if token_ids.null_count else token_ids.to_pylist(),
        missing=_missing_rows(table.schema.metadata or {}),
    )


def write_vectors(stage: Stage, problem: Problem, vectors: Floats) -> None:
    """Keep one problem's vectors (n, d), as float32."""
    keep_vectors(stage.path(problem), vectors)


def keep_vectors(path: Path, vectors: Floats) -> None:
    """Write the shard that `path` names."""
    tensors = {"vectors": np.ascontiguousarray(vectors, dtype=np.float32)}
    write_parts(path, sealed(path, save_tensors(tensors, {CHECKSUM: blank(path)})))


def read_vectors(stage: Stage, problem: Problem) -> Floats:
    """One problem's vectors (n, d) float32."""
    return vectors_in(stage.path(problem))


def vectors_in(path: Path) -> Floats:
    """The vectors (n, d) float32 in one shard."""
    with unreadable(path):
        vectors: Floats = load_tensors(content_of(path))["vectors"]
        return vectors


def write_verdicts(
    stage: Stage,
    problem: Problem,
    verdicts: Sequence[Verdict],
    answers: Sequence[str | None],
    conditions: Mapping[str, str] | None = None,
) -> None:
    """Keep one problem's verdicts and canonical answers, and under what they were made."""
    keep_verdicts(stage.path(problem), verdicts, answers, conditions or {})


def keep_verdicts(
    path: Path, verdicts: Sequence[Verdict], answers: Sequence[str | None], conditions: Mapping[str, str]
) -> None:
    """Write the shard that `path` names."""
    columns = _verdict_columns(verdicts)
    columns["answer"] = [None if answer is None else storable(answer) for answer in answers]
    schema = VERDICTS.with_metadata({"conditions": canonical_json(dict(conditions))})
    write_parts(path, as_parquet(path, columns, schema), durable=True)


def _verdict_columns(verdicts: Iterable[Verdict]) -> dict[str, Any]:
    return {
        "verdict": [verdict.status for verdict in verdicts],
        "reason": [storable(verdict.reason) for verdict in verdicts],
        "route": [storable(verdict.route) for verdict in verdicts],
    }


def read_verdicts(stage: Stage, problem: Problem) -> list[str]:
    """One problem's verdicts: "correct", "wrong" or "error", n of them."""
    return verdicts_in(stage.path(problem))


def verdicts_in(path: Path) -> list[str]:
    """The verdicts in one shard."""
    verdicts: list[str] = table_in(path, VERDICTS, ["verdict"])["verdict"].to_pylist()
    return verdicts


def routed_verdicts_in(path: Path) -> tuple[list[str], list[str]]:
    """The verdicts in one shard, and the route of each ("" where its grader has but one)."""
    columns = table_in(path, VERDICTS, ["verdict", "route"]).to_pydict()
    return columns["verdict"], columns["route"]


def full_verdicts_in(path: Path) -> tuple[list[Verdict], list[str | None]]:
    """The verdicts in one shard with reason and route, and the canonical answers."""
    columns = table_in(path, VERDICTS).to_pydict()
    verdicts = list(map(Verdict, columns["verdict"], columns["reason"], columns["route"]))
    return verdicts, columns["answer"]


def conditions_in(path: Path) -> dict[str, str]:
    """Under what the verdicts in one shard were made."""
    conditions: dict[str, str] = json.loads(metadata_in(path).get(b"conditions", b"{}"))
    return conditions


def write_graded(stage: Stage, problem: Problem, known: Mapping[str, Verdict]) -> None:
    """Keep the verdicts on one problem by the hashes (32 hex digits) of what they depend on."""
    columns = {"key": [bytes.fromhex(hashed) for hashed in known], **_verdict_columns(known.values())}
    path = stage.path(problem)
    write_parts(path, as_parquet(path, columns, _GRADED))


def read_graded(stage: Stage, problem: Problem) -> dict[str, Verdict]:
    """What `write_graded` kept; empty where it kept nothing."""
    path = stage.path(problem)
    if not path.exists():
        return {}
    columns = table_in(path, _GRADED).to_pydict()
    verdicts = map(Verdict, columns["verdict"], columns["reason"], columns["route"])
    return {key.hex(): verdict for key, verdict in zip(columns["key"], verdicts, strict=True)}


def text_hash(text: str) -> str:
    """32 hex digits: what a response's figures are kept under."""
    return digest(storable(text), 32)


def write_figures(stage: Stage, problem: Problem, figures: Mapping[str, Mapping[str, float]]) -> None:
    """Keep figures of one problem's responses, by the responses' hashes; waits for the disk, since they are costly."""
    names = sorted({name for one in figures.values() for name in one})
    fields = [("key", pa.binary(16)), *((name, pa.float64()) for name in names)]
    columns: dict[str, Any] = {"key": [bytes.fromhex(hashed) for hashed in figures]}
    columns |= {name: [one.get(name) for one in figures.values()] for name in names}
    path = stage.path(problem)
    write_parts(path, as_parquet(path, columns, pa.schema(fields)), durable=True)


def read_figures(stage: Stage, problem: Problem) -> dict[str, dict[str, float]]:
    """What `write_figures` kept; empty where it kept nothing."""
    path = stage.path(problem)
    if not path.exists():
        return {}
    columns = table_in(path).to_pydict()
    keys = [key.hex() for key in columns.pop("key")]
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)] or [{}] * len(
        keys
    )
    return {key: {n: v for n, v in row.items() if v is not None} for key, row in zip(keys, rows, strict=True)}


def write_audit(stage: Stage, problem: Problem, said: Sequence[Verdict | None]) -> None:
    """Keep what a second grader says of each response: [status, reason], or null where it says nothing."""
    entries = [verdict and [verdict.status, storable(verdict.reason)] for verdict in said]
    write_record(stage.path(problem), {"problem_id": problem.id, "said": entries})


def read_answers(stage: Stage, problem: Problem) -> list[str | None]:
    """One problem's canonical answers, without the verdicts on them."""
    answers: list[str | None] = table_in(stage.path(problem), VERDICTS, ["answer"])["answer"].to_pylist()
    return answers


def write_json(path: Path, value: Any) -> None:
    """Keep a value as canonical JSON and a newline."""
    write_atomically(path, json_bytes(value))


def json_bytes(value: Any) -> bytes:
    """A value as `write_json` keeps it."""
    return (canonical_json(value) + "\n").encode("utf-8", "surrogatepass")


def read_json(path: Path) -> Any:
    """What `write_json` kept."""
    with unreadable(path):
        return json.loads(read_regular(path))


def write_record(path: Path, value: Mapping[str, Any]) -> None:
    """Keep what is a shard in JSON: the value with its checksum, which stands before any text."""
    content = json_bytes({CHECKSUM: blank(path), **value})
    write_parts(path, sealed(path, content))


def read_record(path: Path) -> dict[str, Any]:
    """What `write_record` kept."""
    with unreadable(path):
        value: dict[str, Any] = json.loads(content_of(path))
        return {name: entry for name, entry in value.items() if name != CHECKSUM}


def read_manifest(folder: Path) -> dict[str, Any]:
    """The inputs that made a stage; HarnessError where they are not those that its key is the hash of."""
    inputs = read_json(folder / "manifest.json")
    if not isinstance(inputs, dict) or digest({"stage": folder.parent.name, **inputs}) != folder.name:
        raise BadShard(folder / "manifest.json", f"does not say what made {folder.name}")
    return inputs


def require_rows(path: Path, rows: int, n: int) -> None:
    """Raise HarnessError unless a shard has as many rows as its problem has responses."""
    if rows != n:
        raise BadShard(path, f"holds {rows:,} rows and not {n:,}, as its pool does")


def storable(text: str) -> str:
    """The text with lone surrogates (which no UTF-8 can hold) replaced by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
