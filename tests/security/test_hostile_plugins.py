"""What a plugin does wrong ends its own row, in one line, and reaches no stdout that holds JSON."""

import json

import numpy as np
import pytest
from support.paths import SUPPORT, TOY
from support.processes import harness_command, run_to_end
from support.refusals import error_line, refusal_of
from support.selector_pools import pool_of

HOSTILE, LOUD = SUPPORT / "hostile_plugins.py", SUPPORT / "loud_plugin.py"


@pytest.fixture
def run(toy):
    """Run hostile selectors, named in one text, on the toy task or another; further options."""

    def call(selectors, *args):
        return toy("--plugin", HOSTILE, *(part for name in selectors.split() for part in ("--selector", name)), *args)

    return call


def test_what_would_end_the_process_is_a_failed_row_and_the_others_are_there(run):
    outcome = run("exits aliens sound exitsinselect", "--data", "3")
    assert (outcome.code, [row["selector"] for row in outcome.rows]) == (1, ["sound"])
    failed = [line for line in outcome.err.splitlines() if line.startswith("failed: ")]
    for line, fault in zip(failed, ("SystemExit: 0", "Alien: from elsewhere", "SystemExit"), strict=True):
        assert f"trial 0: raised {fault}" in line
        assert "(hostile_plugins.py:" in line
    (row,) = run("sound", "--task", "exits-verify").rows  # in a verifier it is the verdict error
    assert row["errors"] == row["n"] == 16


@pytest.mark.slow
def test_elsewhere_it_is_one_line_and_exit_code_2(run):
    exits = "SystemExit: 0 (hostile_plugins.py:"
    line = error_line(run("exitswhenbuilt"))
    assert f"selector 'exitswhenbuilt' from hostile_plugins cannot be built: raised {exits}" in line
    ended = run("spread", "--embedder", "exits")
    assert ended.code == 2
    assert f"embedder 'exits', problem 'test/0': raised {exits}" in ended.err
    assert f"a plugin ended the command: it raised {exits}" in error_line(run("sound", "--task", "exits-problems"))


@pytest.mark.slow
def test_with_json_stdout_holds_the_json_alone_whatever_plugins_print(tmp_path):
    fixed = ("--task", "colours", "--engine", "toy", "--plugin", TOY, "--store", tmp_path, "--data", "2")
    done = run_to_end(harness_command("run", *fixed, "--selector", "loud", "--plugin", LOUD, "--json"))
    assert [row["selector"] for row in json.loads(done.stdout)] == ["loud"]
    for where in ("import", "rank", "atexit"):
        for how in ("printed in", "written in", "kept stdout in", "shell in", "warned in"):
            assert f"{how} {where}" in done.stderr


@pytest.mark.slow
def test_with_a_limit_a_selector_that_hangs_or_dies_is_ended_and_named_and_the_next_goes_on(run):
    outcome = run("sleeps dies spinsinc sound", "--rank-timeout", "5", "--data", "1")
    assert (outcome.code, [row["selector"] for row in outcome.rows]) == (1, ["sound"])
    for name in ("sleeps", "spinsinc"):
        fault = f"failed: selector '{name}', problem 'test/0': ranking took longer than 5 s and was ended"
        assert fault in outcome.err
    assert "failed: selector 'dies', problem 'test/0': the process that ranked it died" in outcome.err


def test_a_rank_timeout_that_is_no_time_is_one_line(toy):
    for seconds in ("0", "nan", "inf"):
        line = error_line(toy("--selector", "shuffle", f"--rank-timeout={seconds}"))
        assert "--rank-timeout must be a number of seconds > 0" in line


def test_no_pool_holds_a_vector_that_is_no_number_or_an_infinite_log_probability():
    for bad in (np.nan, np.inf):
        h = np.ones((5, 3), np.float32)
        h[3, 1] = bad
        assert "the embedding of response 3 holds NaN or infinity" in refusal_of(pool_of, embeddings=h)
    assert "the log-probability of response 2 is inf" in refusal_of(pool_of, logprobs=[0, 0, np.inf])
    assert np.isnan(pool_of(logprobs=[0, 0, np.nan]).logprobs[2])  # unknown
