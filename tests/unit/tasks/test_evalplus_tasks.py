"""MBPP+ and HumanEval+: evalplus' verdicts from our sandbox. Programs run for real, beside evalplus' own checker."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import multiprocessing
import os
import random
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.evalplus_verdicts import evalplus_passes
from support.json_lines import read_json_lines, write_json_lines
from support.mutants import ON_PURPOSE, mutants
from support.paths import ROOT
from support.processes import run_to_end
from support.refusals import refusal_of

from harness import HarnessError, Problem
from harness.stages.verify import graded
from harness.system.files import user_cache
from harness_tasks import evalplus_tasks
from harness_tasks.data import ground_truth
from harness_tasks.data.ground_truth import GroundTruth
from harness_tasks.evalplus_tasks import UNSAFE_EXEC, HumanEvalPlus, MbppPlus
from harness_tasks.programs import program_grading
from harness_tasks.programs.evalplus_oracle import Oracle, holds_floats, is_floats
from harness_tasks.programs.program_grading import Bench, Exercise, grade
from harness_tasks.sandbox import Run, encode, shared_sandbox

SOLUTION = "def sum_even(numbers):\n    return sum(n for n in numbers if n % 2 == 0)\n"
ROW = {
    "task_id": "Mbpp/9001",
    "prompt": '"""\nWrite a function to add the even numbers of a list.\nassert sum_even([1, 2, 4]) == 6\n"""\n',
    "entry_point": "sum_even",
    "canonical_solution": SOLUTION,
    "base_input": [[[1, 2, 4]], [[]]],
    "plus_input": [[[2, -2]], [[10] * 50], [[3]]],
    "atol": 0,
}
BEGUN = 'def half(x: float) -> float:\n    """ Half of x.\n    >>> half(3.0)\n    1.5\n    """\n'
HALF = {
    "task_id": "HumanEval/9001",
    "prompt": BEGUN,
    "entry_point": "half",
    "canonical_solution": "    return x / 2\n",
    "base_input": [[3.0]],
    "plus_input": [[0.1], [-7.0]],
    "atol": 0,
}


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """A cache of the tests' own: what they make, they also delete and damage."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder / "diversity-harness" / "ground-truth"


@pytest.fixture
def anew(monkeypatch):
    """Ground truth is neither in memory nor on the disk."""
    forget()
    key = evalplus_tasks.VERSION
    monkeypatch.setattr(evalplus_tasks, "VERSION", f"{key} {time.time_ns()}")


def forget():
    program_grading._benches.clear()


def written(tmp_path, *rows, name="data.jsonl"):
    return str(write_json_lines(tmp_path / name, rows))


@pytest.fixture
def mbpp(tmp_path):
    """MBPP+ with one small problem."""
    return MbppPlus(written(tmp_path, ROW))


@pytest.fixture
def problem(mbpp):
    return mbpp.problems("test")[0]


def block(program):
    return f"```python\n{program}\n```"


# Verdicts


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("def sum_even(n):\n    return 0 if not n else 6", "plus: test 1"),
        ("def sum_even(n):\n    return 7", "base: test 1"),
        ("def sum_even(n):\n    return n and 6", "base: test 2"),
        ("def sum_even(n):\n    return {3: 6, 0: 0}[len(n)]", "plus: test 1 raised KeyError"),
        ("def sum_even(n):\n    raise type('\\n' * 999, (Exception,), {})", "base: test 1 raised Exception"),
        ("def sum_even(n:\n    return 7", "syntax"),
        ("import nothing_like_it\ndef sum_even(n): return 6", "raised"),
        ("def sum_even(n): return 6\ndel sum_even", "missing"),
        ("def sum_even(n):\n    while True: pass", "timeout"),
        ("def sum_even(n):\n    return [0] * 10**9", "memory"),
        ("def sum_even(n):\n    return 'x' * 10**8", "output"),
        ("import os\ndef sum_even(n):\n    os._exit(0)", "killed"),
    ],
)
def test_a_wrong_program_is_told_why(mbpp, problem, program, reason):
    verdict = mbpp.verify(problem, block(program))
    assert (verdict.status, verdict.reason, verdict.route) == ("wrong", reason, "base+plus")


def test_a_right_program_is_correct_however_it_is_written(mbpp, problem):
    body = "    found = 0\n    for n in numbers:\n        found += n * (1 - n % 2)\n    return found"
    loop = f"def sum_even(numbers):\n{body}"
    for response in (block(SOLUTION), SOLUTION, f"Here:\n```\n{loop}\n```\nIt loops.", block(ROW["prompt"] + loop)):
        verdict = mbpp.verify(problem, response)
        assert (verdict.status, verdict.route) == ("correct", "base+plus")


def test_responses_are_graded_in_their_order_and_talk_is_no_program(mbpp, problem):
    responses = ["I cannot.", block(SOLUTION), block("def sum_even(n): return 0"), "", block(SOLUTION)] * 20
    verdicts = mbpp.verify_all(problem, responses)
    assert [verdict.status for verdict in verdicts] == ["wrong", "correct", "wrong", "wrong", "correct"] * 20
    assert verdicts[0].reason == verdicts[3].reason == "no program"
    assert mbpp.verify_all(problem, []) == []


def test_a_response_that_was_cut_off_in_its_second_program_is_graded_by_its_first(mbpp, problem):
    response = f"{block(SOLUTION)}\nShorter:\n```python\ndef sum_even(numbers):\n    return sum(n for"
    verdicts, _ = graded(mbpp, problem, [response] * 2, finish=["length", "stop"])
    assert [verdict.status for verdict in verdicts] == ["correct", "wrong"]
    keys = [mbpp.verdict_key(problem, response, None, finish=end) for end in ("length", "stop")]
    assert keys[0] != keys[1]  # one verdict is not taken for the other's


