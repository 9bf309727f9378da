"""The parts of a store: what each column of each pool takes, whether a cell needs it, and how it is deleted.

A cell names the pool and the keys of the vectors, verdicts and orders that it was made from. A part that no cell names
goes, if the next run can make it again; what is costly, or came from a file, goes only if it is asked for. Of a pool
that a cell uses stay its responses, scores, choices, audits and chance levels, and the vectors that a run may have made
without naming them: where a cell's selector read none. Memo entries stay. No link is followed or deleted, nor is what
the harness did not write.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.columns.store import Store
from harness.columns.stored import STAGES, key_of
from harness.errors import HarnessError
from harness.results import cells, stopping_times
from harness.system.files import disk_errors
from harness.system.json_text import canonical_json
from harness.system.json_text import read as read_json
from harness.system.progress import Progress

NEEDED, AGAIN, COSTLY = "needed", "can be made again", "costly to make again, or from a file"
SOURCES = ("responses", "sequences")
DERIVED = ("vectors", "verdicts", "orders")  # of a pool that a cell uses, only these may go
RECORDS = ("cells", stopping_times.FOLDER)  # folders of files of their own
OF_STORE = (*RECORDS, "memo", "rl", "store.json", ".lock")
FILE = re.compile(r"[A-Za-z0-9_-]*\.[0-9a-f]{12}\.[0-9a-f]{16}(\.part)?\.(parquet|npy|arrow)|column\.json|\..*\.tmp")
OF_POOL = re.compile(r"(pool|weights|index\.[0-9a-f]{12}\.[0-9a-f]{16})\.json|problems\.jsonl|\..*\.tmp")
OF_PAID = re.compile(r".*\.paid\.jsonl|spent\.jsonl|\..*\.tmp")
LAST = {"column.json": 1, "pool.json": 2}  # deleted when the rest of a folder is
UNKNOWN, ALL = "-", "all"


@dataclass
class Part:
    """A column of a pool with its files, or what else stands in a store; `state` is "" where it is not known.

    last_used  when a file was last read or written, as far as the disk keeps that, in seconds since 1970
    """

    stage: str
    key: str
    task: str
    model: str
    state: str = ""
    files: list[Path] = field(default_factory=list)
    size: int = 0
    last_used: float = 0.0

    def add(self, path: Path) -> None:
        """Count a file, or a link as itself."""
        about = path.lstat()
        self.files.append(path)
        self.size += about.st_size
        self.last_used = max(self.last_used, about.st_mtime, about.st_atime)


@dataclass
class Needs:
    """What the cells, sequences and RL evaluations of a store need.

    keys       (kind, key) of each column that a cell names, by pool; ("vectors", "") for a cell that names none
    sequences  what fixes each recorded run --until-correct
    labels     key of a pool, or path of a record -> task and model
    faults     a line on each file that cannot be read: what it needs is not known
    """

    keys: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    evaluated: set[str] = field(default_factory=set)
    sequences: set[str] = field(default_factory=set)
    labels: dict[str | Path, tuple[str, str]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def state(self, pool: str, about: Mapping[str, Any], key: str) -> str:
        """Whether a column is needed: its kind and what made it are in `about`."""
        kind, named = about["kind"], self.keys.get(pool, set())
        if kind == "sequences":
            return NEEDED if _fixed(about) in self.sequences else COSTLY
        if (named and kind not in DERIVED) or (pool in self.evaluated and kind != "orders"):
            return NEEDED
        if (kind, key) in named or (kind == "vectors" and ("vectors", "") in named):
            return NEEDED
        # Given verdicts, given vectors, hidden states of responses that no cell uses yet.
        given = kind == "responses" or about.get("given") or (kind == "verdicts" and "task" not in about)
        return COSTLY if given or (about.get("engine") and not named) else AGAIN


def needs_of(root: Path) -> Needs:
    """Read every cell, sequence and RL evaluation of a store."""
    needs = Needs()

    def cell(path: Path) -> None:
        read = cells.read(path)
        pool = str(key_of(read, "pool"))
        needs.labels[path] = needs.labels[pool] = str(read["labels"]["task"]), str(read["labels"]["model"])
        keys = {(kind, key_of(read, stage) or "") for stage, kind in STAGES.items() if stage != "pool"}
        needs.keys.setdefault(pool, set()).update(keys)

    def sequence(path: Path) -> None:
        record = stopping_times.read(path)
        needs.labels[path] = str(record["labels"]["task"]), str(record["labels"]["model"])
        needs.sequences.add(_fixed({**record["inputs"], "grader": record["inputs"]["verified"]}))

    def evaluation(path: Path) -> None:
        try:
            needs.evaluated.update(str(policy["pool"]) for policy in read_json(path, "rl")["policies"])
        except (KeyError, TypeError):
            raise HarnessError(f"store: {path} is no evaluation of `harness rl eval`: move it elsewhere") from None

    for name, pattern, add in ((RECORDS[0], "*.json", cell), (RECORDS[1], "*.json", sequence), ("rl", "*", evaluation)):
        try:
            if os.path.lexists(root / name):
                os.listdir(root / name)
        except OSError as failure:
            needs.faults.append(f"store: {root / name} cannot be read ({failure.strerror})")
        for path in sorted((root / name).rglob("rl-eval.json" if name == "rl" else pattern)):
            try:
                add(path)
            except HarnessError as failure:
                needs.faults.append(str(failure))
    return needs


def _fixed(about: Mapping[str, Any]) -> str:
    """What fixes a run --until-correct, in its record and in its column."""
    names = ("engine", "sampler", "n", "max_tokens", "seed", "grader")
    return canonical_json([about.get(name) for name in names])


# The walk.


@dataclass
class Walk:
    """All of a store: its parts, and the paths of what is not its own (a folder of such files counts as one)."""

    parts: list[Part] = field(default_factory=list)
    others: list[Path] = field(default_factory=list)

    def sort(self, folder: Path, own: re.Pattern[str], part: Part) -> None:
        """Add each file of a folder to the part if its name is one of `own`, else to the others."""
        for entry in entries(folder):
            if entry.is_file(follow_symlinks=False) and own.fullmatch(entry.name):
                part.add(Path(entry.path))
            else:
                self.others.append(Path(entry.path))


def walk(root: Path, needs: Needs) -> Walk:
    """Every part of a store; states are "" if what the cells need is not known."""
    found = Walk()
    for entry in entries(root):
        path = Path(entry.path)
        if entry.is_dir(follow_symlinks=False) and entry.name not in OF_STORE:
            _walk_pool(path, needs, found)
        elif entry.name not in OF_STORE or entry.is_symlink():
            found.others.append(path)
    for name in RECORDS:
        for entry in entries(root / name):
            path = Path(entry.path)
            if entry.is_file(follow_symlinks=False) and entry.name.endswith((".json", ".tmp")):
                found.parts.append(Part(name, path.stem, *needs.labels.get(path, (UNKNOWN, UNKNOWN)), NEEDED))
                found.parts[-1].add(path)
            else:
                found.others.append(path)
    for entry in [*entries(root / "memo"), *entries(root / "rl")]:
        path = Path(entry.path)
        task, model, kind = ALL, ALL, "memo"
        if path.parent.name == "rl":
            task, model, kind = UNKNOWN, UNKNOWN, "rl"
            with suppress(HarnessError, KeyError, TypeError):
                run = read_json(path / "run.json", "rl")
                task, model = str(run["task"]), str(run["model"])
        found.parts.append(Part(kind, entry.name.rpartition(".")[2], task, model, NEEDED))
        for file in below(path):
            found.parts[-1].add(file)
    return found


def _walk_pool(folder: Path, needs: Needs, found: Walk) -> None:
    """A pool's folder, or what only lies where one could be."""
    try:
        about = read_json(folder / "pool.json", "pool")
        kind, key = str(about["kind"]), folder.name.rpartition(".")[2]
    except (HarnessError, KeyError, TypeError):
        found.others.append(folder)
        return
    task, engine = about.get("task"), about.get("engine")
    known = needs.labels.get(key, (UNKNOWN, UNKNOWN))
    labels = str(task or known[0]), str((isinstance(engine, dict) and engine.get("model")) or known[1])
    source = Part(kind, key, *labels, "" if needs.faults else needs.state(key, about, key))
    found.parts.append(source)
    for entry in entries(folder):
        path = Path(entry.path)
        column = _column(path) if entry.is_dir(follow_symlinks=False) else None
        if entry.name == "paid" and entry.is_dir(follow_symlinks=False):
            found.sort(path, OF_PAID, source)
        elif column and column["kind"] in SOURCES:
            found.sort(path, FILE, source)
        elif column:
            its_key = path.name.rpartition(".")[2]
            part = Part(column["kind"], its_key, *labels, "" if needs.faults else needs.state(key, column, its_key))
            found.parts.append(part)
            found.sort(path, FILE, part)
        elif entry.is_file(follow_symlinks=False) and OF_POOL.fullmatch(entry.name):
            source.add(path)
        else:
            found.others.append(path)


