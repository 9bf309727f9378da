"""The chance level: responses graded by other problems' references, as many as the task allows, chosen by a seed."""

import dataclasses
import io

import pytest
from support.toy import Colours
from support.works import responses_of, work_in

from harness import Problem
from harness.stages import chance
from harness.stages.work import Work
from harness.store import shards
from harness.store.stage import Store
from harness.system.progress import Progress

WORDS = ("red", "green", "blue", "red")
PROBLEMS = [Problem(f"p{i}", "?", reference=word) for i, word in enumerate(WORDS)]


class Lucky(Colours):
    chance_gradings = 8


class Here:
    """An executor that does the work at once."""

    def map(self, function, items):
        return map(function, items)


@pytest.fixture
def work(tmp_path, monkeypatch):
    monkeypatch.setattr(Work, "build_task", lambda self: Lucky())
    work = work_in(tmp_path)
    for problem in PROBLEMS:
        keep(work, problem, ["say red", "say green", "say green", "say pink"])
    return work


def keep(work, problem, texts):
    shards.write_responses(work.pool.path(problem), problem, responses_of(texts))


def measured(work, problems=PROBLEMS):
    """What is shown, and the counts of each problem, after `measure`."""
    out, store = io.StringIO(), Store(work.pool.folder.parents[1])
    chance.measure(store, Here(), work, Lucky(), problems, Progress(out))
    stage = chance.stage_of(store, work, Lucky(), problems)
    return out.getvalue(), [chance.counts_in(stage, problem) for problem in problems]


def test_responses_are_graded_by_the_references_of_other_problems(work):
    shown, counts = measured(work)
    # red is answered once and green twice; a problem with red tries green and blue, one with green red, red or blue.
    assert counts[0] == counts[3] == [2, 8]
    assert counts[2] in ([3, 8], [2, 8])  # of red, green and red two are tried
    assert counts[1] in ([1, 8], [2, 8])
    assert shown.startswith("chance: 4 problems in")
    assert measured(work) == ("", counts)  # kept
    assert measured(work, PROBLEMS[:3])[0].startswith("chance: 3 problems in")  # of another set of problems
    stage = chance.stage_of(Store(work.pool.folder.parents[1]), work, Lucky(), PROBLEMS)
    stage.path(PROBLEMS[1]).unlink()
    assert chance.counts_in(stage, PROBLEMS[1]) is None
    shown, again = measured(work)
    assert shown.startswith("chance: 1 problems in")
    assert again == counts


def test_the_number_of_gradings_is_bounded(work, monkeypatch):
    problems = [Problem(f"q{i}", "?", reference=str(i)) for i in range(30)] + [Problem("r", "?", reference="0")] * 2
    problems += [Problem("s", "?", reference="30")]
    bounds = ((8, 4, None, 2), (8, 4, 2, 4), (8, 3, None, 2), (1, 4, None, 1), (200, 4, None, 30), (512, 300, None, 2))
    for gradings, responses, n, expected in bounds:
        monkeypatch.setattr(Lucky, "chance_gradings", gradings)
        keep(work, problems[0], ["say red"] * responses)
        tried = chance.others(dataclasses.replace(work, n=n), Lucky(), problems, problems[0])
        assert len({other.id for other in tried}) == len(tried) == expected
        assert all(other.reference != "0" for other in tried)
        assert tried == chance.others(dataclasses.replace(work, n=n), Lucky(), problems, problems[0])


def test_at_most_256_responses_count_and_fewer_where_the_run_says_so(work):
    stage = work.audits
    for texts, n, counts in (
        (["say red"] * 257, None, [256, 256]),
        (["say red"] * 3 + ["say blue"] * 254, 255, [3, 255]),
        (["say red"] * 4, 3, [3, 3]),
    ):
        keep(work, PROBLEMS[1], texts)
        chance.grade(dataclasses.replace(work, n=n), stage, (PROBLEMS[1], PROBLEMS[:1]))
        assert chance.counts_in(stage, PROBLEMS[1]) == counts


def test_nothing_is_measured_where_no_reference_differs_or_the_task_wants_none(work, tmp_path):
    same = [PROBLEMS[0], PROBLEMS[3]]
    assert measured(work, same)[1] == [[0, 0], [0, 0]]
    store = Store(tmp_path)
    assert chance.stage_of(store, work, Colours(), PROBLEMS) is None
    chance.measure(store, Here(), work, Colours(), PROBLEMS, Progress(quiet=True))
    given = store.stage("verdict", {"pool": work.pool.key, "given": True}, ".parquet")
    assert chance.stage_of(store, dataclasses.replace(work, verdicts=given), Lucky(), PROBLEMS) is None
    assert chance.counts_in(None, PROBLEMS[0]) is None
