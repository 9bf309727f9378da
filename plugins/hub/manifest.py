"""The manifest of a pool in a hub repository: its stages, problems, and files with their hashes.

The manifest proves that parquet files are the pool with a key: a stage's key is the hash of its `inputs`, each file's
hash is listed, and the manifest has its own hash. A manifest from the hub is not trusted, and nothing in it becomes a
path: a file's name follows from its stage and number, a shard's from the problem's id and 12 hex digits. A manifest
with any other name is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import __version__
from harness.errors import HarnessError
from harness.store.shards import SCORE
from harness.system.hashing import digest
from harness.system.json_text import parsed

from .tables import RESPONSES, VECTORS, VERDICTS, WITH_PROMPTS, Kind, Shard, part_name, with_scores

NAME = "manifest.json"
FORMAT = "diversity-harness pool"
SCHEMA = 2  # with scores; without them 1 is written, which older versions read too
MOST_BYTES = 256 << 20
MOST_SCORES = 1000


@dataclass(frozen=True)
class PartFile:
    """One file of a repository: its path, size in bytes, and SHA-256 in hex."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class StageEntry:
    """A stage of a store, as a repository has it: its inputs, its problems in the order of their rows, its files."""

    kind: Kind
    key: str
    inputs: Mapping[str, Any]
    shards: Sequence[Shard]
    files: Sequence[PartFile] = ()

    @property
    def folder(self) -> str:
        """The folder of its files in the repository."""
        return folder_of(self.kind, self.key)

    @property
    def rows(self) -> int:
        """The number of rows of its table."""
        return sum(shard.n for shard in self.shards)

    def path(self, root: Path, shard: Shard) -> Path:
        """Return the path that a problem's shard of this stage has in the store at `root`."""
        return root / self.kind.name / self.key / f"{shard.stem}{self.kind.suffix}"

    def as_json(self) -> dict[str, Any]:
        """Return the stage's entry in the manifest."""
        return {
            "kind": self.kind.name,
            "key": self.key,
            "inputs": dict(self.inputs),
            "shards": [[shard.problem_id, shard.hashed, shard.n] for shard in self.shards],
            "files": [{"path": file.path, "size": file.size, "sha256": file.sha256} for file in self.files],
        }


@dataclass(frozen=True)
class Manifest:
    """A pool in a repository; its responses are the first stage.

    prompts     the licence of the problems' texts; None if they were left out
    card        SHA-256 of the README.md that the harness wrote last; "" if it wrote none
    made_by     the version of the harness that wrote the manifest
    """

    stages: Sequence[StageEntry]
    prompts: str | None = None
    card: str = ""
    made_by: str = __version__

    @property
    def pool(self) -> StageEntry:
        """The stage of the responses."""
        return self.stages[0]

    @property
    def scores(self) -> list[str]:
        """The names of the responses' scores."""
        names = self.pool.kind.columns.names
        return [name.removeprefix(SCORE) for name in names if name.startswith(SCORE)]

    @property
    def files(self) -> list[PartFile]:
        """The files of all stages."""
        return [file for stage in self.stages for file in stage.files]

    def content(self) -> bytes:
        """Return the bytes of manifest.json, with its own hash."""
        value = {
            "format": FORMAT,
            "schema": SCHEMA if self.scores else 1,
            "harness": self.made_by,
            "key": self.pool.key,
            "prompts": self.prompts,
            "card": self.card,
            "stages": [stage.as_json() for stage in self.stages],
            **({"scores": self.scores} if self.scores else {}),
        }
        return (json.dumps(value | {"sha256": digest(value, 64)}, indent=1, ensure_ascii=False) + "\n").encode()


def folder_of(kind: Kind, key: str) -> str:
    """Return the name of a stage's folder in a repository: `responses`, `vectors-KEY` or `verdicts-KEY`.

    A pool has one stage of responses, and may have several of vectors and of verdicts.
    """
    return kind.folder if kind.name == "pool" else f"{kind.folder}-{key}"


def stage_key(kind: Kind, inputs: Mapping[str, Any]) -> str:
    """Return the key of a stage with this kind and these inputs, the same in every store."""
    return digest({"stage": kind.name, **inputs})


def parse(content: bytes) -> Manifest:
    """Parse manifest.json; HarnessError, without the repository's name, if it is invalid or cannot be trusted."""
    try:
        value = parsed(content, NAME)
    except HarnessError:
        value = None
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise HarnessError(f"{NAME} is not that of a pool")
    _refuse_newer(value)
    given = value.pop("sha256", None)
    _require(given is not None and given == _digest(value), f"{NAME} is damaged: its content does not have its hash")
    try:
        return _manifest(value)
    except (KeyError, TypeError, ValueError, AttributeError) as failure:
        raise HarnessError(f"{NAME} is malformed ({type(failure).__name__}: {failure!s:.60})") from failure


