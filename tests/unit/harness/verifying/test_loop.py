"""The order of picks over several problems, when a problem is done, and what a selector that learns is told."""

import threading
import time

import pytest
from support.json_lines import read_json_lines
from support.refusals import refusal_of, wrongly_refused
from support.searches import Recorder, verified

import harness as package
from harness.records import Outcome

T, F = True, False


@pytest.fixture(autouse=True)
def journal(tmp_path, monkeypatch):
    """The outcomes in a journal: problem, index, outcome."""
    monkeypatch.chdir(tmp_path)

    def read(name="verify"):
        lines = read_json_lines(tmp_path / f"{name}.jsonl")
        return [(line["problem_id"], line["index"], line["outcome"]) for line in lines if "outcome" in line]

    return read


def calls_of(outcomes, journal="verify", **options):
    """What a loop gives, and its calls; a journal is named `journal`."""
    calls = []
    return verified(outcomes, calls, journal=f"{journal}.jsonl", **options), calls


def test_each_open_problem_gets_a_call_in_turn_until_its_first_success():
    value, calls = calls_of({"a": [F, F, T, T], "b": [T, F, F, F], "c": [F, F, F, F]})
    assert calls == [("a", 0), ("b", 0), ("c", 0), ("a", 1), ("c", 1), ("a", 2), ("c", 2), ("c", 3)]
    assert [(hit["problem_id"], hit["index"], hit["call"]) for hit in value["found"]] == [("a", 2, 3), ("b", 0, 1)]
    assert (value["problems"], value["solved"], value["calls"], value["budget_used_up"]) == (3, 2, 8, False)
    assert (value["exhausted"], value["unsolved"]) == (["c"], [])


def test_until_and_both_budgets_end_it_and_the_same_command_goes_on_and_repeats_nothing():
    for name, options, expected in (
        ("until", {"until": 2}, [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2), ("b", 2), ("b", 3)]),
        ("budget", {"budget": 3}, [("a", 0), ("b", 0), ("a", 1)]),
        ("each", {"budget_per_problem": 2, "until": 3}, [("a", 0), ("b", 0), ("a", 1), ("b", 1)]),
        ("budget", {"budget": 100}, [("b", 1), ("b", 2), ("b", 3)]),
    ):
        assert calls_of({"a": [F, T, T, T], "b": [F, F, F, T]}, name, **options)[1] == expected, options


def test_values_decide_by_the_threshold_or_the_largest_are_shown():
    values = {"a": [0.5, 2.5, 9.0], "b": [1.0, -1.0, 3.0]}
    value, calls = calls_of(values, threshold=2.5)
    assert [(hit["problem_id"], hit["index"], hit["value"]) for hit in value["found"]] == [("a", 1, 2.5), ("b", 2, 3.0)]
    assert len(calls) == 5
    other, calls = calls_of(values, threshold=9.0)  # what was measured is judged anew
    assert ([hit["value"] for hit in other["found"]], calls) == ([9.0], [("a", 2)])
    top, _ = calls_of(values, "top", top=2, budget=5)
    assert [(hit["problem_id"], hit["value"]) for hit in top["found"]] == [("a", 9.0), ("a", 2.5)]
    line = refusal_of(calls_of, {"a": [-10.0, 4.0]}, "judged")
    assert "gave the value -10 for response 0 of 'a': say what counts as a success (--threshold 3), or look for" in line
    assert calls_of({"a": [-10.0, 4.0]}, "judged", threshold=3)[1] == [("a", 1)]  # and it was kept


def test_an_error_costs_a_call_a_skip_does_not_and_errors_are_checked_again_if_asked():
    value, _ = calls_of({"a": ["error", "skip", T]}, budget=2)
    assert (value["calls"], value["errors"], value["skipped"], value["solved"]) == (2, 1, 1, 1)
    assert value["commonest_error"].startswith("raised ValueError: a 0")
    outcomes = {"a": ["error", F, "error", F]}
    calls_of(outcomes, "b", budget=3)
    value, calls = calls_of(outcomes, "b", budget=5, retry_errors=True)
    assert calls == [("a", 0), ("a", 2)]
    assert (value["calls"], value["errors"], value["failed"], value["budget_used_up"]) == (5, 4, 2, True)
    assert calls_of(outcomes, "b", budget=6)[1] == [("a", 3)]  # every check that ran is a call
    value, calls = calls_of({"a": ["skip", T], "b": [F, T]}, "c", budget_per_problem=1, workers=3)
    assert (value["calls"], value["solved"], sorted(calls)) == (2, 1, [("a", 0), ("a", 1), ("b", 0)])


def test_five_errors_in_a_row_stop_the_loop_at_any_time_and_one_more_if_nothing_changed(journal):
    outcomes, calls = {"a": [F, "error", "error", F, *["error"] * 20], "b": [F] * 3}, []
    line = refusal_of(verified, outcomes, calls)
    assert calls[-5:] == [("a", index) for index in range(4, 9)]
    assert "5 checks in a row ended in errors (the last: raised ValueError: a 8" in line
    assert "6 checks in a row" in refusal_of(verified, outcomes, calls)
    refusal_of(verified, outcomes, calls, retry_errors=True)
    assert calls[-6:] == [("a", index) for index in (9, 1, 2, 4, 5, 6)]
    refusal_of(verified, outcomes, workers=8, journal="many.jsonl")
    assert len(journal("many")) >= 5  # all that end together are written down


def test_a_check_that_ends_after_the_loop_was_broken_off_is_written_down(journal):
    broken_off = threading.Event()

    def check(name, index, text):
        if index == 1:
            broken_off.set()
            raise KeyboardInterrupt
        return broken_off.wait(60) and not time.sleep(0.2)

    with pytest.raises(KeyboardInterrupt):
        package.verify(["a", "b"], check, "in-order", budget=9, workers=2, quiet=True)
    assert journal() == [("problem", 0, "correct")]


def test_a_selector_that_learns_is_told_the_written_outcomes_of_its_own_picks_and_no_others(journal):
    class Reader(Recorder):
        def pick_after(self, pool, outcomes, rng):
            assert len(journal()) == len(outcomes)
            return super().pick_after(pool, outcomes, rng)

    selector = Reader()
    verified({"a": [F, "skip", F, T, F]}, selector=selector)
    values = [Outcome(index, value) for index, value in enumerate([0.0, None, 0.0, 1.0])]
    assert selector.told == [tuple(values[:t]) for t in range(4)]
    selector = Recorder()
    verified({"a": [F] * 4}, selector=selector, workers=3, journal="several.jsonl")
    assert selector.told[1:3] == [(Outcome(0, None),), (Outcome(0, None), Outcome(1, None))]  # picks under way


def test_options_that_do_not_go_together_and_subset_methods_are_refused():
    given = [{"budget": 0}, {"ask": True}, {"timeout": 0.0}, {"k": 2}, {"top": 2, "until": 2}]
    given += [{"correct": True}, {"sheet": "x"}, {"selector": "kmeans"}]
    words = ["--budget must be at", "--verifier or --ask, not", "--timeout must", "-k goes with", "--top looks for"]
    words += ["--correct goes with", "go with --ask", "chooses sets, in no order"]
    assert not wrongly_refused(zip(given, words, strict=True), lambda options: verified({"a": [F, T]}, **options))