def test_only_base_tests_count_where_they_are_asked_for(tmp_path, problem):
    base = MbppPlus(written(tmp_path, ROW), tests="base")
    verdict = base.verify(problem, block("def sum_even(n):\n    return 6 if n else 0"))
    assert (verdict.status, verdict.route) == ("correct", "base")
    with pytest.raises(HarnessError, match=r"^mbppplus: tests must be 'plus' or 'base', got 'both'$"):
        MbppPlus(tests="both")


def test_a_completion_is_graded_with_its_prompt(tmp_path):
    task = HumanEvalPlus(written(tmp_path, HALF))
    [problem] = task.problems("test")
    assert task.plain(problem) == BEGUN
    assert task.verify(problem, "    return 0.5 * x\n\ndef other(").status == "correct"
    assert task.verify(problem, "    return round(x / 2, 1)\n").reason == "plus: test 1"


def test_a_broken_canonical_solution_is_our_error(tmp_path):
    for solution, reason in (("def sum_even(n): return 1 / 0", "stopped"), ("def sum_even(n:", "syntax")):
        task = MbppPlus(written(tmp_path, {**ROW, "canonical_solution": solution}))
        verdict = task.verify(task.problems("test")[0], block(SOLUTION))
        assert verdict.status == "error"
        assert verdict.reason.startswith(f"ground truth: {reason}")


def test_a_fault_in_the_comparison_is_our_error(mbpp, problem, monkeypatch):
    monkeypatch.setattr(Oracle, "passes", lambda *given: {}["gone"])
    assert mbpp.verify(problem, block(SOLUTION)).reason == "oracle: KeyError: 'gone'"


def test_a_wrong_program_ends_at_its_first_wrong_result(mbpp, tmp_path):
    row = {**ROW, "task_id": "Mbpp/9002", "plus_input": [[[2]]] * 100}
    task = MbppPlus(written(tmp_path, row))
    slow = "def sum_even(n):\n    if n == [1, 2, 4]: return 5\n    for i in range(10**9): pass"
    started = time.monotonic()
    assert task.verify(task.problems("test")[0], block(slow)).reason == "base: test 1"
    assert time.monotonic() - started < 20  # its 102 tests take a CPU-second each


def test_limits_are_evalplus_in_cpu_seconds():
    exercise = Exercise("mbpp", "same", "", {"base": [[1], [2]], "plus": [[3]] * 100}, 0)
    truth = GroundTruth(["i1", "i2"] + ["i3"] * 100, [0.1, 20.0] + [0.5] * 100, 1 << 31)
    suite = Bench("key", exercise, truth)._suite
    assert list(suite.cpu_limits_s) == [1.0, 80.0] + [2.0] * 100
    assert suite.total_cpu_s == (60 + 2) + (60 + 2)
    assert (suite.memory_bytes, suite.output_bytes) == (1 << 31, 4 << 20)
    short = Bench("key", Exercise("mbpp", "same", "", {"base": [[1]]}, 0), GroundTruth(["i1"], [0.1], 1 << 30))
    assert short._suite.total_cpu_s == 1 + 2


def test_a_test_may_take_a_second(mbpp, problem):
    for seconds, status in ((0.3, "correct"), (2.5, "wrong")):
        waits = f"    end = time.process_time() + {seconds} * (n == [2, -2])\n    while time.process_time() < end: pass"
        program = SOLUTION.replace("sum_even(numbers):", f"sum_even(n):\n{waits}\n    numbers = n")
        assert mbpp.verify(problem, block(f"import time\n{program}")).status == status


def test_what_was_not_judged_is_never_correct():
    class Careless:
        def run_all(self, suite, programs, judge):
            judge(0, 0, "i1")
            return [Run("ok", ["i1", "i2"]), Run("ok"), Run("stopped")]

    exercise = Exercise("mbpp", "same", "", {"base": [[1], [2]]}, 0)
    bench = Bench("key", exercise, GroundTruth(["i1", "i2"], [0.1, 0.1], 1 << 30))
    assert [verdict.status for verdict in bench.grade(Careless(), ["", "", ""])] == ["error"] * 3


HOSTILE = [
    "class Same(int):\n    __eq__ = lambda s, o: True\n    __hash__ = int.__hash__\ndef sum_even(n): return Same(5)",
    "class Same:\n    __eq__ = lambda s, o: True\ndef sum_even(n): return Same()",
    "import os, sys\ndef sum_even(n):\n    for fd in range(64):\n        try: os.write(fd, b'0 i6\\n' * 9)\n"
    "        except OSError: pass\n    os._exit(0)",
    "import sys\ndef sum_even(n):\n    frame = sys._getframe()\n    while frame:\n        for name, value in "
    "frame.f_locals.items():\n            if 'expected' in name: return value[0]\n        frame = frame.f_back",
    "def sum_even(n):\n    n = []\n    n.append(n)\n    return n",
    "import sys\nsys.setrecursionlimit(10**9)\ndef sum_even(n): return sum_even(n)",
    "def sum_even(n):\n    raise SystemExit(0)",
]


@pytest.mark.parametrize("program", HOSTILE)
def test_a_hostile_program_is_wrong_and_the_next_is_graded_as_ever(mbpp, problem, program):
    first, second = mbpp.verify_all(problem, [block(program), block(SOLUTION)])
    assert (first.status, second.status) == ("wrong", "correct")


@pytest.mark.parametrize("junk", ["\x00", "\ud800", "(" * 100_000, "1+" * 100_000 + "1", "9**9**9", "x" * 1_000_000])
def test_odd_source_is_wrong(mbpp, problem, junk):
    response = block(f"def sum_even(n):\n    return {junk}")
    assert mbpp.verify(problem, response).status == "wrong"
    mbpp.answer(problem, response)


# Answers


