"""`harness pool pull`: bring the pool of a repository into a store, under its original key.

All files of one commit are downloaded to a folder of the store, and every hash and row is checked before the first
shard is written. A pull that was killed resumes at the file, or at the problem, where it stopped.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import HarnessError, contained
from harness.plugin_system.component import build
from harness.plugin_system.registry import load_registry
from harness.records import Problem, Responses
from harness.store import shards
from harness.store.stage import Stage
from harness.system.files import disk_errors
from harness.system.hashing import digest, shard_name
from harness.system.progress import Progress

from .dataset import HubDataset, Snapshot
from .manifest import PartFile, StageEntry
from .stored_manifest import counts, prefixed_by, read_manifest, sha256_of
from .tables import VERDICTS, read_parts


def pull_pool(
    repo: str, root: Path, progress: Progress, revision: str | None = None, verdicts: bool = True
) -> dict[str, Any]:
    """Bring the pool of a repository into the store at `root` under the pool's key, and return a summary of it.

    revision   a branch, tag or commit; None: the newest commit
    verdicts   False: do not download the repository's verdicts

    The summary has repo, commit, pool (its key), problems and responses (numbers), stages (folder names), prompts
    (whether the problems' texts came too) and new (number of problems whose responses the store did not have yet).
    """
    hub = HubDataset(repo, "pool pull")
    snapshot = hub.snapshot(revision)
    folder = root / "pull" / digest([hub.endpoint, repo, snapshot.commit])
    for leftover in folder.rglob("*.incomplete"):
        leftover.unlink(missing_ok=True)
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    manifest = read_manifest(hub, snapshot, folder)
    stages = [stage for stage in manifest.stages if verdicts or stage.kind is not VERDICTS]
    files = [file for stage in stages for file in stage.files]
    with prefixed_by(hub):
        _check_problems(manifest.pool)
        _check_remote(files, snapshot)
        _check_space(files, root)
    _fetch(hub, snapshot.commit, files, folder, progress)
    with prefixed_by(hub):
        for stage in stages:
            _check(stage, folder, root)
        kept = [
            _keep(stage, folder, root, progress) for stage in reversed(stages)
        ]  # responses last: they mark a complete pull
    shutil.rmtree(folder)
    return {"repo": repo, "commit": snapshot.commit, **counts(replace(manifest, stages=stages)), "new": kept[-1]}


def _check_problems(pool: StageEntry) -> None:
    """Refuse responses to problems that the task does not have, if the task is installed and its data can be read."""
    task = pool.inputs.get("task")
    if not isinstance(task, dict):
        return
    left = {shard.stem: shard.problem_id for shard in pool.shards}
    try:
        with contained():
            for problem in _problems_of(task["name"], task["revision"]):
                left.pop(shard_name(problem), None)
                if not left:
                    return
    except Exception:  # not installed, another revision, or its data cannot be read: a run will report it
        return
    raise HarnessError(
        f"responses to {len(left)} problems that task {task['name']!r} of the same revision does not have, first "
        f"{next(iter(left.values()))!r:.80}"
    )


def _problems_of(name: str, revision: str) -> Iterator[Problem]:
    """All splits' problems, the default split's first; HarnessError if the installed task has another revision."""
    task = build(load_registry(), "task", name, data=None)
    if task.revision != revision:
        raise HarnessError(f"task {name!r}: another revision")
    default, _ = task.default_split("")
    for split in dict.fromkeys([default, *task.splits]):
        yield from task.problems(split)


def _check_remote(files: Sequence[PartFile], snapshot: Snapshot) -> None:
    """Before any download, refuse files whose size or hash on the hub differs from the manifest."""
    missing = [file.path for file in files if file.path not in snapshot.files]
    if missing:
        raise HarnessError(f"half of a pool: {len(missing)} of its {len(files)} files are missing, first {missing[0]}")
    for file in files:
        remote = snapshot.files[file.path]
        if remote.size != file.size or remote.sha256 not in (None, file.sha256):
            raise HarnessError(f"{file.path} is not the file that the manifest names (its size or hash is another)")


def _check_space(files: Sequence[PartFile], root: Path) -> None:
    """Refuse a pull that does not fit on the disk: downloaded files and shards exist together for a while."""
    needed, free = 2 * sum(file.size for file in files), shutil.disk_usage(root).free
    if needed > free:
        raise HarnessError(
            f"needs about {needed / 1e9:.1f} GB while it comes in, and {root} has {free / 1e9:.1f} GB free: "
            "choose another --store"
        )


def _fetch(hub: HubDataset, commit: str, files: Sequence[PartFile], folder: Path, progress: Progress) -> None:
    with progress.stage("fetch", len(files), "files") as shown:
        for file in files:
            path = hub.download(file.path, commit, folder)
            if path.stat().st_size != file.size or sha256_of(path) != file.sha256:
                path.unlink()
                raise HarnessError(
                    f"{hub.doing}: {file.path} is damaged: it does not have the manifest's SHA-256; run the same "
                    "command again, and if it is damaged again tell whoever pushed it"
                )
            shown.advance()


def _check(stage: StageEntry, folder: Path, root: Path) -> None:
    """Check all rows before anything is written, and that the store has no different responses under the key."""
    for shard, rows in read_parts([folder / file.path for file in stage.files], stage.kind, stage.shards):
        try:
            value = stage.kind.value(rows)
        except HarnessError as failure:
            raise HarnessError(f"{stage.folder}, problem {shard.problem_id!r:.80}: {failure}") from failure
        path = stage.path(root, shard)
        if stage.kind.name == "pool" and path.exists() and not _same(shards.read_responses(path), value):
            raise HarnessError(
                f"{root} has other responses to problem {shard.problem_id!r} under key {stage.key}: pull into another "
                "--store"
            )


def _same(first: Responses, second: Responses) -> bool:
    return (
        list(first.texts) == list(second.texts)
        and list(first.finish) == list(second.finish)
        and np.array_equal(first.lengths, second.lengths)
        and np.array_equal(first.logprobs, second.logprobs, equal_nan=True)
        and first.token_ids == second.token_ids
        and first.scores.keys() == second.scores.keys()
        and all(np.array_equal(first.scores[name], second.scores[name], equal_nan=True) for name in first.scores)
    )


def _keep(stage: StageEntry, folder: Path, root: Path, progress: Progress) -> int:
    """Write the shards that the store does not have; return their number."""
    Stage(root / stage.kind.name / stage.key, stage.key, stage.kind.suffix, stage.inputs).begin()
    new = 0
    with progress.stage(stage.folder, len(stage.shards), "problems", closing=False) as shown:
        for shard, rows in read_parts([folder / file.path for file in stage.files], stage.kind, stage.shards):
            path = stage.path(root, shard)
            if not path.exists():
                stage.kind.keep(path, shard, rows)
                new += 1
            shown.advance()
    return new


def pulled(made: dict[str, Any]) -> str:
    """Return the line that the command prints; `made` is the summary that `pull_pool` returned."""
    return (
        f"pool {made['pool']}: {made['responses']:,} responses to {made['problems']:,} problems, {made['new']:,} of "
        f"them new here; {', '.join(made['stages'])} from {made['repo']} at {made['commit'][:12]}"
    )
