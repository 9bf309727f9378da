"""Peak memory of a whole run at 50 and at 1,000 problems: it must not grow with their number.

`python tests/bench/memory.py`: the toy engine (no torch) with n = 128 responses of width 256 a problem, so that keeping
every pool would cost 1,000 x 128 x 256 x 4 bytes = 131 MB.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

TOY = Path(__file__).parents[1] / "toy.py"


def peak_mb(problems: int) -> float:
    """Peak resident memory, in MB, of `harness run` over so many problems, in a process of its own."""
    with tempfile.TemporaryDirectory() as store:
        command = [sys.executable, "-m", "harness", "run", "--task", "colours", "--plugin", str(TOY), "--store", store]
        command += ["--data", str(problems), "--n", "128", "--engine", "toy:width=256", "--executor", "local:workers=1"]
        command += ["--selector", "repexp", "--selector", "uniform", "--json"]
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            sys.exit(f"harness run failed with {child.returncode}")
        return usage.ru_maxrss / 1024


def main() -> None:
    """Print both peaks and their ratio."""
    few, many = peak_mb(50), peak_mb(1000)
    print(f"peak memory: {few:.0f} MB at 50 problems, {many:.0f} MB at 1,000: ratio {many / few:.3f}")


if __name__ == "__main__":
    main()