def _column(folder: Path) -> dict[str, Any] | None:
    """What made a column; None for a folder that is none."""
    with suppress(HarnessError):
        about = read_json(folder / "column.json", "column")
        if isinstance(about, dict) and folder.name.startswith(f"{about.get('kind')}."):
            return about
    return None


def entries(folder: Path) -> list[os.DirEntry[str]]:
    """What is in a folder, in order; [] for no folder, and for one that cannot be read."""
    with suppress(OSError), os.scandir(folder) as scan:
        return sorted(scan, key=lambda entry: entry.name)
    return []


def below(path: Path) -> Iterator[Path]:
    """The files in a folder and below it, or the file itself; a link counts as a file."""
    if path.is_symlink() or not path.is_dir():
        yield path
    else:
        for entry in entries(path):
            yield from below(Path(entry.path))


# What the commands show.


def require_store(root: Path) -> None:
    """HarnessError unless a run made the folder."""
    if not any((root / name).exists() for name in ("store.json", "pool", "ranking")):  # two are of older versions
        raise HarnessError(f"store: {root} is no store of `harness run`: --store says where one is")


def listing(root: Path) -> dict[str, Any]:
    """Return what a store holds.

    store    its folder
    rows     a dict of each task, model and stage (a kind of column, or "memo", "cells", ...): the number of "folders"
             (or files of one), files, bytes, and when it was "last_used"; of the bytes those that can be "made_again"
             and the "costly" ones that no cell uses
    others   path and bytes of what is not the store's own
    fault    why it is not known what cells use; "" if it is known
    """
    require_store(root)
    with Store(root).used():
        needs = needs_of(root)
        found = walk(root, needs)
    groups: dict[tuple[str, str, str], list[Part]] = {}
    for part in found.parts:
        groups.setdefault((part.task, part.model, part.stage), []).append(part)
    rows = [
        {
            "task": task,
            "model": model,
            "stage": stage,
            "folders": len(group),
            "files": sum(len(part.files) for part in group),
            "bytes": sum(part.size for part in group),
            "made_again": sum(part.size for part in group if part.state == AGAIN),
            "costly": sum(part.size for part in group if part.state == COSTLY),
            "last_used": _moment(max(part.last_used for part in group)),
        }
        for (task, model, stage), group in sorted(groups.items(), key=lambda group: group[0][:2])
    ]
    others = [{"path": str(path), "bytes": sum(file.lstat().st_size for file in below(path))} for path in found.others]
    return {"store": str(root), "rows": rows, "others": others, "fault": next(iter(needs.faults), "")}


