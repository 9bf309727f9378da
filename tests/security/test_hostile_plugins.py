"""What a plugin does wrong ends its own row, in one line, and reaches no stdout that holds JSON."""

from __future__ import annotations

import io
import json
import sys

import numpy as np
import pytest
from support.distributions import write_distribution
from support.paths import SUPPORT, TOY
from support.processes import harness_command, run_to_end, wait_for

from harness import HarnessError, Pool
from harness.plugin_system.slow_plugins import named

HOOK = """
from harness import Sampler, hookimpl


@hookimpl
def register_samplers(register):
    register("eager", Sampler)
"""
HOSTILE = SUPPORT / "hostile_plugins.py"


@pytest.fixture
def command(tmp_path):
    """Run `harness run` on the toy engine in a process of its own, the hostile plugins at hand."""

    def call(*args, task="colours", first=()):
        fixed = ("--task", task, "--engine", "toy", "--plugin", TOY, "--plugin", HOSTILE, "--store", tmp_path / "runs")
        return run_to_end(harness_command(*first, "run", *fixed, *args))

    return call


def selectors(*names):
    return [part for name in names for part in ("--selector", name)]


def last_error(done) -> str:
    return next(line for line in done.stderr.splitlines() if line.startswith("error: "))


def test_what_would_end_the_process_is_a_failed_row_and_the_others_are_there(command):
    done = command(*selectors("exits", "aliens", "sound", "exitsinselect"), "--json", "--data", "3")
    assert done.returncode == 1
    assert [row["selector"] for row in json.loads(done.stdout)] == ["sound"]
    failed = [line for line in done.stderr.splitlines() if line.startswith("failed: ")]
    assert len(failed) == 3
    for line, said in zip(failed, ("SystemExit: 0", "Alien: from elsewhere", "SystemExit"), strict=True):
        assert f"trial 0: raised {said}" in line
        assert "(hostile_plugins.py:" in line


@pytest.mark.parametrize(
    ("args", "task", "said"),
    [
        (
            selectors("exitswhenbuilt"),
            "colours",
            "selector 'exitswhenbuilt' from hostile_plugins cannot be built: raised",
        ),
        ((*selectors("spread"), "--embedder", "exits"), "colours", "embedder 'exits', problem 'test/0': raised"),
        (selectors("sound"), "exits-problems", "a plugin ended the command: it raised"),
    ],
)
def test_elsewhere_it_is_one_line_and_exit_code_2(command, args, task, said):
    done = command(*args, task=task)
    assert done.returncode == 2
    assert f"{said} SystemExit: 0 (hostile_plugins.py:" in last_error(done)
    assert "Traceback" not in done.stderr


def test_in_a_verifier_it_is_the_verdict_error(command):
    done = command(*selectors("sound"), "--json", task="exits-verify")
    assert done.returncode == 0
    (row,) = json.loads(done.stdout)
    assert row["errors"] == row["n"] == 16


def test_with_json_stdout_holds_the_json_alone_whatever_plugins_print(command):
    done = command(*selectors("loud"), "--json", "--data", "2")
    assert [row["selector"] for row in json.loads(done.stdout)] == ["loud"]
    for where in ("import", "rank", "atexit"):
        for how in ("printed in", "written in", "kept stdout in", "shell in", "warned in"):
            assert f"{how} {where}" in done.stderr
    listed = run_to_end(harness_command("list", "selectors", "--json", "--plugin", HOSTILE), check=True)
    assert "loud" in [row["name"] for row in json.loads(listed.stdout)]


def test_with_json_what_plugins_print_in_workers_reaches_no_stdout(command, tmp_path):
    eager = "from harness_plugins.executors import local\nlocal.ALONE_S = local.START_S = -1.0\n"
    (tmp_path / "eager.py").write_text(eager + HOOK)
    args = ("--plugin", tmp_path / "eager.py", "--executor", "local:workers=2", "--data", "4")
    done = command(*selectors("loud"), *args, "--json")
    assert [row["selector"] for row in json.loads(done.stdout)] == ["loud"]
    assert done.stderr.count("written in rank") >= 4
    assert done.stderr.count("printed in import") >= 3  # here and in two workers


