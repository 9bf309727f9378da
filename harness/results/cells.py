"""Cells: one small file for each task, model, sampler, embedder and selector that were run together, in raw outcomes.

A cell holds the values from which metrics are computed, and no metric: per problem N, c and errors; per trial the order
up to the first correct response (or one subset per budget); and the inputs of every stage. Its name is the hash of its
inputs, so the cells of two people are merged by copying files. Its checksum shows whether it was edited after it was
measured. A failed cell is kept and shown with its reason, and the next run makes it again.

Schema 3 counts disputed grades per problem and names the grader and the hardware plainly. Cells of schema 2, with one
total of disputed grades, are still read. So are cells without the newer fields of a problem: `routes` (route -> number
of correct verdicts by it; "-" for a grader with only one route), `chance` ([correct, gradings] against the
references of other problems), `maj_at_k` and `best_of_k` (`one_answer`), and `answering` ([responses, CPU seconds] of
running them for their answers).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from itertools import takewhile
from pathlib import Path
from typing import IO, Any

import numpy as np

from harness.errors import HarnessError
from harness.scoring.metrics import Outcomes, budgets, summary
from harness.store.checksums import read_regular
from harness.store.keys import canonical_json, digest
from harness.system.files import READ_ONLY, disk_errors, temporary_name, write_parts
from harness.system.json_text import parsed, shaped

from . import inert_text, one_answer
from .rows import Row
from .schemas import CellFile, CellLabels
from .verdict_quality import quality

SCHEMA = 3
READABLE = (2, SCHEMA)
KIND = "diversity-harness cell"
# Beside published cells: the folders of badges and of sequences, the stems of tables and of evaluations after RL.
BADGES, SEQUENCES, TABLES, EVALUATION = "conformance", "sequences", "leaderboard", "rl-eval"

LABELS = tuple(CellLabels.__annotations__)

Cell = dict[str, Any]


def without_orders(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A problem's entry without its orders, which are most of a cell's size and enter no metric."""
    return {name: value for name, value in entry.items() if name != "orders"}


def is_random(cell: Mapping[str, Any]) -> bool:
    """Whether the cell was made with untrained model weights: it is then a test and not a result."""
    return any(weights["is_random"] for weights in cell.get("weights", ()))


def grader(cell: Mapping[str, Any]) -> str:
    """The grader: the task and its grader's version, or the maker of an imported pool."""
    verdict = cell["inputs"]["verdict"]
    return "the pool's maker" if verdict["given"] else f"{verdict['task']} {verdict['grader']}"


# Files.


def key_of(cell: Mapping[str, Any]) -> str:
    """The cell's name: the hash of its inputs and of its problems' ids."""
    return digest({**cell["inputs"], "problems": [entry["id"] for entry in cell["problems"]]})


def write(folder: Path, cell: Mapping[str, Any]) -> str:
    """Write the cell to the folder and return its key. One problem per line: versions are then easy to compare."""
    about = {name: value for name, value in cell.items() if name not in ("problems", "checksum")}
    return write_entries(folder, about, cell["problems"])


def write_entries(folder: Path, about: Mapping[str, Any], entries: Iterable[Mapping[str, Any]]) -> str:
    """Write a cell problem by problem, to FOLDER/KEY.json, and return its key.

    The lines go to a temporary file first, because the checksum must precede them. In a read-only store nothing is
    written, which is an error only if the cell is not there yet.

    about    the cell without `problems` and `checksum`
    entries  the entries of `problems`, in order
    """
    sums = _Checksum(about)
    ids: list[str] = []
    lines = temporary_name(folder / "entries", os.getpid())
    with disk_errors(lines):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with _opened(lines) as file:
                for entry in entries:
                    separator = ",\n  " if ids else "\n  "
                    file.write(f"{separator}{_one_line(entry)}".encode())
                    sums.add(entry)
                    ids.append(entry["id"])
            key = key_of({**about, "problems": [{"id": problem_id} for problem_id in ids]})
            head = json.dumps({**about, "checksum": sums.hexdigest()}, indent=1, ensure_ascii=False, allow_nan=False)
            parts = (f'{head[:-2]},\n "problems": ['.encode(), lines, b"\n ]\n}\n")
            if file.name != os.devnull or not (folder / f"{key}.json").exists():
                write_parts(folder / f"{key}.json", parts)
        finally:
            if lines.exists():
                lines.unlink()
    return key


def _opened(lines: Path) -> IO[bytes]:
    """The temporary file for the lines; the null device in a read-only store, which holds cells of complete runs."""
    try:
        return lines.open("wb")
    except OSError as failure:
        if failure.errno not in READ_ONLY:
            raise
        return open(os.devnull, "wb")


