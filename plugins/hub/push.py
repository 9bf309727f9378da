"""`harness pool push`: a pool of a store to a dataset repository of the hub, in one commit.

The problems' texts stay at home unless their licence is named: those of AIME and MATH are not ours to pass on.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.plugin_system.component import parse_spec
from harness.plugin_system.registry import load_registry
from harness.running.pool_jobs import graded_folder, stored_pool
from harness.store import json_files, missing_rows
from harness.store import shards as store
from harness.system.files import disk_errors
from harness.system.progress import Progress

from . import manifest as pool_manifest
from .card import card, flat
from .dataset import HubDataset, Snapshot
from .manifest import Manifest, PartFile, StageEntry
from .stored_manifest import counts, read_manifest, sha256_of
from .tables import RESPONSES, VECTORS, VERDICTS, WITH_PROMPTS, Kind, Shard, table_of, write_parts

CARD = "README.md"


@dataclass(frozen=True)
class Push:
    """What is asked of a push. `prompts`: the licence of the problems' texts, which then go too."""

    key: str
    repo: str
    store: Path
    private: bool = False
    licence: str | None = None
    prompts: str | None = None
    vectors: bool = False
    verdicts: bool = False

    def __post_init__(self) -> None:
        if self.licence is not None and not re.fullmatch(r"[a-z0-9][a-z0-9.+-]*", self.licence):
            raise HarnessError(f"pool push: --licence is an id of the hub, e.g. mit or cc-by-4.0, got {self.licence!r}")


@dataclass(frozen=True)
class There:
    """What the repository holds before a push: nothing (None, None), files, or a pool already."""

    snapshot: Snapshot | None
    manifest: Manifest | None


def push_pool(asked: Push, progress: Progress) -> dict[str, Any]:
    """Write a pool of the store, with what is asked for beside it, to a repository in one commit; what is there now.

    What an earlier push of the same pool left beside it (vectors, verdicts) stays.
    """
    stages = _stages(asked, stored_pool(asked.store, asked.key))
    pool = stages[0]
    _check_prompts(asked, pool)
    _say_what_shows(asked, stages, progress)
    hub = HubDataset(asked.repo, "pool push")
    hub.require_token()
    with _emptied(asked.store / "push" / pool.key) as staging:
        there = _there(hub, staging)
        _check_there(asked, pool, there)
        files = _written(asked.store, stages, staging, progress)
        kept = [stage for stage in (there.manifest.stages if there.manifest else ()) if stage.key not in files]
        manifest = Manifest(
            [replace(stage, files=_described(files[stage.key])) for stage in stages] + kept, asked.prompts
        )
        if there.snapshot is None:
            hub.create(asked.private)
        snapshot = there.snapshot or hub.snapshot()
        page = _card(asked, hub, replace(there, snapshot=snapshot), manifest, staging, progress)
        add: dict[str, Path | bytes] = {name: path for paths in files.values() for name, path in paths.items()}
        commit = _commit(hub, manifest, add, page, there, snapshot)
    size = sum(file.size for file in manifest.files)
    return {"repo": asked.repo, "commit": commit, "private": snapshot.private, "bytes": size, **counts(manifest)}


def _stages(asked: Push, folder: Path) -> list[StageEntry]:
    """The stages to push, each with the problems that it has a shard of."""
    kind = WITH_PROMPTS if asked.prompts is not None else RESPONSES
    shards = [_shard(path) for path in sorted(folder.glob("*.parquet"))]
    if not shards:
        raise HarnessError(f"pool {folder.name}: holds no responses yet")
    if lacking := len(list(folder.glob(f"*{missing_rows.MARK}"))):
        raise HarnessError(
            f"pool {folder.name}: requests of {lacking} problems stayed unanswered: run the same command again until "
            "none do, then push"
        )
    pool = _entry(kind, folder, shards)
    found = [pool]
    if asked.vectors:
        folders = sorted(path.parent for path in (asked.store / "embedding").glob("*/manifest.json"))
        found += [entry for path in folders if (entry := _beside(VECTORS, path, pool))]
    graded = graded_folder(asked.store, pool.key) if asked.verdicts else None
    found += [entry for path in ([graded] if graded else []) if (entry := _beside(VERDICTS, path, pool))]
    kinds = {entry.kind.name for entry in found}
    for wanted, name in ((asked.vectors, "embedding"), (asked.verdicts, "verdict")):
        if wanted and name not in kinds:
            raise HarnessError(f"pool {pool.key}: {asked.store} has no {name}s of it: `harness run` makes them")
    return found


def _shard(path: Path) -> Shard:
    problem_id, hashed = store.read_about(path)["problem_id"], path.stem.rpartition(".")[2]
    shard = Shard(problem_id, hashed, store.count_rows(path))
    if shard.stem != path.stem or not shard.n:
        raise HarnessError(f"store: {path} is not the shard of a problem {problem_id!r}: delete it")
    return shard


def _entry(kind: Kind, folder: Path, shards: Sequence[Shard]) -> StageEntry:
    return StageEntry(kind, folder.name, json_files.read_manifest(folder), shards)


def _beside(kind: Kind, folder: Path, pool: StageEntry) -> StageEntry | None:
    """A stage made from the pool; None for another pool's, or one without shards."""
    if json_files.read_manifest(folder).get("pool") != pool.key:
        return None
    shards = [shard for shard in pool.shards if (folder / f"{shard.stem}{kind.suffix}").exists()]
    return _entry(kind, folder, shards) if shards else None


