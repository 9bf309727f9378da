"""`harness pool push|pull`: a pool is a folder, which is copied to a repository of the hub, and back.

    REPO/README.md          the card (`card.md`)
    REPO/POOL/...           the pool's folder in the store: responses, and the vectors and verdicts that were asked for

The problems' texts are not pushed unless their licence is named: those of AIME and MATH may not be redistributed. All
that is pulled is checked (`checks`) before the first file comes into the store; the responses come last. A push is one
commit, so a reader sees all of it or nothing. The hub's client handles the token (`hf auth login`, `HF_TOKEN`).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from harness import __version__
from harness.columns.store import Damaged, Store, is_part, stem_of
from harness.columns.stored import StoredPool, list_problems, stored_pool
from harness.errors import HarnessError
from harness.plugin_system.component import parse_spec
from harness.plugin_system.registry import load_registry
from harness.results import inert_text
from harness.system.extras import hub_is_out_of_reach
from harness.system.files import disk_errors, write_atomically
from harness.system.json_text import digest
from harness.system.progress import Progress

from .checks import check_settings, checked, pool_in

CARD = "README.md"
NO_TEXTS = (
    "The problems' texts are not here: `problems.jsonl` has their ids, and the task's own data says which problem a "
    "response answers. Responses may quote them."
)
WITH_TEXTS = "The problems' texts (in `problems.jsonl`) are under a licence of their own:"
# What the hub's client raises, or the hub's HTTP status -> what it means.
REASONS: dict[str | int | None, str] = {
    "GatedRepoError": "the repository is gated: accept its terms on its page first",
    "RepositoryNotFoundError": "no such dataset repository, or a private one that this token may not see",
    "RevisionNotFoundError": "the repository has no such revision",
    **dict.fromkeys((401, 403), "the token may not do that (HTTP {}): it must be allowed to write to this repository"),
    **dict.fromkeys((409, 412), "somebody else has changed the repository meanwhile: run the same command again"),
}


class Hub:
    """A dataset repository of the hub; HarnessError if `repo` is not OWNER/NAME or the hub is out of reach."""

    def __init__(self, repo: str, command: str) -> None:
        self.repo, self.doing = repo, f"{command} {repo}"
        require_name(repo, command)
        is_away = hub_is_out_of_reach()  # HarnessError if its client is not installed
        from huggingface_hub import HfApi, constants, get_token
        from huggingface_hub.utils import disable_progress_bars

        self.endpoint = constants.ENDPOINT
        if is_away:
            raise HarnessError(
                f"{self.doing}: {self.endpoint} is out of reach (HF_ENDPOINT and HF_HUB_OFFLINE say more)"
            )
        if command == "pool push" and not get_token():
            raise HarnessError(f"{self.doing}: no token to write with: run `hf auth login`, or set HF_TOKEN")
        if not sys.stderr.isatty():
            disable_progress_bars()
        self.api = HfApi(library_name="diversity-harness", library_version=__version__)

    def about(self, revision: str | None = None) -> tuple[Any, dict[str, int]]:
        """What the hub says of the repository at a branch, tag or commit (None: the newest), and path -> bytes."""
        with self.one_line():
            about = self.api.dataset_info(self.repo, revision=revision, files_metadata=True, timeout=30.0)
        return about, {file.rfilename: file.size or 0 for file in about.siblings or ()}

    @contextmanager
    def one_line(self) -> Iterator[None]:
        """Turn any exception inside into a HarnessError of one line that begins with the command and the repository."""
        try:
            yield
        except Exception as failure:
            raise HarnessError(f"{self.doing}: {message(failure)}") from failure


def require_name(repo: str, command: str) -> None:
    """HarnessError unless it is OWNER/NAME."""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repo, re.ASCII):
        raise HarnessError(f"{command}: a repository is OWNER/NAME, got {repo!r}")


def message(failure: Exception) -> str:
    """What went wrong, in one line without addresses, which may hold signatures."""
    status = getattr(getattr(failure, "response", None), "status_code", None)
    for sign in (*(kind.__name__ for kind in type(failure).__mro__), status):
        if sign in REASONS:
            return REASONS[sign].format(status)
    if isinstance(failure, HarnessError | ValueError):  # the hub refuses what it was sent, e.g. the card's licence
        return " ".join(str(failure).split())[:300]
    cause = failure.__cause__ or failure
    first = next(iter(str(cause).strip().splitlines()), "")
    words = ["(address)" if "://" in word else word for word in first.split()]
    return f"{type(cause).__name__}: {' '.join(words)}"[:200] + "; run the same command again to go on"


def _summary(repo: str, commit: str | None, pool: StoredPool, columns: Sequence[Path], rows: int) -> dict[str, Any]:
    about: dict[str, Any] = {"repo": repo, "commit": commit, "pool": pool.key, "problems": len(pool.questions)}
    return about | {"responses": rows, "stages": [folder.name for folder in columns]}


# Push.


def push_pool(
    key: str,
    repo: str,
    root: Path,
    kinds: Sequence[str],
    licence: str | None,
    prompts: str | None,
    private: bool,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Copy a pool of the store at `root` to a dataset repository in one commit; return a summary of it.

    repo       OWNER/NAME, or a folder (`is_folder`), which gets the same files, and a card for OWNER/NAME
    dry_run    check all that is here, and write nothing and ask no hub; the summary has the `files`
    kinds      "responses", then all "vectors" of them, the newest "verdicts" on them; those of an earlier push stay
    prompts    the licence of the problems' texts; None leaves the texts out
    """
    progress = Progress()
    pool = stored_pool(root, key)
    if prompts is not None:
        _check_prompts(pool, prompts)
    with pool.store.used():
        columns: list[Path] = []
        for kind in kinds:
            folders = pool.columns(kind) if pool.questions else []
            if not folders:
                lacks = f"{root} has no {kind} of it: `harness run` makes them"
                raise HarnessError(f"pool {pool.key}: {lacks if pool.questions else 'holds no responses yet'}")
            columns += folders[-1:] if kind == "verdicts" else folders
        settings = [pool.folder / "pool.json", *(folder / "column.json" for folder in columns)]
        texts = "".join(path.read_text("utf-8") for path in settings)
        for name, value in dict.fromkeys(re.findall(r'"(\w+)": "((?:/|~|[A-Za-z]:\\|\w+://)[^"]*)"', texts)):
            progress.say(f"pool push: the settings and the card say {name} = {value}")
        if licence is None:
            progress.say("pool push: no --licence: the card says 'unknown', under which nobody may use it")
        if dry_run and not is_folder(repo):
            require_name(repo, "pool push")
        hub = None if dry_run or is_folder(repo) else Hub(repo, "pool push")
        every, rows = checked(pool, columns, progress)
        local = [path for paths in every for path in paths]
        if stale := {folder.name for folder in columns} - {path.parent.name for path in local}:
            raise HarnessError(f"pool {pool.key}: no rows of {min(stale)} are of these responses: `harness run` first")
        add: dict[str, Any] = {path.relative_to(root).as_posix(): path for path in (*settings, *local)}
        with tempfile.TemporaryDirectory() as folder:  # a line's check is tied to the names of its folder and file
            listed = Path(folder) / pool.folder.name / "problems.jsonl"
            list_problems(listed.parent, pool.questions.values(), prompts is not None)
            add[f"{pool.folder.name}/problems.jsonl"] = listed.read_bytes()
        if hub is None:
            name = "OWNER/NAME" if is_folder(repo) else repo
            add[CARD] = card(pool, name, licence, prompts, rows, sorted(folder.name for folder in columns))
            if is_folder(repo):
                _put(Path(repo).expanduser(), add, dry_run)
            more: dict[str, Any] = {"files": sorted(add)} if dry_run else {}
            size = sum(map(_bytes, add.values()))
            more |= {"private": private, "bytes": size, "prompts": prompts is not None}
            return _summary(repo, None, pool, columns, rows) | more
        with hub.one_line():
            hub.api.create_repo(repo, repo_type="dataset", private=private, exist_ok=True)
        about, there = hub.about()
        with hub.one_line():
            if private and not about.private:
                raise HarnessError("the repository is public: choose another, or make it private first")
            replaced = _replaced(there, pool, set(add))
            if CARD not in there or _is_ours(hub, about.sha):
                names = {path.split("/")[1] for path in {*there, *add} - replaced if path.count("/") == 2}
                add[CARD] = card(pool, repo, licence, prompts, rows, sorted(names))
            else:
                progress.say(f"pool push: {CARD} of the repository is not ours: left as it is")
            from huggingface_hub import CommitOperationAdd, CommitOperationDelete

            operations = [*map(CommitOperationDelete, sorted(replaced)), *map(CommitOperationAdd, add, add.values())]
            title = f"Pool {pool.key}: {rows:,} responses to {len(pool.questions):,} problems"
            commit = hub.api.create_commit(  # `upload_folder` makes several commits of a large folder
                repo, operations, commit_message=title, repo_type="dataset", parent_commit=about.sha
            )
    more = {"private": bool(about.private), "bytes": sum(map(_bytes, add.values())), "prompts": prompts is not None}
    return _summary(repo, commit.oid, pool, columns, rows) | more


