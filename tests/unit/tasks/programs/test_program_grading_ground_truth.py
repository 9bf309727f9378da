"""The expected results of a problem's tests: kept, found damaged, shortened, and what a solution may use."""

import gzip
import hashlib
import json
import time

import pytest
from corpora.sum_even import DAMAGE
from support.evalplus_problems import SOLUTION, block, passes

from harness.system.files import user_cache
from harness_tasks import evalplus_tasks
from harness_tasks.programs import program_grading
from harness_tasks.programs.program_grading import Exercise

pytestmark = pytest.mark.usefixtures("ground_truth_cache")


@pytest.fixture
def anew(monkeypatch):
    """Ground truth is neither in memory nor on the disk."""
    program_grading._benches.clear()
    monkeypatch.setattr(evalplus_tasks, "VERSION", f"{evalplus_tasks.VERSION} {time.time_ns()}")


@pytest.fixture
def kept(mbpp, problem, ground_truth_cache, anew):
    """The file of the problem's ground truth, after one program was graded."""
    before = set(ground_truth_cache.glob("*"))
    assert mbpp.verify(problem, block(SOLUTION)).status == "correct"
    [path] = set(ground_truth_cache.glob("*")) - before
    program_grading._benches.clear()
    return path


def test_ground_truth_is_kept_as_json_and_read_again(mbpp, problem, kept):
    content = json.loads(gzip.decompress(kept.read_bytes()))
    assert content["expected"] == ["i6", "i0", "i0", "i1f4", "i0"]
    assert content["memory_bytes"] == 1 << 30
    content["expected"][0] = "i5"
    kept.write_bytes(gzip.compress(json.dumps(content).encode()))
    assert mbpp.verify(problem, block(SOLUTION)).reason == "base: test 1"


def test_damaged_ground_truth_is_made_anew(mbpp, problem, kept):
    whole = json.loads(gzip.decompress(kept.read_bytes()))
    for damage in (*DAMAGE, gzip.compress(json.dumps({**whole, "memory_bytes": 1}).encode())):
        kept.write_bytes(damage)
        program_grading._benches.clear()
        assert mbpp.verify(problem, block(SOLUTION)).status == "correct", damage
        assert json.loads(gzip.decompress(kept.read_bytes()))["expected"] == whole["expected"], damage


@pytest.mark.parametrize("cache", ["/dev/null/x", ""])
def test_where_nothing_can_be_written_nothing_is_kept(mbpp, problem, anew, tmp_path, monkeypatch, cache):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", cache)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # what it does for a user without a home
    before = sorted(tmp_path.glob("*"))
    assert mbpp.verify(problem, block(SOLUTION)).status == "correct"
    assert sorted(tmp_path.glob("*")) == before


@pytest.mark.parametrize(("long", "too_long"), [(1000, 1 << 26), (1 << 20, 30_000)])
def test_long_results_are_compared_by_their_digests(monkeypatch, long, too_long):
    monkeypatch.setattr(program_grading, "LONG", long)
    monkeypatch.setattr(program_grading, "TOO_LONG", too_long)
    solution = "def count(n, x): return [(i, 'x') for i in range(n)] if x else [i / 3 for i in range(n)]"
    inputs = [[3, 1], [3000, 0], [5, 0], [4000, 1], [2, 1]]
    exercise = Exercise("mbpp", "count", solution, {"base": inputs[:2], "plus": inputs[2:]}, 0)
    loosely = solution.replace("(i, 'x')", "(float(i), 'x')")
    wrong = solution.replace("(i, 'x')", "(i, 'x' if i < 3999 else 'y')")
    assert passes(exercise, [solution, loosely, wrong]) == [True, True, False]
    kept = program_grading._benches.pop(hashlib.sha256(repr(exercise).encode()).hexdigest())
    digested = {test for test, is_digest in enumerate(kept._suite.digest) if is_digest}
    assert digested == ({3} if long == 1000 else {1, 2, 3, 4})
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
