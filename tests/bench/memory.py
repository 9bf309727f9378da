"""Peak memory of each stage of a run at 100, 1,000 and 5,000 problems, and of a pool of 6,400 x 4,096 states.

    python tests/bench/memory.py [--full] [--n 32] [--problems 100 1000 5000] [--engine wide:width=256] [--workers 1]

Memory must not grow with the number of problems. Every problem has n responses and vectors of width 256. Peaks are the
kernel's own high-water marks (VmHWM, set back at each stage's closing line), summed over the run's process and all its
children; the engine is this file's and needs no torch. Without `--full` 5,000 problems are left out. Linux only: it
reads /proc.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness import Responses, hookimpl

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.bench_sizes import parsed

TOY = Path(__file__).parents[1] / "support" / "toy.py"
CLOSING = re.compile(r"^(sample|embed|verify|rank [\w-]+): [\d,]+ \w+ in ")
RUN = ["run", "--task", "colours", "--plugin", str(TOY), "--plugin", __file__, "--json"]


@dataclass
class Wide:
    """An engine that holds nothing but what it must give: texts, and one float32 matrix of `width` a problem."""

    model: str | None = None
    width: int = 4096

    name = "wide"
    steers = False
    states = ("mean",)

    def identity(self):
        return {"engine": "wide", "width": self.width}

    def problems_per_call(self, n):
        return max(1, 256 // n)

    def check(self, prompts, max_tokens):
        return None

    def sample(self, request):
        return [self._responses(request.n, np.random.default_rng(seed), request.report) for seed in request.seeds]

    def _responses(self, n, rng, report):
        words = rng.integers(7, size=n)
        texts = [f"say {('red', 'green', 'blue', 'white', 'black', 'grey', 'pink')[word]}" for word in words]
        vectors = rng.standard_normal((n, self.width), dtype=np.float32)
        report(n)
        return Responses(texts, ["stop"] * n, np.full(n, 3), -np.arange(n) / n, [[w] for w in words], {"mean": vectors})


@hookimpl
def register_engines(register):
    register("wide", Wide)


def tree(root: int) -> list[int]:
    """The process and all its descendants."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            parents.setdefault(parent, []).append(int(entry.name))
    measured = [root]
    for pid in measured:
        measured += parents.get(pid, [])
    return measured


def taken_marks(root: int) -> float:
    """The high-water marks of the tree in MB, summed; they are then set back to what is held now."""
    total = 0
    for pid in tree(root):
        try:
            status = Path(f"/proc/{pid}/status").read_text()
            Path(f"/proc/{pid}/clear_refs").write_text("5")
        except OSError:
            continue
        mark = re.search(r"VmHWM:\s+(\d+) kB", status)
        total += int(mark[1]) if mark else 0
    return total / 1024


def peaks(*args: str) -> dict[str, float]:
    """MB by stage of one `harness` command, in a process of its own; "end" is what came after the last stage."""
    command = [sys.executable, "-m", "harness", *args]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert child.stderr is not None
    measured: dict[str, float] = {}
    printed = []
    for line in child.stderr:
        printed.append(line)
        stage = CLOSING.match(line)
        if stage:
            measured[stage[1]] = max(taken_marks(child.pid), measured.get(stage[1], 0))
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"harness {args[0]} failed with {child.returncode}: {''.join(printed[-3:])}")
    return measured | {"whole command": usage.ru_maxrss / 1024}


def stages(problems: int, n: int, engine: str, workers: int, embeds: bool = True) -> Iterator[tuple[str, float]]:
    """(stage, MB) of all that is done with so many problems: run, a second embedder, report, leaderboard."""
    with tempfile.TemporaryDirectory() as store:
        common = [*RUN, "--store", store, "--data", str(problems), "--n", str(n), "--engine", engine]
        common += ["--executor", f"local:workers={workers}"]
        measured = peaks(*common, "--selector", "repexp", "--selector", "uniform")
        yield from ((name, mb) for name, mb in measured.items() if name != "whole command")
        yield "scores, cells", measured["whole command"]
        if embeds:
            yield "embed", peaks(*common, "--selector", "repexp", "--embedder", "letters")["embed"]
        yield "run, all there", peaks(*common, "--selector", "repexp", "--selector", "uniform")["whole command"]
        yield "report", peaks("report", "--store", store, "--plugin", str(TOY), "--plugin", __file__)["whole command"]
        yield "leaderboard", peaks("leaderboard", f"{store}/cells", "--quiet")["whole command"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--problems", type=int, nargs="+")
    parser.add_argument("--n", type=int, default=32)
    parser.add_argument("--engine", default="wide:width=256")
    parser.add_argument("--states", type=int, default=6400, help="of 4,096 features; 0: no such pool")
    parser.add_argument("--workers", type=int, default=1)
    args = parsed(parser, problems=[2], n=4, states=0)
    sizes = args.problems or [100, 1000, *([5000] if args.full else [])]
    print(f"peak MB, n = {args.n}, {args.engine}, {args.workers} worker(s), load {os.getloadavg()[0]:.1f}")
    table({f"{size:,} problems": (size, dict(stages(size, args.n, args.engine, args.workers))) for size in sizes})
    if not (n := args.states):
        return
    before, after = (n * width * 4 / 1024**2 for width in (4096, 512))
    print(f"peak MB, n = {n:,}, d = 4,096: one problem's states take {before:.0f} MB, projected {after:.1f}")
    table({f"{size} problems": (size, dict(stages(size, n, "wide:width=4096", 1, embeds=False))) for size in (1, 4)})


def table(columns: dict[str, tuple[int, dict[str, float]]]) -> None:
    """A line a stage: MB in each column, the last over the first, and bytes for each further problem."""
    (few, first), (many, last) = next(iter(columns.values())), list(columns.values())[-1]
    print(f"  {'':28} {'  '.join(columns)}")
    for name in first:
        shown = "  ".join(f"{measured[name]:{len(head)}.0f}" for head, (_, measured) in columns.items())
        growth = 1024**2 * (last[name] - first[name]) / max(1, many - few)
        print(f"  {name:28} {shown}  ratio {last[name] / first[name]:.3f}, {growth:+,.0f} bytes a problem", flush=True)


if __name__ == "__main__":
    main()