def is_folder(repo: str) -> bool:
    """Whether it names a folder here: it begins with `.`, `/` or `~`, which no owner of the hub does."""
    return repo.startswith((".", "/", "~"))


def _bytes(content: bytes | Path) -> int:
    return len(content) if isinstance(content, bytes) else content.stat().st_size


def _put(folder: Path, add: Mapping[str, bytes | Path], dry_run: bool) -> None:
    """Write files into a folder, the card last; HarnessError if it holds others, or if they do not fit."""
    others = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} - set(add)
    if others or (folder.exists() and not folder.is_dir()):
        raise HarnessError(
            f"pool push {folder}: it holds other files ({min(others, default='it is one')}): choose a new folder"
        )
    place, size = folder.absolute(), sum(map(_bytes, add.values()))
    free = shutil.disk_usage(next(each for each in (place, *place.parents) if each.exists())).free
    if size > free:
        raise HarnessError(
            f"pool push {folder}: {size / 1e9:.1f} GB to write, {free / 1e9:.1f} GB free: choose another"
        )
    for path, content in {} if dry_run else add.items():
        with disk_errors(folder / path):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(folder / path, content if isinstance(content, bytes) else content.read_bytes())


def _check_prompts(pool: StoredPool, prompts: str) -> None:
    """HarnessError for texts that may not be redistributed; of a task that is not installed nobody knows."""
    task, factory = pool.about.get("task"), None
    if task:
        with suppress(HarnessError):
            factory = load_registry().find("task", parse_spec(task).name).load()
    if owner := getattr(factory, "owner", None):
        raise HarnessError(
            f"pool push: the problems of {task} belong to {owner} and are not pushed: leave --prompts away; "
            "the responses join again by the problems' ids"
        )
    if not prompts:
        raise HarnessError("pool push: --prompts wants the licence under which the problems' texts may be passed on")


