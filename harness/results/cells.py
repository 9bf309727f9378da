"""Cells: what one task, model, sampler, embedder and selector did when they were run together, in raw outcomes.

A cell holds the values from which metrics are computed, and no metric: per problem N, c and errors; per trial the order
up to the first correct response, or a later one (or one subset per budget); and the inputs of every stage. Its name is
the hash of its inputs, so two people's cells stand side by side. Its checksum shows whether it was edited after it was
measured. A failed cell is kept and shown with its reason, and the next run makes it again. Here are the checks, and the
file of one cell; `published` finds cells, and has the file of many.

docs/schemas/cell.json says what each field means.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np

from harness.errors import HarnessError
from harness.records import Ints
from harness.scoring import MOST_CORRECT
from harness.scoring.metrics import SHARES, Outcomes, budgets, size_of
from harness.system import json_text
from harness.system.files import READ_ONLY, write_parts
from harness.system.json_text import canonical_json, digest

from . import inert_text

SCHEMA = 3
KIND = "diversity-harness cell"

Cell = dict[str, Any]

# What a cell holds, as `misfit` reads it. Labels are the fields of `Row` by which it is named.
_TEXT, _COUNT, _OBJECT, _CHANCES = (str, NoneType), (int, NoneType), {"*": object}, {"*": (float, int)}
LABELS: dict[str, type] = dict.fromkeys(("task", "split", "model", "engine", "sampler", "embedder", "selector"), str)
LABELS |= dict.fromkeys(("trials", "seed"), int)
_SHAPE = {
    "kind": str,
    "schema": int,
    "labels": LABELS,
    "grader": str,
    "inputs": {
        "pool": {"key": str, "n?": _COUNT, "task?": (str, dict, NoneType), "revision?": _TEXT},
        "verdict": {"given": bool, "task?": _TEXT, "grader?": _TEXT},
        "ranking": {
            "n": _COUNT,
            "selector": {"name": str, "params": _OBJECT, "dist": str, "code": str},
            **{"learns?": bool, "correct?": int, "enrichment?": bool},
        },
        "embedding?": _OBJECT,
        "score?": _OBJECT,
    },
    "control?": bool,  # of a control: whether it was ranked beside others, not by its name; in no key
    "from?": str,  # the hash of the files of its store; not published
    "config?": _OBJECT,
    "versions": {"*": str},
    "hardware": _OBJECT,
    "weights?": [_OBJECT],
    "conditions?": {"*": [str]},
    "failed?": str,
    "checksum": str,
    "problems": [
        {
            "id": str,
            **dict.fromkeys(("n?", "c?", "errors?"), int),
            "disputed?": _COUNT,
            "routes?": {"*": int},
            "chance?": [int],
            "maj_at_k?": _CHANCES,
            "best_of_k?": {"*": _CHANCES},
            "answering?": [(float, int)],
            "ranks?": [int],
            "orders?": [[int]],
            "found?": [[int]],
            "hits?": {"*": [bool]},
        }
    ],
}
_WORDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
_WORDS |= {list: "a list", dict: "an object", NoneType: "null"}


def misfit(value: Any, shape: Any, place: str = "") -> str:
    """What is wrong with a JSON value, in one line; "" if nothing is.

    shape  a type, several, or `object` for any; [the shape of each entry]; {"*": the shape of each value}; or
           {name: shape}, where a name with "?" may be absent, and others may be there
    """
    if shape is object:
        return ""
    kinds = shape if isinstance(shape, tuple) else (shape,) if isinstance(shape, type) else (type(shape),)
    if type(value) not in kinds:
        return f"{place!r:.80}: expected {' or '.join(_WORDS[kind] for kind in kinds)}, got {value!r:.80}"
    parts: Iterable[tuple[Any, Any, Any]] = ()
    if isinstance(shape, list):
        plain = isinstance(shape[0], type) and set(map(type, value)) <= {shape[0]}  # most lists: looked at at once
        parts = () if plain else ((at, each, shape[0]) for at, each in enumerate(value))
    elif isinstance(shape, dict) and "*" in shape:
        parts = ((name, each, shape["*"]) for name, each in value.items())
    elif isinstance(shape, dict):
        names = [(name.removesuffix("?"), each) for name, each in shape.items()]
        lacking = next((name for name in shape if name[-1] != "?" and name not in value), None)
        if lacking:
            return f"{f'{place}.{lacking}'.lstrip('.')!r}: is missing"
        parts = ((name, value[name], each) for name, each in names if name in value)
    return next(filter(None, (misfit(each, inner, f"{place}.{at}".lstrip(".")) for at, each, inner in parts)), "")


LIBRARIES = (
    *("diversity-harness", "numpy", "scipy", "scikit-learn", "torch", "transformers"),
    *("vllm", "evalplus", "sentence-transformers", "kmedoids"),
)


def made_with(plugins: Iterable[str]) -> dict[str, Any]:
    """What a cell says of the run: {"versions": name -> version, "hardware": properties of the machine that ranked}.

    Versions are those of Python, `LIBRARIES`, and these distributions. GPUs are listed if torch is imported already.
    """
    versions = {"python": platform.python_version()}
    for name in dict.fromkeys([*LIBRARIES, *plugins]):
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    processor, memory_gb, cores = platform.processor(), None, os.cpu_count()
    with suppress(OSError):
        named = re.search(r"^(?:model name|Model)\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.M)
        processor = named[1].strip() if named else processor
    with suppress(AttributeError, ValueError, OSError):  # not on every system
        memory_gb = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1)
    torch = sys.modules.get("torch")
    gpus = range(torch.cuda.device_count()) if torch and torch.cuda.is_available() else ()
    hardware = {
        "machine": platform.machine(),
        "system": platform.system(),
        "cpu": processor,
        "cores": cores,
        "cores_usable": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores,
        "memory_gb": memory_gb,
        "gpus": [torch.cuda.get_device_name(place) for place in gpus] if torch else [],
    }
    return {"versions": versions, "hardware": hardware}


def without_orders(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A problem's entry without its orders, most of a cell's size, which enter no metric."""
    return {name: value for name, value in entry.items() if name != "orders"}


