"""MBPP+ and HumanEval+ as released, and evalplus' own checker, which runs programs for real beside ours."""

import os
import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from corpora.evalplus_results import RESULTS
from support.evalplus_problems import block, corpus_verdicts, passes
from support.evalplus_verdicts import evalplus_passes
from support.mutants import changes, turned

from harness_tasks.evalplus_tasks import HumanEvalPlus, MbppPlus
from harness_tasks.programs.program_grading import Exercise

pytestmark = pytest.mark.usefixtures("ground_truth_cache")

# Of which a solution takes more than half a CPU-second; the slowest take ten and more
SLOWEST = {"Mbpp/255", "Mbpp/599", "HumanEval/15", "HumanEval/130"}
COSTLY = SLOWEST | {f"Mbpp/{number}" for number in (84, 123, 271, 392, 592, 603, 630)}
COSTLY |= {f"HumanEval/{number}" for number in (36, 59, 83, 94, 100, 139)}


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
    lines = function.splitlines(keepends=True)
    imports = "".join(line for line in lines if line.startswith(("import ", "from ")))
    rest = "".join(line for line in lines if not line.startswith(("import ", "from ")))
    return {
        "whole, in a block": f"Sure:\n{block(whole)}\nThat is all.",
        "without head": function,
        "in two blocks": f"First:\n{block(head + imports)}\nThen:\n{block(rest)}",
    } | ({"body": problem.reference} if place >= 0 else {})


@pytest.mark.slow
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.release)])
def test_canonical_solutions_are_correct_every_third_or_all(released, every):
    """They are run on all cores; the costly ones only where all are asked for."""

    def incorrect(problem):
        responses = forms(problem)
        verdicts = task.verify_all(problem, list(responses.values()))
        return [(problem.id, *row) for row in zip(responses, verdicts, strict=True) if row[1].status != "correct"]

    task, problems = released, released.problems("test")
    assert len(problems) == {"mbpp": 378, "humaneval": 164}[task.dataset]
    chosen = [problem for problem in problems[:: 1 if every else 3] if every or problem.id not in COSTLY]
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        assert [row for rows in threads.map(incorrect, chosen) for row in rows] == []


@pytest.mark.slow
def test_evalplus_accepts_what_the_corpus_says():
    imports = "import collections, decimal, fractions, numpy\n"
    for value, right, near, wrong in RESULTS:
        programs = [f"{imports}def same(x): return {made}" for made in (*right, *near, *wrong)]
        tolerances = {0: len(right), 1e-4: len(right) + len(near)} if near else {0: len(right)}
        for atol, count in tolerances.items():
            exercise = Exercise("mbpp", "same", "def same(x): return x", {"base": [[value]], "plus": []}, atol)
            accepted = [True] * count + [False] * (len(programs) - count)
            assert evalplus_passes(exercise, programs) == accepted == passes(exercise, programs), value
    assert corpus_verdicts(evalplus_passes) == []
    solution = "def find_zero(xs): return -xs[0] / xs[1]\n"  # evalplus does not count its passed tests
    exercise = Exercise("humaneval", "find_zero", solution, {"base": [[[1, 2]], [[-6, 2]]], "plus": []}, 1e-4)
    assert evalplus_passes(exercise, [solution]) == [False]


@pytest.mark.slow
def test_altered_solutions_get_evalplus_own_verdicts(released):
    """Of problems that are not costly; not those of numpy, whose shapes evalplus compares loosely."""
    faults = []
    light = [problem for problem in released.problems("test") if problem.id not in COSTLY]
    light = [problem for problem in light if len(str(problem.meta)) < 20_000]
    for problem in random.Random(0).sample(light, {"mbpp": 4, "humaneval": 2}[released.dataset]):
        exercise = released.exercise(problem)
        mutants = [*changes(exercise.solution), *turned(exercise.solution, exercise.entry_point)]
        changed = [program for kind, program in mutants if "numpy" not in kind]
        programs = [exercise.solution, *random.Random(0).sample(changed, min(15, len(changed)))]
        own, theirs = passes(exercise, programs), evalplus_passes(exercise, programs)
        faults += [(problem.id, *row) for row in zip(programs, own, theirs, strict=True) if row[1] != row[2]]
        assert own[0]
        assert not all(own), problem.id
    assert faults == []
