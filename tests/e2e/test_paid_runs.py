"""Runs on a server that must be paid: capped, killed, resumed; what was paid for is kept and counted."""

import numpy as np
import pytest
from support.openai_server import UNKNOWN, colour, serving, short_pauses  # noqa: F401
from support.paths import TOY
from support.processes import harness_command, kill_when, wait_for
from support.stores import all_cells, contents

from harness_plugins.engines.openai.ledger import lines

pytestmark = pytest.mark.usefixtures("short_pauses")


@pytest.fixture
def behaviour(tmp_path):
    """A server for the toy task; `behaviour.command` gives a run of ten responses to each of two problems."""
    with serving(**UNKNOWN, generate=colour) as (url, behaviour):

        def command(*more, prices=",price_in=1,price_out=10", store="runs"):
            given = ("--task", "colours", "--plugin", TOY, "--engine", f"openai:url={url},concurrency=2{prices}")
            given += ("--json", "--selector", "uniform", "--n", 10, "--limit", 2, "--store", tmp_path / store)
            return [str(each) for each in ("run", *given, *more)]

        behaviour.command = command
        yield behaviour


def requests(store):
    """How many requests the store counts."""
    return int(sum(np.sum(lines(path), axis=0)[0] for path in store.glob("*/paid/spent.jsonl")))


def made(store):
    """What a store holds, but for what was paid, when something was graded, and the options in cells."""
    kinds = ("/responses.", "/verdicts.", "/orders.")
    return {name: content for name, content in contents(store).items() if any(kind in name for kind in kinds)}


@pytest.mark.slow
def test_a_capped_run_keeps_what_it_paid_for_and_one_with_a_higher_cap_goes_on_as_if_it_had_not_stopped(
    harness, behaviour, tmp_path
):
    command, bodies = behaviour.command, behaviour.bodies
    whole = harness(*command(store="whole", prices=""))
    assert whole.code == 0, whole.err
    assert "openai: 21 requests, " in whole.err
    cost = 22e-6 * len(bodies)
    bodies.clear()
    capped = harness(*command("--max-cost", cost))
    assert (capped.code, capped.out) == (2, "")
    assert capped.err.splitlines()[-1].startswith("error: openai: stopped before --max-cost, 0.000462: ")
    first = len(bodies)
    assert 5 < first < 20
    assert (harness(*command("--max-cost", cost)).code, len(bodies)) == (2, first)
    assert harness(*command("--max-tokens-total", 10_000)).rows == whole.rows
    assert len(bodies) == requests(tmp_path / "runs") == 20 + 2  # two checks
    assert made(tmp_path / "runs") == made(tmp_path / "whole")  # caps and prices enter no key
    recorded = {name for cell in all_cells(tmp_path / "runs") for name in cell["config"]}
    assert recorded == {"task", "engine", "plugin", "selector", "n", "limit"}
    assert harness(*command("--max-cost", cost)).rows == whole.rows  # all is there: nothing is asked for
    bodies.clear()
    outcome = harness(*command("--dry-run", store="dry"))
    assert "20 responses to sample (at most 160 tokens), which cost up to about 0.00170 (prompts" in outcome.err
    assert (outcome.code, len(bodies), (tmp_path / "dry").exists()) == (0, 1, False)  # the check


def test_a_run_until_correct_is_counted_and_capped_too(harness, behaviour, tmp_path):
    options = [each for each in behaviour.command("--until-correct") if each not in ("--selector", "uniform")]
    capped = harness(*options, "--max-cost", 0.0003)
    assert "stopped before --max-cost" in capped.err.splitlines()[-1]
    assert len(behaviour.bodies) > 2
    outcome = harness(*options, "--max-cost", 1)
    assert outcome.code == 0, outcome.err
    assert len(behaviour.bodies) == 20 + 2
    assert not list(tmp_path.rglob("*.paid.jsonl"))
    assert "openai: 22 requests" in outcome.err


@pytest.mark.slow
def test_a_run_killed_by_sigkill_pays_for_no_kept_row_twice(harness, behaviour, tmp_path):
    command, bodies, killed = behaviour.command, behaviour.bodies, []

    def hold(handler, body):
        """Answer eight requests, and then nothing."""
        return handler.answer(body) if len(bodies) <= 8 else wait_for(lambda: killed)

    behaviour.fault = hold
    kill_when(lambda: len(bodies) == 8 + 2, harness_command(*command()))
    killed.append(True)
    behaviour.fault = None
    after = harness(*command())
    assert after.code == 0, after.err
    assert requests(tmp_path / "runs") == len(bodies) == 20 + 2 + 2  # two checks, two in flight when killed
    assert after.rows == harness(*command(store="whole")).rows
    assert made(tmp_path / "runs") == made(tmp_path / "whole")
