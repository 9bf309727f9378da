"""MBPP+ and HumanEval+ as released, and evalplus' own checker, which runs programs for real beside ours."""

import os
import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from corpora.evalplus_results import PROGRAMS, RESULTS
from support.evalplus_problems import block, passes
from support.evalplus_verdicts import evalplus_passes
from support.mutants import all_mutants

from harness_tasks.evalplus_tasks import HumanEvalPlus, MbppPlus
from harness_tasks.programs.program_grading import Exercise

pytestmark = pytest.mark.usefixtures("ground_truth_cache")

# Of which a solution takes more than half a CPU-second; the slowest take ten and more
SLOWEST = {"Mbpp/255", "Mbpp/599", "HumanEval/15", "HumanEval/130"}
COSTLY = {f"Mbpp/{number}" for number in (84, 123, 255, 271, 392, 592, 599, 603, 630)}
COSTLY |= {f"HumanEval/{number}" for number in (15, 36, 59, 83, 94, 100, 130, 139)}


@pytest.fixture(params=["mbpp", "humaneval"])
def released(request, shared_data):
    """A task on its release file."""
    if request.param == "mbpp":
        return MbppPlus(str(shared_data / "tasks" / "MbppPlus-v0.2.0.jsonl.gz"))
    return HumanEvalPlus(str(shared_data / "tasks" / "HumanEvalPlus-v0.1.10.jsonl.gz"))


def forms(problem):
    """The canonical solution in each form in which models give it, by name."""
    whole, name = problem.prompt + problem.reference, problem.meta["entry_point"]
    place = problem.prompt.rfind(f"def {name}(")
    head, function = (whole[:place], whole[place:]) if place >= 0 else ("", problem.reference)
    imports = "".join(line for line in function.splitlines(keepends=True) if line.startswith(("import ", "from ")))
    rest = "".join(line for line in function.splitlines(keepends=True) if line not in imports.splitlines(keepends=True))
    return {
        "whole": whole,
        "in a block": f"Sure:\n{block(whole)}\nThat is all.",
        "without head": function,
        "without head, in a block": f"Sure:\n{block(function)}\nThat is all.",
        "in two blocks": f"First:\n{block(head + imports)}\nThen:\n{block(rest)}",
    } | ({"body": problem.reference, "body, in a block": block(problem.reference)} if place >= 0 else {})


def incorrect(task, problems):
    """The verdicts on canonical solutions that are not correct, by problem and form; they are run on all cores."""

    def verdicts(problem):
        responses = forms(problem)
        return [
            ((problem.id, form), verdict)
            for form, verdict in zip(responses, task.verify_all(problem, list(responses.values())), strict=True)
            if verdict.status != "correct"
        ]

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return dict(row for rows in threads.map(verdicts, problems) for row in rows)


def light(task):
    """Problems of which neither the solution nor the inputs are costly."""
    problems = [problem for problem in task.problems("test") if problem.id not in COSTLY]
    return [problem for problem in problems if len(str(problem.meta)) < 20_000]


@pytest.mark.slow
@pytest.mark.parametrize("slowest", [False, pytest.param(True, marks=pytest.mark.release)])
def test_every_canonical_solution_is_correct(released, slowest):
    problems = sorted(released.problems("test"), key=lambda problem: problem.id not in COSTLY)
    assert len(problems) == {"mbpp": 378, "humaneval": 164}[released.dataset]
    assert incorrect(released, [problem for problem in problems if (problem.id in SLOWEST) == slowest]) == {}


@pytest.mark.slow
def test_evalplus_accepts_what_the_corpus_says():
    imports = "import collections, decimal, fractions, numpy\n"
    for value, right, near, wrong in RESULTS:
        programs = [f"{imports}def same(x): return {made}" for made in (*right, *near, *wrong)]
        for atol, count in ((0, len(right)), (1e-4, len(right) + len(near))):
            exercise = Exercise("mbpp", "same", "def same(x): return x", {"base": [[value]], "plus": []}, atol)
            accepted = [True] * count + [False] * (len(programs) - count)
            assert evalplus_passes(exercise, programs) == accepted == passes(exercise, programs), value
    for dataset, name, solution, base, plus, right, wrong in PROGRAMS:
        programs = [f"def {name}(a, b):\n    {body}\n" for body in (solution, *right, *wrong)]
        exercise = Exercise(dataset, name, programs[0], {"base": base, "plus": plus}, 0)
        assert evalplus_passes(exercise, programs) == [True] * (1 + len(right)) + [False] * len(wrong), name
    solution = "def find_zero(xs): return -xs[0] / xs[1]\n"  # evalplus does not count its passed tests
    exercise = Exercise("humaneval", "find_zero", solution, {"base": [[[1, 2]], [[-6, 2]]], "plus": []}, 1e-4)
    assert evalplus_passes(exercise, [solution]) == [False]


@pytest.mark.slow
def test_altered_solutions_get_evalplus_own_verdicts(released):
    faults = []
    for problem in random.Random(0).sample(light(released), {"mbpp": 6, "humaneval": 3}[released.dataset]):
        exercise = released.exercise(problem)
        mutants = all_mutants(exercise.solution, exercise.entry_point)
        changed = [
            program for kind, program in mutants if "numpy" not in kind
        ]  # there evalplus compares shapes loosely
        programs = [exercise.solution, *random.Random(0).sample(changed, min(20, len(changed)))]
        own, theirs = passes(exercise, programs), evalplus_passes(exercise, programs)
        faults += [(problem.id, *row) for row in zip(programs, own, theirs, strict=True) if row[1] != row[2]]
        assert own[0]
        assert not all(own), problem.id
    assert faults == []
