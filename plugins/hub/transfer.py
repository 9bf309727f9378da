"""`harness pool push` and `harness pool pull`: a pool is a folder, which is copied to a repository, and back.

    REPO/README.md          the card
    REPO/POOL/...           the pool's folder in the store: responses, and the vectors and verdicts that were asked for

The problems' texts are not pushed unless their licence is named: those of AIME and MATH may not be redistributed. All
that is pulled is checked (`pool_files`) before the first file comes into the store; the responses come last. A push is
one commit, so a reader sees all of it or nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.columns.store import Damaged, Store, is_part, stem_of
from harness.columns.stored import StoredPool, list_problems, stored_pool
from harness.errors import HarnessError
from harness.plugin_system.component import parse_spec
from harness.plugin_system.registry import load_registry
from harness.system.files import disk_errors, write_atomically
from harness.system.json_text import digest
from harness.system.json_text import read as read_json
from harness.system.progress import Progress

from . import card
from .dataset import HubDataset, Snapshot
from .pool_files import check_problems, check_settings, checked, pool_in

# Push.


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


def push_pool(request: Push, progress: Progress) -> dict[str, Any]:
    """Copy a pool, and the vectors and verdicts asked for, to a repository in one commit; return a summary of it.

    Vectors and verdicts from an earlier push of the same pool stay.

    The summary has repo, commit, private, bytes (of all that was pushed), pool (its key), problems and responses
    (numbers), stages (the columns' folders) and prompts (whether the problems' texts are there).
    """
    pool = stored_pool(request.store, request.key)
    _check_prompts(request, pool)
    with pool.store.used():
        columns = _columns(request, pool)
        _say_what_shows(request, [pool.folder / "pool.json", *(each / "column.json" for each in columns)], progress)
        hub = HubDataset(request.repo, "pool push")
        hub.require_token()
        existing = hub.snapshot_if_there()
        with progress.stage("check", len(pool.questions), "problems") as stage:
            files, rows = [], 0
            for question in pool.questions.values():
                paths, n = checked(pool, question, columns)
                files += paths
                rows += n
                stage.advance()
        kept = _kept(request, hub, pool, existing, files)
        meta = [pool.folder / "pool.json", *(folder / "column.json" for folder in columns)]
        add: dict[str, Path | bytes] = {_name(pool, path): path for path in [*meta, *files]}
        add[f"{pool.folder.name}/problems.jsonl"] = _problems(pool, request.prompts is not None)
        if existing is None:
            hub.create(request.private)
        snapshot = existing or hub.snapshot()
        made = card.Card(pool, request.repo, request.licence, request.prompts, len(pool.questions), rows)
        page = made.page(sorted({path.split("/")[1] for path in [*kept, *add] if path.count("/") == 2}))
        if card.is_ours(hub, snapshot):
            add[card.NAME] = page.encode("utf-8", "replace")
        else:
            progress.say(f"pool push: {card.NAME} of the repository is not ours: left as it is")
        stale = {path for path in snapshot.files if path in kept and _stem(path) in {_stem(name) for name in add}}
        message = f"Pool {pool.key}: {rows:,} responses to {len(pool.questions):,} problems"
        commit = hub.commit(add, sorted(stale - set(add)), message, snapshot.commit)
    return {
        "repo": request.repo,
        "commit": commit,
        "private": snapshot.private,
        "bytes": sum(len(each) if isinstance(each, bytes) else each.stat().st_size for each in add.values()),
        "pool": pool.key,
        "problems": len(pool.questions),
        "responses": rows,
        "stages": [folder.name for folder in columns],
        "prompts": request.prompts is not None,
    }


def _name(pool: StoredPool, path: Path) -> str:
    return f"{pool.folder.name}/{path.relative_to(pool.folder).as_posix()}"


def _stem(name: str) -> str:
    """What two files of one problem and column have in common, of which the store would take the last."""
    return f"{name.rpartition('/')[0]}/{stem_of(Path(name))}"


def _columns(request: Push, pool: StoredPool) -> list[Path]:
    """The folders to push, that of the responses first."""
    responses = pool.column("responses")
    if responses is None or not pool.questions:
        raise HarnessError(f"pool {pool.key}: holds no responses yet")
    firsts = {question: pool.path(responses, question) for question in pool.questions.values()}
    if lacking := sum(is_part(path) for path in firsts.values() if path):
        raise HarnessError(
            f"pool {pool.key}: requests of {lacking} problems stayed unanswered: run the same command again until "
            "none do, then push"
        )
    columns = [responses]
    for wanted, kind, name in ((request.vectors, "vectors", "embeddings"), (request.verdicts, "verdicts", "verdicts")):
        folders = [
            folder
            for folder in (pool.columns(kind) if wanted else ())
            if any(path and pool.path(folder, question, [path]) for question, path in firsts.items())
        ]
        if wanted and not folders:
            raise HarnessError(f"pool {pool.key}: {request.store} has no {name} of it: `harness run` makes them")
        columns += folders[-1:] if kind == "verdicts" else folders
    return columns


def _problems(pool: StoredPool, with_prompts: bool) -> bytes:
    """The list of the pool's problems; their texts only if they may go."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / pool.folder.name  # a line's check is tied to the names of its folder and file
        list_problems(place, pool.questions.values(), with_prompts)
        return (place / "problems.jsonl").read_bytes()


