"""Single bits flipped in every kind of file of a small store, each time the tables made anew: the same, or one line.

    python tests/campaigns/bit_flips.py [--flips 2000] [--seed 0] [--damage flip|cut|swap]

A toy store holds all kinds: responses, vectors, verdicts, audits, orders, choices, sequences, what stands beside them, an
imported pool's index, memo entries, cells. What is made from the damaged file is deleted before, so that the file is
read. `cut` ends the file early, `swap` puts another file of the store in its place: another problem's, another kind's.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from harness import HarnessError
from harness.jobs import run, until_correct
from harness.jobs.options import RunConfig
from harness.results import cells, stopping_times
from harness.system.progress import Progress
from harness_plugins.doctor import damage as doctor

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.paths import TOY

COSTLY = ("responses", "sequences")
AFTER = {  # which columns are made anew after a file was damaged
    "responses": ("vectors", "verdicts", "audits", "chance", "orders", "choices"),
    **dict.fromkeys(("vectors", "scores"), ("orders",)),
    "verdicts": ("audits", "orders", "choices"),
    "memo": ("verdicts", "audits", "orders", "choices"),
}
RECORDS = {"cells": cells.read, stopping_times.FOLDER: stopping_times.read}


def configs(store: Path, pool: Path) -> list[RunConfig]:
    """The runs that fill the store: sampled and audited, measured, imported."""
    toy = {"plugin_files": (TOY,), "store": store, "n": 8, "data": Path("3")}
    return [
        RunConfig(selectors=("spread", "head"), task="keyed", engine="toy", embedder="letters", audit=True, **toy),
        RunConfig(selectors=("shuffle",), task="measured", engine="toy", **toy),
        RunConfig(selectors=("spread",), pool=pool, embedder="letters", plugin_files=(TOY,), store=store),
    ]


def tables(runs: list[RunConfig], store: Path) -> str:
    """All rows of the store, as one text; a HarnessError is raised, also that of a selector's row."""
    toy = {"task": "colours", "engine": "toy", "plugin_files": (TOY,), "store": store, "data": Path("3")}
    shown = [until_correct.run(RunConfig(until_correct=True, n=40, **toy), Progress(quiet=True))]
    for config in runs:
        rows, failures = run.run(config, Progress(quiet=True))
        if failures:
            raise HarnessError(next(iter(failures.values())))
        shown += [row.to_json() for row in rows]
    return json.dumps(shown, sort_keys=True)


def kind_of(path: Path) -> str:
    """What a file of the store is."""
    if path.parts[0] in (*RECORDS, "memo"):
        return path.parts[0]
    return path.parts[1].partition(".")[0] if path.name.count(".") >= 3 and len(path.parts) == 3 else path.name[:6]


class Campaign:
    """A store, its tables, and what damage does to them."""

    def __init__(self, folder: Path) -> None:
        self.store, self.whole = folder / "runs", folder / "whole"
        pool = folder / "pool.jsonl"
        lines = [
            {"problem_id": f"p{i}", "responses": ["aa", "bd", "ee"], "correct": [i > 0, False, True]} for i in (0, 1)
        ]
        pool.write_text("\n".join(map(json.dumps, lines)) + "\n")
        self.runs = configs(self.store, pool)
        self.tables = tables(self.runs, self.store)
        shutil.copytree(self.store, self.whole)
        self.files = sorted(
            path.relative_to(self.whole) for path in self.whole.rglob("*") if path.is_file() and path.stat().st_size
        )
        self.kinds: dict[str, list[Path]] = {}
        for path in self.files:
            self.kinds.setdefault(kind_of(path), []).append(path)

    def case(self, rng: random.Random, damage: Callable[[random.Random, bytes, Campaign], bytes]) -> tuple[str, str]:
        """Damage a file of a random kind and make the tables; (its kind, "same" | "one line" | what went wrong)."""
        kind = rng.choice(sorted(self.kinds))
        path = rng.choice(self.kinds[kind])
        whole = (self.whole / path).read_bytes()
        damaged = damage(rng, whole, self)
        for column in (*AFTER.get(kind, ()), *(() if kind in RECORDS else ("cells",))):
            place = self.store if kind == "memo" or column == "cells" else self.store / path.parts[0]
            for file in [*place.glob(f"**/{column}.*/*.*.*.*"), *place.glob(f"{column}/*")]:
                file.unlink()
        (self.store / path).write_bytes(damaged)
        outcome = "same" if damaged == whole else self._outcome(kind, path)
        self._restore()
        return kind, f"{outcome}: {path}" if outcome not in ("same", "one line") else outcome

    def _outcome(self, kind: str, path: Path) -> str:
        try:
            hashed = path.name.count(".") >= 3 or kind in ("memo", "proble")
            faults = doctor.diagnosis(self.store, Progress(quiet=True))["faults"] if hashed else []
            if hashed and [fault["path"] for fault in faults] != [str(self.store / path)]:
                return "NOT FOUND BY THE DOCTOR"
            if reader := RECORDS.get(kind):
                return "same" if reader(self.store / path) == reader(self.whole / path) else "SILENT"
            same = tables(self.runs, self.store) == self.tables
            return "SILENT" if not same or kind in COSTLY else "same"
        except HarnessError as failure:
            if kind in AFTER and kind not in COSTLY:
                return "NOT MADE AGAIN"
            return "one line" if "\n" not in str(failure) else "SEVERAL LINES"
        except Exception as failure:
            return f"TRACEBACK {type(failure).__name__}: {failure}"

    def _restore(self) -> None:
        wanted = set(self.files)
        for path in self.store.rglob("*"):
            if path.is_file() and path.relative_to(self.store) not in wanted:
                path.unlink()
        for path in self.files:
            content = (self.whole / path).read_bytes()
            if not (self.store / path).exists() or (self.store / path).read_bytes() != content:
                (self.store / path).write_bytes(content)


def flip(rng: random.Random, content: bytes, campaign: Campaign) -> bytes:
    """One bit."""
    flipped = bytearray(content)
    flipped[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    return bytes(flipped)


def cut(rng: random.Random, content: bytes, campaign: Campaign) -> bytes:
    """The file's beginning."""
    return content[: rng.randrange(len(content))]


def swap(rng: random.Random, content: bytes, campaign: Campaign) -> bytes:
    """Another file of the store."""
    return (campaign.whole / rng.choice(campaign.files)).read_bytes()


def outcomes(folder: Path, cases: int, seed: int, damage: Callable = flip) -> Counter[tuple[str, str]]:
    """How often which outcome came of damage to which kind of file."""
    campaign, rng = Campaign(folder), random.Random(seed)
    return Counter(campaign.case(rng, damage) for _ in range(cases))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flips", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--damage", choices=("flip", "cut", "swap"), default="flip")
    args = parser.parse_args()
    damage = {"flip": flip, "cut": cut, "swap": swap}[args.damage]
    started = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        counts = outcomes(Path(folder), args.flips, args.seed, damage)
    for (kind, outcome), count in sorted(counts.items()):
        print(f"{kind:14} {outcome:10} {count}")
    bad = sum(count for (_, outcome), count in counts.items() if outcome not in ("same", "one line"))
    print(f"{args.flips} cases, {bad} bad, {time.process_time() - started:.0f} CPU s")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
