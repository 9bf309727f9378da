"""evalplus' rules on canonical text: equality, tolerances, functions with a rule of their own, hostile text."""

import collections
import decimal
import fractions
import sys
import time

import numpy
import pytest
from corpora.evalplus_results import RESULTS
from support.evalplus_problems import corpus_verdicts, passes
from support.paths import ROOT
from support.processes import run_to_end

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


@pytest.mark.slow
def test_the_memory_that_a_comparison_takes_is_bounded_by_what_is_expected():
    done = run_to_end([sys.executable, ROOT / "tests" / "campaigns" / "large_results.py"])
    assert done.returncode == 0, done.stdout + done.stderr


def test_colliding_hashes_do_not_stall_the_comparison():
    collide = ",".join(f"i{i * (2**61 - 1):x}" for i in range(1, 30_000))
    started = time.process_time()
    for text in (f"<{collide}>", f"[{collide}]", "{" + collide.replace(",", ":N,") + ":N}"):
        assert not Oracle("mbpp", "similar_elements", [[1]], ["[i1]"], 0).passes(0, text)
        assert not Oracle("mbpp", "plain", [[1]], ["<i1>"], 0).passes(0, text)
    assert time.process_time() - started < 5  # in a set they take minutes, as text 0.1 s
