"""Grading: each thing once, across pools too; conditions, routes and a second grader's disagreements are kept."""

from __future__ import annotations

import json

import pytest
from support import toy
from support.paths import TOY
from support.toy import Keyed

from harness import Problem, correct, error, wrong
from harness.plugin_system import registry
from harness.stages.verify import graded
from harness.store import shards
from harness.store.stage import Store

PROBLEM = Problem("0", "Say a colour", reference="red")


@pytest.fixture
def keyed(harness, tmp_path):
    """Run the keyed toy task; `Keyed.asked` is empty before each call."""

    def call(*args, command=("run",)):
        Keyed.asked.clear()
        extra = ("--engine", "toy", "--selector", "shuffle") if command == ("run",) else ()
        fixed = ("--plugin", TOY, "--store", tmp_path / "runs", "--json")
        return harness(*command, *extra, *args, *fixed)

    return call


@pytest.fixture(autouse=True)
def _same_module(monkeypatch):
    """The plugin file and this test see one class, so that what was asked can be counted."""
    monkeypatch.setattr(registry, "load_file", lambda path: toy)


def test_responses_with_one_key_are_graded_once():
    Keyed.asked.clear()
    verdicts, answers = graded(Keyed(), PROBLEM, ["say red", "oh red", "say blue", "say red", "well blue"])
    assert [text for _, text in Keyed.asked] == ["say red", "say blue"]
    assert [verdict.status for verdict in verdicts] == ["correct", "correct", "wrong", "correct", "wrong"]
    assert answers == ["red", "red", "blue", "red", "blue"]


def test_a_known_verdict_is_not_asked_for_again_and_an_error_is_not_known():
    known = {}
    graded(Keyed(), PROBLEM, ["say red", "say grey"], known)
    Keyed.asked.clear()
    verdicts, _ = graded(Keyed(), PROBLEM, ["my red", "my grey", "my blue"], known)
    assert [text for _, text in Keyed.asked] == ["my grey", "my blue"]
    assert [verdict.status for verdict in verdicts] == ["correct", "error", "wrong"]
    assert len(known) == 2


def test_known_verdicts_survive_the_store(tmp_path):
    stage = Store(tmp_path).stage("graded", {}, ".parquet")
    known = {"00" * 16: correct("yes", "boxed"), "ff" * 16: wrong("no")}
    assert shards.read_graded(stage.path(PROBLEM)) == {}
    shards.write_graded(stage.path(PROBLEM), known)
    assert shards.read_graded(stage.path(PROBLEM)) == known


def test_reason_route_and_conditions_survive_the_store(tmp_path):
    stage = Store(tmp_path).stage("verdict", {}, ".parquet")
    verdicts = [correct(), wrong("different", "fallback"), error("lost")]
    shards.write_verdicts(stage.path(PROBLEM), verdicts, ["a", None, "b"], {"sandbox": "bwrap"})
    assert shards.read_full_verdicts(stage.path(PROBLEM)) == (verdicts, ["a", None, "b"])
    assert shards.read_conditions(stage.path(PROBLEM)) == {"sandbox": "bwrap"}


def test_a_larger_pool_grades_only_what_is_new(keyed):
    assert keyed("--task", "keyed", "--n", "5").code == 0
    first = set(Keyed.asked)
    assert keyed("--task", "keyed", "--n", "40").code == 0
    second = set(Keyed.asked)
    assert first
    assert second
    assert all("grey" in text for _, text in first & second)  # errors are asked again


def test_a_second_run_grades_nothing(keyed):
    keyed("--task", "keyed")
    again = keyed("--task", "keyed")
    assert again.code == 0
    assert Keyed.asked == []
    assert "room" not in again.err  # nothing to grade, so nothing to check


def test_conditions_stand_in_the_row_and_the_remark_is_said(keyed):
    outcome = keyed("--task", "keyed")
    assert outcome.rows[0]["conditions"] == {"room": ["1"]}
    assert "keyed: grading in room 1" in outcome.err