def is_random(cell: Mapping[str, Any]) -> bool:
    """Whether the cell was made with untrained model weights: it is then a test and not a result."""
    return any(weights.get("is_random") for weights in cell.get("weights", ()))


def grader(cell: Mapping[str, Any]) -> str:
    """The grader: the task and its grader's version, or the maker of an imported pool."""
    verdict = cell["inputs"]["verdict"]
    return "the pool's maker" if verdict["given"] else f"{verdict['task']} {verdict['grader']}"


def correct(cell: Mapping[str, Any]) -> int:
    """Which correct response its orders go to, and its metrics are of: the first, the second, ..."""
    return int(cell["inputs"]["ranking"].get("correct", 1))


def outcomes(cell: Mapping[str, Any]) -> Outcomes:
    """A cell's outcomes as arrays."""
    entries, m = cell["problems"], correct(cell)
    n, c, errors = (np.array([entry[name] for entry in entries], np.int64) for name in ("n", "c", "errors"))
    if "hits" in entries[0]:
        ks = sorted({int(k) for entry in entries for k in entry["hits"]})
        hits = {k: np.array([entry["hits"][str(k)] for entry in entries if str(k) in entry["hits"]]) for k in ks}
        return Outcomes(n, c, errors, hits=hits, correct=m)
    ranks, counts = np.array([entry["ranks"] for entry in entries], np.int64), dict[float, Ints]()
    if cell["inputs"]["ranking"].get("enrichment"):
        within = min(_known(entry, m) for entry in entries)
        for k in (*(k for k in budgets(int(n.min())) if k <= within), *SHARES):
            sizes = [k if k >= 1 else size_of(k, entry["n"]) for entry in entries]
            pairs = zip(sizes, entries, strict=True)
            counts[k] = np.array([[bisect_right(hits, size) for hits in entry["found"]] for size, entry in pairs])
    return Outcomes(n, c, errors, ranks, correct=m, counts=counts or None)


def lengths(entry: Mapping[str, Any], ranking: Mapping[str, Any]) -> list[int]:
    """How long the order of each trial is, in a cell with these inputs of its ranking; [] if no order is kept."""
    m = int(ranking.get("correct", 1))
    if ranking.get("enrichment"):
        return _kept(entry, m) if entry["c"] else []
    return list(entry["ranks"]) if entry["c"] >= m else []


