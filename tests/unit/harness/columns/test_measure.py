"""Measurements are costly: each response is measured once, and what was measured before a failure is kept."""

import io

import pytest
from support.refusals import refusal_of
from support.toy import Colours, Measured, Rule
from support.works import keep_pool, keep_verdicts, work_in

from harness import Problem
from harness.stages.measure import measure, still_to_measure
from harness.store import shards
from harness.store.stage import Store
from harness.system.hashing import text_hash
from harness.system.progress import Progress


class Counted(Measured):
    """Measures two responses at once, keeps which; a response that begins with a blank cannot be measured."""

    measured_together = 2

    def __init__(self):
        super().__init__()
        self.measured_texts, self.fails_at = [], None

    def measurer(self):
        return self

    def identity(self):
        return Rule().identity()

    def measure(self, texts):
        if self.fails_at == len(self.measured_texts):
            raise KeyboardInterrupt
        self.measured_texts.append(list(texts))
        return Rule().measure(texts)

    def measurable(self, problem, responses):
        return [text for text in responses if not text.startswith(" ")]


@pytest.fixture
def work(tmp_path):
    return work_in(tmp_path)


@pytest.fixture
def problems(work):
    return keep_pool(work, {"a": ["x", "yy", "x", " ", "zzz"], "b": ["x"]})


def run(work, task, problems):
    """What is shown of measuring; the work afterwards."""
    out = io.StringIO()
    return out.getvalue, measure(Store(work.pool.folder.parents[1]), task, work, problems, Progress(out))


def kept(work, problem):
    return shards.read_measurements(work.measured.path(problem))


def test_each_distinct_response_is_measured_once(work, problems):
    task = Counted()
    shown, done = run(work, task, problems)
    assert task.measured_texts == [["x", "yy"], ["zzz"], ["x"]]
    assert kept(done, problems[0]) == {text_hash(text): {"letters": float(len(text))} for text in ("x", "yy", "zzz")}
    assert shown().startswith("measure: 4 responses in")
    shown, again = run(work, task, problems)
    assert (len(task.measured_texts), shown(), again) == (3, "", done)


def test_what_was_measured_before_a_failure_is_kept(work, problems):
    task = Counted()
    task.fails_at = 1
    with pytest.raises(KeyboardInterrupt):
        run(work, task, problems)
    task.measured_texts, task.fails_at = [], None
    run(work, task, problems)
    assert task.measured_texts == [["zzz"], ["x"]]

    class Few(Counted):
        def measure(self, texts):
            return []

    other = keep_pool(work, {"c": ["x", "yy"]})
    assert refusal_of(run, work, Few(), other) == "Few: measure gave 0 entries for 2 responses"


def test_a_task_that_does_not_measure_changes_nothing(work, problems, tmp_path):
    assert run(work, Colours(), problems)[1] is work
    assert run(work, Counted(), [])[1] is work
    assert still_to_measure(Store(tmp_path), Colours(), work, problems, 5) == []
    assert not (tmp_path / "measure").exists()


def test_what_is_still_to_measure_is_counted_by_problem(work, problems, tmp_path):
    store, task = Store(tmp_path), Counted()
    unsampled = Problem("c", "Say c.")
    every = [*problems, unsampled]
    assert still_to_measure(store, task, work, every, 5) == [(problems[0], 3), (problems[1], 1), (unsampled, 5)]
    run(work, task, problems[:1])
    assert still_to_measure(store, task, work, every, 5) == [(problems[1], 1), (unsampled, 5)]
    keep_verdicts(work, problems[1], "c")
    assert still_to_measure(store, task, work, every, 5) == [(unsampled, 5)]
    assert still_to_measure(store, task, work, problems, 5) == []
