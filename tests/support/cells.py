"""Cells made by hand, from ranks or hits, as a run writes them: what tables and comparisons are tested with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.results import cells
from harness.scoring.metrics import budgets
from harness.system.json_text import digest

N = 8


def entry(name: str, ranks: Iterable[int], c: int = 2, n: int = N, **more: Any) -> dict[str, Any]:
    """A problem with the ranks of a ranker's trials; N + 1 where c = 0."""
    ranks = list(ranks)
    orders = [list(range(rank)) for rank in ranks] if c else []
    fixed = {"id": name, "n": n, "c": c, "errors": 0, "disputed": None, "routes": {"-": c} if c else {}}
    return {**fixed, "best_of_k": {}, "ranks": ranks, "orders": orders, **more}


def subset_entry(name: str, first_hits: Iterable[int], c: int = 2, n: int = N) -> dict[str, Any]:
    """A problem of a subset method, whose trials hit from these budgets on."""
    plain = {key: value for key, value in entry(name, [1], c, n).items() if key not in ("ranks", "orders")}
    return plain | {"hits": {str(k): [k >= first for first in first_hits] for k in budgets(n)}}


COUNTED = {"correct": 2, "enrichment": True}  # to the second correct response, and at least to 5 %
TO_THE_SECOND = [
    {**entry("p0", [2, 5], c=3, n=40), "found": [[1, 2], [3, 5]]},
    {**entry("p1", [41, 41], c=1, n=40), "orders": [[0, 1], [2, 3]], "found": [[], [2]]},
    {**entry("p2", [41, 41], c=0, n=40), "found": [[], []]},
]


def cell(
    problems: Iterable[Mapping[str, Any]],
    selector: str = "spread",
    seed: int = 0,
    pool: str = "",
    inputs: Mapping[str, Mapping[str, Any]] | None = None,
    **labels: Any,
) -> dict[str, Any]:
    """A cell of these entries; the pool's key depends on the seed unless `pool` is given. `inputs`: further ones."""
    problems = [dict(problem) for problem in problems]
    first = problems[0]
    trials = len(first["ranks"]) if "ranks" in first else len(next(iter(first.get("hits", {"1": [1]}).values())))
    shared = {"task": "colours", "split": "test", "model": "parrot", "engine": "toy", "sampler": "vanilla"}
    own = {"embedder": "none", "selector": selector, "trials": trials, "seed": seed}
    pool = pool or digest(["pool", seed])
    built = {"name": selector, "params": {}, "dist": "toy", "code": "0"}
    stages: dict[str, dict[str, Any]] = {
        "pool": {"key": pool, "task": {"name": "colours", "revision": "1"}, "n": N, "seed": seed},
        "verdict": {"key": digest(pool), "pool": pool, "task": "colours", "grader": "1", "code": "0", "given": False},
        "ranking": {"key": digest([pool, selector]), "pool": pool, "selector": built, "n": None, "seed": seed},
    }
    for name, values in (inputs or {}).items():
        stages[name] |= values
    about = {"kind": cells.KIND, "schema": cells.SCHEMA, "labels": {**shared, **own, **labels}, "inputs": stages}
    made = {"versions": {"python": "3"}, "hardware": {}, "conditions": {}, "grader": cells.grader(about)}
    whole = {**about, **made, "problems": problems}
    return whole | {"checksum": cells.checksum(whole)}


def failed_cell(selector: str, reason: str) -> dict[str, Any]:
    """A cell that says why a selector has no row."""
    whole = {**cell([{"id": "p0"}], selector), "failed": reason}
    return whole | {"checksum": cells.checksum(whole)}


def keyed(*several: Mapping[str, Any]) -> dict[str, Any]:
    """The cells by their keys."""
    return {cells.key_of(each): each for each in several}


def keep(folder: Path, *several: Mapping[str, Any]) -> list[Path]:
    """Write the cells into a folder; their files."""
    return [folder / f"{cells.write(folder, each)}.json" for each in several]
