"""How long `harness --help` takes, process start included, beside a bare interpreter: `python tests/bench/start.py`."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.benches import sizes


def seconds(*args: str) -> float:
    """Wall time of one process."""
    started = time.perf_counter()
    subprocess.run([sys.executable, *args], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


if __name__ == "__main__":
    turns = range(sizes(__doc__, runs=(15, 1)).runs)
    pairs = [(seconds("-m", "harness", "--help"), seconds("-c", "pass")) for _ in turns]
    ours, bare = map(median, zip(*pairs, strict=True))
    print(f"harness --help: {ours:.3f} s (a bare interpreter: {bare:.3f} s)")
