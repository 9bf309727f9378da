"""The journal keeps every whole line and belongs to one loop; picks are given out, and outcomes come days later."""

import csv
import io
import subprocess
import sys

import pytest
from support.refusals import error_line, refusal_of
from support.searches import pool_in, verified

from harness.system.progress import Progress
from harness.verifying.config import VerifyConfig
from harness.verifying.journal import Check, Journal
from harness.verifying.loop import ask

F = False
SIZES = {"a": 3, "b": 2}
CHECKS = [Check("a", 2, "wrong"), Check("b", 0, "measured", 3.25), Check("a", 0, "error", None, "exit code 2")]


@pytest.fixture
def path(tmp_path):
    """A journal with three outcomes and two picks that are out."""
    path = tmp_path / "verify.jsonl"
    with Journal(path, {"selector": "repexp"}, SIZES) as journal:
        for line in ({"asked": [("a", 1), ("b", 1)]}, *(check.line for check in CHECKS)):
            journal.write(line)
    return path


def opened(path, **header):
    with Journal(path, {"selector": "repexp"} | header, SIZES) as journal:
        return journal


def test_what_is_written_is_read_again_and_of_a_last_line_cut_at_any_byte_the_rest_is_kept(path):
    whole = path.read_bytes()
    journal = opened(path)
    assert (journal.entries, journal.remark) == ([[("a", 1), ("b", 1)], *CHECKS], "")
    lines = whole.splitlines(keepends=True)
    for cut in range(len(whole) - len(lines[-1]) + 1, len(whole)):
        path.write_bytes(whole[:cut])
        journal = opened(path)
        assert ("cut away" in journal.remark, journal.entries[1:]) == (True, CHECKS[:2])
        assert path.read_bytes() == b"".join(lines[:-1])
    path.write_bytes(whole[:-5])
    with Journal(path, {"selector": "repexp"}, SIZES) as journal:
        journal.write(CHECKS[2].line)
    assert path.read_bytes() == whole  # an outcome after a recovered line is on a line of its own
    path.write_bytes(lines[0][:10])
    assert (opened(path).entries, path.read_bytes()) == ([], lines[0])


def test_files_that_are_no_journal_of_this_loop_are_refused(path, tmp_path):
    lines = path.read_text().splitlines(keepends=True)
    for words, content in {
        "line 3: not JSON": [*lines[:2], "{]\n", *lines[3:]],
        "line 2: ['a', 3] is no response of the pool": [lines[0], '{"asked": [["a", 3]]}\n'],
        "line 2: 'outcome': Input should be ": [lines[0], '{"problem_id": "a", "index": 0, "outcome": "perhaps"}\n'],
        "is no journal": ['{"problem_id": "a", "responses": []}\n'],
        "is of another version (2, now 1)": [lines[0].replace('"version": 1', '"version": 2')],
    }.items():
        path.write_text("".join(content))
        assert words in refusal_of(opened, path)
    path.write_text("".join(lines))
    assert len(opened(path, verifier_files={"v.py": "sha256:0"}).entries) == 4  # of an older version, without files
    assert "cannot be opened (No such file or directory)" in refusal_of(opened, tmp_path / "no" / "verify.jsonl")
    code = f"from harness.verifying.journal import Journal, Path\nJournal(Path({str(path)!r}), {{}}, {{}})"
    with Journal(path, {"selector": "repexp"}, SIZES):
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "another process uses it" in ended.stderr


