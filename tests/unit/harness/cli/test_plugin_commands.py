"""`harness list`, `show` and `check`."""

from __future__ import annotations

from support.paths import TOY


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


def test_check_counts_what_passed_and_exits_with_1_if_a_check_failed(harness):
    outcome = harness("check", "selector", "in-order")
    assert outcome.code == 0
    assert " passed, 0 failed, " in outcome.out
    outcome = harness("check", "selector", "twice", "--plugin", TOY)
    assert outcome.code == 1
    assert "selector twice" in outcome.out
    assert ", 0 failed, " not in outcome.out
