"""Grading: each thing once, across pools too; a fault of the grader is an error and never a wrong response."""

import pytest
from support.refusals import refusal_of
from support.toy import Colours, Keyed, Measured
from support.works import keep_pool, work_in

from harness import HarnessError, Problem, Task, correct, wrong
from harness.columns.verdicts import answer_or_none, answers_of, ended, grade_problems, graded
from harness.stages.work import Work
from harness.store import shards
from harness.system.hashing import digest, text_hash

PROBLEM = Problem("0", "Say a colour", reference="red")


@pytest.fixture(autouse=True)
def _nothing_asked():
    Keyed.graded.clear()


def statuses(verdicts):
    return [verdict.status for verdict in verdicts]


def test_responses_with_one_key_are_graded_once_and_known_verdicts_are_not_asked_for_again_errors_are():
    verdicts, answers = graded(Keyed(), PROBLEM, ["say red", "oh red", "say blue", "say red", "well blue"])
    assert [text for _, text in Keyed.graded] == ["say red", "say blue"]
    assert statuses(verdicts) == ["correct", "correct", "wrong", "correct", "wrong"]
    assert answers == ["red", "red", "blue", "red", "blue"]
    assert graded(Keyed(), PROBLEM, []) == ([], [])
    known = {}
    graded(Keyed(), PROBLEM, ["say red", "say grey"], known)
    assert list(known) == [digest("red", 32)]
    Keyed.graded.clear()
    verdicts, _ = graded(Keyed(), PROBLEM, ["my red", "my grey", "my blue"], known)
    assert [text for _, text in Keyed.graded] == ["my grey", "my blue"]
    assert statuses(verdicts) == ["correct", "error", "wrong"]
    assert list(known) == [digest("red", 32), digest("blue", 32)]


class Faulty(Task):
    """Raises what its response says; `together` is what grading many at once gives."""

    def __init__(self, together=None):
        self.together = together

    def verify(self, problem, response):
        if response == "fix me":
            raise HarnessError("set a key")
        if response == "wrong":
            return wrong()
        raise ZeroDivisionError(response)

    def verify_all(self, problem, responses):
        return super().verify_all(problem, responses) if self.together is None else self.together

    def answers(self, problem, responses):
        raise SystemExit("a plugin that exits")

    def answer(self, problem, response):
        if response == "none":
            raise ValueError
        return response.upper()


def test_a_verifier_that_raises_gives_an_error_for_that_response_alone_and_a_fault_of_the_users_is_raised():
    verdicts, answers = graded(Faulty(), PROBLEM, ["wrong", "oh", "none"])
    assert statuses(verdicts) == ["wrong", "error", "error"]
    assert verdicts[1].reason == "ZeroDivisionError: oh"
    assert answers == ["WRONG", "OH", None]
    assert refusal_of(graded, Faulty(), PROBLEM, ["wrong", "fix me"]) == "set a key"
    assert refusal_of(graded, Faulty(), PROBLEM, ["oh", "fix me"]) == "set a key"  # also one by one
    line = refusal_of(graded, Faulty([wrong()]), PROBLEM, ["a", "b"])
    assert line == "task Faulty: verify_all gave 1 verdicts for 2"


def test_a_verdict_key_that_raises_is_none():
    class Unkeyed(Keyed):
        def verdict_key(self, problem, response, answer):
            raise KeyError(response)

    verdicts, _ = graded(Unkeyed(), PROBLEM, ["say red", "oh red", "say red"], known := {})
    assert [text for _, text in Keyed.graded] == ["say red", "oh red"]  # equal texts once
    assert (statuses(verdicts), known) == (["correct"] * 3, {})


def test_answers_are_extracted_together_or_one_by_one():
    assert answers_of(Colours(), PROBLEM, ["say red", ""]) == ["red", None]
    assert answers_of(Faulty(), PROBLEM, ["a", "none"]) == ["A", None]

    class Short(Colours):
        def answers(self, problem, responses):
            return ["red"]

    assert answers_of(Short(), PROBLEM, ["say red", "say blue"]) == ["red", "blue"]
    assert answer_or_none(Faulty(), PROBLEM, "none") is None


def test_how_a_response_ended_is_part_of_it_only_where_the_task_reads_it():
    class Reads(Colours):
        reads_finish = True

        def verify(self, problem, response, *, finish):
            return correct() if finish == "stop" else wrong(finish)

        def verdict_key(self, problem, response, answer, *, finish):
            return finish

        def answer(self, problem, response, *, finish=""):
            return finish

    assert ended(Colours(), ["a"], ["length"]) == ended(Reads(), ["a"], None) == [("a", "")]
    verdicts, answers = graded(Reads(), PROBLEM, ["a"] * 3, known := {}, ["stop", "length", "stop"])
    assert (statuses(verdicts), answers) == (["correct", "wrong", "correct"], ["stop", "length", "stop"])
    assert len(known) == 2


@pytest.fixture
def work(tmp_path, monkeypatch):
    """Work whose task is the class of this process, so that what it is asked can be counted."""
    monkeypatch.setattr(Work, "build_task", lambda self: Keyed())
    return work_in(tmp_path)


def test_problems_are_graded_into_the_store_and_shared_with_other_pools(work, tmp_path):
    [problem] = keep_pool(work, {"a": ["say red", "say blue", "say grey"]})
    grade_problems(work, [problem])
    verdicts, answers = shards.read_full_verdicts(work.verdicts.path(problem))
    assert (statuses(verdicts), answers) == (["correct", "wrong", "error"], ["red", "blue", "grey"])
    assert shards.read_conditions(work.verdicts.path(problem)) == {"room": "1"}
    assert set(shards.read_graded(work.graded.path(problem))) == {digest("red", 32), digest("blue", 32)}
    written = work.graded.path(problem).stat().st_mtime_ns
    keep_pool(work, {"a": ["my red", "my grey"]})
    Keyed.graded.clear()
    grade_problems(work, [problem])
    assert [text for _, text in Keyed.graded] == ["my grey"]
    assert shards.read_verdicts(work.verdicts.path(problem)) == ["correct", "error"]
    assert work.graded.path(problem).stat().st_mtime_ns == written  # nothing new, nothing written


def test_a_task_that_measures_judges_what_was_measured_and_shares_no_verdict(work, monkeypatch):
    monkeypatch.setattr(Work, "build_task", lambda self: Measured())
    work = work_in(work.pool.folder.parents[1], measured=work.graded)
    [problem] = keep_pool(work, {"a": ["red", "long response", "unknown"]})
    measured = {text_hash(text): {"letters": float(len(text))} for text in ("red", "long response")}
    shards.write_measurements(work.measured.path(problem), measured)
    grade_problems(work, [problem])
    verdicts, answers = shards.read_full_verdicts(work.verdicts.path(problem))
    assert (statuses(verdicts), answers) == (["correct", "wrong", "error"], ["red", "response", "unknown"])
    assert verdicts[2].reason == "KeyError: 'letters'"
    assert shards.read_measurements(work.measured.path(problem)) == measured
