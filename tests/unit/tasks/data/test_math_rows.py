"""Rows of MATH and MATH-500: references, ids, and which problems of the one are in the other."""

from __future__ import annotations

from support.refusals import refusal_of
from support.task_files import ids, jsonl, of_math, of_math500

from harness_tasks.competition_math import Math, Math500
from harness_tasks.data.math_rows import boxed

BOXED = {
    r"so $\boxed{\frac{1}{2}}$.": r"\frac{1}{2}",
    r"first $\boxed{1}$, then $\boxed{ 2 }$": "2",
    r"a set $\boxed{\{1,2\}}$": r"\{1,2\}",
    r"old style $\boxed 5$ it was": "5",
    r"old style $\boxed\frac59$.": r"\frac59",
    r"open $\boxed{5": None,
    r"empty $\boxed{}$": "",
    "none": None,
}


def test_the_reference_is_what_the_last_box_holds():
    assert {solution: boxed(solution) for solution in BOXED} == BOXED


def test_a_solution_without_an_answer_is_refused(tmp_path):
    for solution in ("It is 5.", r"$\boxed{}$", r"$\boxed{5$"):
        data = jsonl(tmp_path / "f.jsonl", [{"problem": "p", "solution": solution}])
        assert r"line 1: column 'solution' has no \boxed{...}" in refusal_of(Math(data).problems, "test")


def test_a_text_that_is_twice_in_math_is_once_in_dev(tmp_path):
    data = jsonl(tmp_path / "f.jsonl", [of_math(1), of_math(1), of_math(2)])
    task = Math(data, math500=jsonl(tmp_path / "m.jsonl", [of_math500(1)]))
    assert (ids(task.problems("dev")), ids(task.problems("rl-test"))) == (["test-0"], ["test-1", "test-2"])


def test_an_edition_that_lacks_problems_of_math_500_says_how_many(tmp_path):
    data = jsonl(tmp_path / "f.jsonl", [of_math(1), of_math(2)])
    task = Math(data, math500=jsonl(tmp_path / "m.jsonl", map(of_math500, [2, 7, 8])))
    for split in ("dev", "rl-test"):
        line = refusal_of(task.problems, split)
        assert "only 1 of the 3 problems of MATH-500 are among the 2 of split 'test'" in line
    assert len(task.problems("test")) == 2


def test_math_500_is_known_by_its_unique_id_or_else_its_row(tmp_path):
    rows = [of_math500(3), {"problem": "p", "answer": " x "}]
    problems = Math500(jsonl(tmp_path / "m.jsonl", rows)).problems("test")
    assert [(p.id, p.reference) for p in problems] == [("test/algebra/3.json", "4"), ("test-1", "x")]
