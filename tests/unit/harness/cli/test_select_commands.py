"""`harness select` as a command: JSON, JSON lines, and a table in which a hostile response is harmless."""

import json

import numpy as np
import pytest
from support.choosing import LINES, written
from support.paths import TOY


@pytest.fixture
def select(harness, tmp_path):
    def call(*args):
        return harness("select", "--store", tmp_path / "runs", "--plugin", TOY, *args)

    return call


def test_json_lines_are_the_json_one_object_a_line(select, tmp_path):
    options = ("--pool", written(tmp_path / "pool.jsonl", LINES), "--selector", "uniform", "-k", "2")
    lines = select(*options, "--jsonl").out.splitlines()
    assert [json.loads(line) for line in lines] == select(*options, "--json").rows
    assert len(lines) == 3


def test_the_table_shows_problem_rank_index_and_how_the_response_begins(select, tmp_path):
    pool = written(tmp_path / "pool.jsonl", LINES)
    shown = select("--pool", pool, "--selector", "length:first=long", "-k", "2").out
    rows = [line.strip().split(maxsplit=3) for line in shown.splitlines() if "test/" in line]
    assert rows[:2] == [["test/0", "1", "4", "say pink and grey"], ["test/0", "2", "2", "say green"]]
    assert len(rows) == 6
    vectors = written(tmp_path / "E.npz", {"plate a": np.eye(3)})
    shown = select("--embeddings", vectors, "--selector", "kmeans", "-k", "1").out
    assert shown.splitlines()[3].split()[:3] == ["plate", "a", "-"]  # a set has no ranks


def test_a_hostile_response_is_shown_harmlessly(select, tmp_path):
    texts = ["\x1b[31mred\x1b[0m", "\ud800", "[bold]x[/bold]", "", "a\nb\tc", "\u202eabc", "x" * 10**6]
    pool = written(tmp_path / "p.jsonl", [{"problem_id": "p", "responses": texts}])
    outcome = select("--pool", pool, "--selector", "uniform", "-k", str(len(texts)))
    assert outcome.code == 0, outcome.err
    assert "\x1b" not in outcome.out
    assert "\u202e" not in outcome.out
    assert max(map(len, outcome.out.splitlines())) < 130
    assert len(outcome.out.splitlines()) < 2 * len(texts)
    assert "[bold]x[/bold]" in outcome.out


def test_how_many_to_choose_must_be_said(select, tmp_path):
    assert select("--pool", written(tmp_path / "pool.jsonl", LINES), "--selector", "repexp").code == 2