def _refuse_newer(value: Mapping[str, Any]) -> None:
    schema = value.get("schema")
    _require(isinstance(schema, int), f"{NAME} is malformed: no schema")
    if isinstance(schema, int) and schema > SCHEMA:
        raise HarnessError(
            f"written by a newer harness ({value.get('harness')!s:.20}, schema {schema}; this one reads {SCHEMA}): "
            "upgrade diversity-harness"
        )


def _digest(value: Any) -> str | None:
    try:
        return digest(value, 64)
    except HarnessError:  # NaN
        return None


def _manifest(value: Mapping[str, Any]) -> Manifest:
    prompts = value["prompts"]
    _require(prompts is None or isinstance(prompts, str), f"{NAME} is malformed: prompts")
    scores = value.get("scores", [])
    is_valid = isinstance(scores, list) and all(isinstance(name, str) and name for name in scores)
    _require(is_valid and len(set(scores)) == len(scores) <= MOST_SCORES, f"{NAME} is malformed: scores")
    responses = with_scores(RESPONSES if prompts is None else WITH_PROMPTS, scores)
    kinds = {"pool": responses, "embedding": VECTORS, "verdict": VERDICTS}
    stages = [_stage(kinds[entry["kind"]], entry) for entry in value["stages"]]
    names = [stage.kind.name for stage in stages]
    _require(names.count("pool") == 1 and names[0] == "pool", f"{NAME} is malformed: one pool is wanted, and first")
    _require(len({stage.key for stage in stages}) == len(stages), f"{NAME} is malformed: a stage is there twice")
    manifest = Manifest(stages, prompts, str(value["card"]), str(value["harness"]))
    _require(manifest.pool.key == value["key"], f"{NAME} is malformed: it says two keys")
    for stage in stages[1:]:
        _check_belongs(stage, manifest.pool)
    return manifest


def _check_belongs(stage: StageEntry, pool: StageEntry) -> None:
    _require(stage.inputs.get("pool") == pool.key, f"{stage.folder} belongs to another pool")
    sizes = {(shard.problem_id, shard.hashed): shard.n for shard in pool.shards}
    for shard in stage.shards:
        n = sizes.get((shard.problem_id, shard.hashed))
        _require(n is not None, f"{stage.folder} has problems that the pool has not: {shard.problem_id!r:.80}")
        what = f"{stage.folder} has {shard.n} rows for the {n} responses to problem {shard.problem_id!r:.80}"
        _require(n == shard.n, what)


def _stage(kind: Kind, entry: Mapping[str, Any]) -> StageEntry:
    inputs, key = entry["inputs"], entry["key"]
    _require(
        isinstance(inputs, dict) and stage_key(kind, inputs) == key, f"the {kind.folder}' inputs are not their key's"
    )
    if kind.name == "pool":
        _check_task(inputs.get("task"))
    shards = [_shard(*values) for values in entry["shards"]]
    _require(bool(shards), f"the {kind.folder} are empty")
    _require(len({shard.stem for shard in shards}) == len(shards), f"the {kind.folder} have a problem twice")
    _require(len({shard.problem_id for shard in shards}) == len(shards), f"the {kind.folder} have a problem's id twice")
    folder = folder_of(kind, key)
    files = [_file(f"{folder}/{part_name(number)}", **file) for number, file in enumerate(entry["files"])]
    return StageEntry(kind, key, inputs, shards, files)


def _check_task(task: Any) -> None:
    named = isinstance(task, dict) and all(isinstance(task.get(name), str) for name in ("name", "revision"))
    _require(task is None or isinstance(task, str) or named, f"{NAME} is malformed: it names no task")


def _shard(problem_id: Any, hashed: Any, n: Any) -> Shard:
    _require(isinstance(problem_id, str), f"{NAME} is malformed: a problem's id must be text, got {problem_id!r:.40}")
    _require(_is_hex(hashed, 12), f"{NAME} is malformed: a problem's hash must be 12 hex digits, got {hashed!r:.40}")
    _require(type(n) is int and n > 0, f"{NAME} is malformed: a problem has {n!r:.40} responses")
    return Shard(problem_id, hashed, n)


def _file(expected: str, path: Any, size: Any, sha256: Any) -> PartFile:
    _require(path == expected, f"{NAME} is malformed: a file must be {expected}, got {path!r:.80}")
    _require(type(size) is int and size > 0, f"{NAME} is malformed: {expected} has {size!r:.40} bytes")
    _require(_is_hex(sha256, 64), f"{NAME} is malformed: {expected} has no SHA-256")
    return PartFile(expected, size, sha256)


def _is_hex(value: Any, length: int) -> bool:
    return isinstance(value, str) and re.fullmatch(f"[0-9a-f]{{{length}}}", value) is not None


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise HarnessError(what)