def test_a_machine_that_cannot_grade_is_refused_before_the_first_response(keyed, tmp_path):
    outcome = keyed("--task", "keyed", "--data", "13")
    assert outcome.code == 2
    assert "nothing here confines 13 colours" in outcome.err
    assert not list(tmp_path.rglob("*.parquet"))
    assert keyed("--task", "keyed", "--data", "13", "--unsafe-exec").code == 0


def test_audit_counts_and_lists_every_disagreement_and_timeout(keyed, tmp_path):
    pool = tmp_path / "pool.jsonl"
    rows = [
        {"problem_id": "test/0", "responses": ["say red", "say white", "say blue"]},
        {"problem_id": "test/1", "responses": ["say green", "say red", "say grey"]},
    ]
    pool.write_text("\n".join(map(json.dumps, rows)))
    found = keyed(pool, "--task", "keyed", command=("pool", "audit")).rows
    assert (found["responses"], found["audited"], found["disputed"]) == (6, 6, 1)
    assert (found["correct_here_only"], found["correct_there_only"]) == (1, 0)
    assert (found["timeout"], found["errors"]) == (1, 1)
    assert found["routes"] == {"by word": 4, "slow": 1, "-": 1}
    listed = [(entry["problem_id"], entry["index"], entry["why"]) for entry in found["listed"]]
    assert listed == [("test/0", 1, "timeout"), ("test/1", 0, "disputed"), ("test/1", 2, "error")]
    assert found["listed"][1]["second_reason"] == "must be red"


def test_audit_takes_a_pool_of_the_store_by_its_key(keyed, tmp_path):
    outcome = keyed("--task", "keyed", "--audit")
    disputed = outcome.rows[0]["disputed"]
    assert disputed > 0
    key = next((tmp_path / "runs" / "pool").iterdir()).name
    assert f"harness pool audit {key}" in outcome.err
    found = keyed(key[:6], command=("pool", "audit")).rows
    assert (found["disputed"], found["problems"]) == (disputed, 6)
    assert Keyed.asked == []


def test_audit_of_a_stored_pool_wants_the_data_that_it_was_made_with(harness, tmp_path):
    data = tmp_path / "three.csv"
    data.write_text("Puzzles\n4 4 8 8\n")
    pool = tmp_path / "pool.jsonl"
    pool.write_text(json.dumps({"problem_id": "4-4-8-8", "responses": ["Answer: 4 + 4 + 8 + 8"]}))
    runs = tmp_path / "runs"
    assert harness("pool", "import", pool, "--task", "game24", "--data", data, "--store", runs).code == 0
    key = next((runs / "pool").iterdir()).name
    found = harness("pool", "audit", key, "--task", "game24", "--data", data, "--store", runs, "--json").rows
    assert (found["correct"], found["audited"]) == (1, 0)


def test_the_table_of_an_audit_is_printed(harness, tmp_path):
    pool = tmp_path / "pool.jsonl"
    pool.write_text(json.dumps({"problem_id": "test/0", "responses": ["say white"]}))
    arguments = ("pool", "audit", pool, "--task", "keyed", "--plugin", TOY, "--store", tmp_path / "runs")
    outcome = harness(*arguments)
    assert outcome.code == 0, outcome.err
    assert "timeout" in outcome.out
    assert "slow: 1" in outcome.out


def test_a_model_without_a_chat_template_is_given_plain_text(keyed, tmp_path):
    Keyed.asked.clear()
    outcome = keyed("--task", "keyed", "--engine", "base", "--limit", "1", "--n", "2")
    assert outcome.code == 0, outcome.err
    shard = next((tmp_path / "runs" / "pool").rglob("*.parquet"))
    assert set(shards.read_responses(shard).texts) == {"Say colour 0 (test). I say"}


def test_another_prompt_is_another_pool(keyed, tmp_path, monkeypatch):
    keyed("--task", "keyed")
    monkeypatch.setattr(Keyed, "messages", lambda self, problem: [{"role": "user", "content": "Other words"}])
    keyed("--task", "keyed")
    assert len(list((tmp_path / "runs" / "pool").iterdir())) == 2
