"""What repositories of pools hold, how they are changed by hand, and how commands refuse them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.system.hashing import digest
from support.hub_server import Repository
from support.stores import contents

KINDS = ("pool", "embedding", "verdict")


def of_kind(root: Path, *kinds: str) -> dict[str, bytes]:
    """The files of a store's stages of these kinds; of no store none."""
    return {name: content for name, content in contents(root).items() if name.startswith(kinds)}


def refused(outcome: Any, *words: str) -> None:
    """AssertionError unless the command ended with one line that holds these words."""
    assert (outcome.code, outcome.out) == (2, ""), outcome
    [line] = [line for line in outcome.err.splitlines() if line.startswith("error: ")]
    for word in words:
        assert word in line, line
    assert "Traceback" not in outcome.err


def refused_and_nothing_written(outcome: Any, root: Path, *words: str) -> None:
    """... and that nothing came into the store at `root`."""
    refused(outcome, *words)
    assert not of_kind(root, *KINDS)


def changed_manifest(content: bytes, change: Callable[[Any], object]) -> bytes:
    """A manifest changed by hand, with the hash of what it holds then."""
    value = json.loads(content)
    del value["sha256"]
    change(value)
    value["sha256"] = digest(value, 64)
    return json.dumps(value).encode()


def put(repository: Repository, path: str, content: bytes) -> None:
    """Put another file in the place of one, with the manifest's blessing."""

    def bless(value: Any) -> None:
        [file] = [file for stage in value["stages"] for file in stage["files"] if file["path"] == path]
        file.update(size=len(content), sha256=hashlib.sha256(content).hexdigest())

    manifest = changed_manifest(repository.files["manifest.json"], bless)
    repository.commit(repository.files | {path: content, "manifest.json": manifest})


def changed_table(content: bytes, change: Callable[[pa.Table], pa.Table]) -> bytes:
    """A parquet file with another table, as any other writer writes it."""
    sink = pa.BufferOutputStream()
    pq.write_table(change(pq.read_table(pa.BufferReader(content))), sink, compression="zstd", store_schema=False)
    return sink.getvalue().to_pybytes()


def parquet_text(files: dict[str, bytes]) -> str:
    """All that the parquet files of a repository hold, as text, with their footers."""
    tables = [pq.read_table(pa.BufferReader(content)) for path, content in files.items() if path.endswith(".parquet")]
    return "".join(f"{table.to_pydict()} {table.schema.metadata}" for table in tables)
