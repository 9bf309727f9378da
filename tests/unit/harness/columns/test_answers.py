"""Answers that cost a run: each response is run once, also for other pools, and what it cost is counted."""

import pytest
from support.refusals import refusal_of
from support.toy import Colours
from support.works import keep_pool, work_in

from harness import HarnessError
from harness.columns.verdicts import answers_of, grade_problems, graded
from harness.contracts import Ran
from harness.stages.answers import ran_answers, runs_answers
from harness.stages.work import Work
from harness.store import shards
from harness.store.stage import Store


class Runs(Colours):
    """Runs a response in half a second; `broken` is a fault of ours; `asked` holds what was run."""

    reads_finish = True
    runs_answers = True

    def __init__(self):
        super().__init__()
        self.asked = []

    def run_answers(self, problem, responses, *, finish):
        self.asked += zip(responses, finish, strict=True)
        if "exit" in responses:
            raise SystemExit("a plugin that exits")
        if "refuse" in responses:
            raise HarnessError("no sandbox here")
        if "few" in responses:
            return []
        return [None if text == "broken" else Ran(self.answer(problem, text), 0.5) for text in responses]

    def verify(self, problem, response, *, finish=""):
        return super().verify(problem, response)

    def answer(self, problem, response, *, finish=""):
        return super().answer(problem, response)


@pytest.fixture
def task(monkeypatch):
    made = Runs()
    monkeypatch.setattr(Work, "build_task", lambda self: made)
    return made


@pytest.fixture
def stage(tmp_path):
    made = Store(tmp_path).stage("answer", {"task": "runs"}, ".parquet")
    made.begin()
    return made


@pytest.fixture
def problem(task):
    return next(iter(task.problems("test")))


def test_a_response_is_run_once_and_its_cost_counts_also_when_the_store_has_it(task, stage, problem):
    texts, ends = ["say red", "say blue", "say red", "say red", ""], ["stop", "stop", "stop", "length", "stop"]
    expected = ["red", "blue", "red", "red", None], 2.0
    assert ran_answers(task, stage, problem, texts, ends) == expected
    assert task.asked == [("say red", "stop"), ("say blue", "stop"), ("say red", "length"), ("", "stop")]
    task.asked.clear()
    assert ran_answers(task, stage, problem, texts, ends) == expected
    assert ran_answers(task, stage, problem, ["say blue", "say pink"], ["stop"] * 2) == (["blue", "pink"], 1.0)
    assert task.asked == [("say pink", "stop")]


def test_what_our_fault_left_without_an_answer_is_run_again(task, stage, problem):
    for _ in range(2):
        assert ran_answers(task, stage, problem, ["broken", "say red"], ["stop"] * 2) == ([None, "red"], 0.5)
    assert [text for text, _ in task.asked] == ["broken", "say red", "broken"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("refuse", "no sandbox here"),
        ("few", "task Runs: run_answers gave 0 answers for 1"),
        ("exit", "task Runs: run_answers raised SystemExit: a plugin that exits"),
    ],
)
def test_a_task_that_can_run_nothing_is_refused_in_one_line_and_nothing_is_kept(task, stage, problem, text, line):
    assert refusal_of(ran_answers, task, stage, problem, [text], ["stop"]).startswith(line)
    assert not stage.path(problem).exists()


def test_where_nothing_keeps_the_answers_none_is_run(task, problem):
    assert runs_answers(task)
    assert not runs_answers(Colours())
    verdicts, answers = graded(task, problem, ["say red", "say blue"])
    assert ([verdict.status for verdict in verdicts], answers) == (["correct", "wrong"], [None, None])
    assert (answers_of(task, problem, ["say red"]), task.asked) == ([None], [])


def test_verdicts_hold_the_answers_and_what_they_cost(task, stage, tmp_path):
    for answers, expected in ((stage, (["red", "blue"], 1.0)), (None, ([None, None], None))):
        work = work_in(tmp_path, answers=answers)
        [problem] = keep_pool(work, {"a": ["say red", "say blue"]})
        grade_problems(work, [problem])
        path = work.verdicts.path(problem)
        assert (shards.read_answers(path), shards.read_answers_cpu_s(path)) == expected
        assert shards.read_verdicts(path) == ["correct", "wrong"]
