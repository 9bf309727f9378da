"""MATH, MATH-500 and (`gsm8k.py`) GSM8K: ids, splits, worked examples; and what all tasks with final answers share."""

import re

from support.refusals import refusal_of
from support.task_files import HUBS, SUM, clone_of_math, ids, jsonl, of_math, of_math500, references

from harness import Problem
from harness_tasks.aime import Aime24, Aime25
from harness_tasks.competition_math import INSTRUCTION, MATH, Math, Math500
from harness_tasks.dapo import DapoAime, DapoMath
from harness_tasks.gsm8k import Gsm8k


def test_a_clones_configs_come_in_alphabetical_order_and_dev_is_math_500_by_text(tmp_path):
    chosen = jsonl(tmp_path / "m.jsonl", map(of_math500, [60, 20, 10]))
    task = Math(str(clone_of_math(tmp_path / "clone")), math500=chosen)
    test, dev, rest = (task.problems(split) for split in ("test", "dev", "rl-test"))
    first = ["algebra/test-0", "counting_and_probability/test-0", "counting_and_probability/test-1", "geometry/test-0"]
    assert (len(test), ids(test)[:4]) == (28, first)
    assert (test[-1].id, test[-1].reference) == ("precalculus/test-6", "67")
    assert ids(dev) == ["counting_and_probability/test-0", "geometry/test-0", "precalculus/test-0"]
    assert rest == [problem for problem in test if problem not in dev]
    assert [id.partition("/")[0] for id in dict.fromkeys(ids(test)) if id.endswith("-0")] == sorted(MATH.configs)


def test_a_local_file_needs_no_math_500_but_for_dev_and_has_an_answer_in_each_row(tmp_path):
    task = Math(jsonl(tmp_path / "f.jsonl", [of_math(1), of_math(2)]), math500=str(tmp_path / "absent.jsonl"))
    assert ids(task.problems("test") + task.problems("train")) == ["test-0", "test-1", "train-0", "train-1"]
    assert "math: cannot read" in refusal_of(task.problems, "dev")
    for answer in ("It is 5.", "#### "):
        data = jsonl(tmp_path / "f.jsonl", [SUM, {"question": "q", "answer": answer}])
        line = refusal_of(Gsm8k(data).problems, "test")
        assert line.endswith(f"line 2: column 'answer' must end in '#### ' and a number, got {answer!r}")


def test_the_published_files_of_gsm8k_have_all_problems_and_whole_numbers_and_are_not_swapped(shared_data):
    train, test = (Gsm8k(str(shared_data / f"tasks/gsm8k_{split}.jsonl")) for split in ("train", "test"))
    assert ids(train.problems("train")) == [f"train-{i}" for i in range(7473)]
    problems = test.problems("test")
    assert ids(problems) == [f"test-{i}" for i in range(1319)]
    assert all(re.fullmatch("-?[0-9]+", problem.reference) and problem.prompt.strip() for problem in problems)
    assert references(problems[:3]) == ["18", "3", "70000"]
    assert (test.problems("dev"), test.problems("rl-test")) == (problems[:512], problems[512:])
    assert "7,473 rows, as split 'train' has" in refusal_of(train.problems, "dev")
    assert "1,319 rows, as split 'test' has" in refusal_of(test.problems, "train")


def test_each_worked_example_ends_in_an_answer_that_the_grader_reads():
    problem, competition = Problem("x", "How many?", "1"), ("4", r"\frac{5}{12}", r"18\pi", "9")
    assert Math().plain(problem) == Math500().plain(problem)
    for task, golds, texts, end in (
        (Math500(), competition, "Problem", "Solution"),
        (Gsm8k(), ("52", "60", "22", "16"), "Question", "Answer"),
    ):
        plain = task.plain(problem)
        *examples, last = plain.split("\n\n")
        assert last == f"{texts}: How many?\n{end}:"
        for example, gold in zip(examples, golds, strict=True):
            text, solution = example.split(f"\n{end}: ")
            assert text.startswith(f"{texts}: ")
            gold_problem = Problem("x", "", gold)
            assert task.verify(gold_problem, solution).status == task.audit(gold_problem, solution).status == "correct"
            assert task.verify(gold_problem, f"{solution}\n\n{plain} 1").status == "correct"


def test_a_problem_is_asked_for_in_the_papers_words_and_settings_at_a_pinned_revision():
    coin = Problem("x", "A coin {odd} is thrown. What is $\\frac{1}{2}$?", "1")
    words = dict.fromkeys(HUBS, r"Let's think step by step and output the final answer within \boxed{}.")
    words[Gsm8k] = 'Let\'s think step by step and output the final answer after "####".'
    messages = {task: task().messages(coin) for task in HUBS}
    assert messages == {task: [{"role": "user", "content": f"{coin.prompt} {words[task]}"}] for task in HUBS}
    for task in (Aime24, Aime25, DapoMath, DapoAime):  # a base model sees the problem alone
        assert task().plain(coin) == f"Problem: {coin.prompt}\n{INSTRUCTION}\nSolution:"
    for task, n, max_tokens in ((Gsm8k, 6400, 512), (Math, 6400, 512), (Math500, 6400, 512), (Aime25, 8192, 8192)):
        assert task.paper == {"n": n, "max_tokens": max_tokens, "sampler": {}, "task": {"fallback": "no"}}
    for task in (Gsm8k, Math, DapoAime):
        assert task().rl["reward"] == "strict"
        assert {task().rl[part] for part in ("train", "dev", "test")} <= set(task.splits)
    assert {task: task().revision for task in HUBS} == {task: hub.revision for task, hub in HUBS.items()}
    assert {len(hub.revision) for hub in HUBS.values()} == {40}
