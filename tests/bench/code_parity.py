"""Do our verdicts on programs equal evalplus'? `python tests/bench/code_parity.py --kept FOLDER`, in two steps.

1. `--ask MINUTES` asks evalplus (its own `untrusted_check`, in a small process, limits in CPU time:
   tests/support/evalplus_verdicts.py) about the programs, in a fixed order, and keeps its statuses in FOLDER; a later
   call goes on from there.
2. Without `--ask`, the same programs are graded by ours, and every verdict that differs is printed, with the program's
   kind. Where ours is correct and evalplus' is not, evalplus is asked again with its own limit of 1 s a test: the first
   time it gave 0.3 s, since programs that never end take most of the time.

Programs: canonical solutions, each mutant of them by one change, some by two (support/mutants.py), and CodeGen's
samples for HumanEval, distinct as text. A verdict is one program on the base tests, or on the plus tests; programs
that pass both are graded by ours on both together too. Left out: HumanEval/32, which evalplus 0.3.1 never passes, and
the problems whose tests take seconds (HEAVY), of which four programs each are taken, or none of 255 and 599.

The data is read from `--data` (default: shared/data beside the project); without it nothing is compared.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness import Problem
from harness_tasks.evalplus_tasks import EvalPlus, HumanEvalPlus, MbppPlus
from harness_tasks.programs import program_grading, program_text
from harness_tasks.programs.program_grading import Exercise
from harness_tasks.sandbox import Sandbox

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
from code_grading import DATA, HEAVY, _pool, _program
from support.bench_sizes import parsed
from support.evalplus_problems import small_release
from support.evalplus_verdicts import LEAST_S, evalplus_statuses
from support.mutants import all_mutants, twice_mutated

NEVER = {"HumanEval/32", "Mbpp/255", "Mbpp/599"}
FEW, CHUNK, TWICE = 4, 25, 100
FIRST_S = 0.3

Program = tuple[str, str]  # kind, source


def chunks(data: Path) -> Iterator[tuple[EvalPlus, Problem, int, list[Program]]]:
    """(task, problem, number, programs): of every problem the first chunk, then the second ones, and so on."""
    tasks: list[EvalPlus] = [
        MbppPlus(str(data / "tasks" / "MbppPlus-v0.2.0.jsonl.gz")),
        HumanEvalPlus(str(data / "tasks" / "HumanEvalPlus-v0.1.10.jsonl.gz")),
    ]
    samples: dict[str, list[str]] = {}
    for name, sample in _pool(data):
        samples.setdefault(name, []).append(sample)
    all_problems = [(task, problem) for task in tasks for problem in task.problems("test") if problem.id not in NEVER]
    rows = [(task, problem, _programs(problem, samples.get(problem.id, []))) for task, problem in all_problems]
    for number in range(0, max(len(programs) for _, _, programs in rows), CHUNK):
        for task, problem, programs in rows:
            if part := programs[number : number + CHUNK]:
                yield task, problem, number // CHUNK, part


def _programs(problem: Problem, samples: list[str]) -> list[Program]:
    """The canonical solution first, all others in an order of their own; each text once."""
    solution, name = problem.prompt + problem.reference, problem.meta["entry_point"]
    made = [*all_mutants(solution, name), *(twice_mutated(solution, name, seed) for seed in range(TWICE))]
    made += [("CodeGen", program) for sample in samples if (program := _program(problem, sample))]
    distinct = {program: kind for kind, program in reversed(made) if program != solution}
    others = [(kind, program) for program, kind in distinct.items()]
    random.Random(problem.id).shuffle(others)
    return [("canonical", solution), *others[: FEW if problem.id in HEAVY else None]]


# evalplus'


def ask(data: Path, kept: Path, minutes: float) -> None:
    """Ask evalplus about as many chunks as there is time for; a line each in FOLDER/evalplus.jsonl."""
    end = time.monotonic() + 60 * minutes
    known = _known(kept)
    with (kept / "evalplus.jsonl").open("a") as file:
        for task, problem, number, programs in chunks(data):
            if time.monotonic() > end:
                break
            if (problem.id, number) not in known:
                sources = [program for _, program in programs]
                statuses = evalplus_statuses(task.exercise(problem), sources, FIRST_S)
                file.write(json.dumps([problem.id, number, _digest(programs), statuses]) + "\n")
                file.flush()


def _known(kept: Path) -> dict[tuple[str, int], tuple[str, list[dict[str, str]]]]:
    rows = _rows(kept / "evalplus.jsonl")
    return {(name, number): (digest, statuses) for name, number, digest, statuses in rows}


def _digest(programs: list[Program]) -> str:
    return hashlib.sha256(json.dumps(programs).encode()).hexdigest()


# Ours


def compare(data: Path, kept: Path) -> None:
    """Grade the programs that evalplus has been asked about, and print what differs.

    Chunks that an earlier call has compared, kept in FOLDER/compared.jsonl, count as they did then.
    """
    known, path = _known(kept), kept / "compared.jsonl"
    done = {(row["problem"], row["chunk"]) for row in _rows(path)}
    with Sandbox(1) as sandbox, path.open("a") as file:
        for task, problem, number, chunk in sorted(chunks(data), key=lambda each: each[1].id):  # a model's own first
            if (problem.id, number) not in known or (problem.id, number) in done:
                continue
            digest, statuses = known[problem.id, number]
            if digest != _digest(chunk):
                raise SystemExit(f"{problem.id}: the programs have changed since evalplus was asked: start anew")
            verdicts = Counter[str]()
            differences = [
                {"run": run, "kind": chunk[at][0], "evalplus": statuses[at], "ours": reason, "program": chunk[at][1]}
                for run, at, reason in _differences(sandbox, task, problem, chunk, statuses, verdicts)
            ]
            row = {"problem": problem.id, "chunk": number, "programs": len(chunk), "verdicts": verdicts}
            file.write(json.dumps({**row, "differences": differences}) + "\n")
            file.flush()
    _print_compared(_rows(path))


def _rows(path: Path) -> list[Any]:
    return list(map(json.loads, path.read_text().splitlines())) if path.exists() else []


def _print_compared(rows: list[dict[str, Any]]) -> None:
    """Each difference, and how many verdicts there were."""
    kinds = Counter[str]()
    for row in rows:
        for each in row["differences"]:
            kinds[each["kind"]] += 1
            print(f"{row['problem']} {each['run']}, {each['kind']}: evalplus {each['evalplus']}, ours {each['ours']!r}")
    verdicts = sum((Counter(row["verdicts"]) for row in rows), Counter[str]())
    programs, problems = sum(row["programs"] for row in rows), len({row["problem"] for row in rows})
    print(f"{verdicts.total()} verdicts on {programs} programs for {problems} problems, by evalplus {dict(verdicts)}")
    print(f"{kinds.total()} differ: {dict(kinds.most_common())}")


def _differences(
    sandbox: Sandbox,
    task: EvalPlus,
    problem: Problem,
    chunk: list[Program],
    statuses: list[dict[str, str]],
    verdicts: Counter[str],
) -> Iterator[tuple[str, int, str]]:
    exercise = task.exercise(problem)
    sources = [program for _, program in chunk]
    for run in exercise.runs:
        ours = _reasons(sandbox, replace(exercise, runs={run: exercise.runs[run]}), sources)
        for at, reason in enumerate(ours):
            if reason == "" and statuses[at][run] != "pass":
                statuses[at].update(evalplus_statuses(exercise, [sources[at]], LEAST_S)[0])
            verdicts[statuses[at][run]] += 1
            if (reason == "") != (statuses[at][run] == "pass"):
                yield run, at, reason
    both = [at for at, status in enumerate(statuses) if set(status.values()) == {"pass"}]
    for at, reason in zip(both, _reasons(sandbox, exercise, [sources[at] for at in both]), strict=True):
        if reason:
            yield "together", at, reason


def _reasons(sandbox: Sandbox, exercise: Exercise, programs: list[str]) -> list[str]:
    """Why each program is wrong; "" for those that are correct."""
    key = hashlib.sha256(repr((program_grading.__file__, exercise)).encode()).hexdigest()
    verdicts = program_grading.grade(key, sandbox, lambda: exercise, list(map(program_text.Program, programs)))
    return ["" if verdict.status == "correct" else verdict.reason for verdict in verdicts]


def main() -> None:
    """Parse the step and take it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--kept", type=Path, help="a folder for what evalplus says; without one nothing is run")
    parser.add_argument("--ask", type=float, metavar="MINUTES", help="ask evalplus for so long")
    options: Any = parsed(parser, ask=1.0)
    warnings.simplefilter("ignore")  # some solutions have escapes that Python warns of
    if options.smallest:
        with tempfile.TemporaryDirectory() as folder:
            data = small_release(Path(folder))
            ask(data, data, options.ask)
            return compare(data, data)
    if options.kept is None:  # hours of work: not for `make bench`
        return print("code parity: not run without --kept")
    if not options.data.is_dir():
        return print(f"not measured: {options.data} is not there")
    options.kept.mkdir(parents=True, exist_ok=True)
    if options.ask:
        return ask(options.data, options.kept, options.ask)
    return compare(options.data, options.kept)


if __name__ == "__main__":
    main()
