"""GSM8K: ids, references, splits, the file of the other split, worked examples."""

from __future__ import annotations

import re

from support.refusals import refusal_of
from support.task_files import SUM, ids, jsonl, references

from harness import Problem
from harness_tasks.gsm8k import Gsm8k


def test_dev_is_the_first_512_and_rl_test_the_rest(tmp_path):
    data = jsonl(tmp_path / "f.jsonl", [{"question": f"{i}?", "answer": f"#### {i}"} for i in range(600)])
    assert ids(Gsm8k(data).problems("dev")) == [f"test-{i}" for i in range(512)]
    assert ids(Gsm8k(data).problems("rl-test")) == [f"test-{i}" for i in range(512, 600)]


def test_a_solution_without_its_mark_is_refused(tmp_path):
    for answer in ("It is 5.", "#### "):
        data = jsonl(tmp_path / "f.jsonl", [SUM, {"question": "q", "answer": answer}])
        line = refusal_of(Gsm8k(data).problems, "test")
        assert line.endswith(f"line 2: column 'answer' must end in '#### ' and a number, got {answer!r}")


def test_the_published_files_have_all_problems_and_whole_numbers_and_are_not_swapped(shared_data):
    train, test = (Gsm8k(str(shared_data / f"tasks/gsm8k_{split}.jsonl")) for split in ("train", "test"))
    assert ids(train.problems("train")) == [f"train-{i}" for i in range(7473)]
    problems = test.problems("test")
    assert ids(problems) == [f"test-{i}" for i in range(1319)]
    assert all(re.fullmatch("-?[0-9]+", problem.reference) and problem.prompt.strip() for problem in problems)
    assert references(problems[:3]) == ["18", "3", "70000"]
    assert test.problems("dev") + test.problems("rl-test") == problems
    assert "7,473 rows, as split 'train' has" in refusal_of(train.problems, "dev")
    assert "1,319 rows, as split 'test' has" in refusal_of(test.problems, "train")


def test_each_worked_example_ends_in_an_answer_that_the_grader_reads():
    task = Gsm8k()
    plain = task.plain(Problem("x", "How many?", "1"))
    *examples, last = plain.split("\n\n")
    assert last == "Question: How many?\nAnswer:"
    for example, gold in zip(examples, ("52", "60", "22", "16"), strict=True):
        question, solution = example.split("\nAnswer: ")
        assert question.startswith("Question: ")
        problem = Problem("x", "", gold)
        assert task.verify(problem, solution).status == task.audit(problem, solution).status == "correct"
        assert task.verify(problem, f"{solution}\n\n{plain} 1").status == "correct"
