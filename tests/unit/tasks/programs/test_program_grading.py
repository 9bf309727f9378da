"""Programs graded by a problem's tests: reasons, limits, what hostile programs gain, benches and threads."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from corpora.sum_even import HOSTILE, WRONG
from support.evalplus_problems import ROW, SOLUTION, block, verdicts_here, written

from harness_tasks.evalplus_tasks import MbppPlus
from harness_tasks.programs import program_grading
from harness_tasks.programs.evalplus_oracle import Oracle
from harness_tasks.programs.program_grading import Bench, Exercise, GroundTruth
from harness_tasks.programs.program_text import Program
from harness_tasks.sandbox import Run

pytestmark = pytest.mark.usefixtures("ground_truth_cache")


def test_a_wrong_program_is_told_why(mbpp, problem):
    verdicts = mbpp.verify_all(problem, list(map(block, WRONG)))
    assert [verdict.reason for verdict in verdicts] == list(WRONG.values())
    assert {(verdict.status, verdict.route) for verdict in verdicts} == {("wrong", "base+plus")}


def test_a_hostile_program_is_wrong_and_the_next_is_graded_as_ever(mbpp, problem):
    honest = [f"{SOLUTION}# {number}" for number in range(len(HOSTILE))]
    responses = [block(program) for pair in zip(HOSTILE, honest, strict=True) for program in pair]
    assert [verdict.status for verdict in mbpp.verify_all(problem, responses)] == ["wrong", "correct"] * len(HOSTILE)
    assert len(set(mbpp.answers(problem, responses)[1::2])) == 1


def test_hostile_code_that_runs_before_a_program_changes_only_that_programs_run(mbpp, problem):
    lacking = block("def sum_even(numbers):\n    return lacking(numbers)")
    honest = [f"{SOLUTION}# {number}" for number in range(len(HOSTILE))]
    responses = [
        text
        for hostile, right in zip(HOSTILE, honest, strict=True)
        for text in (f"{block(hostile)}\n{lacking}", block(right))
    ]
    assert [verdict.status for verdict in mbpp.verify_all(problem, responses)] == ["wrong", "correct"] * len(HOSTILE)


def test_what_is_our_fault_is_an_error(mbpp, problem, tmp_path, monkeypatch):
    for solution, reason in (("def sum_even(n): return 1 / 0", "stopped"), ("def sum_even(n:", "syntax")):
        task = MbppPlus(written(tmp_path, {**ROW, "canonical_solution": solution}))
        verdict = task.verify(task.problems("test")[0], block(SOLUTION))
        assert verdict.status == "error"
        assert verdict.reason.startswith(f"ground truth: {reason}")
    monkeypatch.setattr(Oracle, "passes", lambda *given: {}["gone"])
    verdict = mbpp.verify(problem, block(SOLUTION))
    assert (verdict.status, verdict.reason) == ("error", "oracle: KeyError: 'gone'")


class Scripted:
    """A sandbox that hands results to the judge and returns runs; both are given."""

    def __init__(self, judged, *runs):
        self.judged, self.runs = judged, list(runs)

    def run_all(self, suite, programs, judge, lent):
        for program, test, text in self.judged:
            judge(program, test, text)
        return self.runs


def bench():
    exercise = Exercise("mbpp", "same", "", {"base": [[1], [2]]}, 0)
    return Bench(exercise, GroundTruth(["i1", "i2"], [0.1, 0.1], 1 << 30))


def test_what_was_not_judged_is_never_correct():
    careless = Scripted([(0, 0, "i1")], Run("ok", ["i1", "i2"]), Run("ok"), Run("stopped"), Run("error", detail="lost"))
    verdicts = bench().grade(careless, [Program("")] * 4)
    assert {verdict.status for verdict in verdicts} == {"error"}
    assert verdicts[0].reason == "sandbox: ok after 1 of 2 tests"
    assert verdicts[3].reason == "sandbox: lost"


def test_a_program_whose_worker_was_lost_is_judged_anew():
    twice = [(0, 0, "i1"), (0, 0, "i1"), (0, 1, "i2"), (1, 0, "i7"), (1, 0, "i1"), (1, 1, "i2")]
    verdicts = bench().grade(Scripted(twice, Run("ok"), Run("ok")), [Program("")] * 2)
    assert [verdict.status for verdict in verdicts] == ["correct"] * 2


def test_limits_are_evalplus_in_cpu_seconds():
    exercise = Exercise("mbpp", "same", "", {"base": [[1], [2]], "plus": [[3]] * 100}, 0)
    truth = GroundTruth(["i1", "i2"] + ["i3"] * 100, [0.1, 20.0] + [0.5] * 100, 1 << 31)
    suite = Bench(exercise, truth)._suite
    assert list(suite.cpu_limits_s) == [1.0, 80.0] + [2.0] * 100
    assert suite.total_cpu_s == (60 + 2) + (60 + 2)
    assert (suite.memory_bytes, suite.output_bytes) == (1 << 31, 4 << 20)
    short = Exercise("mbpp", "same", "", {"base": [[1]]}, 0)
    assert Bench(short, GroundTruth(["i1"], [0.1], 1 << 30))._suite.total_cpu_s == 1 + 2
    long = Bench(short, GroundTruth(["i" + "1" * (3 << 20)], [0.1], 1 << 30))
    assert long._suite.output_bytes == 2 * ((3 << 20) + 1)
    digested = Bench(short, GroundTruth(["h1"], [0.1], 1 << 30))._suite
    assert (digested.cpu_limits_s, digested.total_cpu_s, digested.digest) == ([61.0], 180 + 1 + 2, [True])


# Benches and threads


@pytest.fixture
def no_benches():
    program_grading._benches.clear()


def test_verdicts_are_the_same_from_threads_and_ground_truth_is_made_once(mbpp, problem, monkeypatch, no_benches):
    calls = []
    compute = program_grading.ground_truth
    monkeypatch.setattr(program_grading, "ground_truth", lambda *given: calls.append(given) or compute(*given))
    responses = [block(SOLUTION), block("def sum_even(n): return 6"), "no"]
    with ThreadPoolExecutor(6) as threads:
        made = list(threads.map(lambda _: verdicts_here(mbpp, problem, responses)[0], range(6)))
    assert made == [[("correct", ""), ("wrong", "base: test 2"), ("wrong", "no program")]] * 6
    assert len(calls) == 1
