"""Single bits flipped in every kind of file of a small store, each time the tables made anew: the same, or one line.

    python tests/campaigns/bit_flips.py [--flips 2000] [--damage flip|cut|swap]

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

RESULTS = {"cells": cells.read, stopping_times.FOLDER: stopping_times.read}
FINE = ("same", "one line", "made again")

# Which columns are made from a file of a kind. A cell is made from all.
AFTER = {"responses": ("vectors", "verdicts", "audits", "chance", "orders", "choices")}
AFTER |= {"vectors": ("orders",), "verdicts": ("orders", "choices"), "memo": ("verdicts", "orders", "choices")}


class Heard(Progress):
    """Notes whether something was made again."""

    again = False

    def say(self, line: str) -> None:
        self.again |= line.endswith("is damaged: it is made again")


def kind_of(path: Path) -> str:
    """The kind of a file, by its path in the store: of a column's rows the column's, of a memo's lines the memo's."""
    if len(path.parts) == 3 and path.name != "column.json":
        return path.parent.name.split(".")[0]
    return path.parts[0] if path.parts[0] in RESULTS else path.name.split(".")[0]


Damage = Callable[[random.Random, bytes, "Campaign"], bytes]


class Campaign:
    """A store, its tables, and what damage does to them."""

    def __init__(self, folder: Path) -> None:
        self.store, self.whole, pool = folder / "runs", folder / "whole", folder / "pool.jsonl"
        answers = {"responses": ["aa", "bd", "ee"]}
        lines = [{"problem_id": f"p{i}", **answers, "correct": [i > 0, False, True]} for i in (0, 1)]
        pool.write_text("\n".join(map(json.dumps, lines)) + "\n")
        plugins = {"plugin_files": (TOY,), "store": self.store}
        toy = {**plugins, "engine": "toy", "n": 8, "data": Path("3")}
        self.runs = [  # sampled and audited, measured, imported
            RunConfig(selectors=("spread", "head"), task="keyed", audit=True, **toy),
            RunConfig(selectors=("shuffle",), task="measured", **toy),
            RunConfig(selectors=("spread",), pool=pool, embedder="letters", **plugins),
        ]
        self.sequence = RunConfig(task="colours", until_correct=True, **(toy | {"n": 40}))
        self.tables = self.made(Heard(quiet=True))
        shutil.copytree(self.store, self.whole)
        every = sorted(self.whole.rglob("*"))
        self.files = [path.relative_to(self.whole) for path in every if path.is_file() and path.stat().st_size]
        self.kinds: dict[str, list[Path]] = {}
        for path in self.files:
            self.kinds.setdefault(kind_of(path), []).append(path)

    def made(self, progress: Progress) -> str:
        """All that is shown of the store, as one text; a HarnessError is raised, also that of a selector's row."""
        shown = [until_correct.run(self.sequence, progress)]
        for config in self.runs:
            rows, failures = pipeline.run(config, progress)
            if failures:
                raise HarnessError(next(iter(failures.values())))
            shown += [row.to_json() for row in rows]
        for stored in map(StoredPool, pool_keys(self.store).values()):
            for name in sorted(stored.questions):
                shown += stored.rows("responses", stored.questions[name], {}).to_pylist()
        return json.dumps(shown, sort_keys=True)

    def case(self, rng: random.Random, damage: Damage) -> tuple[str, str]:
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
            if path.parts[0] in RESULTS:
                read = RESULTS[path.parts[0]]
                return "same" if read(self.store / path) == read(self.whole / path) else "SILENT"
            progress = Heard(quiet=True)
            same = self.made(progress) == self.tables
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
            (self.store / path).write_bytes((self.whole / path).read_bytes())


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


def outcomes(folder: Path, cases: int, seed: int, damage: Damage = flip) -> Counter[tuple[str, str]]:
    """How often which outcome came of damage to which kind of file. What is installed is looked up once."""
    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(plan, "forget"))
        patches.enter_context(mock.patch.object(cells, "version", functools.cache(cells.version)))
        campaign, rng = Campaign(folder), random.Random(seed)
        return Counter(campaign.case(rng, damage) for _ in range(cases))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flips", type=int, default=2000)
    parser.add_argument("--damage", choices=("flip", "cut", "swap"), default="flip")
    args = parser.parse_args()
    damage = {"flip": flip, "cut": cut, "swap": swap}[args.damage]
    started = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        counts = outcomes(Path(folder), args.flips, 0, damage)
    for (kind, outcome), count in sorted(counts.items()):
        print(f"{kind:14} {outcome:10} {count}")
    bad = sum(count for (_, outcome), count in counts.items() if outcome not in FINE)
    print(f"{args.flips} cases, {bad} bad, {time.process_time() - started:.0f} CPU s")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
