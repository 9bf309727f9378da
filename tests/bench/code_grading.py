"""What a verdict on a program costs: `python tests/bench/code_grading.py`, ours beside evalplus, in turn.

Two sets: CodeGen's samples for HumanEval on the base tests, and MBPP+'s canonical solutions and mutants of them, of
light problems. evalplus runs twice, in processes of their own: as shipped, with the ground truth of all problems loaded
(each of its forks copies the page tables of 1.8 GB), and trimmed to the problems at hand. CPU time is all of it, that
of the forks and of the sandbox's workers too.

The data is read from `--data` (default: shared/data beside the project); without it nothing is measured. `--smallest`
has a problem of its own for each set. evalplus computes its ground truth first, about a minute; `--cache` keeps it.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import operator
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from statistics import mean, median
from typing import Any

from harness import Problem
from harness_tasks.evalplus_tasks import EvalPlus, HumanEvalPlus, MbppPlus
from harness_tasks.programs.program_text import program_in

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.bench_sizes import parsed
from support.evalplus_problems import block, small_release
from support.mutants import mutants

DATA = Path(__file__).parents[3] / "shared" / "data"
LIGHT = 20_000  # characters of inputs
HEAVY = {f"Mbpp/{number}" for number in (84, 123, 255, 271, 300, 389, 392, 583, 589, 592, 599, 603, 630)}  # over 0.5 s
HEAVY |= {f"HumanEval/{number}" for number in (15, 36, 59, 83, 94, 130, 139)}
HEAVY |= {"HumanEval/32"}  # evalplus passes nothing there
SLOW_S = 0.9  # a sample that takes a grader longer has run into a limit
TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class Set:
    """Samples of one task: (problem, program)."""

    name: str
    task: EvalPlus
    samples: list[tuple[Problem, str]]


@dataclass
class Cost:
    """What one grader took for each sample, and what it said."""

    wall_s: list[float]
    cpu_s: list[float]
    right: list[bool]

    def add(self, wall_s: float, cpu_s: float, right: bool) -> None:
        """One more sample."""
        for column, value in zip((self.wall_s, self.cpu_s, self.right), (wall_s, cpu_s, right), strict=True):
            column.append(value)


# evalplus, in a process of its own


def serve(dataset: str, needed: list[str] | None) -> None:
    """Grade the [problem id, program] on each line of stdin; `needed`: the problems whose ground truth is loaded.

    A process that multiprocessing has spawned is no place for this: there evalplus takes 15 times as long.
    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # evalplus prints
    problems, truth = _evalplus_truth(dataset, needed)
    from evalplus.evaluate import check_correctness

    print(json.dumps(_resident_mb()), file=answers)
    for line in sys.stdin:
        name, program = json.loads(line)
        wall, cpu = time.perf_counter(), _own_cpu()
        result = check_correctness(dataset, 0, problems[name], program, truth[name], dataset == "humaneval", True)
        passed = all(result[run][0] == "pass" for run in ("base", "plus") if run in result)
        print(json.dumps((time.perf_counter() - wall, _own_cpu() - cpu, passed)), file=answers)


def _evalplus_truth(dataset: str, needed: list[str] | None) -> tuple[dict[str, Any], dict[str, Any]]:
    from evalplus import evaluate

    get, digest, special = {
        "mbpp": (evaluate.get_mbpp_plus, evaluate.get_mbpp_plus_hash, evaluate.MBPP_OUTPUT_NOT_NONE_TASKS),
        "humaneval": (evaluate.get_human_eval_plus, evaluate.get_human_eval_plus_hash, []),
    }[dataset]
    problems = get()
    if needed is None:
        return problems, evaluate.get_groundtruth(problems, digest(), special)
    problems = {name: problems[name] for name in needed}
    with tempfile.TemporaryDirectory() as folder:
        evaluate.CACHE_DIR = folder
        return problems, evaluate.get_groundtruth(problems, "trimmed", special)


def _own_cpu() -> float:
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


# Ours


def _below() -> list[int]:
    """This process and all below it."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    mine = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return sorted(mine)


def _cpu_of(pids: list[int]) -> float:
    """CPU seconds of these processes and of their children that have ended; in steps of 10 ms, so only sums tell."""
    ticks = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return ticks / TICK


# The samples


def codegen(data: Path, count: int) -> Set:
    """CodeGen's samples, some of each of some problems, problem by problem: as pools are graded."""
    task = HumanEvalPlus(str(data / "tasks" / "HumanEvalPlus-v0.1.10.jsonl.gz"), tests="base")
    problems = {problem.id: problem for problem in task.problems("test") if problem.id not in HEAVY}
    pool = [(problems[name], sample) for name, sample in _pool(data) if name in problems]
    samples = [(problem, program) for problem, sample in pool if (program := _program(problem, sample))]
    return Set("CodeGen's HumanEval samples, base tests", task, _some(samples, count))


