"""A wet lab: picks are given out, and outcomes come days later, some of them, in any order."""

import csv
import io

import pytest
from support.refusals import refusal_of
from support.searches import config_of, pool_in

from harness.system.progress import Progress
from harness.verifying.loop import ask

F = False


@pytest.fixture
def lab(tmp_path):
    """Ask for picks of a pool with two problems, three at a time; the answers as a table, or typed."""
    pool_in(tmp_path, {"a": [F] * 4, "b": [F] * 2})
    config = {"verifier": None, "ask": True, "budget": None, "k": 3}

    def call(answers=None, typed=None, quiet=True, **options):
        if answers is not None:
            (tmp_path / "results.csv").write_text(answers)
            options["answers"] = tmp_path / "results.csv"
        lines = iter(typed or ())
        read = None if typed is None else lambda row: next(lines, None)
        value = ask(config_of(tmp_path, **config | options), Progress(quiet=quiet), read=read)
        return [(row["problem_id"], row["index"]) for row in value["ask"]], value

    return call


def test_the_picks_stay_out_until_their_outcomes_come_and_the_next_ones_fill_up(lab):
    first, _ = lab()
    assert first == [("a", 0), ("b", 0), ("a", 1)]
    assert lab()[0] == first  # days later, nothing has come
    picks, value = lab("problem_id,index,outcome\na,1,wrong\nb,0,\n")
    assert picks == [("a", 0), ("b", 0), ("b", 1)]
    assert (value["calls"], value["solved"]) == (1, 0)
    picks, value = lab("problem_id;index;outcome\nb;0;yes\na;1;n\na;0;skip\n")  # the same table, filled in further
    assert picks == [("a", 2), ("a", 3)]  # b is solved: its second pick is not waited for
    assert (value["calls"], value["solved"], value["skipped"]) == (2, 1, 1)


def test_answers_on_the_terminal_are_written_down_one_by_one(lab):
    picks, value = lab(typed=["n", "what?", "y", "q!", "s"])
    assert picks == [("a", 2), ("a", 3)]
    assert (value["calls"], value["solved"], value["skipped"]) == (2, 1, 1)
    assert lab(typed=[])[0] == picks


def test_values_are_judged_by_the_threshold(lab):
    lab(threshold=10)
    _, value = lab("index,problem_id,outcome\n0,a,2.5\n0,b,1e1\n1,a,n\n", threshold=10)
    assert [hit["value"] for hit in value["found"]] == [10.0]
    assert value["calls"] == 3


def test_a_table_with_a_fault_is_refused_before_anything_is_written(lab, tmp_path):
    lab()
    lab("index,problem_id,outcome\n0,a,n\n")
    before = (tmp_path / "verify.jsonl").read_bytes()
    for rows, words in {
        "0,a,y": "line 2: response 0 of 'a' is recorded already, as wrong: --correct replaces it",
        "1,a,n\n9,b,y": "line 3: problem 'b' with index '9' is no response of the pool",
        "1,a,n\n-1,c,y": "is no response of the pool",
        "1,a,maybe": "line 2: an outcome is y, n, skip, error, got 'maybe'",
        "1,a,3.5": "a number needs --threshold or --top",
        "1,a,n\n1,a,y": "line 3: response 1 of 'a' has another outcome in a row above: correct the table",
        "1,a,n\n3,a,y": "line 3: response 3 of 'a' was never asked for",
    }.items():
        assert words in refusal_of(lab, f"index,problem_id,outcome\n{rows}\n")
    comma = refusal_of(lab, 'index,problem_id,outcome\n1,a,"6,2"\n', threshold=1)
    assert comma.endswith("line 2: an outcome is y, n, skip, error or a number, got '6,2'; write 6.2")
    assert "must name the columns" in refusal_of(lab, "a,b\n")
    assert (tmp_path / "verify.jsonl").read_bytes() == before


def test_the_sheet_lists_the_picks_comes_back_as_answers_and_is_never_overwritten(lab, tmp_path):
    pool_in(tmp_path, {"-1": [F] * 4, "=b": [F] * 2})
    sheet = tmp_path / "picks.csv"
    lab(sheet=sheet)
    rows = list(csv.DictReader(io.StringIO(sheet.read_text())))
    assert [list(row.values()) for row in rows] == [
        ["'-1", "0", "'-1 0 False", ""],
        ["'=b", "0", "'=b 0 False", ""],
        ["'-1", "1", "'-1 1 False", ""],
    ]
    before = (tmp_path / "verify.jsonl").read_bytes()
    assert "may hold outcomes" in refusal_of(lab, sheet.read_text().replace(",\n", ",n\n"), sheet=sheet)
    assert (tmp_path / "verify.jsonl").read_bytes() == before
    _, value = lab(sheet.read_text().replace(",\n", ",n\n"))
    assert value["calls"] == 3


def test_a_budget_counts_the_picks_that_are_out(lab):
    assert len(lab(budget=2)[0]) == 2
    _, value = lab("problem_id,index,outcome\na,0,n\nb,0,n\n", budget=2)
    assert (value["ask"], value["budget_used_up"]) == ([], True)


def test_a_recorded_outcome_is_corrected_if_asked_for(lab):
    lab()
    lab("problem_id,index,outcome\na,0,y\nb,0,skip\n")
    table = "problem_id,index,outcome\na,0,n\nb,0,y\n"
    picks, value = lab(table, correct=True)
    assert (value["calls"], value["solved"], [hit["problem_id"] for hit in value["found"]]) == (2, 1, ["b"])
    assert lab(table)[0] == picks


def test_it_says_what_a_table_brought_and_what_is_out(lab, capsys):
    lab(quiet=False)
    lab("problem_id,index,outcome\na,0,\n", quiet=False)
    message = " ".join(capsys.readouterr().err.split())
    assert "verify.jsonl: 3 picks out, none answered" in message
    assert "results.csv: 0 outcomes, 1 open" in message
    lab("problem_id,index,outcome\na,0,n\nb,0,n\na,1,\n")
    lab("problem_id,index,outcome\na,0,n\nb,0,n\na,1,n\n", quiet=False)
    message = " ".join(capsys.readouterr().err.split())
    assert "verify.jsonl: goes on after 2 calls, 3 picks out" in message
    assert "results.csv: 3 outcomes, 2 of them recorded before, 0 open" in message
