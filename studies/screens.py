"""The screens of docs/screens.md: published assays as pools of molecules, cut in two halves, and the runs on them.

    python -m studies.screens DATA              all of it: the pools into studies/data, then every run, into runs/
    python -m studies.screens DATA --only hiv   one screen

DATA is a folder with hiv.csv.gz, tox21.csv.gz and muv.csv.gz of github.com/deepchem/deepchem (studies/README.md).
What is chosen (a selector, rows, vectors) is chosen on the half `choose`, and reported on the half `held`. HALVES fixed
them before any run: of Tox21 and MUV half of the assays, of HIV half of the compounds.

A run that is done is not made again: the same command goes on after a kill.
"""

from __future__ import annotations

import argparse
import csv
import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import harness

HALVES = 20261128  # the seed of the halves and of the compounds of each pool
HALF = ("choose", "held")
SELECTORS = ("repexp", "kcenter", "kmeans-pp", "dpp-map", "facility-location", "gp-ucb")
ON_BITS = ("facility-location:similarity=tanimoto", "gp-ucb:kernel=tanimoto")  # and on counts
QUICK = ("repexp", "kcenter")  # that take seconds for the head of an order of 14,700
VECTORS = ("morgan", "morgan:counts=true", "rdkit-descriptors")


class Screen(NamedTuple):
    """How a file becomes pools.

    assays    the columns that are outcomes; (): all but the SMILES and the name
    pools     disjoint pools that each assay's compounds are cut into
    size      compounds of a pool, taken at random; None: all
    """

    assays: Sequence[str]
    pools: int
    size: int | None


SCREENS = {
    "hiv": Screen(("HIV_active",), 20, 1000),
    "tox21": Screen((), 1, 1000),
    "muv-3000": Screen((), 1, 3000),
    "muv": Screen((), 1, None),
}


def pools(data: Path, name: str) -> Iterator[tuple[str, str, list[tuple[str, str, str]]]]:
    """Yield the half, the id and the rows (name, SMILES, 0 or 1) of each pool of a screen, halves by HALVES."""
    screen, rng = SCREENS[name], np.random.default_rng([HALVES, *name.encode()])
    with gzip.open(data / f"{name.partition('-')[0]}.csv.gz", "rt", newline="") as file:
        rows = [{"mol_id": f"{name}-{line}", **row} for line, row in enumerate(csv.DictReader(file), 2)]
    assays = screen.assays or [column for column in rows[0] if column not in ("smiles", "mol_id")]
    cut = []
    for assay in assays:
        tested = [row for row in rows if row[assay] in ("0", "1")]
        order = rng.permutation(len(tested))
        size = screen.size or len(tested)
        for part in range(screen.pools):
            chosen = [tested[place] for place in order[part * size : (part + 1) * size]]
            given = [(row["mol_id"], row["smiles"], row[assay]) for row in chosen]
            cut.append((f"{assay}-{part:02}" if screen.pools > 1 else assay, given))
    first = set(rng.permutation(len(cut))[: (len(cut) + 1) // 2].tolist())
    for place, (problem, given) in enumerate(cut):
        yield HALF[place not in first], problem, given


def write(data: Path, name: str, to: Path) -> None:
    """Write the pools of a screen: NAME-choose.csv and NAME-held.csv, unless they are there."""
    to.mkdir(parents=True, exist_ok=True)
    if all((to / f"{name}-{half}.csv").exists() for half in HALF):
        return
    given = list(pools(data, name))
    for half in HALF:
        with (to / f"{name}-{half}.csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["problem_id", "name", "smiles", "active"])
            table.writerows([problem, *row] for of, problem, rows in given if of == half for row in rows)


def main() -> None:
    """Write the pools and make the runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--only", choices=SCREENS, nargs="*", default=list(SCREENS))
    parser.add_argument("--to", type=Path, default=Path("studies/data"))
    options = parser.parse_args()
    for name in options.only:
        write(options.data, name, options.to)
        for half in HALF:
            for correct in (1, 10):
                for unit in (False, True):
                    for embedder in VECTORS if name != "muv" else VECTORS[:1]:
                        on_bits = ON_BITS if embedder.startswith("morgan") and not unit else ()
                        results = harness.run(
                            pool=options.to / f"{name}-{half}.csv",
                            selectors=list(QUICK if name == "muv" else SELECTORS + on_bits),
                            embedder=embedder,
                            unit=unit,
                            correct=correct,
                            enrichment=True,
                            trials=1,
                            skip_unreadable=True,
                            yes=True,
                        )
                        print(f"{name}, half {half}, {'unit' if unit else 'raw'} rows, to correct response {correct}")
                        print(results)


if __name__ == "__main__":
    main()
