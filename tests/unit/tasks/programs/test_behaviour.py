"""The behaviour of programs: what counts as the same, and which programs have none."""

import pytest

from harness_tasks.programs import behaviour
from harness_tasks.programs.behaviour import behaviours, normal
from harness_tasks.programs.program_text import Program
from harness_tasks.sandbox import Run, Sandbox, encode

INPUTS = [(3,), (-1,)]


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(1, unsafe_exec=True) as made:
        yield made


def run(sandbox, *programs, inputs=INPUTS):
    return behaviours(sandbox, "f", inputs, list(map(Program, programs)))


SAME = [  # what a function returns: each row has one behaviour, and no two rows have the same
    ("x + 1", "float(x + 1)", "__import__('fractions').Fraction(x + 1)"), ("x * 0.1", "x / 10", "x * 0.1 + 1e-9"),
    ("x * 0.1 + 1e-4", "x * 0.1 + 1.0001e-4"), ("{x, 2, 'a'}", "{'a', 2, x}", "frozenset([x, 'a', 2])"),
    ("{'b': [x], 'a': (1, 2)}", "dict(a=(1, 2), b=[x])"), ("[[x, (x,)], None]",), ("[[x, [x]], None]",),
    ("float('nan')", "numpy.float32('nan')", "__import__('decimal').Decimal('nan')", "(y for y in [x])", "f"),
    ("[float('nan')]", "[object()]", "[iter([])]"),
    ("{object(): 1, float('nan'): 2, iter([]): 3}", "{float('nan'): 3, object(): 1, f: 2}"),
    ("x / (x > 0)", "x if x > 0 else 1 % 0"), ("x if x > 0 else [][0]",), ("x if x > 0 else exit()",),
    ("x if x > 0 else os._exit(0)", "x if x > 0 else os._exit(1)"), ("'EZeroDivisionError'",), ("'X'",),
    ("complex(x, 0.1 + 0.2)", "complex(x, 0.3)"), ("[x / 3, x]", "[numpy.float64(x / 3), numpy.int32(x)]"), ("x",),
]  # fmt: skip


def test_values_that_count_as_the_same_have_one_digest_and_others_another(sandbox):
    made = run(sandbox, *(f"import math, numpy, os\ndef f(x): return {body}" for row in SAME for body in row))
    rows = [[made.pop(0).answer for _ in row] for row in SAME]
    assert [len(set(row)) for row in rows] == [1] * len(SAME)
    assert len({row[0] for row in rows} - {None}) == len(SAME)


NO_BEHAVIOUR = {
    "no syntax": "def f(x: return", "no entry point": "def g(x): return x", "raises on every input": "def f(x): {}[0]",
    "never ends": "def f(x):\n    while True: pass", "ends its process": "import os\ndef f(x): os._exit(0)",
    "returns too much": "def f(x): return 'a' * 10**6", "takes too much memory": "def f(x): return [0] * 10**10",
}  # fmt: skip


def test_a_program_that_does_nothing_or_exceeds_a_limit_at_once_has_no_behaviour_but_a_cost(sandbox, monkeypatch):
    monkeypatch.setattr(behaviour, "TEST_S", 0.2)
    made = dict(zip([*NO_BEHAVIOUR, "honest"], run(sandbox, *NO_BEHAVIOUR.values(), "def f(x): return x"), strict=True))
    assert {name for name, each in made.items() if each.answer is None} == set(NO_BEHAVIOUR)
    assert all(each.cpu_s > 0 for each in made.values())
    assert made["never ends"].cpu_s > 0.15 > made["honest"].cpu_s


def test_how_a_program_ended_after_its_first_result_is_part_of_its_behaviour(sandbox, monkeypatch):
    monkeypatch.setattr(behaviour, "TEST_S", 0.2)
    endless, other = "def f(x):\n    while x < 0: {}\n    return x", "def f(x):\n    while x < 0: pass\n    return -x"
    long = "def f(x): return x if x > 0 else 'a' * 10**6"
    made = [each.answer for each in run(sandbox, endless.format("pass"), endless.format("x -= 1"), other, long)]
    assert made[0] == made[1] is not None
    assert len(set(made)) == 3


def test_one_input_that_tells_two_programs_apart_is_enough_and_without_inputs_nothing_is_known(sandbox):
    pair = ["def f(x): return 1", "def f(x): return 1 if x > 0 else 2"]
    answers = [{each.answer for each in run(sandbox, *pair, inputs=INPUTS[:count])} for count in (0, 1, 2)]
    assert answers[0] == {None}
    assert list(map(len, answers[1:])) == [1, 2]


class Restarted:
    """A sandbox whose worker was lost after one result, so that the program began again, and one that is lost."""

    def run_all(self, suite, programs, judge, stop_at_raise, lent):
        for test, text in ((0, "i9"), (0, "i1"), (1, "i2")):
            assert judge(0, test, text)
        return [Run("ok", ["i1", "i2"], process_cpu_s=0.5), Run("error", detail="lost twice")]


def test_a_program_that_began_again_counts_once_and_a_fault_of_the_sandbox_is_told(sandbox):
    first, second = run(Restarted(), "", "")
    (honest,) = run(sandbox, "def f(x): return 1 if x > 0 else 2")
    assert (first.answer, first.cpu_s, second) == (honest.answer, 0.5, None)


FORGED = ["", "[", "[i1", "i1,", "X" * 300, "f1e999x", "q1/0", "<f1.0", '"', "nfloat64:fnan", "c1.0;", "(" * 500]


def test_text_that_is_not_canonical_stays_as_it_is():
    texts = [*FORGED, encode(["f0.30000000000000004", "X", "fnan", 'a"f1.25000001'])]
    assert [normal(text) for text in texts] == texts
