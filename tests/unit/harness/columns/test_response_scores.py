"""What a scorer gives becomes a problem's scores, beside those that its pool brings; what is no score is refused."""

import numpy as np
import pytest
from support.models import group_of, model_work, models
from support.refusals import refusal_of
from support.works import keep_pool, keep_verdicts, work_in

from harness import HarnessError
from harness.stages.rank import load_pool
from harness.stages.response_scores import add_scores, scored
from harness.store import shards
from harness.store.checksums import BadShard
from harness.store.stage import Store


class Lengths:
    def score(self, problem, prompt, texts):
        return [len(prompt[0]["content"] + text) if text else None for text in texts]


@pytest.fixture
def work(tmp_path):
    inputs = {"pool": "a", "scorer": {"name": "lengths"}}
    return work_in(tmp_path, scores=Store(tmp_path).stage("score", inputs, ".parquet"), embeddings=None)


def test_scores_are_kept_under_the_scorers_name_and_join_those_of_the_pool(work):
    problems = keep_pool(work, {"a": ["x", "", "xyz"]}, scores={"rm": np.array([1.0, 2.0, 3.0])})
    keep_verdicts(work, problems[0], "wcw")
    reports = []
    todo, built = model_work(work, scorer="lengths"), models()
    add_scores(todo, type(built)(None, None, None, Lengths()), group_of(problems), reports.append)
    pool = load_pool(work, problems[0])
    assert reports == [3]
    assert pool.scores["rm"].tolist() == [1, 2, 3]
    np.testing.assert_array_equal(pool.scores["lengths"], [7, np.nan, 9])
    shards.write_scores(work.scores.path(problems[0]), {"lengths": np.zeros(2)})
    with pytest.raises(BadShard, match="holds 2 rows and not 3"):
        load_pool(work, problems[0])


class Gives:
    def __init__(self, given):
        self.given = given

    def score(self, problem, prompt, texts):
        if isinstance(self.given, Exception):
            raise self.given
        return self.given


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ([1.0], "gave shape (1,) for 2 responses"),
        ([[1.0], [2.0]], "gave shape (2, 1) for 2 responses"),
        ([1.0, -np.inf], "or infinity: a number each, NaN if unknown"),
        (["high", "low"], "raised ValueError: could not convert string to float"),
        (ZeroDivisionError("oh"), "raised ZeroDivisionError: oh"),
        (HarnessError("say --task"), "say --task"),
    ],
)
def test_a_scorer_that_gives_no_score_for_each_response_is_refused_in_one_line(work, given, fault):
    [problem] = keep_pool(work, {"a": ["x", "y"]})
    line = refusal_of(scored, Gives(given), "judge:strict=true", problem, [], ["x", "y"])
    assert line.endswith(fault) or line.startswith(f"scorer 'judge:strict=true', problem 'a': {fault}")
