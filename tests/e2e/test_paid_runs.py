"""Runs on a server that must be paid: capped, killed, resumed, in batches; what was paid for is kept and counted."""

import json

import pytest
from support.openai_batches import Batches
from support.openai_client import UNKNOWN, colour, short_pauses  # noqa: F401
from support.openai_server import serving
from support.paths import TOY
from support.processes import harness_command, kill_when, wait_for
from support.stores import all_cells, contents

from harness_plugins.engines.openai import batch
from harness_plugins.engines.openai.account import entries
from harness_plugins.engines.openai.prices import Tokens

pytestmark = pytest.mark.usefixtures("short_pauses")
PRICES = {"currency": "USD", "models": {"tiny24": {"input": 1, "output": 10, "batch": 0.5}}}


@pytest.fixture(scope="module")
def server():
    """A server for the toy task."""
    with serving(**UNKNOWN, generate=colour) as served:
        yield served


@pytest.fixture
def command(server, tmp_path, monkeypatch):
    """Options of a run of two problems with ten responses each; further ones as arguments."""
    server[1].bodies.clear()
    server[1].batches, server[1].fault = Batches(), None
    monkeypatch.setattr(batch, "POLL_S", 0.01)
    (tmp_path / "prices.json").write_text(json.dumps(PRICES))

    def options(*more, engine="concurrency=2", store="runs"):
        given = ("--task", "colours", "--plugin", TOY, "--engine", f"openai:url={server[0]},{engine}", "--json")
        given += ("--selector", "uniform", "--n", 10, "--limit", 2, "--store", tmp_path / store)
        return [str(each) for each in ("run", *given, "--prices", tmp_path / "prices.json", *more)]

    return options


def spent(store):
    return sum((entry.tokens for path in store.glob("*/paid") for entry in entries(path)), Tokens())


def made(store):
    """What a store holds, but for what was paid, when something was graded, and the options in cells."""
    return {
        name: content
        for name, content in contents(store).items()
        if any(f"/{kind}." in name for kind in ("responses", "verdicts", "orders")) and "spent." not in name
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
    assert capped.err.splitlines()[-1].startswith("error: openai: stopped before --max-cost, 0.000462 USD: ")
    first = len(server[1].bodies)
    assert 5 < first < 20
    again = harness(*command("--max-cost", cost))
    assert (again.code, len(server[1].bodies)) == (2, first)
    assert harness(*command("--max-tokens-total", 10_000)).rows == whole.rows
    assert len(server[1].bodies) == spent(tmp_path / "runs").requests == 20 + 2  # two checks
    assert made(tmp_path / "runs") == made(tmp_path / "whole")
    assert harness(*command("--max-cost", cost)).rows == whole.rows  # all is there: nothing is asked for


@pytest.mark.slow
def test_batches_caps_and_prices_enter_no_key(harness, command, server, tmp_path):
    single = harness(*command(store="single"))
    batched = harness(*command("--max-cost", 5, engine="batch=true"))
    assert batched.code == 0, batched.err
    assert batched.rows == single.rows
    assert made(tmp_path / "runs") == made(tmp_path / "single")
    assert len(server[1].batches.made) == 1
    recorded = {name for cell in all_cells(tmp_path / "runs") for name in cell["config"]}
    assert recorded == {"task", "engine", "plugin", "selector", "n", "limit"}
    listed = harness("store", "list", "--store", tmp_path / "runs", "--json")
    assert json.loads(listed.out)["others"] == []


def test_a_dry_run_says_what_the_run_costs_at_most(harness, command, server, tmp_path):
    outcome = harness(*command("--dry-run", engine="batch=true", store="dry"))
    assert "20 responses to sample (at most 160 tokens), which cost up to about 0.000850 USD (prompts" in outcome.err
    assert not (tmp_path / "dry").exists()


def test_no_probe_is_paid_for(harness, command, server):
    outcome = harness(*command("--n", 400, "--limit", 1, "--dry-run"))
    assert (outcome.code, len(server[1].bodies)) == (0, 1)  # the check


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
@pytest.mark.parametrize("moment", ["answers", "polls", "downloads"])
def test_a_run_killed_by_sigkill_pays_for_no_kept_row_twice(harness, command, server, tmp_path, moment):
    _, behaviour = server
    behaviour.batches.polls = 10**6 if moment == "polls" else 1
    held, killed = [], []

    def hold(handler, *args):
        """Answer eight requests, or half of a download, and then nothing."""
        held.append(args)
        if moment == "answers" and len(held) <= 8:
            return handler.answer(*args)
        if moment == "downloads":
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n" + args[0][: len(args[0]) // 2])
            handler.wfile.flush()
        return wait_for(lambda: killed)

    if moment == "answers":
        behaviour.fault = hold
    elif moment == "downloads":
        behaviour.batches.download = hold
    ready = {
        "answers": lambda: len(held) == 8 + 2,
        "polls": lambda: sum("/batches/batch_" in each for each in behaviour.batches.seen) > 1,
        "downloads": lambda: any(path.stat().st_size for path in tmp_path.rglob("*.paid.jsonl")),
    }[moment]
    options = command(engine="concurrency=2" if moment == "answers" else "batch=true")
    kill_when(ready, harness_command(*options))
    killed.append(True)
    behaviour.fault = behaviour.batches.download = None
    for each in behaviour.batches.made.values():
        each["left"] = 0
    after = harness(*options)
    assert after.code == 0, after.err
    assert ("; requests without an answer: 2, which may cost up to" in after.err) == (moment == "answers")
    assert spent(tmp_path / "runs").requests == 20 + 2  # two checks
    assert len(behaviour.batches.made) == (moment != "answers")
    assert len(behaviour.bodies) == (20 + 2 + 2 if moment == "answers" else 2)
    assert after.rows == harness(*command(store="whole")).rows
    assert made(tmp_path / "runs") == made(tmp_path / "whole")
