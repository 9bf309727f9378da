"""`harness select` in whose table a hostile response is harmless, `list` and `show`."""

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
    assert select(*options[:-2]).code == 2  # how many to choose must be said


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


def test_list_names_kind_origin_and_what_it_is(harness):
    rows = harness("list", "selectors", "--plugin", TOY, "--json").rows
    assert {"repexp", "uniform", "spread"} <= {row["name"] for row in rows}
    (spread,) = [row for row in rows if row["name"] == "spread"]
    assert spread == {"kind": "selector", "name": "spread", "from": "toy", "what": "Farthest vector first."}
    assert "unknown kind 'selektors' (did you mean 'selector'?" in harness("list", "selektors").err
    assert "repexp" in harness("list").out


def test_show_gives_parameters_with_defaults_and_the_formula(harness):
    outcome = harness("show", "selector", "repexp")
    assert "lam: float = 1.0" in outcome.out
    assert "2510.11686" in outcome.out
    assert harness("show", "selector", "repexp", "--json").rows["parameters"]["lam"]["default"] == 1.0
    assert "diversity-harness/uniform" in harness("show", "selector", "uniform").out


def test_show_example_prints_the_exact_first_prompt_and_what_a_base_model_reads_if_it_differs(harness):
    shown = harness("show", "task", "colours", "--example", "--plugin", TOY).out
    assert "Say colour 0 (test)." in shown
    assert "without a chat template" not in shown
    shown = harness("show", "task", "keyed", "--example", "--plugin", TOY).out
    assert shown.endswith("[a model without a chat template]\nSay colour 0 (test). I say\n")
    value = harness("show", "task", "game24", "--example", "--json").rows
    assert (value["id"], value["messages"][0]["role"]) == ("1-1-1-8", "user")
    assert "for tasks only" in harness("show", "selector", "uniform", "--example").err
