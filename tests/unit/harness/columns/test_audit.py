"""The second grader: what it disputes and what gave trouble is counted and listed."""

import pytest
from support.refusals import refusal_of
from support.toy import Colours, Keyed
from support.works import keep_pool, keep_verdicts, work_in

from harness import Problem, correct, wrong
from harness.stages import audit
from harness.stages.audit import audit_problems, disputed, listing, second_correct, summary, trouble
from harness.stages.work import Work
from harness.store import shards

LISTED = {"problem_id": "a", "reference": "red", "reason": "", "route": ""}


@pytest.fixture
def work(tmp_path):
    return work_in(tmp_path)


@pytest.fixture
def problems(work):
    """Two problems: of `a` one response each way and one in trouble, `b` without an audit."""
    first, second = keep_pool(work, {"a": ["r", "g", "b", "y", "p"], "b": ["r", "g"]})
    verdicts = [correct("", "boxed"), correct(), wrong(), wrong("checker timeout", "slow"), shards.Verdict("error", "")]
    shards.write_verdicts(work.verdicts.path(first), verdicts, ["r", None, "b", "y", "p"])
    audits = [correct(), wrong("must be r"), correct(), None, wrong()]
    shards.write_audit(work.audits.path(first), first, audits)
    keep_verdicts(work, second, "cw")
    return [first, second]


def test_verdicts_disputes_troubles_routes_and_reasons_are_counted(work, problems):
    names = [*audit.TROUBLE, None]
    assert [trouble(wrong(f"the checker's {name or 'answer'}, seen")) for name in names] == names
    assert summary(work, problems) == {
        **{"problems": 2, "responses": 7, "correct": 3, "wrong": 3, "errors": 1, "audited": 4},
        **{"disputed": 2, "correct_here_only": 1, "correct_there_only": 1},
        **{"timeout": 1, "stalled": 0, "memory": 0, "unparsed": 0},
        "routes": {"-": 5, "boxed": 1, "slow": 1},
        "reasons": {"-": 3, "checker timeout": 1},
    }
    [problem] = keep_pool(work, {"c": ["x"] * 22})
    verdicts = [wrong(f"reason {max(1, i)}") for i in range(22)]
    shards.write_verdicts(work.verdicts.path(problem), verdicts, [None] * 22)
    reasons = summary(work, [problem])["reasons"]
    assert (len(reasons), next(iter(reasons.items()))) == (20, ("reason 1", 2))


def test_what_is_disputed_in_trouble_or_an_error_is_listed(work, problems):
    entries = list(listing(work, problems))
    assert [(entry["index"], entry["why"]) for entry in entries] == [
        *((1, "disputed"), (2, "disputed"), (3, "timeout"), (4, "error"))
    ]
    assert entries[0] == LISTED | {
        **{"index": 1, "why": "disputed", "answer": None, "verdict": "correct"},
        **{"second": "wrong", "second_reason": "must be r"},
    }
    assert (entries[2]["second"], entries[2]["second_reason"], entries[2]["route"]) == (None, "", "slow")
    keep_verdicts(work, problems[1], "ew")
    odd = Problem("b", problems[1].prompt, reference=["a", "list"])
    shards.write_verdicts(work.verdicts.path(odd), [shards.Verdict("error", "lost")], [None])
    assert next(listing(work, [odd]))["reference"] is None


def test_disputes_are_counted_among_the_first_responses(work, problems):
    assert [disputed(work, problems[0], n) for n in (1, 2, 3, 5)] == [0, 1, 2, 2]
    assert disputed(work, problems[1], 2) is None  # not audited
    assert second_correct(work, problems[0]) == 2
    shards.write_audit(work.audits.path(problems[0]), problems[0], [None])
    assert "holds 1 rows and not 5" in refusal_of(disputed, work, problems[0], 5)


def test_the_second_grader_is_asked_once_for_equal_responses_and_none_disputes_nothing(work, monkeypatch):
    graded = []

    class Strict(Keyed):
        reads_finish = True

        def audit(self, problem, response, *, finish):
            graded.append((response, finish))
            return None if "grey" in response else wrong(finish)

    monkeypatch.setattr(Work, "build_task", lambda self: Strict())
    finish = ["stop", "length", "stop", "stop"]
    [problem] = keep_pool(work, {"a": ["red", "red", "grey", "red"]}, finish=finish)
    audit_problems(work, [problem])
    assert graded == [("red", "stop"), ("red", "length"), ("grey", "stop")]
    kept = audit._second_verdicts(work, problem, 4)
    assert kept == [("wrong", "stop"), ("wrong", "length"), (None, ""), ("wrong", "stop")]

    monkeypatch.setattr(Work, "build_task", lambda self: Colours())  # it has no second grader
    [problem] = keep_pool(work, {"a": ["red"]})
    audit_problems(work, [problem])
    keep_verdicts(work, problem, "c")
    assert (disputed(work, problem, 1), summary(work, [problem])["audited"]) == (0, 0)