def test_the_answer_is_the_program_in_one_spelling(mbpp, problem):
    other = "def sum_even(numbers):  # adds\n    'Adds.'\n    return (sum(n for n in numbers\n        if n%2==0))"
    answers = mbpp.answers(problem, [block(SOLUTION), f"So:\n{block(other)}", "No.", block("def sum_even(n:")])
    assert answers[0] == answers[1] is not None
    assert answers[2:] == [None, None]
    assert mbpp.answer(problem, block(other)) == answers[0]
    assert mbpp.answers(problem, []) == []


EVEN = "sum(x for x in n if x % 2 == 0)"
SELF_AWARE = {  # by what they see: two programs with one syntax tree, docstrings aside, of which the second is wrong
    "first line": [
        f"{blank}def sum_even(n): return {EVEN} * (sum_even.__code__.co_firstlineno < 3)" for blank in ("", "\n\n")
    ],
    "docstring": [
        f"def sum_even(n):\n    {text}return {EVEN} + len(sum_even.__code__.co_consts[0] or '')"
        for text in ("", "'x'\n    ")
    ],
    "own line": [
        f"import sys\ndef sum_even(n): return ({blank}{EVEN} + sys._getframe().f_lineno - 2)" for blank in ("", "\n")
    ],
}


@pytest.mark.parametrize("pair", SELF_AWARE.values(), ids=SELF_AWARE)
def test_programs_that_see_their_own_text_get_their_own_verdicts_in_any_order(mbpp, problem, pair):
    right, other = map(block, pair)
    assert len(set(mbpp.answers(problem, [right, other]))) == 1
    for order in ([right, other], [other, right]):
        known = {}
        statuses = {text: graded(mbpp, problem, [text], known)[0][0].status for text in order}
        assert statuses == {right: "correct", other: "wrong"}


def test_the_verdict_depends_on_the_programs_text_alone(mbpp, problem):
    key = mbpp.verdict_key(problem, block(SOLUTION), None)
    assert key == mbpp.verdict_key(problem, f"So:\n{block(SOLUTION)}\nIt adds.", None) is not None
    assert key != mbpp.verdict_key(problem, block(SOLUTION.replace("(n for", "( n for")), None)
    assert mbpp.verdict_key(problem, "No.", None) is None
    assert mbpp.grader != "1"  # whose verdicts were shared by programs with one syntax tree


# evalplus' rules


def ours_passes(exercise, programs):
    key = hashlib.sha256(repr(exercise).encode()).hexdigest()
    verdicts = grade(key, shared_sandbox(), lambda: exercise, programs)
    assert all(verdict.status != "error" for verdict in verdicts), verdicts
    return [verdict.status == "correct" for verdict in verdicts]


SAME = "import fractions, decimal, collections\ndef same(x): return {made}"
PAIRS = [
    (1, ["1", "1.0", "True", "2", "'1'", "1 + 0j", "fractions.Fraction(1)", "decimal.Decimal(1)", "None", "[1]"]),
    (
        1.5,
        ["1.5", "1.5 + 1e-7", "1.5 + 1e-5", "fractions.Fraction(3, 2)", "'1.5'", "[1.5]", "float('nan')", "1.5 + 0j"],
    ),
    (0.0, ["-0.0", "0", "False", "5e-7", "1e-5", "None", "''"]),
    (2**60, ["2**60", "float(2**60)", "2**60 + 1", "float(2**60 + 1)"]),
    (math.inf, ["float('inf')", "-float('inf')", "1e308", "10**400"]),
    ("text", ["'text'", "'Text'", "b'text'", "list('text')"]),
    (None, ["None", "False", "0", "float('nan')"]),
    ([1, 2], ["[1, 2]", "(1, 2)", "[1.0, 2]", "[True, 2]", "[2, 1]", "[1, 2, 2]", "range(1, 3)", "{1, 2}"]),
    ([0.5, 1.5], ["[0.5, 1.5 + 1e-7]", "(0.5, 1.5 + 1e-7)", "[0.5]", "[[0.5], [1.5]]", "[0.5, None]", "[0.5, '1.5']"]),
    ([0.5, 1.5], ["[fractions.Fraction(1, 2), 1.5]", "[0.5, 10**400]", "[0.5, {1.5}]"]),
    ((0.5, 1), ["(0.5, 1)", "(0.5 + 1e-9, 1)", "[0.5, 1]"]),
    ([0.5, 0.5], ["[0.5]", "[0.5 + 1e-9] * 2"]),
    ([], ["[]", "()", "{}", "''", "None", "set()"]),
    ({1, 2}, ["{1, 2}", "{1.0, 2}", "frozenset([1, 2])", "[1, 2]", "{1: 1, 2: 2}.keys()"]),
    (
        {1: "a", 2: [3.0]},
        ["{2: [3], 1.0: 'a'}", "collections.OrderedDict([(2, [3.0]), (1, 'a')])", "{1: 'a'}", "[1, 2]"],
    ),
    (1 + 2j, ["1 + 2j", "1 + 2.0000001j", "(1, 2)"]),
    ([[0.5], [1.5]], ["[[0.5], [1.5]]", "[[0.5], [1.5 + 1e-9]]", "[(0.5,), (1.5,)]"]),
]


@pytest.mark.parametrize("atol", [0, 1e-4])
@pytest.mark.parametrize(("value", "made"), PAIRS)
def test_a_result_is_right_if_it_is_to_evalplus(value, made, atol):
    exercise = Exercise("mbpp", "same", "def same(x): return x", {"base": [[value]], "plus": []}, atol)
    programs = [SAME.format(made=each) for each in made]
    assert ours_passes(exercise, programs) == evalplus_passes(exercise, programs)


NUMPY = "import numpy\ndef same(x): return {made}"