def _replaced(there: Mapping[str, int], pool: StoredPool, add: set[str]) -> set[str]:
    """The repository's files that these replace; HarnessError if they must not go there.

    Of two files of one problem and column (but for the SUM in their names) the store would take the last.
    """

    def stem(name: str) -> str:
        return f"{name.rpartition('/')[0]}/{stem_of(Path(name))}"

    name, stems = pool_in(there), set(map(stem, add))
    if name is None and set(there) - {".gitattributes", CARD}:
        raise HarnessError("the repository holds files that are no pool: choose another, or a new one")
    if name not in (None, pool.folder.name):
        raise HarnessError(f"the repository holds pool {name}, and holds one only: choose another")
    rows = {stem(path) for path in there if "/responses." in path and path.endswith(".parquet")}
    if missing := len(rows - stems):
        root = pool.store.root
        raise HarnessError(
            f"the repository holds {missing} problems that {root} does not: `harness pool pull` it first"
        )
    return {path for path in there if stem(path) in stems} - add


def card(pool: StoredPool, repo: str, licence: str | None, prompts: str | None, rows: int, folders: list[str]) -> bytes:
    """The card; `folders`: those of the columns, that of the responses first.

    The front matter's values are written as JSON, which is valid YAML, so that no value can end the front matter. The
    last line is the hash of what stands before it: so a card that somebody edited is recognized.
    """
    task, model = pool.about.get("task") or "problems of its own", (pool.about.get("engine") or {}).get("model")
    title = f"{task}, {model}" if model else task
    configs: list[dict[str, Any]] = [
        {"config_name": folder, "data_files": [{"split": "pool", "path": f"{pool.folder.name}/{folder}/*.parquet"}]}
        for folder in folders
        if not folder.startswith("vectors.")
    ]
    configs[0]["default"] = True
    front = {
        "license": licence or "unknown",
        "pretty_name": f"Pool {pool.key}: {title}",
        "tags": ["diversity-harness", "pool", "synthetic"],
        "task_categories": ["text-generation"],
        "configs": configs,
    }
    page = Template(files(__package__).joinpath("card.md").read_text("utf-8")).substitute(
        front="\n".join(f"{name}: {json.dumps(value)}" for name, value in front.items()),
        title=inert_text.markdown(title),
        rows=f"{rows:,}",
        problems=f"{len(pool.questions):,}",
        repo=repo,
        key=pool.key,
        texts=NO_TEXTS if prompts is None else f"{WITH_TEXTS} {inert_text.markdown(prompts)}.",
        settings=json.dumps(pool.about | {"harness": __version__}, indent=1),
        folders="\n".join(f"- `{folder}`" for folder in folders),
    )
    content = page.rstrip("\n").encode("utf-8", "replace")
    return content + f"\n<!-- {hashlib.sha256(content).hexdigest()} -->\n".encode()