def _kept(entry: Mapping[str, Any], m: int) -> list[int]:
    """How long each trial's order is, in a cell with enrichment factors."""
    least = size_of(max(SHARES), entry["n"])
    return [max(least, rank) if entry["c"] >= m else least for rank in entry["ranks"]]


def _known(entry: Mapping[str, Any], m: int) -> int:
    """The largest k for which the hits among the first k are known in all trials."""
    pairs = zip(entry["found"], _kept(entry, m), strict=True)
    return min(entry["n"] if len(hits) == entry["c"] else length for hits, length in pairs)


def resampling_seed(*cells: Mapping[str, Any]) -> int:
    """The seed of the resampling of some cells, in any order: a hash of their outcomes, so no key moves an interval."""
    hashes = [
        digest([[e["id"], e["n"], e["c"], e["errors"], e.get("ranks") or e["hits"]] for e in cell["problems"]])
        for cell in cells
    ]
    return int(hashes[0][:8] if len(hashes) == 1 else digest(sorted(hashes), 8), 16)


# Writing.


def key_of(cell: Mapping[str, Any]) -> str:
    """The cell's name: the hash of its inputs and of its problems' ids."""
    return digest({**cell["inputs"], "problems": [entry["id"] for entry in cell["problems"]]})


def checksum(cell: Mapping[str, Any]) -> str:
    """The hash of a cell's content, without the checksum itself: 32 hex digits of the SHA-256 of its canonical JSON.

    `problems` may be an iterator: no two of its entries are in memory at once.
    """
    about = {name: value for name, value in cell.items() if name != "checksum"} | {"problems": "\0"}
    before, _, after = canonical_json(about).partition('"problems":"\\u0000"')
    sums = hashlib.sha256(f'{before}"problems":['.encode("utf-8", "surrogatepass"))
    for place, entry in enumerate(cell["problems"]):
        sums.update(f"{',' if place else ''}{canonical_json(entry)}".encode("utf-8", "surrogatepass"))
    sums.update(f"]{after}".encode("utf-8", "surrogatepass"))
    return sums.hexdigest()[:32]


