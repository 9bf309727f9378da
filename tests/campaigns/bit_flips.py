"""Single bits flipped in every kind of file of a small store, each time the tables made anew: the same, or one line.

    python tests/campaigns/bit_flips.py [--flips 2000] [--seed 0] [--damage flip|cut|swap]

A toy store holds all kinds of columns and memos, what pools and columns say of themselves, an imported pool's index,
cells. What is made from the damaged file is deleted before, so that the file is read. `cut` ends the file early, `swap`
puts another file of the store in its place: another problem's, another column's, another kind's. What a model or a
program need not be paid for again is made again, with a line; the toy's second pass gives other hidden states.
"""

from __future__ import annotations

import argparse
import functools
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

from harness import HarnessError
from harness.columns.stored import StoredPool, pool_keys
from harness.jobs import plan, until_correct
from harness.jobs import run as pipeline
from harness.jobs.options import RunConfig
from harness.results import cells, stopping_times
from harness.system.progress import Progress

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.paths import TOY

FINE = ("same", "one line", "made again")

# Which columns are made from a file of a kind. A cell is made from all.
AFTER = {"responses": ("vectors", "verdicts", "audits", "chance", "orders", "choices")}
AFTER |= {"vectors": ("orders",), "verdicts": ("orders", "choices"), "memo": ("verdicts", "orders", "choices")}


def configs(store: Path, pool: Path) -> list[RunConfig]:
    """The runs that fill the store: sampled and audited, measured, imported."""
    toy = {"plugin_files": (TOY,), "store": store, "n": 8, "data": Path("3")}
    return [
        RunConfig(selectors=("spread", "head"), task="keyed", engine="toy", audit=True, **toy),
        RunConfig(selectors=("shuffle",), task="measured", engine="toy", **toy),
        RunConfig(selectors=("spread",), pool=pool, embedder="letters", plugin_files=(TOY,), store=store),
    ]


def sequence(store: Path) -> RunConfig:
    return RunConfig(
        task="colours", engine="toy", until_correct=True, n=40, data=Path("3"), plugin_files=(TOY,), store=store
    )


class Heard(Progress):
    """Notes whether something was made again."""

    again = False

    def say(self, line: str) -> None:
        self.again |= line.endswith("is damaged: it is made again")


def tables(runs: list[RunConfig], store: Path, progress: Progress) -> str:
    """All that is shown of the store, as one text; a HarnessError is raised, also that of a selector's row."""
    shown = [until_correct.run(sequence(store), progress)]
    for config in runs:
        rows, failures = pipeline.run(config, progress)
        if failures:
            raise HarnessError(next(iter(failures.values())))
        shown += [row.to_json() for row in rows]
    for folder in pool_keys(store).values():
        stored = StoredPool(folder)
        shown += [stored.rows("responses", stored.questions[name], {}).to_pylist() for name in sorted(stored.questions)]
    return json.dumps(shown, sort_keys=True)


def kind_of(path: Path) -> str:
    """The kind of a file, by its path in the store: of a column's rows the column's, of a memo's lines the memo's."""
    if len(path.parts) == 3 and path.name != "column.json":
        return path.parent.name.split(".")[0]
    return path.parts[0] if path.parts[0] in ("cells", stopping_times.FOLDER) else path.name.split(".")[0]


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
        self.tables = tables(self.runs, self.store, Heard(quiet=True))
        shutil.copytree(self.store, self.whole)
        every = sorted(self.whole.rglob("*"))
        self.files = [path.relative_to(self.whole) for path in every if path.is_file() and path.stat().st_size]
        self.kinds: dict[str, list[Path]] = {}
        for path in self.files:
            self.kinds.setdefault(kind_of(path), []).append(path)

    def case(self, rng: random.Random, damage: Callable[[random.Random, bytes, Campaign], bytes]) -> tuple[str, str]:
        """Damage a file of a random kind and make the tables; (its kind, one of `FINE` or what went wrong)."""
        kind = rng.choice(sorted(self.kinds))
        path = rng.choice(self.kinds[kind])
        content = (self.whole / path).read_bytes()
        after = ("cells", *AFTER.get("memo" if path.parts[0] == "memo" else kind, ()))
        for made in (each for name in after if name != kind for each in self.kinds.get(name, ())):
            (self.store / made).unlink()
        (self.store / path).write_bytes(damage(rng, content, self))
        outcome = self._outcome(path)
        self._restore()
        return kind, f"{outcome}: {path}" if outcome not in FINE else outcome

    def _outcome(self, path: Path) -> str:
        try:
            if path.parts[0] == "cells":
                return "same" if cells.read(self.store / path) == cells.read(self.whole / path) else "SILENT"
            if path.parts[0] == stopping_times.FOLDER:
                same = stopping_times.read(self.store / path) == stopping_times.read(self.whole / path)
                return "same" if same else "SILENT"
            progress = Heard(quiet=True)
            same = tables(self.runs, self.store, progress) == self.tables
            if progress.again and (same or kind_of(path) == "vectors"):
                return "made again"
            return "same" if same else "SILENT"
        except HarnessError as failure:
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
    """How often which outcome came of damage to which kind of file. What is installed is looked up once."""
    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(plan, "forget"))
        patches.enter_context(mock.patch.object(cells, "version", functools.cache(cells.version)))
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
    bad = sum(count for (_, outcome), count in counts.items() if outcome not in FINE)
    print(f"{args.flips} cases, {bad} bad, {time.process_time() - started:.0f} CPU s")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
