"""Kill runs in each stage, continue them, compare: `python tests/campaigns/kills.py [--times 10] [WORD ...]`.

Everything is seen from outside. A stage is a kind of folder below the store, its name without hashes, as a run that is
left alone leaves it; a WORD keeps the stages whose name holds it. For each stage a run is ended by SIGKILL when some of
its files are there (how many, and how much later, is random), the same command is given again, and all rows and all
entries of cells are compared with those of the run that was left alone. Exit code 1 where something differs.
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
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.golden import ENVIRONMENT, differences, run  # the folder of tests comes first
from support.processes import harness_command

OPTIONS = ("--task", "game24", "--limit", "24", "--n", "16")
OPTIONS += ("--selector", "repexp", "--selector", "gp-ucb", "--selector", "kmeans", "--selector", "uniform")
HASH = re.compile(r"[0-9a-f]{8,}")


def stages_of(store: Path) -> Counter[str]:
    """How many files each stage has, but hidden ones; a stage is the folders without hashes: `orders.repexp`."""
    names = [path.relative_to(store).parts for path in store.rglob("[!.]*") if path.is_file()]
    return Counter("/".join(filter(None, (HASH.sub("", part).strip(".-_") for part in name[:-1]))) for name in names)


def killed(store: Path, stage: str, files: int, delay_s: float) -> bool:
    """Whether a run was killed `delay_s` after the stage had so many files; False: it had ended before."""
    command = harness_command("run", "--yes", "--store", store, *OPTIONS)
    process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None:
        if stages_of(store)[stage] >= files:
            time.sleep(delay_s)
            process.kill()
            break
        time.sleep(0.002)
    return process.wait() < 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="WORD", help="only stages whose name holds one of these")
    parser.add_argument("--times", type=int, default=10, help="kills in each stage")
    given, rng, failures = parser.parse_args(), random.Random(0), 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        expected = list(run(folder, *OPTIONS, store="alone"))
        stages = stages_of(folder / "alone")
        print("stages:", ", ".join(f"{stage} {files}" for stage, files in sorted(stages.items())), flush=True)
        for stage, files in sorted(stages.items()):
            if given.words and not any(word in stage for word in given.words):
                continue
            outcomes: Counter[str] = Counter()
            for _ in range(given.times):
                wanted = rng.randint(1, files)
                was_killed = killed(folder / "killed", stage, wanted, rng.uniform(0, 0.05))
                lines = differences(expected, list(run(folder, *OPTIONS, store="killed")))
                outcomes["ended before its kill" if not was_killed else "differs" if lines else "the same"] += 1
                failures += bool(lines)
                print("".join(f"  {stage}, killed at {wanted} files: {line}\n" for line in lines[:10]), end="")
                shutil.rmtree(folder / "killed")
            print(f"{stage}: {', '.join(f'{count} {what}' for what, count in outcomes.items())}", flush=True)
    raise SystemExit(failures > 0)


if __name__ == "__main__":
    main()