def test_the_kit_takes_no_print_of_a_plugin_for_its_answer():
    done = run_to_end(harness_command("check", "selector", "loud", "--plugin", HOSTILE, "--json"))
    outcomes = {row["check"]: row["outcome"] for row in json.loads(done.stdout)}
    assert outcomes["same-in-another-process"] == "passed"


def test_with_rank_timeout_a_selector_that_hangs_is_killed_and_named_and_the_next_goes_on(command):
    args = (*selectors("sleeps", "spinsinc", "dies", "sound"), "--rank-timeout", "3", "--json", "--data", "2")
    done = command(*args)
    assert done.returncode == 1
    assert [row["selector"] for row in json.loads(done.stdout)] == ["sound"]
    for name in ("sleeps", "spinsinc"):
        said = f"failed: selector '{name}', problem 'test/0': ranking took longer than 3 s and was ended"
        assert said in done.stderr
    assert "failed: selector 'dies', problem 'test/0': the process that ranked it died" in done.stderr


def test_a_bounded_ranking_gives_the_bytes_of_an_unbounded_one(toy, tmp_path):
    args = (*selectors("spread", "shuffle", "head"), "--data", "3")
    outcomes = [toy(*args, *more, store=tmp_path / f"runs{len(more)}") for more in ((), ("--rank-timeout", "100"))]
    assert outcomes[0].code == outcomes[1].code == 0
    assert outcomes[0].out == outcomes[1].out


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf"])
def test_a_rank_timeout_that_is_no_time_is_one_line(toy, seconds):
    outcome = toy(*selectors("shuffle"), f"--rank-timeout={seconds}")
    assert outcome.code == 2
    assert "--rank-timeout must be a number of seconds > 0" in outcome.err


def test_a_plugin_whose_import_hangs_is_left_out_and_named_where_a_limit_was_given(tmp_path, monkeypatch):
    source = """
        import time
        try:
            time.sleep(600)
        except Exception:
            pass
    """
    write_distribution(tmp_path, "harness-slow", "1.0", source, entry="slow")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = run_to_end(harness_command("--import-timeout", 4, "doctor", "--json"))
    assert done.returncode == 1
    assert "plugin 'slow' from harness-slow 1.0 failed to import: Late: its import took longer than 4 s" in done.stdout


def test_what_takes_long_is_named_on_stderr_and_what_does_not_is_not(monkeypatch):
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    with named("importing plugin 'x' from y 1.0", 0.0):
        wait_for(lambda: stderr.getvalue().endswith("\n"), 60)
    with named("something quick", 3600):
        pass
    assert stderr.getvalue() == "waiting: importing plugin 'x' from y 1.0 has taken 0 s so far\n"


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_no_pool_holds_a_vector_that_is_no_number_or_an_infinite_log_probability(bad):
    h = np.ones((5, 3), np.float32)
    h[3, 1] = bad
    columns = {"texts": ["x"] * 5, "lengths": np.ones(5, np.int64), "answers": [None] * 5}
    with pytest.raises(HarnessError, match="the embedding of response 3 holds NaN or infinity"):
        Pool(embeddings=h, logprobs=np.zeros(5), **columns)
    logprobs = np.array([0, 0, bad, 0, 0])
    if np.isnan(bad):  # unknown
        assert np.isnan(Pool(embeddings=np.ones((5, 3)), logprobs=logprobs, **columns).logprobs[2])
        return
    with pytest.raises(HarnessError, match=r"the log-probability of response 2 is -?inf"):
        Pool(embeddings=np.ones((5, 3)), logprobs=logprobs, **columns)


def test_whoever_gives_vectors_that_are_no_numbers_is_named(command):
    done = command(*selectors("spread"), "--embedder", "nan")
    assert done.returncode == 2
    assert last_error(done) == "error: embedder 'nan', problem 'test/0': its vector of response 2 holds NaN or infinity"
