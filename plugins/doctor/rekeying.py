"""`harness doctor --store DIR --rekey`: shards of older versions, which carry no checksum, checked and written anew.

It needs the store alone: each shard is parsed and compared with its name and its manifest, and written as this version
writes it, under the key that it has. Nothing tells a bit that flipped in it before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import load as load_tensors

from harness.errors import HarnessError
from harness.records import FINISHES, STATUSES
from harness.store import missing_rows, shards
from harness.store.checksums import BadShard, read_regular
from harness.store.json_files import read_manifest, write_json, write_record
from harness.system.hashing import named_shard
from harness.store.shard_files import OLDER, SUFFIXES, as_parquet, is_unsealed, unreadable
from harness.system import json_text
from harness.system.files import write_parts
from harness.system.progress import Progress


def rekey(root: Path, progress: Progress) -> int:
    """Write every sound shard that has no checksum anew, with one; return how many. Others stay as they are."""
    unsealed = [path for path in _shards(root) if is_unsealed(path)]
    count = 0
    with progress.stage("rekey", len(unsealed), "shards") as shown:
        for path in unsealed:
            with suppress(HarnessError):
                write = parsed(path)
                if path.parent.parent.name in ("pool", "sequence"):
                    write_json(path.parent / OLDER, {"adopted": "from a store without checksums"})
                write()
                count += 1
            shown.advance()
    return count


def _shards(root: Path) -> Iterator[Path]:
    for kind, suffix in SUFFIXES.items():
        yield from sorted(path for path in (root / kind).glob(f"*/*{suffix}") if not _is_beside(path))
        yield from sorted((root / kind).glob("*/index.json")) if suffix != ".json" else ()


def _is_beside(path: Path) -> bool:
    return path.name in ("manifest.json", "weights.json", OLDER) or path.name.endswith(missing_rows.MARK)


def parsed(path: Path) -> Callable[[], None]:
    """Check a shard that has no checksum, and return a function that writes it anew, with one.

    HarnessError unless it holds what a shard of its kind must.
    """
    kind = path.parent.parent.name
    with unreadable(path):
        content = read_regular(path)
        if path.suffix == ".safetensors":
            vectors = load_tensors(content)["vectors"]
            _require(path, vectors.ndim == 2 and bool(np.isfinite(vectors).all()), "its vectors are no numbers")
            return lambda: shards.write_vectors(path, vectors)
        if path.suffix == ".json":
            value = json_text.parsed(content, str(path), lenient=True)
            _require(path, isinstance(value, dict), "it is no record")
            if kind == "ranking":
                _check_ranking(path, value)
            return lambda: write_record(path, value)
        table = pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)
        schema = {"pool": shards.RESPONSES, "sequence": shards.RESPONSES, "verdict": shards.VERDICTS}.get(kind)
        table = table.select(schema.names).cast(schema.with_metadata(table.schema.metadata)) if schema else table
        columns = table.to_pydict()
        _check_columns(path, columns, table.schema.metadata or {})
        return lambda: write_parts(path, as_parquet(path, columns, table.schema), durable=True)


def _check_columns(path: Path, columns: Mapping[str, list[Any]], about: Mapping[bytes, bytes]) -> None:
    _require(path, set(columns.get("verdict", ())) <= STATUSES, "it has a verdict that is none")
    if "text" not in columns:
        return
    hashed = path.stem.rpartition(".")[2]
    named = named_shard(about[b"problem_id"].decode(), hashed)
    _require(path, named == path.stem and b"prompt" in about, "it is another problem's")
    _require(path, set(columns["finish"]) <= FINISHES, "it has a finish that is none")
    _require(path, all(length is not None and length >= 0 for length in columns["length"]), "it has a length below 0")
    _require(path, None not in columns["text"] and None not in columns["logprob"], "a response lacks its text")
    n = read_manifest(path.parent).get("n")
    rows = len(columns["text"]) + len(json_text.parsed(about.get(b"missing", b"{}"), str(path)))
    _require(path, path.parent.parent.name != "pool" or n in (None, rows), f"it holds {rows} responses of {n}")


def _check_ranking(path: Path, value: Mapping[str, Any]) -> None:
    n, trials = value["n"], value["trials"]
    orders = [order for trial in trials for order in (trial.values() if isinstance(trial, dict) else [trial])]
    picks = all(len(set(order)) == len(order) and all(0 <= index < n for index in order) for order in orders)
    _require(path, value["kind"] in ("order", "subset") and picks, "its orders are none")


def _require(path: Path, holds: bool, what: str) -> None:
    if not holds:
        raise BadShard(path, f"is damaged ({what})")