def test_numpy_results_are_right_if_they_are_to_evalplus():
    made = {
        2: ["numpy.int64(2)", "numpy.float32(2)", "numpy.bool_(True)", "numpy.array([2, 2])", "numpy.int8(130)"],
        0.1: ["numpy.float64(0.1)", "numpy.float64(0.1 + 1e-8)", "numpy.float16(0.2)", "numpy.float64('nan')"],
        0.5: ["numpy.float16(0.5)", "numpy.complex64(0.5)", "numpy.float32(0.25 + 0.25)"],
        2**60 + 1: ["numpy.float64(2**60)", "numpy.int64(2**60)", "numpy.uint64(2**60 + 1)"],
    }
    for value, each in made.items():
        exercise = Exercise("mbpp", "same", "def same(x): return x", {"base": [[value]], "plus": []}, 0)
        programs = [NUMPY.format(made=result) for result in each]
        assert ours_passes(exercise, programs) == evalplus_passes(exercise, programs)


ROUNDED = ["2 * 3.1415 * x", "numpy.float16(2 * 3.1415 * x)", "numpy.float32(2 * 3.14159 * x)", "numpy.float16('inf')"]


def test_an_expected_result_is_never_rounded_though_evalplus_does_so_beside_numpy_2():
    solution = "def same(x): return 2 * 3.14159 * x"
    exercise = Exercise("mbpp", "same", solution, {"base": [[10], [10**6]], "plus": []}, 0)
    programs = [NUMPY.format(made=result) for result in ROUNDED]
    assert ours_passes(exercise, [solution, *programs]) == [True, False, False, False, False]


NEARLY = {
    "[[]]": [0.5],
    "[[0.5]]": [0.5],
    "[[0.5, 0.5], [0.5, 0.5]]": [0.5, 0.5],
    "[[0.5 + 1e-9]]": [0.5],
    "[[0.5, 1.5], [0.5, 1.5]]": [0.5, 1.5],
}


def test_floats_must_have_the_expected_shape_though_evalplus_broadcasts():
    for made, value in NEARLY.items():
        exercise = Exercise("mbpp", "same", "def same(x): return x", {"base": [[value]], "plus": []}, 0)
        assert ours_passes(exercise, [SAME.format(made=made)]) == [False], made


def test_a_tolerance_stays_from_the_first_expected_float_on():
    near = "def same(x): return [each + 1e-8 for each in x] if type(x) is list else x"
    for inputs in ([[1.5], [[1, 2]]], [[[1, 2]], [1.5]]):
        for runs in ({"base": inputs, "plus": []}, {"base": inputs[:1], "plus": inputs[1:]}):
            exercise = Exercise("mbpp", "same", "def same(x): return x", runs, 0)
            first_base = inputs[0] == [1.5] and not runs["plus"]
            assert ours_passes(exercise, [near]) == evalplus_passes(exercise, [near]) == [first_base]


SPECIAL = [
    # data set, function, its solution's body, inputs, other bodies
    (
        "mbpp",
        "similar_elements",
        "return tuple(set(a) & set(b))",
        [[(1, 2, 3), (2, 3, 4)], [(1, 2), (1, 7)], [(), ()]],
        [
            "return list(set(b) & set(a))",
            "return [x for x in a if x in b] * 2",
            "return {x for x in a if x in b}",
            "return (x for x in a if x in b)",
            "return filter(lambda x: x in b, a)",
            "return {x: 0 for x in a if x in b}",
            "return {x: 0 for x in a if x in b}.keys()",
            "return frozenset(a) & frozenset(b)",
            "return [float(x) for x in a if x in b]",
            "return [x for x in a if x in b] + [[]]",
            "return [[x] for x in a if x in b]",
            "return sorted(set(a) | set(b))",
            "return len(a)",
            "return None",
            "return similar_elements(a[1:], b) + (a[:1] if a[0] in b else ()) if a else ()",
        ],
    ),
    (
        "mbpp",
        "find_dissimilar",
        "return tuple(set(a) ^ set(b))",
        [[(0.5, 2.5), (2.5,)], [(1, 2), (2, 3)]],
        ["return [x + 1e-9 for x in set(a) ^ set(b)]", "return tuple(x + 1e-9 for x in set(a) ^ set(b))"],
    ),
    (
        "mbpp",
        "find_char_long",
        "return a.split()",
        [["a b", None], ["ab", None]],
        ["return a.replace(' ', '') if ' ' in a else [a]", "return a.encode().split()", "return a"],
    ),
    (
        "mbpp",
        "check_str",
        "import re\n    return re.match('[aeiou]', a)",
        [["alpha", 0], ["beta", 0]],
        [
            "return a[0] in 'aeiou'",
            "return True",
            "return None if a == 'beta' else 'Valid'",
            "return 0 if a == 'beta' else 1",
            "import re\n    return re.search('^[aeiou]', a)",
            "return None if a == 'beta' else (x for x in a)",
            "return a == 'beta'",
            "return None",
        ],
    ),
    (
        "mbpp",
        "sum_div",
        "return sum(d for d in range(1, a) if a % d == 0)",
        [[6, 0], [7, 0]],
        ["return 0", "return 0.0", "return False", "return 1", "return ''", "return 6 if a == 6 else 0"],
    ),
    (
        "mbpp",
        "are_equivalent",
        "return a == b",
        [[1, 1], [1, 2]],
        ["return 'whatever'", "raise ValueError", "return {}"],
    ),
    (
        "mbpp",
        "surface_Area",
        "return round(a * a + 2 * a * (a * a / 4 + b * b) ** 0.5) + 1",
        [[3, 4], [4, 5]],
        [
            "return round(a * a + 2 * a * (a * a / 4 + b * b) ** 0.5)",
            "return float(round(a * a + 2 * a * (a * a / 4 + b * b) ** 0.5))",
            "return str(round(a * a + 2 * a * (a * a / 4 + b * b) ** 0.5))",
            "return round(a * a + 2 * a * (a * a / 4 + b * b) ** 0.5) + 2",
            "return [1]",
        ],
    ),
    (
        "mbpp",
        "digit_distance_nums",
        "return abs(sum(map(int, str(a))) - sum(map(int, str(b))))",
        [[1, 2], [23, 156]],
        [
            "return sum(abs(int(x) - int(y)) for x, y in zip(str(a).zfill(3), str(b).zfill(3)))",
            "return sum(abs(int(x) - int(y)) for x, y in zip(str(a), str(b)))",
            "return None",
        ],
    ),
    ("humaneval", "sum_div", "return a", [[6, 0]], ["return 0", "return 6.0"]),
]