def _is_ours(hub: Hub, commit: str) -> bool:
    """Whether the repository's card is one as we wrote it, that nobody has edited."""
    with tempfile.TemporaryDirectory() as folder:
        path = hub.api.hf_hub_download(hub.repo, CARD, repo_type="dataset", revision=commit, local_dir=folder)
        content, _, mark = Path(path).read_bytes().rpartition(b"\n<!-- ")
    return mark == f"{hashlib.sha256(content).hexdigest()} -->\n".encode()


# Pull.


def pull_pool(repo: str, root: Path, revision: str | None, verdicts: bool) -> dict[str, Any]:
    """Bring the pool of a repository into the store at `root` under the pool's key, and return a summary of it."""
    hub, progress = Hub(repo, "pool pull"), Progress()
    about, there = hub.about(revision)
    staging = root / "pull" / digest([hub.endpoint, repo, about.sha])
    with disk_errors(staging):
        staging.mkdir(parents=True, exist_ok=True)
    with hub.one_line():
        name = pool_in(there)
        if name is None:
            raise HarnessError("no pool: the repository has no pool.json in a folder")
        needed, free = sum(there.values()) / 1e9, shutil.disk_usage(root).free / 1e9
        if needed > free:
            raise HarnessError(f"has {needed:.1f} GB, and {root} has {free:.1f} GB free: choose another --store")
        with progress.waiting(f"fetching {name}"):
            hub.api.snapshot_download(
                repo,
                repo_type="dataset",
                revision=about.sha,
                local_dir=staging,
                allow_patterns=[f"{name}/*"],
                ignore_patterns=[] if verdicts else [f"{name}/verdicts.*"],
            )
    pool = StoredPool(staging / name)
    with Store(root).used(), hub.one_line():
        check_settings(pool.folder)
        columns = [folder for kind in ("responses", "vectors", "verdicts") for folder in pool.columns(kind)]
        try:
            every, rows = checked(pool, columns, progress)
        except Damaged as failure:
            failure.path.unlink()
            raise HarnessError(
                f"{failure.path.relative_to(pool.folder)} is damaged: it is not what its name says; run the same "
                "command again, and if it is damaged again tell whoever pushed it"
            ) from failure
        new = _move(pool, columns, every, root)
    shutil.rmtree(staging)
    with_texts = any(question.problem.prompt for question in pool.questions.values())
    return _summary(repo, about.sha, pool, columns, rows) | {"prompts": with_texts, "new": new}


def _move(pool: StoredPool, columns: Sequence[Path], every: Sequence[Sequence[Path]], root: Path) -> int:
    """Move a pool that was fetched and checked into the store; return how many of its problems are new there."""
    count = len(pool.store.files(columns[0]))
    if not every or len(every) < count:
        raise HarnessError(f"half of a pool: of {count - len(every)} files of responses nothing says to which problem")
    store, target, moves, new = Store(root), root / pool.folder.name, dict[Path, Path](), 0
    for paths in every:
        for path in reversed(paths):  # responses last: they say that all is there
            place = target / path.relative_to(pool.folder)
            there = store.files(place.parent).get(stem_of(place))
            if there is None or is_part(there):
                moves[path] = place
            elif path == paths[0] and there.name != path.name:
                raise HarnessError(
                    f"{root} has other responses ({there.name}) under key {pool.key}: pull into another --store"
                )
        new += there is None
    for path in (pool.folder / "pool.json", *(folder / "column.json" for folder in columns)):
        if not (place := target / path.relative_to(pool.folder)).exists():
            write_atomically(place, path.read_bytes())
    list_problems(target, pool.questions.values())
    for path, place in moves.items():
        with disk_errors(place):
            os.replace(path, place)
    return new
