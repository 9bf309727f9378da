"""The order of picks over several problems, when a problem is done, and what a selector that learns is told."""

import threading
import time

import pytest
from support.refusals import refusal_of, wrongly_refused
from support.searches import Recorder, config_of, pool_in, verified
from support.verifying import outcomes_in

import harness as package
from harness.records import Outcome
from harness.verifying.loop import summary

T, F = True, False


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def calls_of(tmp_path):
    """What a loop over this pool gives, and its calls; a journal is named `journal`."""

    def call(correct, journal="verify", **options):
        pool_in(tmp_path, correct)
        calls = []
        config = config_of(tmp_path, journal=tmp_path / f"{journal}.jsonl", **options)
        return summary(verified(config, calls)), calls

    return call


def test_each_open_problem_gets_a_call_in_turn_until_its_first_success(calls_of):
    value, calls = calls_of({"a": [F, F, T, T], "b": [T, F, F, F], "c": [F, F, F, F]})
    assert calls == [("a", 0), ("b", 0), ("c", 0), ("a", 1), ("c", 1), ("a", 2), ("c", 2), ("c", 3)]
    assert [(hit["problem_id"], hit["index"], hit["call"]) for hit in value["found"]] == [("a", 2, 3), ("b", 0, 1)]
    assert (value["problems"], value["solved"], value["calls"], value["budget_used_up"]) == (3, 2, 8, False)
    assert (value["exhausted"], value["unsolved"]) == (["c"], [])


def test_until_and_both_budgets_end_it_and_the_same_command_goes_on_and_repeats_nothing(calls_of):
    correct = {"a": [F, T, T, T], "b": [F, F, F, T]}
    for journal, options, expected in (
        ("until", {"until": 2}, [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2), ("b", 2), ("b", 3)]),
        ("budget", {"budget": 3}, [("a", 0), ("b", 0), ("a", 1)]),
        ("each", {"budget_per_problem": 2, "until": 3}, [("a", 0), ("b", 0), ("a", 1), ("b", 1)]),
        ("budget", {"budget": 100}, [("b", 1), ("b", 2), ("b", 3)]),
    ):
        assert calls_of(correct, journal, **options)[1] == expected, options


def test_values_decide_by_the_threshold_or_the_largest_are_shown(calls_of):
    values = {"a": [0.5, 2.5, 9.0], "b": [1.0, -1.0, 3.0]}
    value, calls = calls_of(values, threshold=2.5)
    assert [(hit["problem_id"], hit["index"], hit["value"]) for hit in value["found"]] == [("a", 1, 2.5), ("b", 2, 3.0)]
    assert len(calls) == 5
    other, calls = calls_of(values, threshold=9.0)  # what was measured is judged anew
    assert ([hit["value"] for hit in other["found"]], calls) == ([9.0], [("a", 2)])
    top, _ = calls_of(values, "top", top=2, budget=5)
    assert [(hit["problem_id"], hit["value"]) for hit in top["found"]] == [("a", 9.0), ("a", 2.5)]
    assert top["solved"] is None
    line = refusal_of(calls_of, {"a": [-10.0, 4.0]}, "judged")
    assert "gave the value -10 for response 0 of 'a': say what counts" in line
    assert calls_of({"a": [-10.0, 4.0]}, "judged", threshold=3)[1] == [("a", 1)]  # and it was kept


def test_an_error_costs_a_call_a_skip_does_not_and_errors_are_checked_again_if_asked(calls_of):
    value, _ = calls_of({"a": ["error", "skip", T]}, budget=2)
    assert (value["calls"], value["errors"], value["skipped"], value["solved"]) == (2, 1, 1, 1)
    assert value["commonest_error"] == "error of a 0"
    outcomes = {"a": ["error", F, "error", F]}
    calls_of(outcomes, "b", budget=3)
    value, calls = calls_of(outcomes, "b", budget=5, retry_errors=True)
    assert calls == [("a", 0), ("a", 2)]
    assert (value["calls"], value["errors"], value["failed"], value["budget_used_up"]) == (5, 4, 2, True)
    assert calls_of(outcomes, "b", budget=6)[1] == [("a", 3)]  # every check that ran is a call
    value, calls = calls_of({"a": ["skip", T], "b": [F, T]}, "c", budget_per_problem=1, workers=3)
    assert (value["calls"], value["solved"], sorted(calls)) == (2, 1, [("a", 0), ("a", 1), ("b", 0)])


