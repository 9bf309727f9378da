"""`harness doctor --store DIR`: every file of a store that cannot be trusted, and what to do about it.

What a run makes again from what is sound may be deleted: vectors, verdicts, audits, rankings. What cost money or cannot
be made from the rest (responses, records, cells, manifests) is better moved away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

from harness.errors import HarnessError
from harness.store import shards
from harness.store.json_files import read_json, read_manifest, read_record
from harness.store.shard_files import OLDER, SUFFIXES, content_of, unreadable
from harness.system.progress import Progress

COSTLY = ("pool", "sequence")  # as are records
BESIDE = ("manifest.json", "weights.json", "index.json")

Records: TypeAlias = Mapping[str, Callable[[Path], Any]]


@dataclass(frozen=True)
class Fault:
    """One file of a store that cannot be trusted.

    kind      the store's subfolder that it is in, such as "pool" or "cells"
    problem   the file's name without suffix: shards of one problem share it
    fault     what is wrong with it
    cure      what the user can do
    """

    path: Path
    kind: str
    problem: str
    fault: str
    cure: str

    def row(self) -> dict[str, str]:
        """Return the fields by name, as texts."""
        return {name: str(value) for name, value in asdict(self).items()}


def diagnosis(root: Path, records: Records, progress: Progress) -> dict[str, Any]:
    """Check every file of a store that a table could be made from, and return a report.

    store    the store's folder
    files    the number of files checked
    faults   a dict of each fault: `Fault.row`

    records: folder of the store -> what reads one JSON file in it (cells, sequences) and raises HarnessError.
    """
    require_store(root, records)
    files = list(_files(root, records))
    faults: list[Fault] = []
    with progress.stage("check", len(files), "files") as shown:
        for path, check in files:
            if fault := _fault_of(path, check):
                faults.append(_fault(root, path, fault))
            shown.advance()
    faults += _wrong_lengths(root, {fault.path for fault in faults})
    return {"store": str(root), "files": len(files), "faults": [fault.row() for fault in faults]}


def require_store(root: Path, records: Records) -> None:
    """Raise HarnessError unless the folder has a subfolder of a kind that a store has: of shards, or of `records`."""
    kinds = (*SUFFIXES, *records)
    if not any((root / kind).is_dir() for kind in kinds):
        raise HarnessError(f"doctor: {root} is no store of `harness run`: none of {', '.join(kinds)} is in it")


# What is looked at.


def _files(root: Path, records: Records) -> Iterator[tuple[Path, Callable[[Path], Any]]]:
    """Every file that a table could be made from, with what raises HarnessError where it cannot be trusted."""
    for kind, suffix in SUFFIXES.items():
        for folder in sorted((root / kind).glob("*")):
            for path in sorted(folder.iterdir()) if folder.is_dir() else ():
                name = path.name
                if name == "manifest.json":
                    yield path, lambda path: read_manifest(path.parent)
                elif name in ("weights.json", OLDER) or name.endswith(".unanswered.json"):
                    yield path, read_json
                elif path.suffix == suffix or name == "index.json":
                    yield path, _readable
    for kind, read in records.items():
        for path in sorted((root / kind).glob("*.json")):
            yield path, read


def _is_kept(kind: str) -> bool:
    return kind in COSTLY or kind not in SUFFIXES


def _readable(path: Path) -> None:
    with unreadable(path):
        content_of(path)


def _fault_of(path: Path, check: Callable[[Path], Any]) -> str:
    """What is wrong with a file; "" for a sound one."""
    try:
        check(path)
    except BadShard as failure:
        return failure.fault
    except HarnessError as failure:
        return str(failure)
    return ""


def _fault(root: Path, path: Path, fault: str) -> Fault:
    kind = path.relative_to(root).parts[0]
    return Fault(path, kind, path.stem, fault, _cure(path, kind, fault))


def _cure(path: Path, kind: str, fault: str) -> str:
    if _is_kept(kind) or path.name == "manifest.json" or path.is_dir():
        again = "; its problem is then sampled again" if kind == "pool" and path.name not in BESIDE else ""
        index = path.parent / "index.json"  # of a pool that was imported
        again = f", and {index} too; the pool's file is then imported again" if again and index.exists() else again
        return f"move it away{again}"
    return "delete it; the next run makes it again"


def shown(report: dict[str, Any]) -> str:
    """Return a report of `diagnosis` as text: one line for each fault, then the counts."""
    lines = [f"{fault['path']} {fault['fault']}: {fault['cure']}" for fault in report["faults"]]
    return "\n".join([*lines, f"{report['files']:,} files of {report['store']}: {len(lines):,} faults"])


# Lengths.


def _wrong_lengths(root: Path, bad: set[Path]) -> Iterator[Fault]:
    """Shards that have another number of rows than their problem's responses, of those that are not bad anyway."""
    sizes: dict[Path, int] = {}
    for kind in ("embedding", "score", "verdict", "audit", "ranking"):  # counts of the chance level have no rows
        for folder in sorted((root / kind).glob("*")):
            pool = _pool_of(folder)
            for path in sorted(folder.glob(f"*{SUFFIXES[kind]}")) if pool else ():
                responses = root / "pool" / str(pool) / f"{path.stem}.parquet"
                if path.name in BESIDE or {path, responses} & bad or not responses.exists():
                    continue
                n = sizes.setdefault(responses, sizes.get(responses) or shards.count_rows(responses))
                rows = _rows(kind, path)
                if rows > n or (rows < n and kind != "ranking"):  # a ranking may be of the first few responses
                    yield _fault(root, path, f"holds {rows:,} rows, and its pool {n:,}")


def _rows(kind: str, path: Path) -> int:
    rows = {
        "embedding": lambda: len(shards.read_vectors(path)),
        "score": lambda: shards.count_rows(path),
        "verdict": lambda: shards.count_rows(path),
        "audit": lambda: len(read_record(path)["said"]),
        "ranking": lambda: int(read_record(path)["n"]),
    }
    return rows[kind]()


def _pool_of(folder: Path) -> str | None:
    """The key of the pool that a stage was made from; None where its manifest cannot be read."""
    with suppress(HarnessError):
        return read_manifest(folder).get("pool")
    return None
