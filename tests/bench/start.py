"""How long `harness --help` takes, process start included: at most 0.3 s.

`python tests/bench/start.py`: medians of 15, beside a bare interpreter's start in the same run.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.bench_sizes import parsed


def seconds(*args: str) -> float:
    """Wall time of one process."""
    started = time.perf_counter()
    subprocess.run([sys.executable, *args], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> None:
    """Interleave the two and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=15)
    bare, ours = [], []
    for _ in range(parsed(parser, runs=1).runs):
        bare.append(seconds("-c", "pass"))
        ours.append(seconds("-m", "harness", "--help"))
    print(f"harness --help: {statistics.median(ours):.3f} s (a bare interpreter: {statistics.median(bare):.3f} s)")


if __name__ == "__main__":
    main()
