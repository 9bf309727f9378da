"""Programs graded by a problem's tests: reasons, limits, what hostile programs gain; the expected results, kept."""

import gzip
import json
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from support.evalplus_problems import ROW, SOLUTION, block, passes, verdicts_here, written

from harness.system.files import user_cache
from harness_tasks import evalplus_tasks
from harness_tasks.evalplus_tasks import MbppPlus
from harness_tasks.programs import program_grading
from harness_tasks.programs.evalplus_oracle import Oracle
from harness_tasks.programs.program_grading import Bench, Exercise, GroundTruth
from harness_tasks.programs.program_text import Program
from harness_tasks.sandbox import Run

pytestmark = pytest.mark.usefixtures("ground_truth_cache")

WRONG = {  # a program and the reason for which it is wrong
    "def sum_even(n):\n    return 0 if not n else 6": "plus: test 1", "def sum_even(n):\n    return 7": "base: test 1",
    "def sum_even(n):\n    return n and 6": "base: test 2",
    "def sum_even(n):\n    return {3: 6, 0: 0}[len(n)]": "plus: test 1 raised KeyError",
    "def sum_even(n):\n    raise type('\\n' * 999, (Exception,), {})": "base: test 1 raised Exception",
    "def sum_even(n:\n    return 7": "syntax", "import nothing_like_it\ndef sum_even(n): return 6": "raised",
    "def sum_even(n): return 6\ndel sum_even": "no function sum_even",
    "def sum_even(n):\n    while True: pass": "timeout", "import os\ndef sum_even(n):\n    os._exit(0)": "killed",
}  # fmt: skip
SAME = "class Same({}):\n    __eq__ = lambda s, o: True\n    __hash__ = lambda s: 5\ndef sum_even(n): return Same({})"
HOSTILE = [
    SAME.format("int", "5"), SAME.format("", ""), "def sum_even(n): return \x00", "def sum_even(n): return '\ud800'",
    "import os, sys\ndef sum_even(n):\n    for fd in range(64):\n        try: os.write(fd, b'0 i6\\n' * 9)\n"
    "        except OSError: pass\n    os._exit(0)",
    "import sys\ndef sum_even(n):\n    frame = sys._getframe()\n    while frame:\n        for name, value in "
    "frame.f_locals.items():\n            if 'expected' in name: return value[0]\n        frame = frame.f_back",
]  # fmt: skip


def test_a_wrong_program_is_told_why(mbpp, problem):
    verdicts = mbpp.verify_all(problem, list(map(block, WRONG)))
    assert [verdict.reason for verdict in verdicts] == list(WRONG.values())
    assert {(verdict.status, verdict.route) for verdict in verdicts} == {("wrong", "base+plus")}


@pytest.mark.parametrize("lacking", [[], ["def sum_even(numbers):\n    return lacking(numbers)"]])
def test_a_hostile_program_or_what_is_lent_to_one_is_wrong_and_the_next_is_graded_as_ever(mbpp, problem, lacking):
    responses = []
    for number, program in enumerate(HOSTILE):
        responses += ["\n".join(map(block, [program, *lacking])), block(f"{SOLUTION}# {number}")]
    assert [verdict.status for verdict in mbpp.verify_all(problem, responses)] == ["wrong", "correct"] * len(HOSTILE)
    assert len(set(mbpp.answers(problem, responses)[1::2])) == 1


def test_what_is_our_fault_is_an_error(mbpp, problem, tmp_path, monkeypatch):
    for solution, reason in (("def sum_even(n): return 1 / 0", "stopped"), ("def sum_even(n:", "syntax")):
        task = MbppPlus(written(tmp_path, {**ROW, "canonical_solution": solution}))
        verdict = task.verify(task.problems("test")[0], block(SOLUTION))
        assert (verdict.status, verdict.reason[: 14 + len(reason)]) == ("error", f"ground truth: {reason}")
    monkeypatch.setattr(Oracle, "passes", lambda *given: {}["gone"])
    verdict = mbpp.verify(problem, block(SOLUTION))
    assert (verdict.status, verdict.reason) == ("error", "oracle: KeyError: 'gone'")