@pytest.mark.parametrize(
    ("dataset", "name", "solution", "inputs", "bodies"), SPECIAL, ids=[each[1] for each in SPECIAL]
)
def test_functions_with_a_rule_of_their_own_are_judged_by_it(dataset, name, solution, inputs, bodies):
    def defined(body):
        return f"def {name}(a, b):\n    {body}\n"

    exercise = Exercise(dataset, name, defined(solution), {"base": inputs, "plus": inputs[:1]}, 0)
    programs = [defined(body) for body in [solution, *bodies]]
    assert ours_passes(exercise, programs) == evalplus_passes(exercise, programs)


def test_any_root_of_the_polynomial_is_right_though_evalplus_never_says_so():
    """evalplus 0.3.1 does not count the passed tests of HumanEval/32, so none of its programs is ever correct."""
    solution = "def find_zero(xs): return -xs[0] / xs[1]\n"
    exercise = Exercise("humaneval", "find_zero", solution, {"base": [[[1, 2]], [[-6, 2]]], "plus": []}, 1e-4)
    other = ["-xs[0] / xs[1] + 1e-6", "-xs[0] / xs[1] + 1", "None", "'x'", "10**400", "float('nan')", "1j", "[1]"]
    programs = [solution, *(f"def find_zero(xs): return {each}\n" for each in other)]
    assert ours_passes(exercise, programs) == [True, True] + [False] * 7
    assert evalplus_passes(exercise, programs[:3]) == [False] * 3


def test_a_number_beside_the_root_is_wrong_where_the_polynomial_is_steep():
    solution = "def find_zero(xs): return -xs[0] / xs[1]\n"
    exercise = Exercise("humaneval", "find_zero", solution, {"base": [[[1, 10**6]]], "plus": []}, 1e-4)
    assert ours_passes(exercise, [solution, "def find_zero(xs): return 0.0\n"]) == [True, False]


def test_the_polynomial_is_the_one_that_was_asked_for():
    solution = "def find_zero(xs): return -xs[0] / xs[1]\n"
    cheat = "def find_zero(xs):\n    xs[:] = [0, 0]\n    return 5.0\n"
    exercise = Exercise("humaneval", "find_zero", solution, {"base": [[[1, 2]]], "plus": []}, 1e-4)
    assert ours_passes(exercise, [cheat]) == [False]


@pytest.mark.parametrize(
    ("value", "floats", "holds"),
    [
        (1.5, True, True),
        ([1.5, -2e-9], True, True),
        ((1.5,), True, True),
        ([], False, False),
        ([1.5, 1], False, True),
        ([[1.5]], False, True),
        (1, False, False),
        (15, False, False),  # if in hex
        (["f1.5", '"f', "[f"], False, False),
        ({1: {2.5}}, False, True),
        (True, False, False),
        (1j, False, True),
    ],
)
def test_floats_are_seen_in_canonical_text(value, floats, holds):
    assert (is_floats(encode(value)), holds_floats(encode(value))) == (floats, holds)


@pytest.mark.parametrize(
    "text", ["", "[", "i", "f", "fnan", "X", "M", "[" * 500, 's"', "i" + "f" * 4_000_000, "nfoo:i1;", "h"]
)
def test_a_forged_text_is_wrong(text):
    for expected in ("i5", "f1.5", "[f1.5,f2.5]", "h00", "X", "fnan"):
        for name in ("plain", "similar_elements", "surface_Area", "sum_div"):
            assert not Oracle("mbpp", name, [[1, 2]], [expected], 1e-4).passes(0, text)


def test_the_memory_that_a_comparison_takes_is_bounded_by_what_is_expected():
    program = ROOT / "tests" / "campaigns" / "large_results.py"
    done = run_to_end([sys.executable, str(program)])
    assert done.returncode == 0, done.stdout + done.stderr


def test_colliding_hashes_do_not_stall_the_comparison():
    collide = ",".join(f"i{i * (2**61 - 1):x}" for i in range(1, 30_000))
    started = time.monotonic()
    for text in (f"<{collide}>", f"[{collide}]", "{" + collide.replace(",", ":N,") + ":N}"):
        assert not Oracle("mbpp", "similar_elements", [[1]], ["[i1]"], 0).passes(0, text)
        assert not Oracle("mbpp", "plain", [[1]], ["<i1>"], 0).passes(0, text)
    assert time.monotonic() - started < 20


# Ground truth


def files(cache):
    return sorted(cache.glob("*"))