def test_another_pool_selector_seed_or_program_is_refused(harness, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    verified({"a": [F, True]})
    for changed, words in (({"selector": "uniform"}, "selector ('in-order', now 'uniform')"), ({"seed": 1}, "seed (")):
        assert f"is of another {words}" in refusal_of(verified, {"a": [F, True]}, **changed)
    assert "now other responses)" in refusal_of(verified, {"a": [F, F]})
    program, log, pool = tmp_path / "v.sh", tmp_path / "log", pool_in(tmp_path, {"a": [F] * 3})
    command = ("verify", "--pool", pool, "--selector", "in-order", "--journal", "own.jsonl", "--budget", 2, "--json")
    command += ("--verifier", f"sh {program} {log} {{index}}")
    program.write_text("exit 1")
    assert harness(*command).rows["calls"] == 2
    log.write_text("a file that the verifier writes is no part of it")
    assert harness(*command).rows["calls"] == 2
    program.write_text("exit 2")
    line = error_line(harness(*command))
    assert f"{program} has changed since: --journal NEW starts anew; --retry-errors keeps" in line
    assert harness(*command, "--retry-errors").code == harness(*command).code == 0


# A wet lab: picks are given out, and outcomes come days later, some of them, in any order.


@pytest.fixture
def lab(tmp_path):
    """Ask for picks of a pool with two problems, three at a time; the answers as rows of a table, or typed."""
    pool_in(tmp_path, {"a": [F] * 4, "b": [F] * 2})
    fixed = {"pool": tmp_path / "pool.jsonl", "journal": tmp_path / "verify.jsonl", "selector": "in-order", "k": 3}

    def call(*rows, head="problem_id,index,outcome", typed=None, quiet=True, **options):
        if rows:
            (tmp_path / "results.csv").write_text("\n".join([head, *rows]) + "\n")
            options["answers"] = tmp_path / "results.csv"
        lines = iter(typed or ())
        read = None if typed is None else lambda row: next(lines, None)
        value = ask(VerifyConfig(**fixed | {"ask": True} | options), Progress(quiet=quiet), read=read)
        return [(row["problem_id"], row["index"]) for row in value["ask"]], value

    return call


def test_the_picks_stay_out_until_their_outcomes_come_and_the_next_ones_fill_up(lab, capsys):
    assert lab()[0] == lab(quiet=False)[0] == [("a", 0), ("b", 0), ("a", 1)]  # days later, nothing has come
    picks, value = lab("a,1,wrong", "b,0,", quiet=False)
    assert (picks, value["calls"], value["solved"]) == ([("a", 0), ("b", 0), ("b", 1)], 1, 0)
    # The same table, filled in further.
    picks, value = lab("b;0;yes", "a;1;n", "a;0;skip", head="problem_id;index;outcome", quiet=False)
    assert picks == [("a", 2), ("a", 3)]  # b is solved: its second pick is not waited for
    assert (value["calls"], value["solved"], value["skipped"]) == (2, 1, 1)
    printed = " ".join(capsys.readouterr().err.split())
    lines = ["verify.jsonl: 3 picks out, none answered", "results.csv: 1 outcome, 1 open"]
    lines += ["verify.jsonl: goes on after 1 call", "results.csv: 3 outcomes, 1 of them recorded before, 0 open"]
    assert [line for line in lines if line not in printed] == []


def test_answers_on_the_terminal_are_written_down_one_by_one(lab):
    picks, value = lab(typed=["n", "what?", "y", "q!", "s"])
    assert picks == lab(typed=[])[0] == [("a", 2), ("a", 3)]
    assert (value["calls"], value["solved"], value["skipped"]) == (2, 1, 1)


def test_a_threshold_a_budget_and_a_correction_hold_for_answers_too(lab, tmp_path):
    lab(threshold=10)
    _, value = lab("a,0,2.5", "b,0,1e1", "a,1,n", threshold=10)
    assert ([hit["value"] for hit in value["found"]], value["calls"]) == ([10.0], 3)
    options = {"journal": tmp_path / "b.jsonl", "budget": 2}
    assert len(lab(**options)[0]) == 2
    lab("a,0,y", "b,0,skip", **options)
    _, value = lab("a,0,n", "b,0,y", correct=True, **options)
    assert (value["ask"], value["budget_used_up"], value["found"][0]["problem_id"]) == ([], True, "b")


def test_a_table_with_a_fault_is_refused_before_anything_is_written(lab, tmp_path):
    lab()
    lab("a,0,n")
    before = (tmp_path / "verify.jsonl").read_bytes()
    for rows, words in {
        "a,0,y": "line 2: response 0 of 'a' is recorded already, as wrong: --correct replaces it",
        "a,1,n\nb,9,y": "line 3: problem 'b' with index '9' is no response of the pool",
        "a,1,maybe": "line 2: an outcome is y, n, skip, error, got 'maybe'",
        "a,1,3.5": "a number needs --threshold or --top",
        "a,1,n\na,1,y": "line 3: response 1 of 'a' has another outcome in a row above: correct the table",
        "a,1,n\na,3,y": "line 3: response 3 of 'a' was never asked for",
    }.items():
        assert words in refusal_of(lab, rows)
    comma = refusal_of(lab, 'a,1,"6,2"', threshold=1)
    assert comma.endswith("line 2: an outcome is y, n, skip, error or a number, got '6,2'; write 6.2")
    assert "must name the columns" in refusal_of(lab, "x", head="a,b")
    assert (tmp_path / "verify.jsonl").read_bytes() == before


def test_the_sheet_lists_the_picks_comes_back_as_answers_and_is_never_overwritten(lab, tmp_path):
    pool_in(tmp_path, {"-1": [F] * 4, "=b": [F] * 2})
    sheet = tmp_path / "picks.csv"
    lab(sheet=sheet)
    head, *rows = sheet.read_text().splitlines()
    shown = [list(row.values()) for row in csv.DictReader(io.StringIO(sheet.read_text()))]
    assert shown[:2] == [["'-1", "0", "'-1 0 False", ""], ["'=b", "0", "'=b 0 False", ""]]
    filled = [f"{row}n" for row in rows]
    assert "may hold outcomes" in refusal_of(lab, *filled, head=head, sheet=sheet)
    assert lab(*filled, head=head)[1]["calls"] == 3
