"""What `harness verify` prints below its table, and how it asks on the terminal."""

import subprocess

import pytest
from support.processes import harness_command
from support.searches import pool_in

from harness.cli.verify_tables import lines

COUNTS = {"problems": 3, "solved": 1, "calls": 4, "errors": 0, "timeouts": 0, "skipped": 0, "budget_used_up": False}


def printed(**values):
    return "\n".join(lines({**COUNTS, "random": None, **values}))


def test_the_lines_say_what_was_found_what_failed_and_what_is_known_of_random():
    assert printed() == "1 of 3 problems solved with 4 calls"
    faults = printed(solved=None, calls=1, errors=3, timeouts=2, skipped=1, budget_used_up=True)
    assert faults.startswith("1 call, 3 ended in errors, 2 of them took too long, 1 skipped\nthe budget is used up")
    assert "solves as many with 7.5 calls, and 0.4 problems with 4 calls" in printed(
        random={"calls": 7.5, "solved": 0.4}
    )
    assert "solves not as many at all" in printed(random={"calls": None, "solved": 0.4})
    assert "differs from 2 verified outcomes" in printed(random={"differ": 2})
    bounds = printed(random={"calls_on_solved": 1, "at_least": 1.5, "at_most": 2000.0})
    assert "which took 1 call, it needs at least 1.5 and at most 2,000.0 on average" in bounds


@pytest.mark.slow
def test_answers_typed_into_a_pipe_are_taken_and_q_leaves_the_rest_out(tmp_path):
    pool = pool_in(tmp_path, {"a": [False, True], "b": [True]})
    command = harness_command("verify", "--pool", pool, "--selector", "in-order", "--ask", "-k", 2)
    ended = subprocess.run(command, cwd=tmp_path, input="n\nperhaps\ny\nq\n", capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert "an outcome is y, n, skip, error, got 'perhaps'" in ended.stderr
    assert ended.stdout.count("to verify now:") == 3
    assert "1 of 2 problems solved with 2 calls" in ended.stdout
