"""Cells: one small file for each task, model, sampler, embedder and selector that were run together, in raw figures.

A cell holds what its metrics are computed from, and no metric: per problem N, c and errors, per trial the order as far
as the first correct response (or a subset a budget); and all that made it. It is named by the hash of its inputs, so
that two people's cells are merged by copying files, and carries a checksum, so that one edited by hand is told from one
that was measured. A cell that failed is kept with its reason, shown as that, and made again by the next run.

Schema 3 counts disputed grades by problem and names the grader and the hardware plainly. Cells of schema 2, which have
one total of disputed grades, are read as they are; so are cells without a problem's `routes` (route -> how many correct
verdicts came by it, "-" for a grader with but one) and `chance` ([correct, gradings] against other problems'
references), which came later.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from harness.errors import HarnessError
from harness.records import Problem
from harness.scoring.metrics import Outcomes, budgets, summary
from harness.stages import audit, chance
from harness.store import shards
from harness.store.checksums import read_regular

if TYPE_CHECKING:
    from harness.running.plan import Plan
    from harness.stages.work import Work

SCHEMA = 3
READABLE = (2, SCHEMA)
KIND = "diversity-harness cell"
BADGES, TABLES = "conformance", "leaderboard"  # beside published cells: a folder, and the files' stem
LABELS = ("task", "split", "model", "engine", "sampler", "embedder", "selector", "trials", "seed")
LIBRARIES = (
    *("diversity-harness", "numpy", "scipy", "scikit-learn", "torch", "transformers"),
    *("vllm", "evalplus", "sentence-transformers", "kmedoids"),
)

Cell = dict[str, Any]


def keep(folder: Path, plan: Plan, work: Work) -> dict[str, Any]:
    """Write the cell of a ranking that is in the store; its row. Orders are held of one problem at a time."""
    about = _about(plan, work)
    about["conditions"] = _conditions(plan.problems, work)
    kept: list[dict[str, Any]] = []
    by_chance = chance.stage_of(plan)

    def entries() -> Iterator[dict[str, Any]]:
        for problem in plan.problems:
            entry = _result(work, problem, by_chance)
            yield entry
            kept.append(without_orders(entry))

    key = _write(folder, about, entries())
    return row({**about, "problems": kept}, key)


def without_orders(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A problem's entry as its figures need it: orders, most of what a cell holds, enter none."""
    return {name: value for name, value in entry.items() if name != "orders"}


def failed(plan: Plan, work: Work, reason: str) -> Cell:
    """The cell of a selector that broke."""
    return _about(plan, work) | {
        "problems": [{"id": shards.storable(problem.id)} for problem in plan.problems],
        "failed": reason,
    }


def _about(plan: Plan, work: Work) -> Cell:
    """What a cell says of how it was made."""
    embedder = plan.labels["embedder"] if work.embeddings else "none"
    made = {"embedder": embedder, "selector": work.selector, "trials": work.trials, "seed": work.seed}
    stages = {"pool": work.pool, "embedding": work.embeddings, "verdict": work.verdicts, "ranking": work.rankings}
    inputs = {name: {"key": stage.key, **stage.inputs} for name, stage in stages.items() if stage}
    parts = [part for stage in inputs.values() for part in stage.values() if isinstance(part, dict)]
    plugins = [str(part["dist"]) for part in parts if "dist" in part]
    weights = [one.row() for one in dict.fromkeys(one for found in plan.weights.values() for one in found)]
    return {
        "kind": KIND,
        "schema": SCHEMA,
        **({"weights": weights} if weights else {}),
        "labels": {**plan.labels, **made},
        "grader": grader({"inputs": inputs}),
        "inputs": inputs,
        **made_with(plugins),
    }


def is_random(cell: Mapping[str, Any]) -> bool:
    """Whether it was made with weights that were never trained: a test, and no result."""
    return any(one["is_random"] for one in cell.get("weights", ()))


def made_with(plugins: Iterable[str]) -> dict[str, Any]:
    """The versions of Python, the libraries and those distributions, and the machine."""
    return {"versions": dict(_versions(plugins)), "hardware": _hardware()}