def scripted(judged, *runs):
    """A sandbox that hands results to the judge and returns runs; both are given."""
    return SimpleNamespace(run_all=lambda suite, programs, judge, lent: [judge(*each) for each in judged] and [*runs])


def test_what_was_not_judged_is_never_correct_and_a_program_whose_worker_was_lost_is_judged_anew():
    exercise = Exercise("mbpp", "same", "", {"base": [[1], [2]]}, 0)
    bench = Bench(exercise, GroundTruth(["i1", "i2"], [0.1, 0.1], 1 << 30))
    careless = scripted([(0, 0, "i1")], Run("ok", ["i1", "i2"]), Run("ok"), Run("stopped"), Run("error", detail="lost"))
    verdicts = bench.grade(careless, [Program("")] * 4)
    assert {verdict.status for verdict in verdicts} == {"error"}
    assert (verdicts[0].reason, verdicts[3].reason) == ("sandbox: ok after 1 of 2 tests", "sandbox: lost")
    twice = [(0, 0, "i1"), (0, 0, "i1"), (0, 1, "i2"), (1, 0, "i7"), (1, 0, "i1"), (1, 1, "i2")]
    verdicts = bench.grade(scripted(twice, Run("ok"), Run("ok")), [Program("")] * 2)
    assert [verdict.status for verdict in verdicts] == ["correct"] * 2


def test_limits_are_evalplus_in_cpu_seconds():
    exercise = Exercise("mbpp", "same", "", {"base": [[1], [2]], "plus": [[3]] * 100}, 0)
    truth = GroundTruth(["i1", "i2"] + ["i3"] * 100, [0.1, 20.0] + [0.5] * 100, 1 << 31)
    suite = Bench(exercise, truth)._suite
    assert (list(suite.cpu_limits_s), suite.total_cpu_s) == ([1.0, 80.0] + [2.0] * 100, (60 + 2) + (60 + 2))
    assert (suite.memory_bytes, suite.output_bytes) == (1 << 31, 4 << 20)
    short = Exercise("mbpp", "same", "", {"base": [[1]]}, 0)
    long = Bench(short, GroundTruth(["i" + "1" * (3 << 20)], [0.1], 1 << 30))._suite
    assert (long.total_cpu_s, long.output_bytes) == (1 + 2, 2 * ((3 << 20) + 1))
    digested = Bench(short, GroundTruth(["h1"], [0.1], 1 << 30))._suite
    assert (digested.cpu_limits_s, digested.total_cpu_s, digested.digest) == ([61.0], 180 + 1 + 2, [True])


# Ground truth: the expected results of a problem's tests

DAMAGE = [  # what is none of these tests
    b"", b"junk", gzip.compress(b"[]", mtime=0), gzip.compress(b"[" * 100_000, mtime=0),
    gzip.compress(b'{"expected": [], "cpu_s": [], "memory_bytes": 1073741824}', mtime=0),
    gzip.compress(b'{"expected": [1, 2, 3, 4, 5], "cpu_s": [1, 1, 1, 1, 1], "memory_bytes": 1073741824}', mtime=0),
    gzip.compress(b'{"expected": ["i6"], "cpu_s": "no", "memory_bytes": null, "more": 1}', mtime=0),
    gzip.compress(bytes(1000), mtime=0)[:-9],
]  # fmt: skip


@pytest.fixture
def anew(monkeypatch):
    """Ground truth is neither in memory nor on the disk."""
    program_grading._benches.clear()
    monkeypatch.setattr(evalplus_tasks, "VERSION", f"{evalplus_tasks.VERSION} {time.time_ns()}")