def test_five_errors_in_a_row_stop_the_loop_at_any_time_and_one_more_if_nothing_changed(tmp_path):
    pool_in(tmp_path, {"a": [F, "error", "error", F, *["error"] * 20], "b": [F] * 3})
    calls = []
    line = refusal_of(verified, config_of(tmp_path), calls)
    assert calls[-5:] == [("a", index) for index in range(4, 9)]
    assert "5 checks in a row ended in errors (the last: error of a 8)" in line
    assert "6 checks in a row" in refusal_of(verified, config_of(tmp_path), calls)
    refusal_of(verified, config_of(tmp_path, retry_errors=True), calls)
    assert calls[-6:] == [("a", index) for index in (9, 1, 2, 4, 5, 6)]
    refusal_of(verified, config_of(tmp_path, workers=8, journal=tmp_path / "many.jsonl"))
    assert len(outcomes_in(tmp_path / "many.jsonl")) >= 5  # all that end together are written down


def test_a_check_that_ends_after_the_loop_was_broken_off_is_written_down(tmp_path):
    broken_off = threading.Event()

    def check(name, index, text):
        if index == 1:
            broken_off.set()
            raise KeyboardInterrupt
        broken_off.wait(60)
        time.sleep(0.2)
        return True

    with pytest.raises(KeyboardInterrupt):
        package.verify(["a", "b"], check, "in-order", budget=9, workers=2, quiet=True)
    assert outcomes_in(tmp_path / "verify.jsonl") == [("problem", 0, "correct")]


def test_a_selector_that_learns_is_told_the_written_outcomes_of_its_own_picks_and_no_others(tmp_path):
    verdicts = [F, None, F, T, F]

    class Reader(Recorder):
        def pick_after(self, pool, outcomes, rng):
            assert len(outcomes_in(tmp_path / "verify.jsonl")) == len(outcomes)
            return super().pick_after(pool, outcomes, rng)

    texts, selector = [str(verdict) for verdict in verdicts], Reader()
    package.verify(texts, lambda name, index, text: verdicts[index], selector, budget=9, quiet=True)
    values = [Outcome(index, None if verdict is None else float(verdict)) for index, verdict in enumerate(verdicts)]
    assert selector.told == [tuple(values[:t]) for t in range(4)]
    selector, options = Recorder(), {"budget": 4, "workers": 3, "journal": "several.jsonl", "quiet": True}
    package.verify(["x"] * 4, lambda name, index, text: False, selector, **options)
    assert selector.told[1:3] == [(Outcome(0, None),), (Outcome(0, None), Outcome(1, None))]  # picks under way


def test_python_functions_may_raise_or_measure():
    def check(name, index, text):
        return 1.0 if index == 1 else None if index == 0 else int("x")

    value = package.verify({7: ["a", "b", "c"], "p": ["d"]}, check, "in-order", budget=9, threshold=0.9, quiet=True)
    assert (value["calls"], value["errors"], value["skipped"]) == (1, 0, 2)
    assert value["found"] == [{"problem_id": "7", "index": 1, "call": 1, "value": 1.0}]
    value = package.verify(["a"], lambda *_: int("x"), budget=9, journal="e.jsonl", quiet=True)
    assert (value["errors"], value["solved"]) == (1, 0)
    refusal = refusal_of(package.verify, ["a"] * 9, lambda *_: 0.5, budget=9, journal="b.jsonl", quiet=True)
    assert "what counts as a success (--threshold 3), or look for the largest (--top 5)" in refusal


def test_options_that_do_not_go_together_and_subset_methods_are_refused(tmp_path):
    given = [{"budget": None}, {"ask": True}, {"verifier": None}, {"k": 2}, {"top": 2, "until": 2}]
    cases = [(options, "verify: ") for options in given]
    assert wrongly_refused(cases, lambda options: config_of(tmp_path, **options)) == []
    pool_in(tmp_path, {"a": [F, T, F]})
    assert "chooses sets, in no order" in refusal_of(verified, config_of(tmp_path, selector="kmeans"))