class _Checksum:
    """`checksum` of a cell whose entries arrive one at a time: SHA-256 over the canonical JSON, in pieces."""

    def __init__(self, about: Mapping[str, Any]) -> None:
        before = canonical_json({name: about[name] for name in about if name < "problems"})[:-1]
        after = canonical_json({name: about[name] for name in about if name > "problems"})[1:]
        before, after = before if before == "{" else f"{before},", after if after == "}" else f",{after}"
        self._after, self._is_empty = f"]{after}", True
        self._sum = hashlib.sha256(f'{before}"problems":['.encode("utf-8", "surrogatepass"))

    def add(self, entry: Mapping[str, Any]) -> None:
        """Add the next entry."""
        text = canonical_json(entry) if self._is_empty else f",{canonical_json(entry)}"
        self._sum.update(text.encode("utf-8", "surrogatepass"))
        self._is_empty = False

    def hexdigest(self) -> str:
        """32 hex digits, after all entries were added."""
        self._sum.update(self._after.encode("utf-8", "surrogatepass"))
        return self._sum.hexdigest()[:32]


def _one_line(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def checksum(cell: Mapping[str, Any]) -> str:
    """The hash of a cell's content, without the checksum itself."""
    about = {name: value for name, value in cell.items() if name not in ("problems", "checksum")}
    if not isinstance(cell.get("problems"), list):  # not a cell; `read` reports that
        return digest({name: value for name, value in cell.items() if name != "checksum"}, 32)
    sums = _Checksum(about)
    for entry in cell["problems"]:
        sums.add(entry)
    return sums.hexdigest()


def without_folders(cell: Cell) -> Cell:
    """The cell as it is published: no absolute path in what says how it was made. Its key may be another."""
    about = {name: inert_text.without_folders(value) for name, value in cell.items() if name != "problems"}
    return {**about, "problems": cell["problems"]}


def files(folders: Iterable[Path]) -> list[Path]:
    """Every JSON file in the folders and below them that should be a cell: not what else is published beside cells.

    Of a store (a folder with a folder `cells`) those are its cells, and no other file.
    """
    paths = [path for folder in folders for path in sorted(cells_of(folder).rglob("*.json"))]
    return [
        path for path in paths if path.parent.name not in (BADGES, SEQUENCES) and path.stem not in (TABLES, EVALUATION)
    ]


def cells_of(folder: Path) -> Path:
    """The folder with the cells: of a store STORE/cells, else the folder itself."""
    return folder / "cells" if (folder / "cells").is_dir() else folder


def named(name: str, folders: Iterable[Path], who: str) -> Path:
    """The file of the cell that `name` stands for: a file, or the beginning of one key in the folders.

    HarnessError, which begins with `who`, if there is no such cell, or more than one.
    """
    if Path(name).is_file():
        return Path(name)
    folders = list(dict.fromkeys(folders))
    matches = sorted({path.name: path for path in files(folders) if path.name.startswith(name)}.values())
    if len(matches) == 1:
        return matches[0]
    where = ", ".join(map(str, folders))
    if not matches:
        raise HarnessError(f"{who}: no file {name!r}, and no cell whose key begins so in {where}")
    keys = ", ".join(path.stem for path in matches[:3])
    raise HarnessError(f"{who}: {name!r} begins the keys of {len(matches)} cells ({keys}, ...): write more of it")


def read_inputs(path: Path) -> dict[str, Any]:
    """The inputs of a cell that this program has just written; its problems, most of the file, are not read."""
    with path.open(encoding="utf-8") as file:
        head = "".join(takewhile(lambda line: not line.startswith(' "problems": ['), file))
    inputs: dict[str, Any] = json.loads(head.rstrip().rstrip(",") + "}")["inputs"]
    return inputs


def read(path: Path) -> Cell:
    """Read the cell in a file; HarnessError (one line) if it is not a cell or cannot be trusted."""
    try:
        content = read_regular(path)
    except (HarnessError, OSError) as failure:
        raise HarnessError(f"cell {path}: cannot be read ({_first_line(failure)}); copy it anew") from None
    cell = parsed(content, f"cell {path}", "copy it anew")
    if not isinstance(cell, dict) or cell.get("kind") != KIND:
        raise HarnessError(f"cell {path}: is no cell; move it elsewhere")
    if cell.get("schema") not in READABLE:
        older = isinstance(cell.get("schema"), int) and cell["schema"] < SCHEMA
        what = "of an older schema: run it again" if older else "of a newer schema: update diversity-harness"
        reads = " and ".join(map(str, READABLE))
        raise HarnessError(f"cell {path}: {what} ({cell.get('schema')!r}; this version reads {reads})")
    if cell.get("checksum") != checksum(cell):
        raise HarnessError(f"cell {path}: was edited or cut after it was measured; copy it anew, or run it again")
    shaped(cell, CellFile, f"cell {path}", "copy it anew, or run it again")
    _check_shape(path, cell)
    if path.stem != key_of(cell):
        raise HarnessError(f"cell {path}: is named otherwise than its inputs ({key_of(cell)}.json); rename it")
    return cell


def _check_shape(path: Path, cell: Cell) -> None:
    """Raise HarnessError if a cell contradicts itself: a checksum alone can be forged."""
    try:
        _expect(cell["problems"], "it has no problems")
        verdict = cell["inputs"]["verdict"]
        _expect(verdict["given"] or (verdict.get("task") and verdict.get("grader")), "it does not name its grader")
        _expect("failed" in cell or "conditions" in cell, "it does not name its conditions")
        ids = [entry["id"] for entry in cell["problems"]]
        _expect(len(set(ids)) == len(ids), "a problem occurs twice")
        for entry in cell["problems"] if "failed" not in cell else ():
            _check_entry(entry, cell["labels"]["trials"])
            _expect("disputed" in entry or cell["schema"] < 3, f"problem {entry['id']!r}: disputed grades")
    except (ValueError, KeyError, TypeError, AttributeError) as failure:
        raise HarnessError(f"cell {path}: does not add up ({_first_line(failure)})") from None


def _check_entry(entry: Mapping[str, Any], trials: int) -> None:
    n, c, where = entry["n"], entry["c"], f"problem {entry['id']!r}"
    _expect(1 <= n < 2**31 and 0 <= c <= n and 0 <= entry["errors"] <= n - c, f"{where}: n, c or errors")
    _expect(0 <= (entry.get("disputed") or 0) <= n, f"{where}: disputed grades")
    _expect("routes" not in entry or sum(entry["routes"].values()) == c, f"{where}: routes")
    correct, gradings = entry.get("chance", (0, 0))
    _expect(0 <= correct <= gradings, f"{where}: chance")
    for chances in (entry.get("maj_at_k", {}), *entry.get("best_of_k", {}).values()):
        _expect(not chances or sorted(map(int, chances)) == budgets(n), f"{where}: budgets of maj@k or best-of-k")
        _expect(all(0 <= chance <= 1 for chance in chances.values()), f"{where}: maj@k or best-of-k")
    responses, cpu_s = entry.get("answering", (n, 0))
    _expect(responses >= n and cpu_s >= 0, f"{where}: answering")
    if "hits" in entry:
        _expect(sorted(map(int, entry["hits"])) == budgets(n), f"{where}: budgets")
        _expect(all(len(hits) == trials for hits in entry["hits"].values()), f"{where}: trials")
        return
    _expect(len(entry["ranks"]) == trials, f"{where}: trials")
    last = n - c + 1
    _expect(all(1 <= rank <= last if c else rank == last for rank in entry["ranks"]), f"{where}: ranks")
    _expect([len(order) for order in entry["orders"]] == (entry["ranks"] if c else []), f"{where}: orders and ranks")


def _expect(holds: object, what: str) -> None:
    if not holds:
        raise ValueError(what)


def _first_line(failure: BaseException) -> str:
    return f"{type(failure).__name__}: {failure}".split("\n")[0][:200]


# Rows.


def outcomes(cell: Mapping[str, Any]) -> Outcomes:
    """A cell's outcomes as arrays."""
    entries = cell["problems"]
    n = np.array([entry["n"] for entry in entries], np.int64)
    c = np.array([entry["c"] for entry in entries], np.int64)
    errors = np.array([entry["errors"] for entry in entries], np.int64)
    if "hits" in entries[0]:
        ks = sorted({int(k) for entry in entries for k in entry["hits"]})
        hits = {k: np.array([entry["hits"][str(k)] for entry in entries if str(k) in entry["hits"]]) for k in ks}
        return Outcomes(n, c, errors, hits=hits)
    return Outcomes(n, c, errors, ranks=np.array([entry["ranks"] for entry in entries], np.int64))


def resampling_seed(*cells: Mapping[str, Any]) -> int:
    """The seed of the resampling of some cells, in any order: a hash of their outcomes, and of nothing else.

    So a key that changes (another revision of a component, another format) moves no interval.
    """
    return int(_hash_of(cells[0])[:8] if len(cells) == 1 else digest(sorted(map(_hash_of, cells)), 8), 16)


def _hash_of(cell: Mapping[str, Any]) -> str:
    """A hash of each problem's id, n, c, errors, and ranks or hits."""
    fixed = ("id", "n", "c", "errors")
    return digest(
        [[*(entry[name] for name in fixed), entry.get("ranks") or entry["hits"]] for entry in cell["problems"]]
    )


def disputed(cell: Mapping[str, Any]) -> int | None:
    """The number of grades that a second grader disputes; None if it graded no problem."""
    if cell["schema"] < 3:
        total: int | None = cell["disputed"]
        return total
    counts = [entry["disputed"] for entry in cell["problems"] if entry["disputed"] is not None]
    return sum(counts) if counts else None


def row(cell: Mapping[str, Any], key: str | None = None) -> Row:
    """Compute a cell's row. Equal outcomes have equal intervals, because they seed the resampling.

    key  the cell's key, if known; None: it is computed
    """
    key, seed = key or key_of(cell), resampling_seed(cell)
    learns = cell["inputs"]["ranking"].get("learns")
    about = {"learns": learns, "grader": grader(cell), "conditions": cell["conditions"], "disputed": disputed(cell)}
    of_pools = {**quality([cell], seed), **one_answer.metrics(cell["problems"])}
    return Row(**cell["labels"], cell=key, **about, **of_pools, **summary(outcomes(cell), seed))
