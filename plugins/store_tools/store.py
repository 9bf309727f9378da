"""`harness store list|prune`: what each column of each pool takes, whether a cell needs it, and how it is deleted.

A cell names the pool and the keys of the vectors, verdicts and orders that it was made from. A part that no cell names
goes, if the next run can make it again; what is costly, or came from a file, goes only if it is asked for. Of a pool
that a cell uses stay its responses, scores, choices, audits and chance levels, and the vectors that a run may have made
without naming them: where a cell's selector read none. Memo entries stay. No link is followed or deleted, nor is what
the harness did not write.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from harness.columns.store import Store
from harness.columns.stored import STAGES, key_of
from harness.errors import HarnessError
from harness.results import cells, stopping_times
from harness.system.console import put
from harness.system.files import disk_errors
from harness.system.json_text import canonical_json
from harness.system.json_text import read as read_json
from harness.system.progress import Progress

NEEDED, AGAIN, COSTLY = "needed", "can be made again", "costly to make again, or from a file"
SOURCES = ("responses", "sequences")
DERIVED = ("vectors", "verdicts", "orders")  # of a pool that a cell uses, only these may go
RECORDS = ("cells", stopping_times.FOLDER)  # folders of files of their own
OF_POOL = r"(pool|weights|index\.[0-9a-f]{12}\.[0-9a-f]{16})\.json|problems\.jsonl"
OF_COLUMN = r"column\.json|[A-Za-z0-9_-]*\.[0-9a-f]{12}\.[0-9a-f]{16}(\.part)?\.(parquet|npy|arrow)"
LAST = {"column.json": 1, "pool.json": 2}  # deleted when the rest of a folder is
UNKNOWN, ALL = "-", "all"
UNITS = (("d", 86400), ("h", 3600), ("min", 60))


@dataclass
class Needs:
    """What the cells, sequences and RL evaluations of a store need.

    keys       (kind, key) of each column that a cell names, by pool; ("vectors", "") for a cell that names none
    evaluated  keys of the pools of RL evaluations
    sequences  what fixes each recorded run --until-correct
    labels     key of a pool, or path of a record -> task and model
    """

    keys: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    evaluated: set[str] = field(default_factory=set)
    sequences: set[str] = field(default_factory=set)
    labels: dict[str | Path, tuple[str, str]] = field(default_factory=dict)

    def read(self, root: Path) -> None:
        """Read every cell, sequence and RL evaluation of a store; HarnessError if one cannot be read."""

        def unreadable(failure: OSError) -> None:
            if os.path.lexists(failure.filename):
                raise HarnessError(f"store: {failure.filename} cannot be read ({failure.strerror})")

        for name in (*RECORDS, "rl"):
            for folder, _, files in os.walk(root / name, onerror=unreadable):
                for path in (Path(folder) / file for file in sorted(files)):
                    if name != "rl" and path.suffix == ".json":
                        self._read_record(path, name == "cells")
                    elif path.name == "rl-eval.json":
                        try:
                            self.evaluated.update(str(policy["pool"]) for policy in read_json(path, "rl")["policies"])
                        except (KeyError, TypeError):
                            fault = "is no evaluation of `harness rl eval`: move it elsewhere"
                            raise HarnessError(f"store: {path} {fault}") from None

    def _read_record(self, path: Path, is_cell: bool) -> None:
        record = cells.read(path) if is_cell else stopping_times.read(path)
        self.labels[path] = str(record["labels"]["task"]), str(record["labels"]["model"])
        if is_cell:
            pool = str(key_of(record, "pool"))
            self.labels[pool] = self.labels[path]
            keys = {(kind, key_of(record, stage) or "") for stage, kind in STAGES.items() if stage != "pool"}
            keys -= {("vectors", "")} if record.get("control") else set()  # its run made those of other cells
            self.keys.setdefault(pool, set()).update(keys)
        else:
            self.sequences.add(_fixed({**record["inputs"], "grader": record["inputs"]["verified"]}))

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


def _fixed(about: Mapping[str, Any]) -> str:
    """What fixes a run --until-correct, in its record and in its column."""
    names = ("engine", "sampler", "n", "max_tokens", "seed", "grader")
    return canonical_json([about.get(name) for name in names])


@dataclass(eq=False)
class Part:
    """A column of a pool with its files, or what else stands in a store."""

    stage: str
    key: str
    task: str
    model: str
    state: str
    files: list[Path] = field(default_factory=list)

    def described(self) -> dict[str, Any]:
        """What it is, and how large; and when a file of it was last read or written, as far as the disk keeps that."""
        stats = []
        for path in self.files:
            with suppress(FileNotFoundError):  # a run that goes on has renamed it meanwhile
                stats.append(path.lstat())
        used = datetime.fromtimestamp(max((max(stat.st_mtime, stat.st_atime) for stat in stats), default=0), UTC)
        row = {"stage": self.stage, "key": self.key, "task": self.task, "model": self.model, "files": len(stats)}
        return {**row, "bytes": sum(stat.st_size for stat in stats), "last_used": used.isoformat(timespec="seconds")}


def parts_of(root: Path, needs: Needs) -> list[Part]:
    """Every part of a store; links, and files that the harness did not write, are in none."""
    records = [(path, labels) for path, labels in needs.labels.items() if isinstance(path, Path)]
    parts = [Part(path.parent.name, path.stem, *labels, NEEDED, [path]) for path, labels in records]
    leftovers, pools = Part("leftovers", "", ALL, ALL, AGAIN), dict[str, Part]()
    for within, folders, names in os.walk(root):
        folders.sort()
        here = Path(within)
        top, *rest = here.relative_to(root).parts or ("",)
        part, own = None, ""  # what the names of the part's files match
        if top in ("memo", "rl"):
            part, own = Part(top, "", ALL, ALL, NEEDED), ".*"
        elif not rest and (pool := _made(here / "pool.json")):
            key, engine = top.rpartition(".")[2], pool.get("engine")
            task, model = needs.labels.get(key, (UNKNOWN, UNKNOWN))
            model = str((isinstance(engine, dict) and engine.get("model")) or model)
            part = Part(pool["kind"], key, str(pool.get("task") or task), model, needs.state(key, pool, key))
            pools[top], own = part, OF_POOL
        elif rest == ["paid"] and top in pools:
            part, own = pools[top], "[^.].*"
        elif len(rest) == 1 and top in pools and rest[0].startswith(f"{_made(here / 'column.json').get('kind')}."):
            column, part, own = _made(here / "column.json"), pools[top], OF_COLUMN
            if column["kind"] not in SOURCES:
                key = here.name.rpartition(".")[2]
                part = Part(column["kind"], key, part.task, part.model, needs.state(part.key, column, key))
        elif top not in RECORDS or rest:
            continue
        parts += [part] if part and part not in parts else []
        for path in (here / name for name in sorted(names) if not (here / name).is_symlink()):
            if part and re.fullmatch(own, path.name):
                part.files.append(path)
            elif re.fullmatch(r"\..*\.tmp", path.name):
                leftovers.files.append(path)
    return [part for part in (*parts, leftovers) if part.files]


def _made(file: Path) -> dict[str, Any]:
    """What made a pool or a column; {} if the file does not say it."""
    with suppress(HarnessError):
        made = read_json(file, "store")
        return made if isinstance(made, dict) and "kind" in made else {}
    return {}


# The commands.


@contextmanager
def _opened(root: Path, alone: bool) -> Iterator[list[Part]]:
    """The parts of a store, which no other process deletes from (`alone`: nor uses) meanwhile.

    HarnessError if it is none, and if a cell cannot be read: then it is not known what can be deleted.
    """
    if not (root / "store.json").exists():
        raise HarnessError(f"store: {root} is no store of `harness run`: --store says where one is")
    with Store(root).used(alone=alone, who="store prune" if alone else "store"):
        needs = Needs()
        try:
            needs.read(root)
        except HarnessError as failure:
            raise HarnessError(f"{failure}; so it is not known what can be deleted") from None
        yield parts_of(root, needs)


def listing(root: Path) -> dict[str, Any]:
    """Return what a store holds: its folder, "store", and "rows", a dict of each task, model and stage.

    A stage is a kind of column, or "memo", "cells", ... A row has the numbers of files and bytes, and when it was
    "last_used"; of the bytes those that can be "made_again", and the "costly" ones that no cell uses.
    """
    groups: dict[tuple[str, str, str], dict[str, Any]] = {}
    with _opened(root, alone=False) as parts:
        for part in parts:
            one = part.described()
            row = {name: one[name] for name in ("task", "model", "stage")}
            row |= {"files": 0, "bytes": 0, "made_again": 0, "costly": 0, "last_used": ""}
            row = groups.setdefault((part.task, part.model, part.stage), row)
            row["files"] += one["files"]
            row["bytes"] += one["bytes"]
            row["last_used"] = max(row["last_used"], one["last_used"])
            if part.state != NEEDED:
                row["made_again" if part.state == AGAIN else "costly"] += one["bytes"]
    last = (*RECORDS, "memo", "rl", "leftovers")
    rows = sorted(groups.values(), key=lambda row: (row["task"], row["model"], row["stage"] in last))
    return {"store": str(root), "rows": rows}


def prune(root: Path, pools: bool, yes: bool, progress: Progress) -> dict[str, Any]:
    """List what no cell needs, and delete it if `yes`; HarnessError if that is not known, or the store is in use.

    pools  also what is costly: unused pools and sequences, their hidden states, what came from a file

    Return the "store"'s folder, whether it is "deleted", and "rows", a dict of each column: `Part.described`, whether
    it is "costly" (deleted only with `pools`), and whether it "goes".
    """
    with _opened(root, alone=yes) as parts:
        unused = [part for part in parts if part.state != NEEDED]
        rows = [
            part.described() | {"costly": part.state == COSTLY, "goes": pools or part.state == AGAIN}
            for part in sorted(unused, key=lambda part: (part.task, part.model))
        ]
        if yes:
            _delete([part for part in unused if pools or part.state == AGAIN], progress)
    return {"store": str(root), "deleted": yes, "rows": rows}


def _delete(parts: Sequence[Part], progress: Progress) -> None:
    """Delete files: responses after what is made from them, and in a folder what says what made it last.

    So after a kill the next run makes what is missing, and the next `prune` deletes the rest.
    """
    files = [(part.stage in SOURCES, LAST.get(path.name, 0), path) for part in parts for path in part.files]
    with progress.stage("delete", len(files), "files") as shown:
        for _, _, path in sorted(files):
            with disk_errors(path):
                path.unlink(missing_ok=True)
            shown.advance()
    for folder in sorted({path.parent for _, _, path in files}, reverse=True):
        with suppress(OSError):  # what is not the store's own stays, and its folder
            folder.rmdir()


# What they print: lines that fit 80 columns.


def put_listing(value: Mapping[str, Any]) -> None:
    """Print what `listing` returned."""
    rows = value["rows"]
    _put_rows(rows, "unused", lambda row: size_text(unused) if (unused := row["made_again"] + row["costly"]) else "-")
    put(f"\n{value['store']}: {_amount(rows)}")
    if again := sum(row["made_again"] for row in rows):
        put(f"unused, and made again if needed: {size_text(again)} (`harness store prune`)")
    if costly := sum(row["costly"] for row in rows):
        put(f"unused, but costly to make again, or from a file: {size_text(costly)} (`prune --pools`)")


def put_pruned(value: Mapping[str, Any]) -> None:
    """Print what `prune` returned."""
    rows, deleted = value["rows"], value["deleted"]
    going, kept = [row for row in rows if row["goes"]], [row for row in rows if not row["goes"]]
    if going:
        _put_rows(going, "key", lambda row: str(row["key"][:8]))
        put(f"deleted: {_amount(going)}" if deleted else f"--yes deletes this: {_amount(going)}")
    else:
        put("nothing to delete" + (": cells use all that is made again" if kept else ": cells use all of it"))
    if kept:
        put("\nkept, because it is costly to make again, or from a file (a run that was killed goes on")
        put("from it); no cell uses it, and --pools deletes it too:")
        _put_rows(kept, "key", lambda row: str(row["key"][:8]))


def _put_rows(rows: Sequence[Mapping[str, Any]], head: str, third: Callable[[Mapping[str, Any]], str]) -> None:
    """Print a line for each row, under its task and model (of a model that is a folder the last part)."""
    put(f"  {'':<12}{'size':>10}{head:>12}{'last used':>13}")
    for (task, model), group in groupby(rows, key=lambda row: (row["task"], row["model"])):
        name = Path(model).name if model.startswith(("/", ".", "~")) else model
        put(f"{'all tasks' if task == ALL else task}, {'all models' if model == ALL else name}")
        for row in group:
            put(f"  {row['stage']:<12}{size_text(row['bytes']):>10}{third(row):>12}{_age(row['last_used']):>13}")


def _amount(rows: Sequence[Mapping[str, Any]]) -> str:
    files = sum(row["files"] for row in rows)
    return f"{size_text(sum(row['bytes'] for row in rows))} in {files:,} file{'' if files == 1 else 's'}"


def size_text(count: int) -> str:
    """A number of bytes as people read it: "512 B", "3 kB", "1.2 GB"."""
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count / 1000:,.0f} kB" if count >= 1000 else f"{count} B"


def _age(moment: str) -> str:
    """How long ago a moment (ISO 8601) was: "now", "12 min ago", "3 h ago", "40 d ago"."""
    seconds = (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()
    return next((f"{seconds / size:,.0f} {unit} ago" for unit, size in UNITS if seconds >= size), "now")