def _some(samples: list[tuple[Problem, str]], count: int) -> list[tuple[Problem, str]]:
    """`count` samples, four to a problem on average, in the problems' order."""
    rng = random.Random(0)
    names = set(rng.sample(sorted({problem.id for problem, _ in samples}), count // 4))
    kept = rng.sample([sample for sample in samples if sample[0].id in names], count)
    return sorted(kept, key=lambda sample: sample[0].id)


def _pool(data: Path) -> Iterator[tuple[str, str]]:
    rows = map(json.loads, (data / "pools" / "codet_HumanEval_for_code_generation.jsonl").open())
    names = {row["prompt"]: row["task_id"] for row in rows}
    for pool in map(json.loads, (data / "pools" / "codet_humaneval_codegen16B_n100.jsonl").open()):
        yield from ((names[pool["prompt"]], sample) for sample in pool["samples"])


def _program(problem: Problem, response: str) -> str | None:
    program = program_in(response, problem.meta["entry_point"], problem.prompt)
    return program and program.source


def mutated(data: Path, count: int) -> Set:
    """MBPP+'s light canonical solutions, and of each some mutants."""
    task = MbppPlus(str(data / "tasks" / "MbppPlus-v0.2.0.jsonl.gz"))
    samples = []
    for problem in task.problems("test"):
        if len(str(problem.meta)) < LIGHT and problem.id not in HEAVY:
            source = problem.prompt + problem.reference
            kinds = ("operator", "constant", "comparison", "none", "removed")
            wrong = [made for kind, made in mutants(source, problem.meta["entry_point"], 0) if kind in kinds]
            samples += [(problem, program) for program in [source, *wrong]]
    return Set("MBPP+ canonical solutions and mutants", task, _some(samples, count))


# Measuring


def measured(chosen: Set) -> dict[str, Cost]:
    """Each sample by each grader in turn; before that, ours makes its ground truth."""
    names = sorted({problem.id for problem, _ in chosen.samples})
    others = {"evalplus as shipped": None, "evalplus trimmed": names}
    with contextlib.ExitStack() as stack:
        graders = {name: stack.enter_context(evalplus(chosen.task.dataset, needed)) for name, needed in others.items()}
        for problem in {problem.id: problem for problem, _ in chosen.samples}.values():
            chosen.task.verify(problem, f"```python\n{problem.prompt}{problem.reference}\n```")
        chosen.task.verify(problem, problem.prompt + problem.reference + "\nimport numpy\n")  # the other kind of worker
        pids = _below()
        for name, ask in graders.items():
            print(f"  {name}: {ask(None):,.0f} MB resident", flush=True)
        costs = {name: Cost([], [], []) for name in ("ours", *graders)}
        for problem, program in chosen.samples:
            costs["ours"].add(*ours(chosen.task, problem, program, pids))
            for name, ask in graders.items():
                costs[name].add(*ask([problem.id, program]))
    return costs


@contextlib.contextmanager
def evalplus(dataset: str, needed: list[str] | None) -> Iterator[Callable[[Any], Any]]:
    """A process that grades as evalplus does: a function from a request to its answer; None reads the first one."""
    command = [sys.executable, __file__, "--serve", json.dumps([dataset, needed])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def ask(request: Any) -> Any:
            if request is not None:
                process.stdin.write(json.dumps(request) + "\n")
                process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield ask
        process.stdin.close()


def ours(task: EvalPlus, problem: Problem, program: str, pids: list[int]) -> tuple[float, float, bool]:
    """Wall and CPU seconds of one verdict of ours, and whether it is "correct"; `pids` are all that may work on it."""
    cpu, wall = _cpu_of(pids), time.perf_counter()
    verdict = task.verify(problem, block(program))
    wall = time.perf_counter() - wall
    return wall, _cpu_of(pids) - cpu, verdict.status == "correct"


def print_costs(chosen: Set) -> None:
    """Executions per second and CPU time a sample, and evalplus' as multiples of ours."""
    print(f"{chosen.name}: {len(chosen.samples)} samples, one at a time", flush=True)
    costs = measured(chosen)
    mine = costs["ours"]
    quick = [max(walls) < SLOW_S for walls in zip(*(cost.wall_s for cost in costs.values()), strict=True)]
    print(f"  without {quick.count(False)} samples that run into a limit")
    differ = {name: sum(map(operator.ne, mine.right, cost.right)) for name, cost in costs.items()}
    for cost in costs.values():
        cost.wall_s, cost.cpu_s = list(compress(cost.wall_s, quick)), list(compress(cost.cpu_s, quick))
    for name, cost in costs.items():
        wall, cpu = median(cost.wall_s), mean(cost.cpu_s)
        print(
            f"  {name:20} {1 / wall:5.0f}/s, {wall * 1e3:6.1f} ms wall (median), {cpu * 1e3:6.1f} ms CPU (mean): "
            f"{wall / median(mine.wall_s):5.1f} and {cpu / max(mean(mine.cpu_s), 1 / TICK):5.1f} times ours, "
            f"{differ[name]} differ"
        )


def main() -> None:
    """Parse the sizes and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument(
        "--cache", type=Path, help="where evalplus keeps its ground truth (default: a temporary folder)"
    )
    parser.add_argument("--samples", type=int, default=150)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    arguments = parsed(parser, samples=4)
    if arguments.serve:
        return serve(*json.loads(arguments.serve))
    with tempfile.TemporaryDirectory() as folder:
        if arguments.smallest:
            arguments.data = small_release(Path(folder))
        if not arguments.data.is_dir():
            return print(f"not measured: {arguments.data} is not there")
        cache = arguments.cache or Path(folder)
        os.environ["XDG_CACHE_HOME"] = str(cache)
        for name in ("MbppPlus-v0.2.0.jsonl", "HumanEvalPlus-v0.1.10.jsonl"):
            (cache / "evalplus").mkdir(parents=True, exist_ok=True)
            unpacked = gzip.decompress((arguments.data / "tasks" / f"{name}.gz").read_bytes())
            (cache / "evalplus" / name).write_bytes(unpacked)
        print_costs(codegen(arguments.data, arguments.samples))
        print_costs(mutated(arguments.data, arguments.samples))


if __name__ == "__main__":
    main()
