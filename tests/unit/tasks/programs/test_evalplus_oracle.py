"""evalplus' rules on canonical text: equality, tolerances, functions with a rule of their own, hostile text."""

import collections
import decimal
import fractions
import os
import resource
import time

import numpy
import pytest
from corpora.evalplus_results import RESULTS
from support.evalplus_problems import corpus_verdicts, passes

from harness_tasks.programs.evalplus_oracle import Oracle
from harness_tasks.programs.program_grading import Exercise
from harness_tasks.sandbox import encode

MODULES = {module.__name__: module for module in (collections, decimal, fractions, numpy)}


def is_right(value, made, atol=0, name="same"):
    """Whether the result that an expression makes is right where a value is expected."""
    return Oracle("mbpp", name, [[value]], [encode(value)], atol).passes(0, encode(eval(made, dict(MODULES))))


def test_a_result_is_right_if_it_is_to_evalplus():
    faults = []
    for value, right, near, wrong in RESULTS:
        for made in (*right, *near, *wrong):
            answers = [is_right(value, made), is_right(value, made, 1e-4)]
            faults += [(value, made, answers)] * (answers != [made in right, made not in wrong])
    nearly = [([0.5], ["[[]]", "[[0.5]]", "[[0.5 + 1e-9]]"]), ([0.5, 1.5], ["[[0.5, 1.5], [0.5, 1.5]]"])]
    # of another shape, which evalplus broadcasts
    faults += [(value, made) for value, forms in nearly for made in forms if is_right(value, made)]
    assert faults == []


@pytest.mark.usefixtures("ground_truth_cache")
def test_programs_are_right_if_they_are_to_evalplus_also_by_a_rule_of_their_own():
    assert corpus_verdicts(passes) == []
    root = "def find_zero(xs): return -xs[0] / xs[1]\n"  # any root of the polynomial that was asked for is right
    exercise = Exercise("humaneval", "find_zero", root, {"base": [[[1, 2]], [[-6, 2]]], "plus": []}, 1e-4)
    other = ["-xs[0] / xs[1] + 1e-6", "-xs[0] / xs[1] + 1", "None", "'x'", "10**400", "float('nan')", "1j", "[1]"]
    cheat = "def find_zero(xs):\n    xs[:] = [0, 0]\n    return 5.0\n"
    programs = [root, *(f"def find_zero(xs): return {each}\n" for each in other), cheat]
    assert passes(exercise, programs) == [True, True] + [False] * 8
    steep = Oracle("humaneval", "find_zero", [[[1, 10**6]]], ["f-1e-06"], 1e-4)
    assert [steep.passes(0, text) for text in ("f-1e-06", "f0.0")] == [True, False]


FORGED = ["", "[", "i", "f", "fnan", "X", "M", "[" * 500, 's"', "i" + "f" * 4_000_000, "nfoo:i1;", "h", "EValueError"]


def test_a_forged_text_is_wrong():
    names = ("plain", "similar_elements", "surface_Area", "sum_div")
    for expected in ("i5", "f1.5", "[f1.5,f2.5]", "h00", "X", "fnan"):
        oracles = [Oracle("mbpp", name, [[1, 2]], [expected], 1e-4) for name in names]
        assert [text[:20] for text in FORGED if any(oracle.passes(0, text) for oracle in oracles)] == []


def large(length=4 << 20):  # as long as all results of a program may be
    """Lines that are small beside what they stand for."""
    yield from ("nbytes:iffffffff;", "nobject:i1;", "[nbytes:iffffffff;,f2.5]", "i" + "f" * length)
    pairs = ("[]", "X"), ("<>", "X"), ("[]", "[]"), ("[]", 'd"1E400"'), ("{}", 'd"1E400":d"1E400"'), ("()", "f0.25")
    for (left, right), item in (*pairs, ("<>", "i7"), ("[]", "nbool:F;")):
        yield left + ",".join([item] * (length // (len(item) + 1))) + right
    yield "[" + ",".join(['s"' + "x" * (length // 2) + '"', *['s""'] * 399]) + "]"  # numpy: all as long as the longest
    yield "[" + ",".join(["[" + ",".join(["[f0.25]"] * 600) + "]"] * 400) + "]"  # broadcast: 400 x 600 x 400


@pytest.mark.slow
def test_the_memory_that_a_comparison_takes_is_bounded_by_what_is_expected():
    expected = ("i5", "f1.5", "[f1.5,f2.5]", "(f1.5)", "<i1,i2>", "{i1:i2}", "[" + ",".join(["f0.5"] * 400) + "]")
    names = ("plain", "similar_elements", "surface_Area", "sum_div", "digit_distance_nums")
    oracles = [Oracle("mbpp", name, [[1, 2]], [text], 1e-4) for name in names for text in expected]
    for line in large():
        pid = os.fork()  # a process' peak is its own: it begins with what is resident now
        if not pid:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB
            right = any(oracle.passes(0, line) for oracle in oracles)
            os._exit(right or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before > 64 << 10)
        assert os.waitpid(pid, 0)[1] == 0, line[:30]


def test_colliding_hashes_do_not_stall_the_comparison():
    collide = ",".join(f"i{i * (2**61 - 1):x}" for i in range(1, 30_000))
    started = time.process_time()
    for text in (f"<{collide}>", f"[{collide}]", "{" + collide.replace(",", ":N,") + ":N}"):
        assert not Oracle("mbpp", "similar_elements", [[1]], ["[i1]"], 0).passes(0, text)
        assert not Oracle("mbpp", "plain", [[1]], ["<i1>"], 0).passes(0, text)
    assert time.process_time() - started < 5  # in a set they take minutes, as text 0.1 s
