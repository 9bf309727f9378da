"""`harness pool push`: write a pool of the store to a dataset repository of the hub, in one commit.

The problems' texts are not pushed unless their licence is named: those of AIME and MATH may not be redistributed.
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
from harness.store import json_files, missing_rows
from harness.store import shards as store
from harness.store.lookup import graded_folder, stored_pool
from harness.system.files import disk_errors
from harness.system.progress import Progress

from . import manifest as pool_manifest
from .card import card, flat
from .dataset import HubDataset, Snapshot
from .manifest import Manifest, PartFile, StageEntry
from .stored_manifest import counts, read_manifest, sha256_of
from .tables import RESPONSES, VECTORS, VERDICTS, WITH_PROMPTS, Kind, Shard, table_of, with_scores, write_parts

CARD = "README.md"


@dataclass(frozen=True)
class Push:
    """The options of a push.

    key        the pool's key, or how it begins
    repo       OWNER/NAME of a dataset repository on the hub
    store      the store's folder
    private    create the repository as private; an existing one must be private then
    licence    of the responses, as the hub writes it, e.g. "mit"; None: the card says "unknown"
    prompts    the licence of the problems' texts; None leaves the texts out
    vectors, verdicts   push the store's vectors of the responses, and the newest verdicts on them
    """

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
class Existing:
    """The repository's content before a push: nothing (None, None), files without a pool, or a pool."""

    snapshot: Snapshot | None
    manifest: Manifest | None


def push_pool(request: Push, progress: Progress) -> dict[str, Any]:
    """Write a pool, and the vectors and verdicts asked for, to a repository in one commit; return a summary of it.

    Vectors and verdicts from an earlier push of the same pool stay; those with the same key are written anew.

    The summary has repo, commit, private, bytes (of all stages' files in the repository), pool (its key), problems and
    responses (numbers), stages (folder names) and prompts (whether the problems' texts are there).
    """
    stages = _stages(request, stored_pool(request.store, request.key))
    pool = stages[0]
    _check_prompts(request, pool)
    _say_what_shows(request, stages, progress)
    hub = HubDataset(request.repo, "pool push")
    hub.require_token()
    with _emptied(request.store / "push" / pool.key) as staging:
        existing = _existing(hub, staging)
        _check_existing(request, pool, existing)
        files = _written(request.store, stages, staging, progress)
        kept = [stage for stage in (existing.manifest.stages if existing.manifest else ()) if stage.key not in files]
        manifest = Manifest(
            [replace(stage, files=_described(files[stage.key])) for stage in stages] + kept, request.prompts
        )
        if existing.snapshot is None:
            hub.create(request.private)
        snapshot = existing.snapshot or hub.snapshot()
        page = _card(request, hub, replace(existing, snapshot=snapshot), manifest, staging, progress)
        add: dict[str, Path | bytes] = {name: path for paths in files.values() for name, path in paths.items()}
        commit = _commit(hub, manifest, add, page, existing, snapshot)
    size = sum(file.size for file in manifest.files)
    return {"repo": request.repo, "commit": commit, "private": snapshot.private, "bytes": size, **counts(manifest)}


def _stages(request: Push, folder: Path) -> list[StageEntry]:
    """The stages to push, each with the problems for which it has a shard."""
    kind = WITH_PROMPTS if request.prompts is not None else RESPONSES
    shards = [_shard(path) for path in sorted(folder.glob("*.parquet"))]
    if not shards:
        raise HarnessError(f"pool {folder.name}: holds no responses yet")
    if lacking := len(list(folder.glob(f"*{missing_rows.MARK}"))):
        raise HarnessError(
            f"pool {folder.name}: requests of {lacking} problems stayed unanswered: run the same command again until "
            "none do, then push"
        )
    scores = {name: None for shard in shards for name in store.read_scores(folder / f"{shard.stem}.parquet")}
    pool = _entry(with_scores(kind, list(scores)), folder, shards)
    stages = [pool]
    if request.vectors:
        folders = sorted(path.parent for path in (request.store / "embedding").glob("*/manifest.json"))
        stages += [entry for path in folders if (entry := _beside(VECTORS, path, pool))]
    graded = graded_folder(request.store, pool.key) if request.verdicts else None
    stages += [entry for path in ([graded] if graded else []) if (entry := _beside(VERDICTS, path, pool))]
    kinds = {entry.kind.name for entry in stages}
    for wanted, name in ((request.vectors, "embedding"), (request.verdicts, "verdict")):
        if wanted and name not in kinds:
            raise HarnessError(f"pool {pool.key}: {request.store} has no {name}s of it: `harness run` makes them")
    return stages


def _shard(path: Path) -> Shard:
    problem_id, hashed = store.read_about(path)["problem_id"], path.stem.rpartition(".")[2]
    shard = Shard(problem_id, hashed, store.count_rows(path))
    if shard.stem != path.stem or not shard.n:
        raise HarnessError(f"store: {path} is not the shard of a problem {problem_id!r}: delete it")
    return shard


def _entry(kind: Kind, folder: Path, shards: Sequence[Shard]) -> StageEntry:
    return StageEntry(kind, folder.name, json_files.read_manifest(folder), shards)