def prune(root: Path, pools: bool, yes: bool, progress: Progress) -> dict[str, Any]:
    """List what no cell needs, and delete it if `yes`; HarnessError if that is not known, or the store is in use.

    pools  also what is costly: unused pools and sequences, their hidden states, what came from a file

    Return a dict:
    store    the store's folder
    deleted  whether the files are deleted
    rows     a dict of each column: stage, key, task, model, files, bytes, when "last_used", whether it is "costly"
             (deleted only with `pools`), and whether it "goes"
    """
    require_store(root)
    with Store(root).used(alone=yes, who="store prune" if yes else "store"):
        needs = needs_of(root)
        for fault in needs.faults:
            raise HarnessError(f"{fault}; so it is not known what can be deleted")
        unused = [part for part in _with_leftovers(walk(root, needs).parts) if part.state in (AGAIN, COSTLY)]
        if yes:
            _delete([part for part in unused if pools or part.state == AGAIN], progress)
    rows = [
        {
            "stage": part.stage,
            "key": part.key,
            "task": part.task,
            "model": part.model,
            "files": len(part.files),
            "bytes": part.size,
            "last_used": _moment(part.last_used),
            "costly": part.state == COSTLY,
            "goes": pools or part.state == AGAIN,
        }
        for part in sorted(unused, key=lambda part: (part.task, part.model))
    ]
    return {"store": str(root), "deleted": yes, "rows": rows}


def _with_leftovers(parts: Sequence[Part]) -> list[Part]:
    """The parts, and the temporary files that killed writers left in those that stay."""
    leftovers = Part("leftovers", "", ALL, ALL, AGAIN)
    for part in parts:
        for path in part.files if part.state == NEEDED and part.stage not in ("rl", "memo") else ():
            if path.name.startswith(".") and path.suffix == ".tmp":
                leftovers.add(path)
    return [*parts, *([leftovers] if leftovers.files else [])]


def _delete(parts: Sequence[Part], progress: Progress) -> None:
    """Delete files: responses after what is made from them, and in a folder what says what made it last.

    So after a kill the next run makes what is missing, and the next `prune` deletes the rest.
    """
    with progress.stage("delete", sum(len(part.files) for part in parts), "files") as shown:
        for part in sorted(parts, key=lambda part: part.stage in SOURCES):
            for path in sorted(part.files, key=lambda path: LAST.get(path.name, 0)):
                with disk_errors(path):
                    path.unlink(missing_ok=True)
                shown.advance()
            for folder in sorted({path.parent for path in part.files}, reverse=True):
                with suppress(OSError):  # what is not the store's own stays, and its folder
                    folder.rmdir()


def _moment(seconds: float) -> str:
    """Seconds since 1970 as a moment in ISO 8601, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
