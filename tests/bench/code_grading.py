"""What a verdict on a program costs: `python tests/bench/code_grading.py`, ours beside evalplus, in turn.

MBPP+'s canonical solutions and mutants of them, of light problems; read from shared/data beside the project, without it
nothing is measured (`--smallest` has a problem of its own). evalplus runs twice, in processes of their own: as shipped,
with the ground truth of all problems loaded (each of its forks copies the page tables of 1.8 GB; to compute it takes a
minute), and trimmed to the problems at hand. CPU time is all of it, that of the forks and of the sandbox's workers too.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean, median
from typing import Any

from harness import Problem
from harness_tasks.evalplus_tasks import MbppPlus

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.benches import cpu_s, sizes
from support.evalplus_problems import ROW, block
from support.mutants import changes
from support.paths import SHARED

LIGHT = 20_000  # characters of inputs
HEAVY = {f"Mbpp/{number}" for number in (84, 123, 255, 271, 300, 389, 392, 583, 589, 592, 599, 603, 630)}  # over 0.5 s
SLOW_S = 0.9  # a sample that takes a grader longer has run into a limit
RELEASE = "MbppPlus-v0.2.0.jsonl"


def serve(needed: list[str] | None) -> None:
    """Grade with evalplus the [problem id, program] on each line of stdin; `needed`: problems with ground truth.

    A process that multiprocessing has spawned is no place for this: there evalplus takes 15 times as long.
    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # evalplus prints
    from evalplus import evaluate

    problems = evaluate.get_mbpp_plus()
    problems = {name: problems[name] for name in needed or problems}
    truth = evaluate.get_groundtruth(problems, f"{len(problems)} problems", evaluate.MBPP_OUTPUT_NOT_NONE_TASKS)
    print("ready", file=answers)
    for line in sys.stdin:
        name, program = json.loads(line)
        wall, cpu = time.perf_counter(), cpu_s()
        result = evaluate.check_correctness("mbpp", 0, problems[name], program, truth[name], False, True)
        passed = all(result[run][0] == "pass" for run in ("base", "plus") if run in result)
        print(json.dumps((time.perf_counter() - wall, cpu_s() - cpu, passed)), file=answers)


@contextlib.contextmanager
def evalplus(needed: list[str] | None) -> Iterator[Callable[[str, str], Any]]:
    """A process that grades as evalplus does: (problem, program) -> wall and CPU seconds, verdict."""
    command = [sys.executable, __file__, "serve", json.dumps(needed)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()

        def ask(name: str, program: str) -> Any:
            process.stdin.write(json.dumps([name, program]) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield ask
        process.stdin.close()


def samples_of(task: MbppPlus, count: int) -> list[tuple[Problem, str]]:
    """`count` of the light canonical solutions and their mutants, four to a problem on average, by problem."""
    light = [each for each in task.problems("test") if len(str(each.meta)) < LIGHT and each.id not in HEAVY]
    rng, samples = random.Random(0), []
    for problem in rng.sample(light, min(len(light), count // 4)):
        source = problem.prompt + problem.reference
        samples += [(problem, source)] + [(problem, program) for _, program in changes(source)]
    return sorted(rng.sample(samples, min(len(samples), count)), key=lambda sample: sample[0].id)


def compare(task: MbppPlus, samples: list[tuple[Problem, str]]) -> None:
    """Each sample by each grader in turn, after ours made its ground truth; evalplus' times as multiples of ours."""

    def ours(name: str, program: str) -> tuple[float, float, bool]:
        cpu, wall = cpu_s(), time.perf_counter()
        verdict = task.verify(problems[name], block(program))
        return time.perf_counter() - wall, cpu_s() - cpu, verdict.status == "correct"

    problems = {problem.id: problem for problem, _ in samples}
    for problem in problems.values():
        for more in ("", "\nimport numpy\n"):  # both kinds of workers
            task.verify(problem, block(problem.prompt + problem.reference + more))
    with evalplus(None) as shipped, evalplus(sorted(problems)) as trimmed:
        graders = {"ours": ours, "evalplus as shipped": shipped, "evalplus trimmed": trimmed}
        rows = [[ask(problem.id, program) for ask in graders.values()] for problem, program in samples]
    quick = [row for row in rows if max(wall for wall, *_ in row) < SLOW_S]
    print(f"{len(samples)} samples, one at a time; without {len(rows) - len(quick)} that run into a limit")
    for place, name in enumerate(graders):
        wall, own = (median(row[at][0] for row in quick) for at in (place, 0))
        cpu, own_cpu = (mean(row[at][1] for row in quick) for at in (place, 0))
        differ = sum(row[0][2] != row[place][2] for row in rows)
        print(f"  {name:20} {wall * 1e3:6.1f} ms wall (median), {cpu * 1e3:6.1f} ms CPU (mean): ", end="")
        print(f"{wall / own:5.1f} and {cpu / max(own_cpu, 0.01):5.1f} times ours, {differ} verdicts differ")


def main() -> None:
    options = sizes(__doc__, samples=(150, 4))
    with tempfile.TemporaryDirectory() as folder:
        data, file = SHARED / "tasks" / f"{RELEASE}.gz", Path(folder) / "evalplus" / RELEASE
        if not (options.smallest or data.is_file()):
            return print(f"not measured: {data} is not there")
        os.environ["XDG_CACHE_HOME"] = folder
        file.parent.mkdir()
        row = json.dumps({**ROW, "contract": "", "assertion": "", "test": ""}).encode() + b"\n"
        file.write_bytes(row if options.smallest else gzip.decompress(data.read_bytes()))
        task = MbppPlus(str(file))
        compare(task, samples_of(task, options.samples))


if __name__ == "__main__":
    serve(json.loads(sys.argv[2])) if sys.argv[1:2] == ["serve"] else main()