def _beside(kind: Kind, folder: Path, pool: StageEntry) -> StageEntry | None:
    """The stage in `folder`; None if it belongs to another pool or has no shards."""
    if json_files.read_manifest(folder).get("pool") != pool.key:
        return None
    shards = [shard for shard in pool.shards if (folder / f"{shard.stem}{kind.suffix}").exists()]
    return _entry(kind, folder, shards) if shards else None


def _check_prompts(request: Push, pool: StageEntry) -> None:
    task = pool.inputs.get("task")
    named = (task["name"] if isinstance(task, dict) else task) or ""
    if request.prompts is not None and (owner := _owner(named)):
        raise HarnessError(
            f"pool push: the problems of {named} belong to {owner} and are not pushed: leave --prompts away; "
            "the responses join again by the problems' ids"
        )
    if request.prompts == "":
        raise HarnessError("pool push: --prompts wants the licence under which the problems' texts may be passed on")


def _owner(task: str) -> str | None:
    """The owner of the problems' texts if they may not be redistributed; None also if the task is not installed."""
    try:
        factory = load_registry().find("task", parse_spec(task).name).load() if task else None
    except HarnessError:
        return None
    return getattr(factory, "owner", None)


def _say_what_shows(request: Push, stages: Sequence[StageEntry], progress: Progress) -> None:
    """Tell the user what the repository will show that they may not expect: paths, addresses, no licence."""
    for name, value in dict(item for stage in stages for item in flat(stage.inputs)).items():
        if isinstance(value, str) and re.match(r"/|~|[A-Za-z]:\\|\w+://", value):
            progress.say(f"pool push: the manifest and the card say {name} = {value}")
    if request.licence is None:
        progress.say("pool push: no --licence: the card says 'unknown', under which nobody may use it")


def _existing(hub: HubDataset, staging: Path) -> Existing:
    """The content of the repository; HarnessError if it has files that do not belong to a pool."""
    snapshot = hub.snapshot_if_there()
    if snapshot is None:
        return Existing(None, None)
    if pool_manifest.NAME in snapshot.files:
        return Existing(snapshot, read_manifest(hub, snapshot, staging / "before"))
    if set(snapshot.files) - {".gitattributes", CARD}:
        raise HarnessError(f"{hub.doing}: the repository holds files that are no pool: choose another, or a new one")
    return Existing(snapshot, None)


def _check_existing(request: Push, pool: StageEntry, existing: Existing) -> None:
    if existing.snapshot and request.private and not existing.snapshot.private:
        raise HarnessError(
            f"pool push {request.repo}: the repository is public: choose another, or make it private first"
        )
    if existing.manifest is None:
        return
    before = existing.manifest.pool
    if before.key != pool.key:
        raise HarnessError(
            f"pool push {request.repo}: the repository holds pool {before.key}, and holds one only: choose another"
        )
    missing = set(before.shards) - set(pool.shards)
    if missing:
        raise HarnessError(
            f"pool push {request.repo}: the repository holds {len(missing)} problems that {request.store} does not: "
            "`harness pool pull` it first"
        )


def _written(root: Path, stages: Sequence[StageEntry], staging: Path, progress: Progress) -> dict[str, dict[str, Path]]:
    """Write the stages' files to `staging`; for each stage's key, their local paths by paths in the repository."""
    files = {}
    with progress.stage("write", sum(len(stage.shards) for stage in stages), "problems") as progress_bar:

        def tables(stage: StageEntry) -> Iterator[Any]:
            for shard in stage.shards:
                yield table_of(stage.kind, shard, stage.path(root, shard))
                progress_bar.advance()

        for stage in stages:
            with disk_errors(staging):
                paths = write_parts(staging / stage.folder, stage.kind, tables(stage))
            files[stage.key] = {f"{stage.folder}/{path.name}": path for path in paths}
    return files


def _described(files: Mapping[str, Path]) -> list[PartFile]:
    return [PartFile(name, path.stat().st_size, sha256_of(path)) for name, path in files.items()]


def _card(
    request: Push, hub: HubDataset, existing: Existing, manifest: Manifest, staging: Path, progress: Progress
) -> bytes | None:
    """The card to write; None if the repository has a card that a person wrote or edited."""
    if existing.snapshot and CARD in existing.snapshot.files:
        known = existing.manifest.card if existing.manifest else ""
        if sha256_of(hub.download(CARD, existing.snapshot.commit, staging / "before")) != known:
            progress.say(f"pool push: {CARD} of the repository is not ours: left as it is")
            return None
    return card(manifest, request.repo, request.licence or "unknown").encode("utf-8", "replace")


def _commit(
    hub: HubDataset,
    manifest: Manifest,
    add: dict[str, Path | bytes],
    page: bytes | None,
    existing: Existing,
    snapshot: Snapshot,
) -> str:
    """Commit the files, the manifest and the card (if `page` is given); delete files that the manifest no longer lists.

    Returns the commit's id.
    """
    before = existing.manifest
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
    """Make an empty folder and delete it afterwards; files that a killed process left are deleted first."""
    shutil.rmtree(folder, ignore_errors=True)
    with disk_errors(folder):
        folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def pushed(made: dict[str, Any]) -> str:
    """Return the line that the command prints; `made` is the summary that `push_pool` returned."""
    return (
        f"{made['repo']} ({'private' if made['private'] else 'public'}): pool {made['pool']}, {made['responses']:,} "
        f"responses to {made['problems']:,} problems, {made['bytes'] / 1e6:,.1f} MB in {', '.join(made['stages'])}"
    )