def test_ground_truth_is_kept_as_json_and_read_again(mbpp, problem, cache, anew):
    before = files(cache)
    assert mbpp.verify(problem, block(SOLUTION)).status == "correct"
    [path] = [path for path in files(cache) if path not in before]
    kept = json.loads(gzip.decompress(path.read_bytes()))
    assert kept["expected"] == ["i6", "i0", "i0", "i1f4", "i0"]
    assert kept["memory_bytes"] == 1 << 30
    forget()
    path.write_bytes(gzip.compress(json.dumps({**kept, "expected": ["i5", *kept["expected"][1:]]}).encode()))
    assert mbpp.verify(problem, block(SOLUTION)).reason == "base: test 1"


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"junk",
        gzip.compress(b"{", mtime=0),
        gzip.compress(b"[]", mtime=0),
        gzip.compress(b'{"expected": [], "cpu_s": [], "memory_bytes": 1073741824}', mtime=0),
        gzip.compress(b'{"expected": [1, 2, 3, 4, 5], "cpu_s": [1, 1, 1, 1, 1], "memory_bytes": 1073741824}', mtime=0),
        gzip.compress(b'{"expected": ["i6"], "cpu_s": "no", "memory_bytes": null, "more": 1}', mtime=0),
        gzip.compress(b"[" * 100_000, mtime=0),
        gzip.compress(bytes(1000), mtime=0)[:-9],
    ],
)
def test_damaged_ground_truth_is_made_anew(mbpp, problem, cache, anew, damage):
    before = files(cache)
    mbpp.verify(problem, block(SOLUTION))
    [path] = [path for path in files(cache) if path not in before]
    whole = json.loads(gzip.decompress(path.read_bytes()))["expected"]
    path.write_bytes(damage)
    forget()
    assert mbpp.verify(problem, block(SOLUTION)).status == "correct"
    assert json.loads(gzip.decompress(path.read_bytes()))["expected"] == whole


@pytest.mark.parametrize("cache", ["/dev/null/x", ""])
def test_where_nothing_can_be_written_nothing_is_kept(mbpp, problem, anew, tmp_path, monkeypatch, cache):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", cache)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # what it does for a user without a home
    before = files(tmp_path)
    assert mbpp.verify(problem, block(SOLUTION)).status == "correct"
    assert files(tmp_path) == before


def test_other_data_has_another_ground_truth(mbpp, problem, tmp_path):
    assert mbpp.verify(problem, block(SOLUTION)).status == "correct"
    odd = Problem(problem.id, problem.prompt, SOLUTION.replace("== 0", "== 1"), problem.meta)
    assert mbpp.verify(odd, block(SOLUTION)).status == "wrong"
    program = block("def sum_even(n): return {3: 6, 2: 0, 50: 500}.get(len(n), 0)")
    assert mbpp.verify(problem, program).status == "correct"
    more = MbppPlus(written(tmp_path, {**ROW, "plus_input": [*ROW["plus_input"], [[2]]]}))
    assert more.verify(more.problems("test")[0], program).reason == "plus: test 4"


@pytest.mark.parametrize(("long", "too_long"), [(1000, 1 << 26), (1 << 20, 30_000)])
def test_long_results_are_compared_by_their_digests(monkeypatch, long, too_long):
    monkeypatch.setattr(ground_truth, "LONG", long)
    monkeypatch.setattr(ground_truth, "TOO_LONG", too_long)
    solution = "def count(n, x): return [(i, 'x') for i in range(n)] if x else [i / 3 for i in range(n)]"
    inputs = [[3, 1], [3000, 0], [5, 0], [4000, 1], [2, 1]]
    exercise = Exercise("mbpp", "count", solution, {"base": inputs[:2], "plus": inputs[2:]}, 0)
    loosely = solution.replace("(i, 'x')", "(float(i), 'x')")
    wrong = solution.replace("(i, 'x')", "(i, 'x' if i < 3999 else 'y')")
    assert ours_passes(exercise, [solution, loosely, wrong]) == [True, True, False]
    kept = program_grading._benches[hashlib.sha256(repr(exercise).encode()).hexdigest()]
    digested = {test for test, wanted in enumerate(kept._suite.digest) if wanted}
    assert digested == ({3} if long == 1000 else {1, 2, 3, 4})
    forget()
    for path in files(user_cache() / "ground-truth"):
        path.unlink()


def test_a_solution_that_needs_memory_leaves_others_more(cache, monkeypatch):
    monkeypatch.setattr(ground_truth, "FRUGAL", 64 << 20)  # what gigabytes cost in CPU time differs with the machine
    solution = "def big(n): return len(bytearray(n))"
    frugal = Exercise("mbpp", "big", solution, {"base": [[20 << 20]], "plus": []}, 0)
    hungry = Exercise("mbpp", "big", solution, {"base": [[100 << 20]], "plus": []}, 0)
    greedier = "def big(n): return len(bytearray(4 * n)) // 4"
    assert ours_passes(frugal, [solution, greedier]) == [True, True]
    assert ours_passes(frugal, [greedier.replace("4", "8")]) == [False]
    assert ours_passes(hungry, [solution, greedier]) == [True, True]


def test_benches_that_are_not_used_make_room(monkeypatch):
    forget()
    monkeypatch.setattr(program_grading, "KEPT_CHARACTERS", 20)
    for word in ("a" * 8, "b" * 8, "c" * 80, "d"):
        ours_passes(Exercise("mbpp", "same", "def same(x): return x", {"base": [[word]], "plus": []}, 0), [])
    assert [bench.characters for bench in program_grading._benches.values()] == [4]
    forget()


# Elsewhere than in the main thread of the main process


def statuses(task, problem, responses):
    """Runs in a worker process too: what it says, and which heavy packages it has loaded."""
    verdicts = [(verdict.status, verdict.reason) for verdict in task.verify_all(problem, responses)]
    return verdicts, os.environ.get(UNSAFE_EXEC), "torch" in sys.modules, task.conditions()


RESPONSES = [block(SOLUTION), block("def sum_even(n): return 6"), "no"]
SAID = [("correct", ""), ("wrong", "base: test 2"), ("wrong", "no program")]


def test_verdicts_are_the_same_from_threads(mbpp, problem):
    before = threading.active_count()
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(lambda _: statuses(mbpp, problem, RESPONSES), range(8)))
    assert [each[0] for each in made] == [SAID] * 8
    assert threading.active_count() == before


