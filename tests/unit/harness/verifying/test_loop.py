"""The order of picks over several problems, when a problem is done, and what a selector that learns is told."""

import threading
import time

import pytest
from support.refusals import refusal_of
from support.searches import Recorder, config_of, pool_in, verified
from support.verifying import outcomes_in

import harness as package
from harness.records import Outcome
from harness.verifying.loop import summary

T, F = True, False


def calls_of(folder, correct, **options):
    pool_in(folder, correct)
    calls = []
    return summary(verified(config_of(folder, **options), calls)), calls


def test_each_open_problem_gets_a_call_in_turn_until_its_first_success(tmp_path):
    value, calls = calls_of(tmp_path, {"a": [F, F, T, T], "b": [T, F, F, F], "c": [F, F, F, F]})
    assert calls == [("a", 0), ("b", 0), ("c", 0), ("a", 1), ("c", 1), ("a", 2), ("c", 2), ("c", 3)]
    assert [(hit["problem_id"], hit["index"], hit["call"]) for hit in value["found"]] == [("a", 2, 3), ("b", 0, 1)]
    assert (value["problems"], value["solved"], value["calls"], value["budget_used_up"]) == (3, 2, 8, False)


def test_until_and_both_budgets_end_it(tmp_path):
    correct = {"a": [F, T, T, T], "b": [F, F, F, T]}
    cases = {
        "until": ({"until": 2}, [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2), ("b", 2), ("b", 3)]),
        "budget": ({"budget": 3}, [("a", 0), ("b", 0), ("a", 1)]),
        "of a problem": ({"budget_per_problem": 2, "until": 3}, [("a", 0), ("b", 0), ("a", 1), ("b", 1)]),
    }
    for name, (options, expected) in cases.items():
        assert calls_of(tmp_path, correct, journal=tmp_path / f"{name}.jsonl", **options)[1] == expected, name


def test_the_same_command_goes_on_with_a_larger_budget_and_repeats_nothing(tmp_path):
    correct = {"a": [F, F, T], "b": [F, F, F]}
    _, first = calls_of(tmp_path, correct, budget=3)
    value, second = calls_of(tmp_path, correct, budget=100)
    assert first + second == [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2), ("b", 2)]
    assert value["calls"] == 6


def test_values_decide_by_the_threshold_or_the_largest_are_shown(tmp_path):
    values = {"a": [0.5, 2.5, 9.0], "b": [1.0, -1.0, 3.0]}
    value, calls = calls_of(tmp_path, values, threshold=2.5)
    assert [(hit["problem_id"], hit["index"], hit["value"]) for hit in value["found"]] == [("a", 1, 2.5), ("b", 2, 3.0)]
    assert len(calls) == 5
    other, calls = calls_of(tmp_path, values, threshold=9.0)  # what was measured is judged anew
    assert calls == [("a", 2)]
    assert [hit["value"] for hit in other["found"]] == [9.0]
    top, _ = calls_of(tmp_path, values, top=2, budget=5, journal=tmp_path / "top.jsonl")
    assert [(hit["problem_id"], hit["value"]) for hit in top["found"]] == [("a", 9.0), ("a", 2.5)]
    assert top["solved"] is top["random"] is None


def test_an_error_costs_a_call_a_skip_does_not_and_errors_are_checked_again_if_asked(tmp_path):
    outcomes = {"a": ["error", "skip", T]}
    value, _ = calls_of(tmp_path, outcomes, budget=2)
    assert (value["calls"], value["errors"], value["skipped"], value["solved"]) == (2, 1, 1, 1)
    assert calls_of(tmp_path, outcomes)[1] == []
    outcomes = {"a": ["error", F, "error", F]}
    calls_of(tmp_path, outcomes, journal=tmp_path / "b.jsonl")
    assert calls_of(tmp_path, outcomes, journal=tmp_path / "b.jsonl")[1] == []
    assert calls_of(tmp_path, outcomes, journal=tmp_path / "b.jsonl", retry_errors=True)[1] == [("a", 0), ("a", 2)]


def test_every_outcome_is_in_the_journal_before_the_next_pick_is_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    class Reader(Recorder):
        def pick_after(self, pool, outcomes, rng):
            assert len(outcomes_in(tmp_path / "verify.jsonl")) == len(outcomes)
            return super().pick_after(pool, outcomes, rng)

    value = package.verify(["x"] * 6, lambda name, index, text: index == 5, Reader(), budget=9, quiet=True)
    assert (value["calls"], value["solved"]) == (6, 1)


def test_a_skip_gives_its_call_back_also_while_others_wait(tmp_path):
    value, calls = calls_of(tmp_path, {"a": ["skip", T], "b": [F, T]}, budget_per_problem=1, workers=3)
    assert (value["calls"], value["solved"], value["skipped"]) == (2, 1, 1)
    assert sorted(calls) == [("a", 0), ("a", 1), ("b", 0)]


