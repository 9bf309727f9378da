"""Kill runs in each stage, continue them, compare: `python tests/campaigns/kills.py [--times 10] [WORD ...]`.

Everything is seen from outside. A stage is a kind of folder below the store, its name without hashes, as a run that is
left alone leaves it; a WORD keeps the stages whose name holds it. For each stage a run is ended by SIGKILL when some of
its files are there (how many, and how much later, is random), the same command is given again, and all rows and all
entries of cells are compared with those of the run that was left alone. `--files` compares the stores' files too, byte
by byte. Options after `--` replace those of the run. Exit code 1 where something differs.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.golden import ENVIRONMENT, differences, run  # the folder of tests comes first
from support.processes import harness_command

OPTIONS = ("--task", "game24", "--limit", "24", "--n", "16")
OPTIONS += ("--selector", "repexp", "--selector", "gp-ucb", "--selector", "kmeans", "--selector", "uniform")
HASH = re.compile(r"[0-9a-f]{8,}")


def files_of(store: Path) -> dict[str, Path]:
    """Relative path -> path of each file of a store, but for hidden ones."""
    paths = (path for path in store.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {path.relative_to(store).as_posix(): path for path in paths}


def stage_of(name: str) -> str:
    """The folders of a file without hashes: `ranking`, `game24/orders.repexp`."""
    parts = [HASH.sub("", part).strip(".-_") for part in name.split("/")[:-1]]
    return "/".join(part for part in parts if part)


def killed(store: Path, options: Sequence[str], stage: str, files: int, delay_s: float) -> bool:
    """Whether a run was killed `delay_s` after the stage had so many files; False: it had ended before."""
    command = harness_command("run", "--yes", "--store", store, *options)
    process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None:
        if sum(stage_of(name) == stage for name in files_of(store)) >= files:
            time.sleep(delay_s)
            process.kill()
            break
        time.sleep(0.002)
    return process.wait() < 0


def unequal_files(store: Path, other: Path) -> list[str]:
    """The files that only one store has, or that differ."""
    ours, theirs = files_of(store), files_of(other)
    same = {name for name in ours.keys() & theirs.keys() if ours[name].read_bytes() == theirs[name].read_bytes()}
    return sorted((ours.keys() | theirs.keys()) - same)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="WORD", help="only stages whose name holds one of these")
    parser.add_argument("--times", type=int, default=10, help="kills in each stage")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--files", action="store_true", help="compare the files of the stores too")
    before, _, after = " ".join(sys.argv[1:]).partition(" -- ")
    given, options = parser.parse_args(before.split()), after.split() or OPTIONS
    rng, failures = random.Random(given.seed), 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        expected = list(run(folder, *options, store="alone"))
        stages = Counter(map(stage_of, files_of(folder / "alone")))
        print("stages:", ", ".join(f"{stage} {files}" for stage, files in sorted(stages.items())), flush=True)
        for stage, files in sorted(stages.items()):
            if given.words and not any(word in stage for word in given.words):
                continue
            outcomes: Counter[str] = Counter()
            for _ in range(given.times):
                wanted = rng.randint(1, files)
                was_killed = killed(folder / "killed", options, stage, wanted, rng.uniform(0, 0.05))
                lines = differences(expected, list(run(folder, *options, store="killed")))
                if given.files:
                    lines += [f"file {file}" for file in unequal_files(folder / "alone", folder / "killed")]
                outcomes["ended before its kill" if not was_killed else "differs" if lines else "the same"] += 1
                failures += bool(lines)
                print("".join(f"  {stage}, killed at {wanted} files: {line}\n" for line in lines[:10]), end="")
                shutil.rmtree(folder / "killed")
            print(f"{stage}: {', '.join(f'{count} {what}' for what, count in outcomes.items())}", flush=True)
    raise SystemExit(failures > 0)


if __name__ == "__main__":
    main()