def _check_prompts(asked: Push, pool: StageEntry) -> None:
    task = pool.inputs.get("task")
    named = (task["name"] if isinstance(task, dict) else task) or ""
    if asked.prompts is not None and (owner := _owner(named)):
        raise HarnessError(
            f"pool push: the problems of {named} belong to {owner} and are not pushed: leave --prompts away; "
            "the responses join again by the problems' ids"
        )
    if asked.prompts == "":
        raise HarnessError("pool push: --prompts wants the licence under which the problems' texts may be passed on")


def _owner(task: str) -> str | None:
    """Whose texts a task's problems are, where they are not passed on; None too for a task that is not installed."""
    try:
        found = load_registry().find("task", parse_spec(task).name).load() if task else None
    except HarnessError:
        return None
    return getattr(found, "owner", None)


def _say_what_shows(asked: Push, stages: Sequence[StageEntry], progress: Progress) -> None:
    """What a reader of the repository will learn that the pusher may not think of."""
    for name, value in dict(item for stage in stages for item in flat(stage.inputs)).items():
        if isinstance(value, str) and re.match(r"/|~|[A-Za-z]:\\|\w+://", value):
            progress.say(f"pool push: the manifest and the card say {name} = {value}")
    if asked.licence is None:
        progress.say("pool push: no --licence: the card says 'unknown', under which nobody may use it")


def _there(hub: HubDataset, staging: Path) -> There:
    """What the repository holds; HarnessError where that is no pool."""
    found = hub.snapshot_if_there()
    if found is None:
        return There(None, None)
    if pool_manifest.NAME in found.files:
        return There(found, read_manifest(hub, found, staging / "before"))
    if set(found.files) - {".gitattributes", CARD}:
        raise HarnessError(f"{hub.doing}: the repository holds files that are no pool: choose another, or a new one")
    return There(found, None)


def _check_there(asked: Push, pool: StageEntry, there: There) -> None:
    if there.snapshot and asked.private and not there.snapshot.private:
        raise HarnessError(
            f"pool push {asked.repo}: the repository is public: choose another, or make it private first"
        )
    if there.manifest is None:
        return
    before = there.manifest.pool
    if before.key != pool.key:
        raise HarnessError(
            f"pool push {asked.repo}: the repository holds pool {before.key}, and holds one only: choose another"
        )
    missing = set(before.shards) - set(pool.shards)
    if missing:
        raise HarnessError(
            f"pool push {asked.repo}: the repository holds {len(missing)} problems that {asked.store} does not: "
            "`harness pool pull` it first"
        )


def _written(root: Path, stages: Sequence[StageEntry], staging: Path, progress: Progress) -> dict[str, dict[str, Path]]:
    """Per stage's key the files written: where they are now, by their paths in the repository."""
    files = {}
    with progress.stage("write", sum(len(stage.shards) for stage in stages), "problems") as shown:

        def tables(stage: StageEntry) -> Iterator[Any]:
            for shard in stage.shards:
                yield table_of(stage.kind, shard, stage.path(root, shard))
                shown.advance()

        for stage in stages:
            with disk_errors(staging):
                paths = write_parts(staging / stage.folder, stage.kind, tables(stage))
            files[stage.key] = {f"{stage.folder}/{path.name}": path for path in paths}
    return files


def _described(files: Mapping[str, Path]) -> list[PartFile]:
    return [PartFile(name, path.stat().st_size, sha256_of(path)) for name, path in files.items()]


def _card(
    asked: Push, hub: HubDataset, there: There, manifest: Manifest, staging: Path, progress: Progress
) -> bytes | None:
    """The card to write; None where somebody else has written or edited the one that is there."""
    if there.snapshot and CARD in there.snapshot.files:
        known = there.manifest.card if there.manifest else ""
        if sha256_of(hub.download(CARD, there.snapshot.commit, staging / "before")) != known:
            progress.say(f"pool push: {CARD} of the repository is not ours: left as it is")
            return None
    return card(manifest, asked.repo, asked.licence or "unknown").encode("utf-8", "replace")


def _commit(
    hub: HubDataset,
    manifest: Manifest,
    add: dict[str, Path | bytes],
    page: bytes | None,
    there: There,
    snapshot: Snapshot,
) -> str:
    """Commit the files, the manifest, and the card unless it is somebody's own; delete what is listed no more."""
    before = there.manifest
    if page is not None:
        add[CARD] = page
    manifest = replace(manifest, card=sha256_of(page) if page is not None else before.card if before else "")
    add[pool_manifest.NAME] = manifest.content()
    old = {file.path for file in (before.files if before else ())} - {file.path for file in manifest.files}
    pool = manifest.pool
    message = f"Pool {pool.key}: {pool.rows:,} responses to {len(pool.shards):,} problems"
    return hub.commit(add, sorted(old & set(snapshot.files)), message, snapshot.commit)


@contextmanager
def _emptied(folder: Path) -> Iterator[Path]:
    """An empty folder, gone afterwards; one that a killed process left is emptied."""
    shutil.rmtree(folder, ignore_errors=True)
    with disk_errors(folder):
        folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def pushed(made: dict[str, Any]) -> str:
    """One line on a push."""
    return (
        f"{made['repo']} ({'private' if made['private'] else 'public'}): pool {made['pool']}, {made['responses']:,} "
        f"responses to {made['problems']:,} problems, {made['bytes'] / 1e6:,.1f} MB in {', '.join(made['stages'])}"
    )
