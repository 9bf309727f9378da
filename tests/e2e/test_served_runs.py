"""Runs on a server: capped, killed, with failed requests; what was paid for is kept, the next run asks for the rest."""

import json

import numpy as np
import pytest
from support.openai_server import UNKNOWN, colour, run_colours, serving, short_pauses, status  # noqa: F401
from support.processes import harness_command, kill_when, wait_for
from support.stores import all_cells, cell_of, contents

from harness.columns import column
from harness_plugins.engines.openai.ledger import lines

pytestmark = pytest.mark.usefixtures("short_pauses")
PRICES = ",price_in=1,price_out=10"


@pytest.fixture
def behaviour(harness, tmp_path):
    """A server for the toy task; `behaviour.run` runs that with ten responses to two problems."""
    with serving(**UNKNOWN, generate=colour) as (url, behaviour):

        def run(*more, store="runs", prices=PRICES, run=harness, fixed=("--selector", "uniform")):
            options = f"retries=0,concurrency=1{prices}"
            return run_colours(run, tmp_path / store, url, options, *fixed, *more, n=10)

        behaviour.run = run
        yield behaviour


def requests(store):
    """How many requests the store counts."""
    return int(sum(np.sum(lines(path), axis=0)[0] for path in store.glob("*/paid/spent.jsonl")))


def made(store, kinds=("/responses.", "/verdicts.", "/orders.")):
    """What a store holds, but for what was paid, and the options and times in cells."""
    kept = {name: content for name, content in contents(store).items() if ".part." not in name}
    return {name: content for name, content in kept.items() if any(kind in name for kind in kinds)}


@pytest.mark.slow
def test_a_capped_run_keeps_what_it_paid_for_and_one_with_a_higher_cap_goes_on_as_if_it_had_not_stopped(
    behaviour, tmp_path
):
    run, bodies = behaviour.run, behaviour.bodies
    whole = run(store="whole")
    assert whole.code == 0, whole.err
    assert "openai: 21 requests, " in whole.err
    cost = 22e-6 * len(bodies)
    bodies.clear()
    capped = run("--max-cost", cost)
    assert (capped.code, capped.out) == (2, "")
    assert capped.err.splitlines()[-1].startswith("error: openai: stopped before --max-cost, 0.000462: ")
    first = len(bodies)
    assert 5 < first < 20
    assert (run("--max-cost", cost).code, len(bodies)) == (2, first)
    assert run("--max-tokens-total", 10_000).rows == whole.rows
    assert len(bodies) == requests(tmp_path / "runs") == 20 + 2  # two checks
    assert run(prices="").rows == whole.rows
    assert made(tmp_path / "runs") == made(tmp_path / "whole")  # caps and prices enter no key
    recorded = {name for cell in all_cells(tmp_path / "runs") for name in cell["config"]}
    assert not {name for name in recorded if "max" in name}
    assert run("--max-cost", cost).rows == whole.rows  # all is there: nothing is asked for
    bodies.clear()
    dry = run("--dry-run", store="dry")
    assert "20 responses to sample (at most 160 tokens), which cost up to about 0.00170 (prompts" in dry.err
    assert (dry.code, len(bodies), (tmp_path / "dry").exists()) == (0, 1, False)  # the check


def test_a_run_until_correct_is_counted_and_capped_too(behaviour, tmp_path):
    capped = behaviour.run("--until-correct", "--max-cost", 0.0003, fixed=())
    assert "stopped before --max-cost" in capped.err.splitlines()[-1]
    outcome = behaviour.run("--until-correct", "--max-cost", 1, fixed=())
    assert outcome.code == 0, outcome.err
    assert len(behaviour.bodies) == requests(tmp_path / "runs") == 20 + 2
    assert not list(tmp_path.rglob("*.paid.jsonl"))


@pytest.mark.slow
def test_a_run_killed_by_sigkill_pays_for_no_kept_row_twice(behaviour, tmp_path):
    bodies, killed = behaviour.bodies, []

    def hold(handler, body):
        """Answer eight requests, and then nothing."""
        return handler.answer(body) if len(bodies) <= 8 else wait_for(lambda: killed)

    behaviour.fault = hold
    kill_when(lambda: len(bodies) == 8 + 1, behaviour.run(run=harness_command))
    killed.append(True)
    behaviour.fault = None
    after = behaviour.run()
    assert after.code == 0, after.err
    assert requests(tmp_path / "runs") == len(bodies) == 20 + 2 + 1  # two checks, one in flight when killed
    assert after.rows == behaviour.run(store="whole").rows
    assert made(tmp_path / "runs") == made(tmp_path / "whole")


@pytest.mark.slow
def test_a_failed_request_is_not_in_n_and_the_next_run_asks_for_it_again_also_if_it_was_killed_meanwhile(
    behaviour, tmp_path, monkeypatch
):
    def killed(*args, **options):
        raise KeyboardInterrupt

    run, write = behaviour.run, column.write_parts
    whole = run(store="whole")
    behaviour.faults = [None] * 6 + [status(500)]  # the check, five rows, and the sixth row
    partial = run()
    assert (whole.code, partial.code) == (0, 0), partial.err
    assert "1 of 20 responses did not come (500: overloaded (1 try)): 1 problem has a smaller N" in partial.err
    cell = cell_of(tmp_path / "runs", partial.rows[0])
    assert sorted(problem["n"] for problem in cell["problems"]) == [9, 10]
    assert [row["errors"] for row in partial.rows] == [0]
    assert len(list((tmp_path / "runs").rglob("*.part.parquet"))) == 1
    for kind in ("responses", "verdicts"):  # killed while it fills in what came late
        with monkeypatch.context() as patched:

            def fails(path, *rest, kind=kind, **more):
                return (killed if kind in path.parent.name else write)(path, *rest, **more)

            patched.setattr(column, "write_parts", fails)
            assert run().code != 0
    assert run().rows == whole.rows
    behaviour.bodies.clear()
    assert run().rows == whole.rows
    assert behaviour.bodies == []
    assert made(tmp_path / "runs", ("/responses.",)) == made(tmp_path / "whole", ("/responses.",))


def test_a_run_takes_the_model_that_is_served_says_what_it_lacks_and_exports_its_kind_of_log_probabilities(
    harness, tmp_path
):
    with serving(**UNKNOWN, model="another", refuses=("seed",)) as (url, behaviour):
        command = ("--task", "game24", "--engine", f"openai:url={url}", "--limit", 1, "--n", 2, "--embedder", "tfidf")
        outcome = harness("run", *command, "--selector", "repexp", "--store", tmp_path, "--json")
    assert outcome.code == 0, outcome.err
    (row,) = outcome.rows
    assert (row["engine"], row["model"], row["embedder"], row["n"]) == ("openai", "another", "tfidf", 2)
    assert {body["model"] for body in behaviour.bodies} == {"another"}  # not the task's own
    assert outcome.err.count("openai: the server takes no seeds (this pool cannot be sampled again)") == 1
    (pool,) = tmp_path.glob("*/pool.json")
    harness("pool", "export", pool.parent.name.rpartition(".")[2], "--out", tmp_path / "out.jsonl", "--store", tmp_path)
    exported = json.loads((tmp_path / "out.jsonl").read_text().splitlines()[0])
    assert exported["logprob_kind"] == "sum, as the server gives them"
