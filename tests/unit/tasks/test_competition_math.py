"""MATH and MATH-500: ids, order, splits, the file of the other split, worked examples."""

from __future__ import annotations

from support.refusals import refusal_of
from support.task_files import clone_of_math, ids, jsonl, of_math, of_math500

from harness import Problem
from harness_tasks.competition_math import MATH, Math, Math500


def test_a_clones_configs_come_in_alphabetical_order_and_dev_is_math_500_by_text(tmp_path):
    chosen = jsonl(tmp_path / "m.jsonl", map(of_math500, [60, 20, 10]))
    task = Math(str(clone_of_math(tmp_path / "clone")), math500=chosen)
    test, dev, rest, train = (task.problems(split) for split in ("test", "dev", "rl-test", "train"))
    assert len(test) == 28
    first = ["algebra/test-0", "counting_and_probability/test-0", "counting_and_probability/test-1", "geometry/test-0"]
    assert ids(test)[:4] == first
    assert (test[-1].id, test[-1].reference) == ("precalculus/test-6", "67")
    assert ids(train) == [f"{config}/train-0" for config in sorted(MATH.configs)]
    assert ids(dev) == ["counting_and_probability/test-0", "geometry/test-0", "precalculus/test-0"]
    assert rest == [problem for problem in test if problem not in dev]


def test_a_local_file_has_ids_without_a_config_and_needs_no_math_500(tmp_path):
    task = Math(jsonl(tmp_path / "f.jsonl", [of_math(1), of_math(2)]), math500=str(tmp_path / "absent.jsonl"))
    assert ids(task.problems("test")) == ["test-0", "test-1"]
    assert ids(task.problems("train")) == ["train-0", "train-1"]
    assert "math: cannot read" in refusal_of(task.problems, "dev")


def test_the_file_of_the_other_split_is_refused(tmp_path):
    train = Math(jsonl(tmp_path / "train.jsonl", [of_math(1)] * 7500))
    assert "7,500 rows, as split 'train' has, not 'test'" in refusal_of(train.problems, "test")
    assert len(train.problems("train")) == 7500


def test_each_worked_example_ends_in_an_answer_that_the_grader_reads():
    problem = Problem("x", "How many?", "1")
    assert Math().plain(problem) == Math500().plain(problem)
    *examples, last = Math500().plain(problem).split("\n\n")
    assert last == "Problem: How many?\nSolution:"
    for example, gold in zip(examples, ("4", r"\frac{5}{12}", r"18\pi", "9"), strict=True):
        text, solution = example.split("\nSolution: ")
        assert text.startswith("Problem: ")
        assert rf"The answer is $\boxed{{{gold}}}$." in solution
        for response in (solution, f"{solution}\n\n{Math500().plain(problem)} 1"):
            assert Math500().verify(Problem("x", "", gold), response).status == "correct"
        assert Math500().audit(Problem("x", "", gold), solution).status == "correct"
