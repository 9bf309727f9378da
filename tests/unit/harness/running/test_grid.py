"""`--grid`: what is crossed, what is shared, what is left out."""

from __future__ import annotations

import pytest
from support.refusals import refusal_of
from support.stores import cell_of

from harness.running.grid import parse_grid


def keys(store, row, stage):
    return cell_of(store, row)["inputs"][stage]["key"]


def test_selectors_are_crossed_with_embedders_over_one_pool(toy, tmp_path):
    outcome = toy("--grid", "selector=spread+shuffle+repexp,embedder=hidden-mean+letters")
    assert outcome.code == 0, outcome.err
    assert [(row["selector"], row["embedder"]) for row in outcome.rows] == [
        ("spread", "hidden-mean"),
        ("shuffle", "none"),
        ("repexp", "hidden-mean"),
        ("spread", "letters"),
        ("repexp", "letters"),
    ]
    assert len({keys(tmp_path / "runs", row, "pool") for row in outcome.rows}) == 1
    assert len({keys(tmp_path / "runs", row, "verdict") for row in outcome.rows}) == 1
    assert outcome.err.count("sample: ") == 1


def test_a_point_of_a_grid_is_the_run_of_the_same_options(toy, tmp_path):
    crossed = toy("--grid", "selector=spread,embedder=hidden-mean+letters", store=tmp_path / "a").rows
    alone = toy("--selector", "spread", "--embedder", "letters", store=tmp_path / "b").rows
    assert crossed[1:] == alone


def test_parameters_with_commas_stay_with_their_selector(toy):
    outcome = toy("--grid", "selector=repexp:lam=0.1,first=max+repexp,sampler=vanilla+nucleus:p=0.8")
    assert [(row["selector"], row["sampler"]) for row in outcome.rows] == [
        ("repexp:lam=0.1,first=max", "vanilla"),
        ("repexp", "vanilla"),
        ("repexp:lam=0.1,first=max", "nucleus:p=0.8"),
        ("repexp", "nucleus:p=0.8"),
    ]


def test_selectors_given_beside_the_grid_are_in_every_point(toy):
    outcome = toy("--selector", "spread", "--grid", "embedder=hidden-mean+letters")
    assert [(row["selector"], row["embedder"]) for row in outcome.rows] == [
        ("spread", "hidden-mean"),
        ("spread", "letters"),
    ]


def test_a_star_leaves_out_what_cannot_run_here_and_says_so(toy):
    outcome = toy("--grid", "selector=*")
    assert outcome.code == 0, outcome.err
    ran = {row["selector"] for row in outcome.rows}
    assert {"shuffle", "repexp", "uniform", "likely"} <= ran
    assert not {"twice", "raising", "short"} & ran
    assert "left out: selector 'twice', problem" in outcome.err


def test_a_selector_that_is_named_beside_a_star_fails_the_run(toy):
    outcome = toy("--selector", "twice", "--grid", "selector=*")
    assert outcome.code == 1, outcome.err
    assert "left out: selector 'twice'" not in outcome.err


def test_a_selector_asked_for_by_name_fails_the_run_and_the_others_still_count(toy):
    outcome = toy("--grid", "selector=twice+spread,embedder=hidden-mean+letters")
    assert outcome.code == 1
    assert [row["selector"] for row in outcome.rows] == ["spread", "spread"]
    assert outcome.err.count("failed: selector 'twice'") == 1  # it reads no vectors: run once


def test_a_point_that_cannot_be_run_is_named_and_the_others_still_count(toy):
    outcome = toy("--grid", "selector=spread,embedder=hidden-mean+nonsense")
    assert outcome.code == 1
    assert [row["embedder"] for row in outcome.rows] == ["hidden-mean"]
    assert "failed: embedder=nonsense: unknown embedder 'nonsense'" in outcome.err


def test_a_grid_can_be_looked_at_before_it_is_run(toy, tmp_path):
    stages = toy("--grid", "selector=spread+shuffle,embedder=hidden-mean+letters", "--dry-run").rows
    assert [stage["stage"] for stage in stages] == [
        "sample",
        "embed",
        "verify",
        "rank spread",
        "rank shuffle",
        "embed",
        "rank spread",
    ]
    assert not list((tmp_path / "runs").rglob("*.parquet"))


def test_the_table_of_a_grid_names_each_rows_embedder(harness, toy, tmp_path):
    from support.paths import TOY

    outcome = harness(
        *("run", "--task", "colours", "--engine", "toy", "--plugin", TOY, "--store", tmp_path / "runs"),
        *("--grid", "selector=spread+shuffle,embedder=hidden-mean+letters"),
    )
    lines = [line.split() for line in outcome.out.splitlines()]
    assert [line[:2] for line in lines if line and line[0] in ("spread", "shuffle")] == [
        ["spread", "hidden-mean"],
        ["shuffle", "none"],
        ["spread", "letters"],
    ]
    assert [line[0] for line in lines if line and line[0] in ("random", "oracle", "anti-oracle")] == [
        "random",
        "oracle",
        "anti-oracle",
    ]


def test_the_text_of_a_grid_is_taken_apart():
    assert parse_grid("selector=*,embedder=a+b:x=1,y=2 + c") == {"selector": ["*"], "embedder": ["a", "b:x=1,y=2", "c"]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "--grid: no axis ''"),
        ("selectors=a", "no axis 'selectors' (did you mean 'selector'?"),
        ("selector", "no axis 'selector'"),
        ("selector=a,selector=b", "axis 'selector' is given twice"),
        ("selector=a++b", "selector: a value is empty or given twice in 'a++b'"),
        ("embedder=a+a", "embedder: a value is empty or given twice"),
        ("selector=*+repexp", "selector: '*' is all of them: give it alone"),
    ],
)
def test_a_wrong_grid_is_one_clear_line(text, message):
    assert message in refusal_of(parse_grid, text)


def test_models_have_no_star(toy):
    outcome = toy("--grid", "selector=spread,model=*")
    assert (outcome.code, outcome.err) == (2, "error: --grid: model=*: models are named, not installed\n")
