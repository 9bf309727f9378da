"""Rows of AIME: which problem a row is, its text, its answer; and of MATH: references and ids."""

import hashlib

import pytest
from support.refusals import refusal_of
from support.task_files import ids, jsonl, of_aime, of_math, of_math500, references

from harness_tasks import aime
from harness_tasks.aime import Aime24, Aime25, without_instruction
from harness_tasks.competition_math import Math, Math500, boxed


@pytest.fixture
def of(tmp_path):
    """A task on these rows."""
    return lambda task, rows, **more: task(jsonl(tmp_path / "f.jsonl", rows), **more)


def test_rows_are_known_by_their_order_which_the_years_answers_tell_or_by_their_own_names(of, monkeypatch):
    problems = of(Aime25, of_aime()).problems("test")
    assert (ids(problems), references(problems[:2])) == ([f"2025-{place}" for place in aime.PLACES], ["1", "2"])
    rows = of_aime(2, id=[60, 61])  # an id that names no problem leaves it to the order
    assert ids(of(Aime24, rows).problems("test")) == ["2024-I-1", "2024-I-2"]
    for column in ("id", "ID", "url", "problem_id"):
        shape = "https://wiki.example/index.php/2024_AIME_{}_Problems/Problem_{}" if column == "url" else "2024-{}-{}"
        names = [shape.format(*place) for place in (("II", 4), ("I", 15), ("II", 1))]
        problems = of(Aime24, of_aime(3, **{column: names})).problems("test")
        assert ids(problems) == ["2024-II-4", "2024-I-15", "2024-II-1"]
    listed = " ".join(str(i + 1) for i in range(30))
    monkeypatch.setitem(aime.ANSWERS, hashlib.sha256(listed.encode()).hexdigest()[:16], 2025)
    rows = dict(zip(aime.PLACES, of_aime(), strict=True))
    for places in (aime.PLACES, sorted(rows)):  # I-1, I-2, ... and I-1, I-10, I-11, ...
        assert ids(of(Aime25, [rows[place] for place in places]).problems("test")) == [f"2025-{at}" for at in places]
    assert "is of 2025, expected problems of 2024" in refusal_of(of(Aime24, rows.values()).problems, "test")


def test_problems_of_another_year_or_of_none_and_answers_that_are_none_of_the_exams_are_refused(of):
    two = of_aime(2, id=["2023-I-7", "2024-I-7"])
    assert "is of 2023, 2024, expected problems of 2024" in refusal_of(of(Aime24, two).problems, "test")
    two[0]["id"] = "first"
    assert "line 1: no id such as 2025-II-7" in refusal_of(of(Aime24, two).problems, "test")
    assert "line 31: no id such as 2025-II-7" in refusal_of(of(Aime25, of_aime(32)).problems, "test")
    for answer in (1000, -1, "x", "7.0", 7.5, None, True):
        assert "line 1: " in refusal_of(of(Aime24, [{"problem": "What?", "answer": answer}]).problems, "test")


def test_the_columns_have_other_names_elsewhere(of):
    rows = [{"problem": "What?", "answer": 70}, {"question": "What?", "answer": "070"}]
    rows += [{"prompt": "What?", "Answer": 70}, {"problem": "What?", "solution": r"\boxed{070}"}]
    problems = of(Aime25, rows).problems("test")
    assert [(problem.prompt, problem.reference) for problem in problems] == [("What?", "70")] * 4


INSTRUCTIONS = [
    "\nPlease reason step by step, and put your final answer within \\boxed{}.",
    "\n\nPlease think step by step. Put the answer in \\boxed{}.\n", " Reason step by step.  Write it as \\boxed{}",
]  # fmt: skip
WHOLE = [
    "Think step by step about $x$.",
    r"Which of \boxed{1} and \boxed{2} is it?",
    "a\n\nb",
    "Fill " * 50 + r"\boxed{}",
]


def test_the_instruction_after_a_problem_is_removed_and_nothing_else():
    for text in ("Find $m + n$.", "What is\n\\[x^2\\]", "Is it so? Find $x$", "Find it. $x$ is one."):
        assert [without_instruction(text + instruction) for instruction in INSTRUCTIONS] == [text] * len(INSTRUCTIONS)
    assert list(map(without_instruction, WHOLE)) == WHOLE


KNOWN = {"2024-I-1": "204", "2024-I-15": "721", "2024-II-15": "315", "2025-I-1": "70", "2025-II-15": "240"}


@pytest.mark.parametrize(("task", "file"), [(Aime24, "aime24_qwq.jsonl"), (Aime25, "aime25_qwq.jsonl")])
def test_the_published_problems_are_found_in_their_places_without_the_files_instruction(shared_data, task, file):
    data = str(shared_data / "tasks" / file)
    problems = task(data).problems("test")
    answers = {problem.id: problem.reference for problem in problems}
    assert sorted(answers) == sorted(f"{task.year}-{place}" for place in aime.PLACES)
    assert {name: answers[name] for name in KNOWN if name in answers}.items() <= KNOWN.items()
    assert (problems[0].id, problems[-1].id) == (f"{task.year}-I-1", {2024: "2024-II-9", 2025: "2025-II-15"}[task.year])
    assert not any("step by step" in problem.prompt or r"\boxed" in problem.prompt for problem in problems)
    other = Aime24 if task is Aime25 else Aime25
    assert f"is of {task.year}, expected problems of {other.year}" in refusal_of(other(data).problems, "test")


BOXED = {
    r"so $\boxed{\frac{1}{2}}$.": r"\frac{1}{2}", r"first $\boxed{1}$, then $\boxed{ 2 }$": "2",
    r"a set $\boxed{\{1,2\}}$": r"\{1,2\}", r"old style $\boxed\frac59$.": r"\frac59", "none": None,
    r"open $\boxed{5": None, r"empty $\boxed{}$": "",
}  # fmt: skip


def test_the_reference_is_what_the_last_boxes_hold_and_a_solution_without_one_is_refused(of):
    assert {solution: boxed(solution) for solution in BOXED} == BOXED
    for solution in ("It is 5.", r"$\boxed{}$", r"$\boxed{5$"):
        task = of(Math, [{"problem": "p", "solution": solution}])
        assert r"line 1: column 'solution' has no \boxed{...}" in refusal_of(task.problems, "test")
    several = [{"problem": "p", "solution": r"So $x = \boxed{1}$ and $\boxed{-2}$."}]
    assert references(of(Math, several).problems("test")) == [r"\boxed{1}, \boxed{-2}"]


def test_dev_has_a_text_once_and_an_edition_that_lacks_problems_of_math_500_says_how_many(of, tmp_path):
    task = of(Math, [of_math(1), of_math(1), of_math(2)], math500=jsonl(tmp_path / "m.jsonl", [of_math500(1)]))
    assert (ids(task.problems("dev")), ids(task.problems("rl-test"))) == (["test-0"], ["test-1", "test-2"])
    task = of(Math, [of_math(1), of_math(2)], math500=jsonl(tmp_path / "m.jsonl", map(of_math500, [2, 7, 8])))
    for split in ("dev", "rl-test"):
        line = refusal_of(task.problems, split)
        assert "only 1 of the 3 problems of MATH-500 are among the 2 of split 'test'" in line
    problems = of(Math500, [of_math500(3), {"problem": "p", "answer": " x "}]).problems("test")
    assert [(p.id, p.reference) for p in problems] == [("test/algebra/3.json", "4"), ("test-1", "x")]