def rendered(cell: Mapping[str, Any]) -> tuple[str, list[bytes]]:
    """A cell's key, and the parts of its file: a problem a line, so that versions are easy to compare.

    `problems` may be an iterator: only the lines of its entries are kept in memory.
    """
    about = {name: value for name, value in cell.items() if name not in ("problems", "checksum")}
    ids: list[dict[str, str]] = []
    lines: list[bytes] = []

    def noted() -> Iterator[Mapping[str, Any]]:
        for entry in cell["problems"]:
            line = json.dumps(entry, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
            lines.append(f"{',' if ids else ''}\n  {line}".encode())
            ids.append({"id": entry["id"]})
            yield entry

    total = checksum({**about, "problems": noted()})
    head = json.dumps({**about, "checksum": total}, indent=1, ensure_ascii=False, allow_nan=False)
    return key_of({**about, "problems": ids}), [f'{head[:-2]},\n "problems": ['.encode(), *lines, b"\n ]\n}\n"]


def write(folder: Path, cell: Mapping[str, Any]) -> str:
    """Write a cell, whose `problems` may be an iterator, to FOLDER/KEY.json, and return its key.

    In a read-only store nothing is written, which is an error only if the cell is not there yet.
    """
    key, parts = rendered(cell)
    path = folder / f"{key}.json"
    try:
        write_parts(path, parts)
    except HarnessError as failure:
        if getattr(failure.__cause__, "errno", None) not in READ_ONLY or not path.exists():
            raise
    return key


def as_published(cell: Cell) -> Cell:
    """The cell without `from` and the folders of absolute paths: its key may change, its checksum stays."""
    kept = {name: value for name, value in cell.items() if name not in ("from", "problems")}
    return {**inert_text.without_folders(kept), "problems": cell["problems"]}


# Reading.


def read(path: Path) -> Cell:
    """Read the cell in a JSON file; HarnessError (one line) if it is not a cell or cannot be trusted."""
    return checked(json_text.read(path, "cell", "copy it anew"), path.stem, path)


def checked(cell: Any, key: str, where: object) -> Cell:
    """The value, if it is a cell with that key; else HarnessError (one line), which says where it is.

    It may be a stranger's, and a checksum can be forged: so a cell that contradicts itself is refused too.
    """
    if not isinstance(cell, dict) or cell.get("kind") != KIND:
        raise HarnessError(f"cell {where}: is no cell; move it elsewhere")
    if (schema := cell.get("schema")) != SCHEMA:
        raise HarnessError(f"cell {where}: is of schema {schema!r}, and this version reads {SCHEMA}: run it again")
    if fault := misfit(cell, _SHAPE):
        raise HarnessError(f"cell {where}: {fault}; copy it anew, or run it again")
    if cell["checksum"] != checksum(cell):
        raise HarnessError(f"cell {where}: was edited or cut after it was measured; copy it anew, or run it again")
    try:
        fault = next((fault for holds, fault in _requirements(cell) if not holds), "")
    except KeyError as failure:
        fault = f"KeyError: {failure}"
    if fault:
        raise HarnessError(f"cell {where}: does not add up ({fault:.200})")
    if key != key_of(cell):
        raise HarnessError(f"cell {where}: is named otherwise than its inputs ({key_of(cell)}); rename it")
    return cell


def _requirements(cell: Cell) -> Iterator[tuple[object, str]]:
    """What must hold of a cell, and what to say if it does not."""
    yield cell["problems"], "it has no problems"
    verdict, ids = cell["inputs"]["verdict"], [entry["id"] for entry in cell["problems"]]
    yield verdict["given"] or (verdict.get("task") and verdict.get("grader")), "it does not name its grader"
    yield len(set(ids)) == len(ids), "a problem occurs twice"
    if "failed" in cell:
        return
    yield "conditions" in cell, "it does not name its conditions"
    yield len({"hits" in entry for entry in cell["problems"]}) == 1, "some problems have ranks, others hits"
    trials, m, ranking = cell["labels"]["trials"], correct(cell), cell["inputs"]["ranking"]
    yield trials >= 1, "it has no trials"
    yield 1 <= m <= MOST_CORRECT, f"it counts to correct response {m}"
    for entry in cell["problems"]:
        n, c, where = entry["n"], entry["c"], f"problem {entry['id']!r}"
        yield 1 <= n < 2**31 and 0 <= c <= n and 0 <= entry["errors"] <= n - c, f"{where}: n, c or errors"
        ks = set(map(str, budgets(n)))
        yield 0 <= (entry["disputed"] or 0) <= n, f"{where}: disputed grades"
        yield sum(entry["routes"].values()) == c, f"{where}: routes"
        right, gradings = entry.get("chance", (0, 0))
        yield 0 <= right <= gradings, f"{where}: chance"
        chosen = [*([entry["maj_at_k"]] if "maj_at_k" in entry else []), *entry["best_of_k"].values()]
        for chances in chosen:
            yield chances.keys() == ks, f"{where}: budgets of maj@k or best-of-k"
            yield all(0 <= chance <= 1 for chance in chances.values()), f"{where}: maj@k or best-of-k"
        responses, cpu_s = entry.get("answering", (n, 0))
        yield responses >= n and cpu_s >= 0, f"{where}: answering"
        if "hits" in entry:
            yield entry["hits"].keys() == ks, f"{where}: budgets"
            yield all(len(hits) == trials for hits in entry["hits"].values()), f"{where}: trials"
        else:
            yield len(entry["ranks"]) == trials, f"{where}: trials"
            first, last = (m, n - c + m) if c >= m else (n + 1, n + 1)
            yield all(first <= rank <= last for rank in entry["ranks"]), f"{where}: ranks"
            if ranking.get("enrichment"):
                yield len(entry["found"]) == trials, f"{where}: trials"
                for rank, length, hits in zip(entry["ranks"], _kept(entry, m), entry["found"], strict=True):
                    yield hits == sorted({*hits}) and all(1 <= hit <= length for hit in hits), f"{where}: found"
                    yield len(hits) <= c and (hits[m - 1 : m] or [n + 1]) == [rank], f"{where}: found and ranks"
            yield list(map(len, entry["orders"])) == lengths(entry, ranking), f"{where}: orders and ranks"
