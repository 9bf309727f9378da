"""`harness run --until-correct`: responses verified as they are sampled, and what is kept of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.refusals import refusal_of
from support.stores import contents, files_of
from support.toy import Colours, Keyed

from harness import Problem, wrong
from harness.columns.column import Question, Todo
from harness.columns.store import read
from harness.jobs.options import RunConfig
from harness.jobs.until_correct import Judge
from harness.results import stopping_times
from harness.system.json_text import readable

GUIDED = ("--task", "game24", "--sampler", "repexp-guided:beta=0.5", "--max-tokens", "64")


def times_by_problem(folder) -> dict[str, tuple[int, bool]]:
    """Per problem's file its stopping time and whether it was solved, from the one record in a store."""
    [path] = (folder / "sequences").glob("*.json")
    return {readable(entry["id"]): (entry["time"], entry["solved"]) for entry in stopping_times.read(path)["problems"]}


def test_a_sequence_is_the_pool_that_would_be_drawn_up_to_its_first_correct_response(toy, tmp_path):
    [row] = toy("--until-correct", "--n", "40", "--split", "broken", store=tmp_path / "runs").rows
    [pool] = toy("--selector", "head", "--n", "40", "--split", "broken", store=tmp_path / "pool").rows
    assert pool["solvable"] == row["solved"] > 0
    assert row["errors"] > 0  # an error of the verifier stops nothing
    assert row["selector"] == "in-order"
    times = times_by_problem(tmp_path / "runs")
    pools = [files_of(tmp_path / "pool", kind) for kind in ("responses", "verdicts")]
    for whole, graded, stopped in zip(*pools, files_of(tmp_path / "runs", "sequences"), strict=True):
        verdicts = read(graded)["status"].to_pylist()
        first = verdicts.index("correct") + 1 if "correct" in verdicts else 40
        assert times[stopped.name.split(".")[0]] == (first, "correct" in verdicts)
        assert read(stopped)["text"].to_pylist() == read(whole)["text"].to_pylist()[:first]
    assert not (tmp_path / "runs" / "cells").exists()
    assert files_of(tmp_path / "runs", "responses") == []


def test_a_budget_that_ends_first_censors(toy, tmp_path):
    [row] = toy("--until-correct", "--n", "2", "--data", "12").rows
    times = times_by_problem(tmp_path / "runs")
    assert row["censored"] == sum(not solved for _, solved in times.values()) > 0
    assert row["solved"] + row["censored"] == row["problems"] == 12
    assert {time for time, solved in times.values() if not solved} == {2}
    assert row["tokens"] == 3 * row["responses"]


def test_what_is_in_the_store_is_not_drawn_again_and_what_is_lost_comes_back(toy, tmp_path):
    first = toy("--until-correct", "--n", "8")
    whole = contents(tmp_path / "runs")
    again = toy("--until-correct", "--n", "8")
    assert again.rows == first.rows
    assert again.err == "until correct: reused for 6 of 6 problems\n"
    for n, missing in (("8", 0), ("9", 6)):
        [row] = toy("--until-correct", "--n", n, "--dry-run").rows
        assert (row["there"], row["to_make"]) == (6 - missing, missing)
    for path in files_of(tmp_path / "runs", "sequences")[::2]:
        path.unlink()
    assert "reused for 3 of 6" in toy("--until-correct", "--n", "8").err
    assert contents(tmp_path / "runs") == whole


def test_what_belongs_to_pools_is_refused():
    for name, value, option in (
        *(("selectors", ("head",), "selector"), ("grid", "selector=*", "grid"), ("pool", Path("x"), "pool")),
        *(("embedder", "letters", "embedder"), ("audit", True, "audit")),
    ):
        line = refusal_of(RunConfig, task="colours", until_correct=True, **{name: value})
        assert line.startswith(f"run: --until-correct takes no --{option}: ")


class Ended(Colours):
    def verify_all(self, problem, responses, *, finish):
        each = zip(responses, finish, strict=True)
        return [wrong("cut off") if end == "length" else self.verify(problem, text) for text, end in each]


def test_equal_responses_are_verified_once_in_the_form_that_the_store_keeps_and_cut_ones_by_themselves():
    def statuses(task, *responses):
        judge = Judge(task, Todo(Question(Problem("0", "?", reference="red")), ()))
        return [judge.verdict(*response).status for response in responses]

    Keyed.graded.clear()
    texts = ("say red", "say red", "say blue\ud83d", "say blue\ufffd")
    assert statuses(Keyed(), *((text, "stop") for text in texts)) == ["correct", "correct", "wrong", "wrong"]
    assert [text for _, text in Keyed.graded] == ["say red", "say blue\ufffd"]
    assert statuses(Ended(), ("say red", "length"), ("say red", "stop")) == ["wrong", "correct"]


BUSY = """
from dataclasses import replace
from harness import hookimpl
from support import toy


class Busy(toy.Stateless):
    def sample(self, request):
        sampled = super().sample(replace(request, done=lambda j, responses: None))
        return [replace(made, missing={1: "busy"}) for made in sampled]


@hookimpl
def register_engines(register):
    register("busy", Busy)
"""


def test_a_missing_response_hides_which_was_the_first_correct_one(toy, written):
    outcome = toy("--until-correct", "--engine", "busy", "--plugin", written(BUSY, "busy.py"), "--n", 4)
    line = "error: problem 'test/0': 1 responses are missing, and without them the first correct one is unknown"
    assert (outcome.code, outcome.err.splitlines()[-1].startswith(line)) == (2, True)


@pytest.mark.slow
def test_guided_responses_stop_at_the_first_correct_and_are_those_of_the_guided_pool(harness, tmp_path):
    shared = (*GUIDED, "--limit", "6", "--n", "5", "--store", tmp_path, "--json")
    [row] = harness("run", *shared, "--until-correct").rows
    [ranked] = harness("run", *shared, "--selector", "in-order").rows
    assert row["solved"] == ranked["solvable"] > 0
    assert row["restricted_mean"]["5"] == pytest.approx(ranked["samples_to_correct"])
    for stopped, whole in zip(files_of(tmp_path, "sequences"), files_of(tmp_path, "responses"), strict=True):
        ids = read(stopped)["token_ids"].to_pylist()
        assert ids == read(whole)["token_ids"].to_pylist()[: len(ids)]
