"""`harness pool import|inspect|export`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import foreign, store
from .config import RunConfig
from .errors import HarnessError, did_you_mean
from .pools import read_pool
from .progress import Progress
from .records import Responses
from .setting import make_setting


def import_file(
    pool: Path,
    task_name: str | None,
    data: Path | None,
    split: str | None,
    root: Path,
    plugin_files: Sequence[Path],
    progress: Progress,
) -> dict[str, Any]:
    """Import a pool file into the store; its summary, with the key under which it is kept."""
    config = RunConfig(
        selectors=("uniform",), task=task_name, pool=pool, data=data, split=split, store=root, plugin_files=plugin_files
    )
    imported = foreign.import_pool(make_setting(config, progress), needs_verdicts=False)
    return inspect(imported.work.pool.key, root)


def inspect(pool: str, root: Path) -> dict[str, Any]:
    """The summary of a pool file, or of a pool in the store with whatever verdicts there are on it."""
    if Path(pool).is_file():
        records = ((r.as_responses(), r.correct) for r in read_pool(Path(pool)))
        return {"pool": pool, **_summary(records)}
    folder = _folder(root, pool)
    graded = _graded(root, folder.name)
    shards = ((store.responses_in(path), _correct_in(graded, path)) for path in sorted(folder.glob("*.parquet")))
    return {"pool": folder.name, **_summary(shards)}


def export(key: str, out: Path, root: Path) -> str:
    """Write a pool of the store as JSONL, a line a problem, in the order of their ids' shards; what was written."""
    folder = _folder(root, key)
    graded = _graded(root, folder.name)
    lines = []
    shards = sorted(folder.glob("*.parquet"))
    for path in shards:
        responses, about = store.responses_in(path), store.about_shard(path)
        line: dict[str, Any] = {**about, "responses": list(responses.texts)}
        if not np.isnan(responses.logprobs).any():
            line |= {"logprobs": responses.logprobs.tolist(), "logprob_kind": "sum, temperature 1, unfiltered"}
        correct = _correct_in(graded, path)
        lines.append(json.dumps(line | ({"correct": correct} if correct else {}), ensure_ascii=False))
    store.write_atomically(out, ("\n".join(lines) + "\n").encode())
    return f"{out}: {len(shards)} problems" + (", with verdicts" if graded else "")


def _folder(root: Path, key: str) -> Path:
    folders = sorted(path for path in (root / "pool").glob("*") if path.is_dir())
    matches = [path for path in folders if path.name.startswith(key)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise HarnessError(f"pool {key!r}: {len(matches)} pools of {root} begin so: write more of the key")
    known = did_you_mean(key, [path.name for path in folders]).replace("installed", "there")
    raise HarnessError(f"pool {key!r}: no such file, and no such key in {root} {known}")


def _graded(root: Path, key: str) -> Path | None:
    """The folder of the pool's verdicts; the last one made, where it was graded more than once."""
    manifests = [path for path in (root / "verdict").glob("*/manifest.json") if store.read_json(path)["pool"] == key]
    return max(manifests, key=lambda path: path.stat().st_mtime_ns).parent if manifests else None


def _correct_in(graded: Path | None, shard: Path) -> list[bool] | None:
    path = graded / shard.name if graded else None
    return [verdict == "correct" for verdict in store.verdicts_in(path)] if path and path.exists() else None


def _summary(pools: Iterable[tuple[Responses, Sequence[bool] | None]]) -> dict[str, Any]:
    sizes, distinct, lengths, cut, solved, right, graded = [], 0, 0.0, 0, 0, 0, 0
    for responses, correct in pools:
        sizes.append(len(responses))
        distinct += len(set(responses.texts))
        lengths += float(np.sum(responses.lengths))
        cut += list(responses.finish).count("length")
        if correct is not None:
            graded += len(correct)
            right += sum(correct)
            solved += any(correct)
    total = sum(sizes)
    if not total:
        raise HarnessError("pool: holds no responses yet")
    return {
        "problems": len(sizes),
        "responses": total,
        "n": sizes[0] if len(set(sizes)) == 1 else [min(sizes), max(sizes)],
        "distinct": distinct / total,
        "mean_length": lengths / total,
        "cut_at_max_tokens": cut / total,
        "graded": graded,
        "solvable": solved if graded else None,
        "pass_at_1": right / graded if graded else None,
    }
