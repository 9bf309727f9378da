"""`harness run --until-correct`: responses verified as they are drawn, and what is kept of it."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.processes import harness_command, kill_when, run_to_end
from support.stores import contents

from harness import HarnessError
from harness.results import stopping_times
from harness.store import shards as store

GUIDED = ("--task", "game24", "--sampler", "repexp-guided:beta=0.5", "--max-tokens", "64")


def times_by_problem(folder) -> dict[str, tuple[int, bool]]:
    """Per problem its stopping time and whether it was solved, from the one record in a store."""
    [path] = (folder / "sequences").glob("*.json")
    return {entry["id"]: (entry["time"], entry["solved"]) for entry in stopping_times.read(path)["problems"]}


def test_a_sequence_ends_at_the_first_correct_response_of_the_pool_that_would_be_drawn(toy, tmp_path):
    [row] = toy("--until-correct", "--n", "40", store=tmp_path / "sequence").rows
    [pool] = toy("--selector", "head", "--n", "40", store=tmp_path / "pool").rows
    assert pool["solvable"] == row["solved"]
    times = times_by_problem(tmp_path / "sequence")
    for path in (tmp_path / "pool" / "verdict").rglob("*.parquet"):
        verdicts = store.read_verdicts(path)
        first = verdicts.index("correct") + 1 if "correct" in verdicts else 40
        about = store.read_about(next((tmp_path / "pool" / "pool").rglob(path.name)))
        assert times[about["problem_id"]] == (first, "correct" in verdicts)


def test_the_row_has_the_shares_the_restricted_means_and_their_errors(toy, tmp_path):
    [row] = toy("--until-correct", "--n", "2", "--data", "30").rows
    times = times_by_problem(tmp_path / "runs")
    solved_at = np.array([stop if solved else 99 for stop, solved in times.values()])
    assert row["censored"] == (solved_at == 99).sum() > 0
    assert row["solved"] + row["censored"] == row["problems"] == 30
    for k in (1, 2):
        assert row["share_solved"][str(k)] == pytest.approx((solved_at <= k).mean())
        assert row["restricted_mean"][str(k)] == pytest.approx(np.minimum(solved_at, k + 1).mean())
    assert row["share_solved_se"]["1"] == pytest.approx((solved_at <= 1).std() / np.sqrt(30))
    assert row["selector"] == "in-order"


def test_responses_past_the_first_correct_one_are_not_kept_and_no_cell_is_made(toy, tmp_path):
    toy("--until-correct", "--n", "40")
    times = times_by_problem(tmp_path / "runs")
    for path in (tmp_path / "runs" / "sequence").rglob("*.parquet"):
        assert store.count_rows(path) == times[store.read_about(path)["problem_id"]][0]
    assert not (tmp_path / "runs" / "cells").exists()
    assert not (tmp_path / "runs" / "pool").exists()


def test_verifier_errors_are_counted_and_stop_nothing(toy):
    [row] = toy("--until-correct", "--n", "20", "--split", "broken").rows
    assert row["errors"] > 0
    assert row["solved"] > 0


def test_a_second_run_draws_nothing_and_a_dry_run_says_so(toy):
    first = toy("--until-correct", "--n", "8")
    again = toy("--until-correct", "--n", "8")
    assert again.rows == first.rows
    assert "until correct:" not in again.err
    assert [row["to_make"] for row in toy("--until-correct", "--n", "8", "--dry-run").rows] == [0]
    assert [row["to_make"] for row in toy("--until-correct", "--n", "9", "--dry-run").rows] == [6]


def test_a_run_of_which_some_problems_are_missing_ends_with_the_same_bytes(toy, tmp_path):
    toy("--until-correct", "--n", "8")
    whole = contents(tmp_path / "runs")
    for path in [*(tmp_path / "runs" / "stopped").rglob("test*.json")][::2]:
        path.unlink()
    assert "reused for 3 of 6" in toy("--until-correct", "--n", "8").err
    assert contents(tmp_path / "runs") == whole


@pytest.mark.parametrize(
    "option", [("--selector", "head"), ("--embedder", "letters"), ("--grid", "selector=*"), ("--audit",)]
)
def test_what_belongs_to_pools_is_refused(toy, option):
    refused = toy("--until-correct", *option)
    assert refused.code == 2
    assert f"error: run: --until-correct takes no {option[0]}" in refused.err


def test_a_record_that_was_edited_is_refused(toy, tmp_path):
    toy("--until-correct", "--n", "8")
    [path] = (tmp_path / "runs" / "sequences").glob("*.json")
    record = json.loads(path.read_text())
    record["problems"][0]["time"] += 1
    path.write_text(json.dumps(record))
    with pytest.raises(HarnessError, match="was edited or cut"):
        stopping_times.read(path)


def test_a_person_sees_a_table(harness, tmp_path):
    from support.paths import TOY

    shown = harness(
        "run",
        "--task",
        "colours",
        "--engine",
        "toy",
        "--plugin",
        TOY,
        "--store",
        tmp_path,
        "--until-correct",
        "--n",
        "8",
    )
    assert "restricted mean" in shown.out
    assert "censored" in shown.out


# The steered sampler, on the embedded model.


def test_guided_responses_stop_at_the_first_correct_and_are_those_of_the_guided_pool(harness, tmp_path):
    shared = (*GUIDED, "--limit", "6", "--n", "5", "--store", tmp_path, "--json")
    [row] = harness("run", *shared, "--until-correct").rows
    [ranked] = harness("run", *shared, "--selector", "in-order").rows
    assert row["solved"] == ranked["solvable"] > 0
    assert row["restricted_mean"]["5"] == pytest.approx(ranked["samples_to_correct"])
    for path in (tmp_path / "sequence").rglob("*.parquet"):
        stopped = store.read_responses(path)
        pool = store.read_responses(next((tmp_path / "pool").rglob(path.name)))
        assert stopped.token_ids == pool.token_ids[: len(stopped)]


def test_a_beta_of_zero_draws_the_pool_of_plain_sampling_with_the_same_filters(harness, tmp_path):
    pools = []
    for place, sampler in enumerate(("repexp-guided:beta=0", "vanilla:top_p=0.95,top_k=128")):
        options = ("--limit", "4", "--n", "16", "--max-tokens", "64", "--store", tmp_path / str(place))
        harness("run", "--task", "game24", "--sampler", sampler, "--selector", "in-order", *options)
        found = sorted((tmp_path / str(place) / "pool").rglob("*.parquet"))
        pools.append([store.read_responses(path).token_ids for path in found])
    assert len(pools[0]) == 4
    assert pools[0] == pools[1]


def test_engines_that_cannot_follow_a_steering_sampler_refuse_it_with_one_line(harness, toy):
    for refused in (
        harness(
            "run", *GUIDED, "--engine", "openai:url=http://localhost:9", "--embedder", "tfidf", "--selector", "uniform"
        ),
        toy("--sampler", "repexp-guided:beta=0.5", "--until-correct"),
    ):
        assert refused.code == 2
        assert "cannot follow sampler 'repexp-guided:beta=0.5', which steers decoding" in refused.err


def assert_same_responses(one: Path, other: Path) -> None:
    """The same tokens, and log-probabilities up to float noise: other problems were in the batch."""
    first, second = store.read_responses(one), store.read_responses(other)
    assert (first.texts, first.token_ids, first.finish) == (second.texts, second.token_ids, second.finish)
    np.testing.assert_allclose(first.logprobs, second.logprobs, atol=1e-4)


def test_a_guided_pool_of_which_some_problems_are_missing_ends_with_the_same_responses(harness, tmp_path):
    options = (*GUIDED, "--limit", "18", "--n", "3", "--store", tmp_path, "--selector", "in-order")
    table = harness("run", *options).out
    shards = [*(tmp_path / "pool").rglob("*.parquet")]
    assert len(shards) == 18  # two groups
    shutil.copytree(tmp_path / "pool", tmp_path / "before" / "pool")
    for path in (shards[0], *shards[9:]):
        path.unlink()
    again = harness("run", *options)
    assert "30 responses to sample" in again.err  # three to each of ten problems
    assert again.out == table
    for path in shards:
        assert_same_responses(path, tmp_path / "before" / path.relative_to(tmp_path))


def command(folder):
    options = ("--limit", 24, "--n", 4, "--store", folder, "--json", "--until-correct")
    return harness_command("run", *GUIDED, *options)


@pytest.mark.slow
def test_a_guided_run_killed_midway_and_started_again_gives_the_responses_of_an_unkilled_one(tmp_path):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    straight = run_to_end(command(whole), check=True, env=environment)
    kill_when(lambda: len([*killed.rglob("*.parquet")]) >= 5, command(killed), env=environment)
    assert 0 < len([*killed.rglob("*.parquet")]) < len([*whole.rglob("*.parquet")])
    kept = {path.name: path.stat().st_mtime_ns for path in killed.glob("stopped/*/*.json")}
    again = run_to_end(command(killed), check=True, env=environment)
    assert again.stdout == straight.stdout
    for path in whole.rglob("*.parquet"):
        assert_same_responses(path, killed / path.relative_to(whole))
    after = {path.name: path.stat().st_mtime_ns for path in killed.glob("stopped/*/*.json")}
    assert kept.items() <= after.items()
