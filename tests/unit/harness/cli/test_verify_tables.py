"""What `harness verify` prints below its table, and how it asks on the terminal."""

import io
import subprocess

import pytest
from support.processes import harness_command
from support.searches import pool_in

from harness.cli.tables import answer, asked, lines

COUNTS = {
    **{"problems": 3, "solved": 1, "calls": 4, "errors": 0, "timeouts": 0, "skipped": 0, "budget_used_up": False},
    **{"failed": 0, "commonest_error": None, "exhausted": [], "unsolved": []},
}


def printed(**values):
    return "\n".join(lines({**COUNTS, **values}))


def test_the_lines_say_what_was_found_and_what_failed():
    assert printed() == "1 of 3 problems solved with 4 calls"
    faults = printed(solved=None, calls=1, errors=3, timeouts=2, skipped=1, budget_used_up=True)
    assert faults.startswith("1 call, 3 ended in errors, 2 of them took too long, 1 skipped\nthe budget is used up")


def test_errors_have_their_commonest_reason_and_a_way_on():
    line = printed(errors=3, failed=2, commonest_error="exit code 2: no server")
    assert "3 ended in errors (most often: exit code 2: no server; --retry-errors checks them again)" in line
    assert "--retry-errors" not in printed(errors=3, failed=0, commonest_error="exit code 2")


def test_unsolved_problems_are_named_those_without_a_further_response_apart():
    message = printed(exhausted=["a"], unsolved=list("bcdefgh"))
    assert "unsolved, no response is left: a\n" in message
    assert message.endswith("unsolved, responses are left: b, c, d, e, f, and 2 more")


def test_hits_stand_below_the_picks_that_are_out(capsys):
    hit = {"problem_id": "plates", "index": 81, "call": 3, "value": 6.2}
    asked({**COUNTS, "ask": [{"problem_id": "plates", "index": 52, "response": ""}], "found": [hit]})
    picks, hits = capsys.readouterr().out.split("found so far:")
    assert "52" in picks
    assert [line.split() for line in hits.strip().splitlines()[:3:2]] == [
        ["problem", "index", "call", "value"],
        ["plates", "81", "3", "6.2"],
    ]


def test_a_question_shows_the_whole_response_and_offers_numbers_where_they_are_taken(tmp_path, monkeypatch, capsys):
    text = "word " * 100 + "\n\x1b[2Jend"
    for options, allowed in (({}, "y, n, skip, error, or q? "), ({"top": 1}, "y, n, a number, skip, error, or q? ")):
        monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
        assert answer({"problem_id": "p", "index": 0, "response": text}, takes_values=bool(options)) == "y\n"
        shown = capsys.readouterr().err
        assert "word " * 100 + "\n\N{REPLACEMENT CHARACTER}[2Jend" in shown
        assert shown.endswith(f"problem p, index 0: {allowed}")


@pytest.mark.slow
def test_answers_typed_into_a_pipe_are_taken_and_q_leaves_the_rest_out(tmp_path):
    pool = pool_in(tmp_path, {"a": [False, True], "b": [True]})
    command = harness_command("verify", "--pool", pool, "--selector", "in-order", "--ask", "-k", 2)
    ended = subprocess.run(command, cwd=tmp_path, input="n\nperhaps\ny\nq\n", capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert "an outcome is y, n, skip, error, got 'perhaps'" in ended.stderr
    assert ended.stdout.count("to verify now:") == 3
    assert "1 of 2 problems solved with 2 calls" in ended.stdout
