"""Runs on a server that must be paid: capped, killed, resumed; what was paid for is kept and counted."""

import numpy as np
import pytest
from support.openai_client import UNKNOWN, colour, short_pauses  # noqa: F401
from support.openai_server import serving
from support.paths import TOY
from support.processes import harness_command, kill_when, wait_for
from support.stores import all_cells, contents

from harness_plugins.engines.openai.ledger import lines

pytestmark = pytest.mark.usefixtures("short_pauses")


@pytest.fixture(scope="module")
def server():
    """A server for the toy task."""
    with serving(**UNKNOWN, generate=colour) as served:
        yield served


@pytest.fixture
def command(server, tmp_path):
    """Options of a run of two problems with ten responses each; further ones as arguments."""
    server[1].bodies.clear()
    server[1].fault = None

    def options(*more, prices=",price_in=1,price_out=10", store="runs"):
        given = ("--task", "colours", "--plugin", TOY, "--engine", f"openai:url={server[0]},concurrency=2{prices}")
        given += ("--json", "--selector", "uniform", "--n", 10, "--limit", 2, "--store", tmp_path / store)
        return [str(each) for each in ("run", *given, *more)]

    return options


def requests(store):
    """How many requests the store counts."""
    return int(sum(np.sum(lines(path), axis=0)[0] for path in store.glob("*/paid/spent.jsonl")))


def made(store):
    """What a store holds, but for what was paid, when something was graded, and the options in cells."""
    return {
        name: content
        for name, content in contents(store).items()
        if any(f"/{kind}." in name for kind in ("responses", "verdicts", "orders"))
    }


@pytest.mark.slow
def test_a_capped_run_keeps_what_it_paid_for_and_one_with_a_higher_cap_goes_on_as_if_it_had_not_stopped(
    harness, command, server, tmp_path
):
    whole = harness(*command(store="whole"))
    assert whole.code == 0, whole.err
    cost = 22e-6 * len(server[1].bodies)
    assert "openai: 21 requests, " in whole.err
    server[1].bodies.clear()
    capped = harness(*command("--max-cost", cost))
    assert (capped.code, capped.out) == (2, "")
    assert capped.err.splitlines()[-1].startswith("error: openai: stopped before --max-cost, 0.000462: ")
    first = len(server[1].bodies)
    assert 5 < first < 20
    again = harness(*command("--max-cost", cost))
    assert (again.code, len(server[1].bodies)) == (2, first)
    assert harness(*command("--max-tokens-total", 10_000)).rows == whole.rows
    assert len(server[1].bodies) == requests(tmp_path / "runs") == 20 + 2  # two checks
    assert made(tmp_path / "runs") == made(tmp_path / "whole")
    assert harness(*command("--max-cost", cost)).rows == whole.rows  # all is there: nothing is asked for


@pytest.mark.slow
def test_caps_and_prices_enter_no_key_and_a_dry_run_says_the_cost_and_pays_for_no_probe(
    harness, command, server, tmp_path
):
    plain = harness(*command(store="plain", prices=""))
    priced = harness(*command("--max-cost", 5))
    assert priced.code == 0, priced.err
    assert priced.rows == plain.rows
    assert made(tmp_path / "runs") == made(tmp_path / "plain")
    recorded = {name for cell in all_cells(tmp_path / "runs") for name in cell["config"]}
    assert recorded == {"task", "engine", "plugin", "selector", "n", "limit"}
    server[1].bodies.clear()
    outcome = harness(*command("--dry-run", store="dry"))
    assert "20 responses to sample (at most 160 tokens), which cost up to about 0.00170 (prompts" in outcome.err
    assert (outcome.code, len(server[1].bodies), (tmp_path / "dry").exists()) == (0, 1, False)  # the check


def test_a_run_until_correct_is_counted_and_capped_too(harness, command, server, tmp_path):
    options = [each for each in command() if each not in ("--selector", "uniform")]
    capped = harness(*options, "--until-correct", "--max-cost", 0.0003)
    assert "stopped before --max-cost" in capped.err.splitlines()[-1]
    first = len(server[1].bodies)
    outcome = harness(*options, "--until-correct", "--max-cost", 1)
    assert outcome.code == 0, outcome.err
    assert len(server[1].bodies) == 20 + 2
    assert first > 2
    assert not list(tmp_path.rglob("*.paid.jsonl"))
    assert "openai: 22 requests" in outcome.err


@pytest.mark.slow
def test_a_run_killed_by_sigkill_pays_for_no_kept_row_twice(harness, command, server, tmp_path):
    _, behaviour = server
    held, killed = [], []

    def hold(handler, body):
        """Answer eight requests, and then nothing."""
        held.append(body)
        return handler.answer(body) if len(held) <= 8 else wait_for(lambda: killed)

    behaviour.fault = hold
    kill_when(lambda: len(held) == 8 + 2, harness_command(*command()))
    killed.append(True)
    behaviour.fault = None
    after = harness(*command())
    assert after.code == 0, after.err
    assert requests(tmp_path / "runs") == len(behaviour.bodies) == 20 + 2 + 2  # two checks, two in flight when killed
    assert after.rows == harness(*command(store="whole")).rows
    assert made(tmp_path / "runs") == made(tmp_path / "whole")
