"""Peak memory of commands at 100 and 1,000 problems, with `--full` at 5,000 too: it must not grow with them.

    python tests/bench/memory.py [--n 32] [--full]

The toy engine needs no torch. A peak is the kernel's high-water mark of the command's largest process.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.benches import sizes
from support.paths import TOY
from support.processes import harness_command


def peak_mb(*args: object) -> float:
    """MB of one `harness` command in a process of its own."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    _, status, usage = os.wait4(subprocess.Popen(harness_command(*args), **quiet).pid, 0)
    assert status == 0, f"harness {args[0]} failed"
    return usage.ru_maxrss / 1024


def main() -> None:
    """A line a command: MB at each size, the last over the first, and bytes for each further problem."""
    options = sizes(__doc__, n=(32, 4), full=(False, False))
    counts = [2] if options.smallest else [100, 1000, *([5000] if options.full else [])]
    peaks: dict[str, list[float]] = {}
    for count in counts:
        with tempfile.TemporaryDirectory() as store:
            run = ["run", "--task", "colours", "--engine", "toy", "--plugin", TOY, "--store", store, "--json"]
            run += ["--data", count, "--n", options.n, "--executor", "local:workers=1", "--selector", "repexp"]
            for name, command in {
                "run": run,
                "run, a second embedder": [*run, "--embedder", "letters"],
                "run, all there": run,
                "report": ["report", "--store", store, "--plugin", TOY],
                "leaderboard": ["leaderboard", f"{store}/cells", "--quiet"],
            }.items():
                peaks.setdefault(name, []).append(peak_mb(*command))
    print(f"peak MB, n = {options.n}: {', '.join(map(str, counts))} problems")
    for name, (first, *_, last) in ((name, [*each, each[-1]]) for name, each in peaks.items()):
        growth = 1024**2 * (last - first) / max(1, counts[-1] - counts[0])
        shown = "  ".join(f"{peak:6.0f}" for peak in peaks[name])
        print(f"  {name:24} {shown}  ratio {last / first:.3f}, {growth:+,.0f} bytes a problem")


if __name__ == "__main__":
    main()