def test_ground_truth_is_made_once_though_many_ask(mbpp, problem, anew, monkeypatch):
    asked = []
    compute = program_grading.ground_truth
    monkeypatch.setattr(program_grading, "ground_truth", lambda *given: asked.append(given) or compute(*given))
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: mbpp.verify(problem, block(SOLUTION)), range(8)))
    assert len(asked) == 1


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_verdicts_are_the_same_in_worker_processes_and_need_no_torch(mbpp, problem, method):
    with multiprocessing.get_context(method).Pool(1) as workers:
        verdicts, unsafe, torch, conditions = workers.apply(statuses, (mbpp, problem, RESPONSES))
    assert verdicts == SAID
    assert (unsafe, torch) == (None, False)
    assert conditions == {"sandbox": shared_sandbox().tier}


# check


def test_the_check_says_which_sandbox_grades(mbpp):
    assert mbpp.check() == shared_sandbox().remark
    assert mbpp.check().startswith("sandbox: ")


def test_unconfined_grading_must_be_asked_for_and_reaches_the_workers(mbpp, problem, monkeypatch):
    monkeypatch.setenv("HARNESS_SANDBOX_TIER", "none")
    monkeypatch.setenv(UNSAFE_EXEC, "left over")
    with pytest.raises(HarnessError, match="--unsafe-exec"):
        mbpp.check()
    assert UNSAFE_EXEC not in os.environ
    assert "NONE" in mbpp.check(unsafe_exec=True)
    with multiprocessing.get_context("spawn").Pool(1) as workers:
        verdicts, unsafe, _, conditions = workers.apply(statuses, (mbpp, problem, RESPONSES))
    assert (verdicts, unsafe, conditions) == (SAID, "1", {"sandbox": "none"})
    monkeypatch.delenv(UNSAFE_EXEC)


def test_a_missing_evalplus_names_the_extra(mbpp, monkeypatch):
    monkeypatch.setitem(sys.modules, "evalplus.eval", None)
    with pytest.raises(HarnessError, match=r"^mbppplus: needs evalplus .*: pip install 'diversity-harness\[code\]'$"):
        mbpp.check()


# Data


def test_prompts_say_what_is_wanted(mbpp, problem):
    [message] = mbpp.messages(problem)
    assert message["role"] == "user"
    assert "one Markdown code block" in message["content"]
    assert problem.prompt.strip() in message["content"]
    assert mbpp.plain(problem) == problem.prompt.strip() + "\n"


def test_settings_are_the_papers(mbpp):
    assert (mbpp.n, mbpp.max_tokens, HumanEvalPlus.max_tokens) == (64, 768, 512)
    assert mbpp.paper == {"n": 6400, "max_tokens": 768, "sampler": {"top_p": 0.95}}
    assert HumanEvalPlus.paper == {}


def parquet(tmp_path, rows):
    import pyarrow as pa
    import pyarrow.parquet as pq

    nested = ("base_input", "plus_input")
    rows = [{name: json.dumps(value) if name in nested else value for name, value in row.items()} for row in rows]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "data.parquet")
    return str(tmp_path / "data.parquet")


def test_local_files_of_each_kind_hold_the_same_problems(tmp_path):
    rows = [ROW, {**ROW, "task_id": "Mbpp/9002", "plus_input": {}}]
    plain = written(tmp_path, *rows)
    packed = tmp_path / "data.jsonl.gz"
    packed.write_bytes(gzip.compress(Path(plain).read_bytes()))
    found = [MbppPlus(data).problems("test") for data in (plain, str(packed), parquet(tmp_path, rows))]
    assert found[0] == found[1] == found[2]
    assert [problem.id for problem in found[0]] == ["Mbpp/9001", "Mbpp/9002"]
    assert found[0][0].reference == SOLUTION
    assert ROW.items() >= {name: value for name, value in found[0][0].meta.items() if name != "sha256"}.items()
    assert found[0][1].meta["plus_input"] == []
    assert MbppPlus(plain).revision == f"sha256:{hashlib.sha256(Path(plain).read_bytes()).hexdigest()[:16]}"


def test_inputs_become_what_json_cannot_hold(tmp_path):
    row = {**ROW, "task_id": "Mbpp/2", "base_input": [[[1, 2, 4]]], "plus_input": []}
    row |= {"canonical_solution": "def sum_even(n): return type(n).__name__", "prompt": '"""\nNames a type.\n"""\n'}
    task = MbppPlus(written(tmp_path, row))
    [problem] = task.problems("test")
    assert problem.meta["base_input"] == [[[1, 2, 4]]]
    assert task.verify(problem, block("def sum_even(n): return 'tuple'")).status == "correct"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"task_id": "Mbpp-7"}, "task_id must be Mbpp/NUMBER or HumanEval/NUMBER, got 'Mbpp-7'"),
        ({"entry_point": "a b"}, "entry_point must be a function's name, got 'a b'"),
        ({"entry_point": None}, "no value in column 'entry_point'"),
        ({"base_input": None}, "column 'base_input' must be a list with a list of arguments for each test"),
        ({"plus_input": [1]}, "column 'plus_input' must be a list with a list of arguments for each test"),
        ({"plus_input": "[1"}, "column 'plus_input' is no JSON"),
        ({"atol": "much"}, "column 'atol' must be a number of at least 0, got 'much'"),
        ({"atol": True}, "column 'atol' must be a number of at least 0, got True"),
    ],
)
def test_a_faulty_row_is_named(tmp_path, change, complaint):
    task = MbppPlus(written(tmp_path, ROW, {**ROW, "task_id": "Mbpp/1", **change}))
    assert refusal_of(task.problems, "test").startswith(f"mbppplus: data {task.data}, line 2: {complaint}")