def grader(cell: Mapping[str, Any]) -> str:
    """Who graded: the task and its grader's version, or who made the pool."""
    verdict = cell["inputs"]["verdict"]
    return "the pool's maker" if verdict["given"] else f"{verdict['task']} {verdict['grader']}"


def _result(work: Work, problem: Problem, by_chance: shards.Stage | None) -> dict[str, Any]:
    """N, c, errors, disputed grades (None: no second grader was asked); per trial order and rank, or the subsets' hits.

    An order goes as far as the first correct response. The chance level's counts are left out where none were made.
    """
    assert work.rankings is not None
    ranking = shards.read_record(work.rankings.path(problem))
    n, trials = ranking["n"], ranking["trials"]
    verdicts, routes = shards.routed_verdicts_in(work.verdicts.path(problem))
    shards.require_rows(work.rankings.path(problem), n, work.n or len(verdicts))
    shards.require_rows(work.verdicts.path(problem), len(verdicts), max(n, len(verdicts)))
    verdicts, routes = verdicts[:n], routes[:n]
    counts = {"n": n, "c": verdicts.count("correct"), "errors": verdicts.count("error")}
    result = {"id": shards.storable(problem.id), **counts, "disputed": audit.disputed(work, problem, n)}
    result["routes"] = _by_route(verdicts, routes)
    if (gradings := chance.counts_in(by_chance, problem)) is not None:
        result["chance"] = gradings
    if ranking["kind"] == "subset":
        hits = {k: [_holds(trial[str(k)], verdicts) for trial in trials] or [False] * work.trials for k in budgets(n)}
        return result | {"hits": {str(k): found for k, found in hits.items()}}
    ranks = [len(order) for order in trials] if trials else [n + 1] * work.trials
    return result | {"ranks": ranks, "orders": trials}


def _by_route(verdicts: Sequence[str], routes: Sequence[str]) -> dict[str, int]:
    """How many correct verdicts came by each route, which is named by what stands before its first comma."""
    correct = (route for verdict, route in zip(verdicts, routes, strict=True) if verdict == "correct")
    return dict(sorted(Counter(route.partition(",")[0] or "-" for route in correct).items()))


def _holds(subset: Sequence[int], verdicts: Sequence[str]) -> bool:
    return any(verdicts[index] == "correct" for index in subset)


def _conditions(problems: Sequence[Problem], work: Work) -> dict[str, list[str]]:
    """Under what the verdicts were made (the sandbox's tier): per kind of condition each that occurs."""
    found: dict[str, set[str]] = {}
    for problem in problems:
        for name, value in shards.conditions_in(work.verdicts.path(problem)).items():
            found.setdefault(name, set()).add(value)
    return {name: sorted(values) for name, values in sorted(found.items())}