def test_after_a_skip_a_loop_that_went_on_picks_as_one_that_ran_through(tmp_path):
    outcomes = {"a": [F, "skip", F, F], "b": ["skip", "skip", F, F], "c": [F, F, F, T]}
    _, whole = calls_of(tmp_path, outcomes)
    parts = []
    for budget in range(1, 10):
        parts += calls_of(tmp_path, outcomes, budget=budget, journal=tmp_path / "j.jsonl")[1]
    assert parts == whole
    assert whole[:6] == [("a", 0), ("b", 0), ("b", 1), ("b", 2), ("c", 0), ("a", 1)]


def test_every_check_that_ran_is_a_call_also_the_repeated_ones(tmp_path):
    outcomes = {"a": ["error", F, "error", F]}
    calls_of(tmp_path, outcomes, budget=3)
    value, calls = calls_of(tmp_path, outcomes, budget=5, retry_errors=True)
    assert calls == [("a", 0), ("a", 2)]
    assert (value["calls"], value["errors"], value["failed"], value["budget_used_up"]) == (5, 4, 2, True)
    value, calls = calls_of(tmp_path, outcomes, budget=6)  # the journal tells it as well
    assert (value["calls"], calls) == (6, [("a", 3)])
    assert calls_of(tmp_path, outcomes, budget=9, budget_per_problem=6, retry_errors=True)[1] == []


def test_five_errors_in_a_row_stop_the_loop_at_any_time_and_one_more_if_nothing_changed(tmp_path):
    outcomes = {"a": [F, "error", "error", F, *["error"] * 20], "b": [F] * 3}
    pool_in(tmp_path, outcomes)
    calls = []
    line = refusal_of(verified, config_of(tmp_path), calls)
    assert calls[-5:] == [("a", index) for index in range(4, 9)]
    assert "5 checks in a row ended in errors (the last: error of a 8)" in line
    assert "--retry-errors" in line
    assert "6 checks in a row" in refusal_of(verified, config_of(tmp_path), calls)
    assert calls[-1] == ("a", 9)
    refusal_of(verified, config_of(tmp_path, retry_errors=True), calls)
    assert calls[-5:] == [("a", index) for index in (1, 2, 4, 5, 6)]


def test_all_checks_that_end_together_are_written_down_before_the_loop_stops(tmp_path):
    pool_in(tmp_path, {"a": ["error"] * 50})
    refusal_of(verified, config_of(tmp_path, workers=8))
    assert len(outcomes_in(tmp_path / "verify.jsonl")) >= 5


def test_a_check_that_ends_after_the_loop_was_broken_off_is_written_down(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
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


def test_a_value_that_nothing_judges_stops_the_loop_and_is_kept(tmp_path):
    pool_in(tmp_path, {"a": [-10.0, 4.0]})
    calls = []
    assert "gave the value -10 for response 0 of 'a': say what counts" in refusal_of(
        verified, config_of(tmp_path), calls
    )
    assert summary(verified(config_of(tmp_path, threshold=3), calls))["solved"] == 1
    assert calls == [("a", 0), ("a", 1)]


def test_subset_methods_are_refused(tmp_path):
    pool_in(tmp_path, {"a": [F, T, F]})
    assert "chooses sets, in no order" in refusal_of(verified, config_of(tmp_path, selector="kmeans"))


def test_a_selector_that_learns_is_told_the_outcomes_of_its_own_picks_and_no_others(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    verdicts = [F, None, F, T, F]
    texts = [str(verdict) for verdict in verdicts]
    selector = Recorder()
    package.verify(texts, lambda name, index, text: verdicts[index], selector, budget=9, quiet=True)
    values = [Outcome(index, None if verdict is None else float(verdict)) for index, verdict in enumerate(verdicts)]
    assert selector.told == [tuple(values[:t]) for t in range(4)]


def test_with_several_workers_the_picks_under_way_have_no_outcome(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    selector = Recorder()
    package.verify(["x"] * 4, lambda name, index, text: False, selector, budget=4, workers=3, quiet=True)
    assert selector.told[1] == (Outcome(0, None),)
    assert selector.told[2] == (Outcome(0, None), Outcome(1, None))


def test_python_functions_may_raise_or_measure(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def check(name, index, text):
        return 1.0 if index == 1 else None if index == 0 else int("x")

    value = package.verify({7: ["a", "b", "c"], "p": ["d"]}, check, "in-order", budget=9, threshold=0.9, quiet=True)
    assert (value["calls"], value["errors"], value["skipped"]) == (1, 0, 2)
    assert value["found"] == [{"problem_id": "7", "index": 1, "call": 1, "value": 1.0}]
    refusal = refusal_of(package.verify, ["a"] * 9, lambda *_: 0.5, budget=9, journal="b.jsonl", quiet=True)
    assert "what counts as a success (--threshold 3), or look for the largest (--top 5)" in refusal


@pytest.mark.parametrize(
    "given", [{"budget": None}, {"ask": True}, {"verifier": None}, {"k": 2}, {"top": 2, "until": 2}]
)
def test_options_that_do_not_go_together_are_refused(tmp_path, given):
    assert refusal_of(config_of, tmp_path, **given).startswith("verify: ")