def test_an_unknown_split_is_refused(mbpp):
    with pytest.raises(HarnessError, match=r"^mbppplus: unknown split 'train' \(choose from test\)$"):
        mbpp.problems("train")


@pytest.fixture
def evalplus_cache(tmp_path, monkeypatch):
    """The folder where evalplus looks for its release files, empty."""
    monkeypatch.setattr("evalplus.data.utils.CACHE_DIR", str(tmp_path))
    return tmp_path


def test_without_network_the_release_file_and_the_way_round_are_named(evalplus_cache, monkeypatch, capfd):
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # nothing listens there
    line = refusal_of(HumanEvalPlus().problems, "test")
    assert line.startswith("humanevalplus: https://github.com/evalplus/humanevalplus_release/releases/")
    assert "HumanEvalPlus.jsonl.gz" in line
    assert line.endswith("give the file with --data FILE")
    assert capfd.readouterr().out == ""  # evalplus prints; stdout may be JSON


def test_a_damaged_release_file_is_refused(evalplus_cache):
    path = evalplus_cache / "MbppPlus-v0.2.0.jsonl"
    path.write_text(json.dumps(ROW))
    with pytest.raises(HarnessError, match=r"^mbppplus: .* is not MbppPlus v0\.2\.0: delete it, or give --data FILE$"):
        MbppPlus().problems("test")


def test_the_release_file_is_taken_from_evalplus_cache(evalplus_cache, shared_data, capfd):
    packed = (shared_data / "tasks" / "MbppPlus-v0.2.0.jsonl.gz").read_bytes()
    (evalplus_cache / "MbppPlus-v0.2.0.jsonl").write_bytes(gzip.decompress(packed))
    assert len(MbppPlus().problems("test")) == 378
    assert MbppPlus().revision == "v0.2.0"
    assert capfd.readouterr().out == ""


# The real data


@pytest.fixture
def real_mbpp(shared_data):
    return MbppPlus(str(shared_data / "tasks" / "MbppPlus-v0.2.0.jsonl.gz"))


@pytest.fixture
def real_humaneval(shared_data):
    return HumanEvalPlus(str(shared_data / "tasks" / "HumanEvalPlus-v0.1.10.jsonl.gz"))


def canonical_verdicts(task):
    """The verdict on each problem's canonical solution, on all cores."""

    def verdict(problem):
        return problem.id, task.verify(problem, block(problem.prompt + problem.reference))

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return dict(threads.map(verdict, sorted(task.problems("test"), key=lambda problem: problem.id not in HEAVY)))


HEAVY = {"Mbpp/599", "Mbpp/255", "Mbpp/392", "Mbpp/271", "Mbpp/603", "Mbpp/123", "HumanEval/130", "HumanEval/139"}


@pytest.mark.slow
def test_every_canonical_solution_of_mbpp_plus_is_correct(real_mbpp):
    verdicts = canonical_verdicts(real_mbpp)
    assert {name: verdict for name, verdict in verdicts.items() if verdict.status != "correct"} == {}
    assert len(verdicts) == 378


@pytest.mark.slow
def test_every_canonical_solution_of_humaneval_plus_is_correct(real_humaneval):
    verdicts = canonical_verdicts(real_humaneval)
    assert {name: verdict for name, verdict in verdicts.items() if verdict.status != "correct"} == {}
    assert len(verdicts) == 164


@pytest.mark.slow
@pytest.mark.parametrize(("dataset", "count"), [("mbpp", 10), ("humaneval", 4)])
def test_mutants_of_real_solutions_get_evalplus_verdicts(dataset, count, request):
    task = request.getfixturevalue(f"real_{dataset}")
    light = [problem for problem in task.problems("test") if len(str(problem.meta)) < 20_000]
    light = [problem for problem in light if problem.id not in HEAVY | {"HumanEval/32"}]
    for number, problem in enumerate(random.Random(dataset).sample(light, count)):
        exercise = task._exercise(problem)
        programs = [exercise.solution]
        made = mutants(exercise.solution, exercise.entry_point, number)
        programs += [program for kind, program in made if kind not in ON_PURPOSE]
        ours = ours_passes(exercise, programs)
        assert ours == evalplus_passes(exercise, programs), problem.id
        assert ours[0]
        assert not all(ours)


# Of the first 25 samples to each problem. Of all 100 (docs/log.md) 3,655 are correct, 0.223, of 121 problems; of the
# samples as they are evalplus accepts 3,640, 0.222, of 121, and cut at Codex's stop sequences 0.2224, of 121.
CODEGEN_CORRECT, CODEGEN_SOLVED = 905, 105


@pytest.mark.slow
def test_codegens_samples_get_the_known_verdicts(real_humaneval, shared_data):
    task = HumanEvalPlus(real_humaneval.data, tests="base")
    table = read_json_lines(shared_data / "pools" / "codet_HumanEval_for_code_generation.jsonl")
    names = {row["prompt"]: row["task_id"] for row in table}
    problems = {problem.id: problem for problem in task.problems("test")}
    right = {}
    for pool in read_json_lines(shared_data / "pools" / "codet_humaneval_codegen16B_n100.jsonl"):
        problem, samples = problems[names[pool["prompt"]]], pool["samples"][:25]
        keys = [answer or sample for answer, sample in zip(task.answers(problem, samples), samples, strict=True)]
        first = dict(zip(reversed(keys), reversed(samples), strict=True))
        verdicts = dict(zip(first, task.verify_all(problem, list(first.values())), strict=True))
        assert not any(verdict.status == "error" for verdict in verdicts.values())
        right[problem.id] = sum(verdicts[key].status == "correct" for key in keys)
    assert sum(right.values()) == CODEGEN_CORRECT
    assert sum(count > 0 for count in right.values()) == CODEGEN_SOLVED