def _check_prompts(request: Push, pool: StoredPool) -> None:
    task = pool.about.get("task") or ""
    if request.prompts is not None and (owner := _owner(task)):
        raise HarnessError(
            f"pool push: the problems of {task} belong to {owner} and are not pushed: leave --prompts away; "
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


def _say_what_shows(request: Push, settings: Sequence[Path], progress: Progress) -> None:
    """Tell the user what the repository will show that they may not expect: paths, addresses, no licence."""
    made = [item for path in settings for item in card.flat(read_json(path, "pool push"))]
    for name, value in dict(made).items():
        if isinstance(value, str) and re.match(r"/|~|[A-Za-z]:\\|\w+://", value):
            progress.say(f"pool push: the settings and the card say {name} = {value}")
    if request.licence is None:
        progress.say("pool push: no --licence: the card says 'unknown', under which nobody may use it")


def _kept(
    request: Push, hub: HubDataset, pool: StoredPool, existing: Snapshot | None, files: Sequence[Path]
) -> set[str]:
    """The files of the pool that the repository has; HarnessError if the pool must not be pushed there."""
    if existing is None:
        return set()
    if request.private and not existing.private:
        raise HarnessError(f"{hub.doing}: the repository is public: choose another, or make it private first")
    with hub.one_line():
        there = pool_in(existing.files)
    if there is None and set(existing.files) - {".gitattributes", card.NAME}:
        raise HarnessError(f"{hub.doing}: the repository holds files that are no pool: choose another, or a new one")
    if there not in (None, pool.folder.name):
        raise HarnessError(f"{hub.doing}: the repository holds pool {there}, and holds one only: choose another")
    kept = {path for path in existing.files if path.startswith(f"{pool.folder.name}/")}
    pushed = {_stem(_name(pool, path)) for path in files}
    missing = {_stem(path) for path in kept if "/responses." in path and path.endswith(".parquet")} - pushed
    if missing:
        raise HarnessError(
            f"{hub.doing}: the repository holds {len(missing)} problems that {request.store} does not: "
            "`harness pool pull` it first"
        )
    return kept


def pushed(made: dict[str, Any]) -> str:
    """Return the line that the command prints; `made` is the summary that `push_pool` returned."""
    return (
        f"{made['repo']} ({'private' if made['private'] else 'public'}): pool {made['pool']}, {made['responses']:,} "
        f"responses to {made['problems']:,} problems, {made['bytes'] / 1e6:,.1f} MB in {', '.join(made['stages'])}"
    )


# Pull.


def pull_pool(
    repo: str, root: Path, progress: Progress, revision: str | None = None, verdicts: bool = True
) -> dict[str, Any]:
    """Bring the pool of a repository into the store at `root` under the pool's key, and return a summary of it.

    revision   a branch, tag or commit; None: the newest commit
    verdicts   False: do not download the repository's verdicts

    The summary has repo, commit, pool (its key), problems and responses (numbers), stages (the columns' folders),
    prompts (whether the problems' texts came too) and new (number of problems whose responses the store did not have).
    """
    hub = HubDataset(repo, "pool pull")
    snapshot = hub.snapshot(revision)
    with hub.one_line():
        name = pool_in(snapshot.files)
        if name is None:
            raise HarnessError("no pool: the repository has no pool.json in a folder")
    staging = root / "pull" / digest([hub.endpoint, repo, snapshot.commit])
    with disk_errors(staging):
        staging.mkdir(parents=True, exist_ok=True)
        for leftover in staging.rglob("*.incomplete"):
            leftover.unlink(missing_ok=True)
    with hub.one_line():
        needed, free = sum(snapshot.files.values()), shutil.disk_usage(root).free
        if needed > free:
            raise HarnessError(
                f"has {needed / 1e9:.1f} GB, and {root} has {free / 1e9:.1f} GB free: choose another --store"
            )
    with progress.waiting(f"fetching {name}"):
        hub.fetch(snapshot.commit, f"{name}/*", [] if verdicts else [f"{name}/verdicts.*"], staging)
    with Store(root).used(), hub.one_line():
        made = _brought(StoredPool(staging / name), root, progress)
    shutil.rmtree(staging)
    return {"repo": repo, "commit": snapshot.commit, **made}


def _brought(pool: StoredPool, root: Path, progress: Progress) -> dict[str, Any]:
    """Check a pool that was fetched, then move it into the store; return what is to be said of it."""
    check_settings(pool.folder)
    check_problems(pool.folder / "problems.jsonl")
    columns = [folder for kind in ("responses", "vectors", "verdicts") for folder in pool.columns(kind)]
    every, rows = [], 0
    with progress.stage("check", len(pool.questions), "problems", closing=False) as stage:
        for question in pool.questions.values():
            try:
                paths, n = checked(pool, question, columns)
            except Damaged as failure:
                failure.path.unlink()
                raise HarnessError(
                    f"{failure.path.relative_to(pool.folder)} is damaged: it is not what its name says; run the same "
                    "command again, and if it is damaged again tell whoever pushed it"
                ) from failure
            every.append(paths)
            rows += n
            stage.advance()
    if not every or len(every) < len(pool.store.files(columns[0])):
        count = len(pool.store.files(columns[0])) - len(every)
        raise HarnessError(f"half of a pool: of {count} files of responses nothing says to which problem")
    new = 0
    store, target = Store(root), root / pool.folder.name
    for paths in every:
        there = store.files(target / columns[0].name).get(stem_of(paths[0]))
        new += there is None
        if there and not is_part(there) and there.name != paths[0].name:
            raise HarnessError(
                f"{root} has other responses ({there.name}) under key {pool.key}: pull into another --store"
            )
    for path in (pool.folder / "pool.json", *(folder / "column.json" for folder in columns)):
        if not (place := target / path.relative_to(pool.folder)).exists():
            write_atomically(place, path.read_bytes())
    list_problems(target, pool.questions.values())
    for paths in every:
        for path in reversed(paths):  # responses last: they say that the rest is there
            place = target / path.relative_to(pool.folder)
            there = store.files(place.parent).get(stem_of(place))
            if there is None or is_part(there):
                with disk_errors(place):
                    os.replace(path, place)
    return {
        "pool": pool.key,
        "problems": len(every),
        "responses": rows,
        "stages": [folder.name for folder in columns],
        "prompts": any(question.problem.prompt for question in pool.questions.values()),
        "new": new,
    }


def pulled(made: dict[str, Any]) -> str:
    """Return the line that the command prints; `made` is the summary that `pull_pool` returned."""
    return (
        f"pool {made['pool']}: {made['responses']:,} responses to {made['problems']:,} problems, {made['new']:,} of "
        f"them new here; {', '.join(made['stages'])} from {made['repo']} at {made['commit'][:12]}"
    )
