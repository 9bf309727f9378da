"""The checks of a kind, and `harness check`, which runs them on what is registered."""

import pytest
from support.documents import code_blocks
from support.paths import SUPPORT
from support.refusals import error_line

from harness.plugin_system.registry import load_registry
from harness.testing import KINDS, check_registered, checks

BROKEN = SUPPORT / "broken_plugins.py"


def test_checks_have_distinct_kebab_names_and_a_summary():
    for kind in KINDS:
        names = [check.name for check in checks(kind)]
        assert len(set(names)) == len(names)
        for check in checks(kind):
            assert str(check) == check.name == check.name.lower().replace("_", "-")
            assert check.summary.endswith(".")


def test_the_command_shows_every_check_and_exits_0_where_all_pass(harness):
    outcome = harness("check", "selector", "in-order", "--json")
    assert outcome.code == 0, outcome.err
    outcomes = {row["check"]: row["outcome"] for row in outcome.rows}
    assert list(outcomes) == [check.name for check in checks("selector")]
    assert set(outcomes.values()) == {"passed", "not applicable"}
    assert outcomes["permutation-equivariant"] == "not applicable"  # it says that it goes by the order
    assert outcomes["reads-what-it-says"] == "passed"
    assert {(row["kind"], row["name"]) for row in outcome.rows} == {("selector", "in-order")}
    table = harness("check", "samplers", "vanilla")
    assert table.code == 0
    assert "out-of-range-refused" in table.out
    assert " 0 failed, " in table.out


def test_the_command_exits_1_and_names_what_failed(harness):
    outcome = harness("check", "selector", "hashed", "--plugin", BROKEN, "--json")
    assert outcome.code == 1
    [failed] = [row for row in outcome.rows if row["outcome"] == "failed"]
    assert failed["check"] == "same-in-another-process"
    assert failed["what"].startswith("same-in-another-process: Hashed: another process gives [")


def test_what_cannot_be_tried_is_one_line_and_exit_code_2(harness):
    table = [
        (("selector", "repex"), "unknown selector 'repex' (did you mean 'repexp'?"),
        (("executor", "local"), "no checks for kind 'executor'"),
        (("task", "game24", "--data", "no-such-file.csv"), "game24: cannot read 'no-such-file.csv'"),
        (("engine", "transformers", "--model", "./no-such-folder"), "does not exist"),
    ]
    lines = [(error_line(harness("check", *args)), fault) for args, fault in table]
    assert [line for line, fault in lines if fault not in line] == []


@pytest.mark.slow
def test_all_of_a_kind_are_checked_and_one_that_cannot_be_tried_does_not_stop_the_others():
    samplers = {f"diversity-harness/{registration.name}" for registration in load_registry().of_kind("sampler")}
    rows = list(check_registered("sampler", "*"))
    assert {row["name"] for row in rows} == samplers
    assert "failed" not in {row["outcome"] for row in rows}
    game24 = [row for row in check_registered("task", "*", data="no-such-file.csv") if row["name"].endswith("/game24")]
    assert game24[-1]["outcome"] == "not applicable"
    assert "cannot read" in game24[-1]["what"]


def test_the_selector_of_the_readme_passes_untouched(tmp_path):
    plugin = tmp_path / "farthest.py"
    plugin.write_text(code_blocks("README.md", "python")[0])
    outcomes = [row["outcome"] for row in check_registered("selector", "farthest", plugin_files=[plugin])]
    assert outcomes.count("passed") == len(checks("selector")) - 1
    assert outcomes.count("failed") == 0