def _versions(plugins: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Python's, the libraries', and those of the distributions that the plugins come from."""
    yield "python", platform.python_version()
    for name in dict.fromkeys([*LIBRARIES, *plugins]):
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue


def _hardware() -> dict[str, Any]:
    """The machine that ranked: processor, cores (those of the machine, those that this process may use), memory, GPUs.

    torch is asked for GPUs only where it is in use.
    """
    return {
        "machine": platform.machine(),
        "system": platform.system(),
        "cpu": _processor(),
        "cores": os.cpu_count(),
        "cores_usable": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gb": _memory_gb(),
        "gpus": _gpus(),
    }


def _processor() -> str:
    """The processor's name: Linux keeps it in a file, others say it (or do not: "")."""
    try:
        named = re.search(r"^(?:model name|Model)\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.M)
    except OSError:
        named = None
    return named[1].strip() if named else platform.processor()


def _memory_gb() -> float | None:
    """Physical memory in GB; None where the system does not say."""
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1)
    except (AttributeError, ValueError, OSError):
        return None


def _gpus() -> list[str]:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return []
    return [torch.cuda.get_device_name(place) for place in range(torch.cuda.device_count())]


# Files.


def key_of(cell: Mapping[str, Any]) -> str:
    """The cell's name: the hash of its inputs and of its problems' ids."""
    return shards.digest({**cell["inputs"], "problems": [entry["id"] for entry in cell["problems"]]})


def write(folder: Path, cell: Mapping[str, Any]) -> str:
    """Keep the cell in the folder; returns its key. A problem a line, so that two versions can be told apart by eye."""
    about = {name: value for name, value in cell.items() if name not in ("problems", "checksum")}
    return _write(folder, about, cell["problems"])


def _write(folder: Path, about: Mapping[str, Any], entries: Iterable[Mapping[str, Any]]) -> str:
    """The same, entry by entry: the lines go to a file, since the checksum that is known last stands before them."""
    sums = _Checksum(about)
    ids: list[str] = []
    lines = shards.temporary_name(folder / "entries", os.getpid())
    with shards.disk_errors(lines):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with _opened(lines) as file:
                for entry in entries:
                    file.write(f"{',' * bool(ids)}\n  {_one_line(entry)}".encode())
                    sums.add(entry)
                    ids.append(entry["id"])
            key = key_of({**about, "problems": [{"id": one} for one in ids]})
            head = json.dumps({**about, "checksum": sums.hexdigest()}, indent=1, ensure_ascii=False, allow_nan=False)
            parts = (f'{head[:-2]},\n "problems": ['.encode(), lines, b"\n ]\n}\n")
            if file.name != os.devnull or not (folder / f"{key}.json").exists():
                shards.write_parts(folder / f"{key}.json", parts)
        finally:
            if lines.exists():
                lines.unlink()
    return key


def _opened(lines: Path) -> IO[bytes]:
    """Where the lines go: nowhere in a store that can only be read, which has the cell already if the run is whole."""
    try:
        return lines.open("wb")
    except OSError as failure:
        if failure.errno not in shards.READ_ONLY:
            raise
        return open(os.devnull, "wb")


class _Checksum:
    """`checksum` of a cell whose entries come one by one: SHA-256 over the canonical JSON, piece by piece."""

    def __init__(self, about: Mapping[str, Any]) -> None:
        before = shards.canonical_json({name: about[name] for name in about if name < "problems"})[:-1]
        after = shards.canonical_json({name: about[name] for name in about if name > "problems"})[1:]
        self._after, self._any = f"]{',' * (after != '}')}{after}", False
        self._sum = hashlib.sha256(f'{before}{"," * (before != "{")}"problems":['.encode("utf-8", "surrogatepass"))

    def add(self, entry: Mapping[str, Any]) -> None:
        """The next entry."""
        text = "," * self._any + shards.canonical_json(entry)
        self._sum.update(text.encode("utf-8", "surrogatepass"))
        self._any = True

    def hexdigest(self) -> str:
        """32 hex digits, once all entries are in."""
        self._sum.update(self._after.encode("utf-8", "surrogatepass"))
        return self._sum.hexdigest()[:32]


def _one_line(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def checksum(cell: Mapping[str, Any]) -> str:
    """The hash of all that a cell holds, but for the checksum itself."""
    about = {name: value for name, value in cell.items() if name not in ("problems", "checksum")}
    if not isinstance(cell.get("problems"), list):  # no cell; what it is worth is said by who reads it
        return shards.digest({name: value for name, value in cell.items() if name != "checksum"}, 32)
    sums = _Checksum(about)
    for entry in cell["problems"]:
        sums.add(entry)
    return sums.hexdigest()


def files(folders: Iterable[Path]) -> list[Path]:
    """What should be a cell in the folders and below them: not the tables made of cells, nor selectors' conformance."""
    found = [path for folder in folders for path in sorted(folder.rglob("*.json"))]
    return [path for path in found if path.parent.name != BADGES and path.stem != TABLES]


def read(path: Path) -> Cell:
    """The cell in a file; a HarnessError of one line where it is none, or none that can be trusted."""
    try:
        cell = json.loads(read_regular(path))
    except (HarnessError, OSError, ValueError, RecursionError) as failure:
        raise HarnessError(f"cell {path}: cannot be read ({_first_line(failure)}); copy it anew") from None
    if not isinstance(cell, dict) or cell.get("kind") != KIND:
        raise HarnessError(f"cell {path}: is no cell; move it elsewhere")
    if cell.get("schema") not in READABLE:
        known = isinstance(cell.get("schema"), int) and cell["schema"] < SCHEMA
        what = "of an older schema: run it again" if known else "of a newer schema: update diversity-harness"
        reads = " and ".join(map(str, READABLE))
        raise HarnessError(f"cell {path}: {what} ({cell.get('schema')!r}; this version reads {reads})")
    if cell.get("checksum") != checksum(cell):
        raise HarnessError(f"cell {path}: was edited or cut after it was measured; copy it anew, or run it again")
    _check_shape(path, cell)
    if path.stem != key_of(cell):
        raise HarnessError(f"cell {path}: is named otherwise than its inputs ({key_of(cell)}.json); rename it")
    return cell


def _check_shape(path: Path, cell: Cell) -> None:
    """A checksum can be forged by who wants to: what does not add up is refused too."""
    try:
        _expect(all(name in cell["labels"] for name in LABELS), "a label is missing")
        _expect(cell["inputs"] and cell["problems"], "it has no inputs or no problems")
        ids = [entry["id"] for entry in cell["problems"]]
        _expect(len(set(ids)) == len(ids), "a problem stands there twice")
        for entry in cell["problems"] if "failed" not in cell else ():
            _check_entry(entry, cell["labels"]["trials"])
            _expect("disputed" in entry or cell["schema"] < 3, f"problem {entry['id']!r}: disputed grades")
    except (ValueError, KeyError, TypeError, AttributeError) as failure:
        raise HarnessError(f"cell {path}: does not add up ({_first_line(failure)})") from None


def _check_entry(entry: Mapping[str, Any], trials: int) -> None:
    n, c, who = entry["n"], entry["c"], f"problem {entry['id']!r}"
    _expect(n >= 1 and 0 <= c <= n and 0 <= entry["errors"] <= n - c, f"{who}: n, c or errors")
    _expect(0 <= (entry.get("disputed") or 0) <= n, f"{who}: disputed grades")
    _expect("routes" not in entry or sum(entry["routes"].values()) == c, f"{who}: routes")
    correct, gradings = entry.get("chance", (0, 0))
    _expect(0 <= correct <= gradings, f"{who}: chance")
    if "hits" in entry:
        _expect(sorted(map(int, entry["hits"])) == budgets(n), f"{who}: budgets")
        _expect(all(len(hits) == trials for hits in entry["hits"].values()), f"{who}: trials")
        return
    _expect(len(entry["ranks"]) == trials, f"{who}: trials")
    last = n - c + 1
    _expect(all(1 <= rank <= last if c else rank == last for rank in entry["ranks"]), f"{who}: ranks")
    _expect([len(order) for order in entry["orders"]] == (entry["ranks"] if c else []), f"{who}: orders and ranks")


def _expect(holds: object, what: str) -> None:
    if not holds:
        raise ValueError(what)


def _first_line(failure: BaseException) -> str:
    return f"{type(failure).__name__}: {failure}".split("\n")[0][:200]


# Figures.


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


def disputed(cell: Mapping[str, Any]) -> int | None:
    """How many grades a second grader disputes; None where it was asked of no problem."""
    if cell["schema"] < 3:
        total: int | None = cell["disputed"]
        return total
    counts = [entry["disputed"] for entry in cell["problems"] if entry["disputed"] is not None]
    return sum(counts) if counts else None


def row(cell: Mapping[str, Any], key: str | None = None) -> dict[str, Any]:
    """A cell's row: its labels and its figures. The same cell gives the same row, resampling included."""
    key = key or key_of(cell)
    seed = int(key[:8], 16)
    about = {"grader": grader(cell), "conditions": cell["conditions"], "disputed": disputed(cell)}
    about |= chance.figures([cell], seed)
    return {**cell["labels"], "cell": key, **about, **summary(outcomes(cell), seed)}
