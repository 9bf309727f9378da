"""`harness run --until-correct`: responses verified as they are sampled, and what is kept of it."""

from pathlib import Path

from support.refusals import wrongly_refused
from support.stores import contents, files_of
from support.toy import Keyed

from harness import Problem
from harness.columns.column import Question, Todo
from harness.columns.store import read
from harness.jobs.options import RunConfig
from harness.jobs.until_correct import Judge
from harness.results import stopping_times


def test_a_sequence_is_the_pool_that_would_be_drawn_up_to_its_first_correct_response(toy, tmp_path):
    [row] = toy("--until-correct", "--n", "20", "--split", "broken").rows
    [pool] = toy("--selector", "head", "--n", "20", "--split", "broken", store=tmp_path / "pool").rows
    assert pool["solvable"] == row["solved"] > 0
    assert row["censored"] == row["problems"] - row["solved"]
    assert (row["errors"] > 0, row["selector"]) == (True, "in-order")  # an error of the verifier stops nothing
    [path] = (tmp_path / "runs" / "sequences").glob("*.json")
    times = {entry["id"]: (entry["time"], entry["solved"]) for entry in stopping_times.read(path)["problems"]}
    pools = [files_of(tmp_path / "pool", kind) for kind in ("responses", "verdicts")]
    for i, (whole, graded, stopped) in enumerate(zip(*pools, files_of(tmp_path / "runs", "sequences"), strict=True)):
        verdicts = read(graded)["status"].to_pylist()
        first = verdicts.index("correct") + 1 if "correct" in verdicts else 20
        assert times[f"broken/{i}"] == (first, "correct" in verdicts)
        assert read(stopped)["text"].to_pylist() == read(whole)["text"].to_pylist()[:first]
    assert not (tmp_path / "runs" / "cells").exists()
    assert files_of(tmp_path / "runs", "responses") == []


def test_what_is_in_the_store_is_not_drawn_again_and_what_is_lost_comes_back(toy, tmp_path):
    first = toy("--until-correct", "--n", "8")
    whole = contents(tmp_path / "runs")
    again = toy("--until-correct", "--n", "8")
    assert (again.rows, again.err) == (first.rows, "until correct: reused for 6 of 6 problems\n")
    [row] = toy("--until-correct", "--n", "9", "--dry-run").rows
    assert (row["there"], row["to_make"]) == (0, 6)
    for path in files_of(tmp_path / "runs", "sequences")[::2]:
        path.unlink()
    assert "reused for 3 of 6" in toy("--until-correct", "--n", "8").err
    assert contents(tmp_path / "runs") == whole


def test_what_belongs_to_pools_is_refused():
    pools = {"selectors": ("head",), "grid": "selector=*", "pool": Path("x"), "embedder": "letters", "audit": True}
    cases = [({name: pools[name]}, f"run: --until-correct takes no --{name.removesuffix('s')}: ") for name in pools]
    assert wrongly_refused(cases, lambda given: RunConfig(task="colours", until_correct=True, **given)) == []


def test_equal_responses_are_verified_once_in_the_form_that_the_store_keeps():
    judge = Judge(Keyed(), Todo(Question(Problem("0", "?", reference="red")), ()))
    Keyed.graded.clear()
    texts = ("say red", "say red", "say blue\ud83d", "say blue\ufffd")
    assert [judge.verdict(text, "stop").status for text in texts] == ["correct", "correct", "wrong", "wrong"]
    assert [text for _, text in Keyed.graded] == ["say red", "say blue\ufffd"]


BUSY = """
class Busy(Parrot):
    states = ()
    def sample(self, request):
        sampled = super().sample(replace(request, done=lambda j, responses: None))
        return [replace(made, missing={1: "busy"}) for made in sampled]
"""


def test_a_missing_response_hides_which_was_the_first_correct_one(toy, plugin):
    own = plugin(BUSY, engine=["Busy"])
    outcome = toy("--until-correct", "--engine", "busy", "--plugin", own, "--n", 4)
    line = "error: problem 'test/0': 1 responses are missing, and without them the first correct one is unknown"
    assert (outcome.code, outcome.err.splitlines()[-1].startswith(line)) == (2, True)
