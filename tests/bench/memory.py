"""Peak memory of each stage of a run at 100 and 1,000 problems, with `--full` at 5,000 too: it must not grow with them.

    python tests/bench/memory.py [--full]

Every problem has 32 responses and vectors of width 256. Peaks are the kernel's own high-water marks (VmHWM, set back at
each stage's closing line), summed over the run's process and all its children; the engine is this file's and needs no
torch. Linux only: it reads /proc.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness import Responses, hookimpl

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.benches import sizes
from support.paths import TOY
from support.processes import descendants, harness_command

CLOSING = re.compile(r"^(sample|embed|verify|rank [\w-]+): [\d,]+ \w+ in ")
PLUGINS = ["--plugin", str(TOY), "--plugin", __file__]


@dataclass
class Wide:
    """An engine that holds nothing but what it must give: texts, and one float32 matrix of width 256 a problem."""

    model: str | None = None

    name = "wide"
    steers = False
    states = ("mean",)

    def identity(self):
        return {"engine": "wide"}

    def problems_per_call(self, n):
        return max(1, 256 // n)

    def check(self, prompts, max_tokens):
        return None

    def sample(self, request):
        return [self._responses(request.n, np.random.default_rng(seed), request.report) for seed in request.seeds]

    def _responses(self, n, rng, report):
        words = rng.integers(7, size=n)
        texts = [f"say {('red', 'green', 'blue', 'white', 'black', 'grey', 'pink')[word]}" for word in words]
        vectors = rng.standard_normal((n, 256), dtype=np.float32)
        report(n)
        return Responses(texts, ["stop"] * n, np.full(n, 3), -np.arange(n) / n, [[w] for w in words], {"mean": vectors})


@hookimpl
def register_engines(register):
    register("wide", Wide)


def taken_marks(root: int) -> float:
    """The high-water marks of a process and all below it in MB, summed; they are then set back to what is held now."""
    total = 0
    for pid in (root, *descendants(root)):
        with suppress(OSError):
            status = Path(f"/proc/{pid}/status").read_text()
            Path(f"/proc/{pid}/clear_refs").write_text("5")
            mark = re.search(r"VmHWM:\s+(\d+) kB", status)
            total += int(mark[1]) if mark else 0
    return total / 1024


def peaks(*args: object) -> dict[str, float]:
    """MB by stage of one `harness` command in a process of its own, and of the whole command."""
    child = subprocess.Popen(harness_command(*args), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert child.stderr is not None
    measured: dict[str, float] = {}
    printed = []
    for line in child.stderr:
        printed.append(line)
        if stage := CLOSING.match(line):
            measured[stage[1]] = max(taken_marks(child.pid), measured.get(stage[1], 0))
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"harness {args[0]} failed with {child.returncode}: {''.join(printed[-3:])}")
    return measured | {"whole command": usage.ru_maxrss / 1024}


def stages(problems: int, n: int) -> dict[str, float]:
    """MB by stage of all that is done with so many problems: run, a second embedder, report, leaderboard."""
    with tempfile.TemporaryDirectory() as store:
        common = ["run", "--task", "colours", *PLUGINS, "--json", "--store", store, "--data", problems, "--n", n]
        common += ["--engine", "wide", "--executor", "local:workers=1", "--selector", "repexp"]
        measured = peaks(*common, "--selector", "uniform")
        measured["scores, cells"] = measured.pop("whole command")
        measured["embed"] = peaks(*common, "--embedder", "letters")["embed"]
        measured["run, all there"] = peaks(*common, "--selector", "uniform")["whole command"]
        measured["report"] = peaks("report", "--store", store, *PLUGINS)["whole command"]
        measured["leaderboard"] = peaks("leaderboard", f"{store}/cells", "--quiet")["whole command"]
    return measured


def main() -> None:
    """A line a stage: MB at each size, the last over the first, and bytes for each further problem."""
    options = sizes(__doc__, n=(32, 4), full=(False, False))
    counts = [2] if options.smallest else [100, 1000, *([5000] if options.full else [])]
    columns = [stages(count, options.n) for count in counts]
    print(f"peak MB, n = {options.n}, load {os.getloadavg()[0]:.1f}: {', '.join(map(str, counts))} problems")
    for name, first in columns[0].items():
        last = columns[-1][name]
        shown = "  ".join(f"{measured[name]:6.0f}" for measured in columns)
        growth = 1024**2 * (last - first) / max(1, counts[-1] - counts[0])
        print(f"  {name:24} {shown}  ratio {last / first:.3f}, {growth:+,.0f} bytes a problem")


if __name__ == "__main__":
    main()
