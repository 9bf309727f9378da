"""Put controls of pools that were made again beside the cells that are published of these pools.

    python -m studies.controls STORE... --out NEW      then: harness results publish --store NEW --to results/pools

A pool's key also depends on the version of the harness that made it. So a control ranked today names its pool otherwise
than the published cells do, though the pool is the same. Here it takes the published names of pool, vectors and
verdicts, if the pool is told to be the same: all problems have as many correct responses, and the selectors that are in
both came to the same orders on 98 % of the problems. A control that is published
as a row (`length`) takes that row's place: delete the older cell, of other code (`harness results delete`).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.results import cells
from harness.results.cells import Cell
from harness.results.published import places, read

SAME = ("task", "model", "sampler", "seed")
NEARLY = 0.98  # of the problems: near ties of vectors (RepExp's) differ between processors, behaviour in slow programs


def place(cell: Cell) -> tuple[Any, ...]:
    """What names a cell's pool in any version."""
    return (*(cell["labels"][name] for name in SAME), [(e["id"], e["n"], e["c"]) for e in cell["problems"]])


def beside(control: Cell, published: list[Cell], store: list[Cell]) -> Cell:
    """The control's cell with the published names of its inputs; HarnessError if the pool is another one."""
    of_pool = [cell for cell in published if place(cell) == place(control)]
    wanted = control["labels"]["embedder"]
    named = next((cell for cell in of_pool if wanted in ("none", cell["labels"]["embedder"])), None)
    if named is None:
        raise HarnessError(
            f"{control['labels']}: no published cell has the same problems, correct responses and vectors"
        )
    pairs = [
        sum(a.get("orders") == b.get("orders") for a, b in zip(old["problems"], new["problems"], strict=True))
        for old in of_pool
        for new in store
        if place(new) == place(old)
        and all(old["labels"][name] == new["labels"][name] for name in ("selector", "embedder", "trials"))
    ]
    total = len(control["problems"])
    worst = min(pairs, default=0)
    print(f"{control['labels']['selector']} · {wanted}: {len(pairs)} selectors, {worst} to {total} of {total} orders")
    if not pairs or worst < NEARLY * total:
        raise HarnessError(f"{control['labels']}: the orders of its pool are not the published ones")
    inputs = {name: named["inputs"][name] for name in ("pool", "verdict")}
    ranking = {**control["inputs"]["ranking"], "pool": inputs["pool"]["key"], "verdict": inputs["verdict"]["key"]}
    if wanted != "none":
        inputs["embedding"] = named["inputs"]["embedding"]
        ranking["embedding"] = inputs["embedding"]["key"]
    kept = {name: value for name, value in control.items() if name != "from"}
    rows = {cell["labels"]["selector"] for cell in of_pool if not cell.get("control")}
    return {**kept, "control": control["labels"]["selector"] not in rows, "inputs": {**inputs, "ranking": ranking}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stores", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--results", type=Path, default=Path("results"))
    given = parser.parse_args()
    published, store = (
        [read(place) for place in places(folders)]
        for folders in ([given.results / "pools", given.results / "factors"], given.stores)
    )
    for cell in store:
        if "control" in cell:
            try:
                print(cells.write(given.out / "cells", beside(cell, published, store)))
            except HarnessError as refused:
                print(f"left out: {refused}")


if __name__ == "__main__":
    main()