def test_ground_truth_is_kept_as_json_and_read_again_and_a_damaged_one_is_made_anew(
    mbpp, problem, ground_truth_cache, anew
):
    before = set(ground_truth_cache.glob("*"))
    assert mbpp.verify(problem, block(SOLUTION)).status == "correct"
    [kept] = set(ground_truth_cache.glob("*")) - before
    content = json.loads(gzip.decompress(kept.read_bytes()))
    assert (content["expected"], content["memory_bytes"]) == (["i6", "i0", "i0", "i1f4", "i0"], 1 << 30)
    other = {**content, "expected": ["i5", *content["expected"][1:]]}
    kept.write_bytes(gzip.compress(json.dumps(other).encode()))
    program_grading._benches.clear()
    assert mbpp.verify(problem, block(SOLUTION)).reason == "base: test 1"
    for damage in (*DAMAGE, gzip.compress(json.dumps({**content, "memory_bytes": 1}).encode())):
        kept.write_bytes(damage)
        program_grading._benches.clear()
        assert mbpp.verify(problem, block(SOLUTION)).status == "correct", damage
        assert json.loads(gzip.decompress(kept.read_bytes()))["expected"] == content["expected"], damage


@pytest.mark.parametrize("cache", ["/dev/null/x", ""])
def test_where_nothing_can_be_written_nothing_is_kept(mbpp, problem, anew, tmp_path, monkeypatch, cache):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", cache)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # what it does for a user without a home
    before = sorted(tmp_path.glob("*"))
    assert mbpp.verify(problem, block(SOLUTION)).status == "correct"
    assert sorted(tmp_path.glob("*")) == before


@pytest.mark.parametrize(("long", "too_long", "digested"), [(1000, 1 << 26, [3]), (1 << 20, 30_000, [1, 2, 3, 4])])
def test_long_results_are_compared_by_their_digests(monkeypatch, anew, long, too_long, digested):
    monkeypatch.setattr(program_grading, "LONG", long)
    monkeypatch.setattr(program_grading, "TOO_LONG", too_long)
    solution = "def count(n, x): return [(i, 'x') for i in range(n)] if x else [i / 3 for i in range(n)]"
    inputs = [[3, 1], [3000, 0], [5, 0], [4000, 1], [2, 1]]
    exercise = Exercise("mbpp", "count", solution, {"base": inputs[:2], "plus": inputs[2:]}, 0)
    loosely = solution.replace("(i, 'x')", "(float(i), 'x')")
    wrong = solution.replace("(i, 'x')", "(i, 'x' if i < 3999 else 'y')")
    assert passes(exercise, [solution, loosely, wrong]) == [True, True, False]
    [kept] = program_grading._benches.values()
    assert [test for test, is_digest in enumerate(kept._suite.digest) if is_digest] == digested
    for path in (user_cache() / "ground-truth").glob("*"):
        path.unlink()


def test_a_solution_that_needs_memory_leaves_others_more(monkeypatch):
    monkeypatch.setattr(program_grading, "FRUGAL", 64 << 20)  # what gigabytes cost in CPU time differs with the machine
    solution = "def big(n): return len(bytearray(n))"
    frugal = Exercise("mbpp", "big", solution, {"base": [[20 << 20]], "plus": []}, 0)
    hungry = Exercise("mbpp", "big", solution, {"base": [[70 << 20]], "plus": []}, 0)
    greedier = "def big(n): return len(bytearray(4 * n)) // 4"
    assert passes(frugal, [solution, greedier, greedier.replace("4", "8")]) == [True, True, False]
    assert passes(hungry, [solution, greedier.replace("4", "2")]) == [True, True]  # 140 MB, of which 128 are not enough


def test_verdicts_are_the_same_from_threads_and_ground_truth_is_made_once(mbpp, problem, monkeypatch):
    program_grading._benches.clear()
    calls, compute = [], program_grading.ground_truth
    monkeypatch.setattr(program_grading, "ground_truth", lambda *given: calls.append(given) or compute(*given))
    responses = [block(SOLUTION), block("def sum_even(n): return 6"), "no"]
    with ThreadPoolExecutor(6) as threads:
        made = list(threads.map(lambda _: verdicts_here(mbpp, problem, responses)[0], range(6)))
    assert made == [[("correct", ""), ("wrong", "base: test 2"), ("wrong", "no program")]] * 6
    assert len(calls) == 1
