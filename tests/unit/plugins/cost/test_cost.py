"""What the paper's table is said to cost: its rows, their arithmetic, what is measured and what is assumed."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest
from support.paths import TOY
from support.processes import harness_command, run_to_end
from support.refusals import refusal_of

from harness.paper import ModelSize
from harness.system.hub_access import hub_is_out_of_reach, hub_offline
from harness_plugins.cost.roofline import GPUS, find_gpu, speed

SEVEN = "Qwen/Qwen2.5-7B-Instruct"
SIZE = ModelSize(7.62e9, layers=28, kv_width=512, width=3584)


@pytest.fixture
def priced(harness):
    """`harness run --paper --dry-run --json ARGS`."""

    def call(*args):
        return harness("run", "--paper", "--dry-run", "--json", *args)

    return call


def rows_of(outcome):
    assert outcome.code == 0, outcome.err
    return [row for row in outcome.rows if row["row"] != "total"], [
        row for row in outcome.rows if row["row"] == "total"
    ]


def test_the_whole_table_is_priced_without_a_network_and_says_every_assumption(tmp_path):
    offline = {"HF_HOME": str(tmp_path / "hub"), "HF_ENDPOINT": "http://127.0.0.1:9", "COLUMNS": "150"}
    command = harness_command("run", "--paper", "--dry-run", "--store", tmp_path / "runs")
    said = run_to_end(command, env=os.environ | offline, timeout=300)
    assert said.returncode == 0, said.stderr
    for task, length in (("math", 350), ("gsm8k", 220), ("mbppplus", 200), ("game24", 250), ("aime25", 1500)):
        assert said.stdout.count(f"\n {task} ") >= 10
        assert f"{task} {length}" in said.stdout
    for words in (
        "assumed, speed: h100 (80 GB, 3,350 GB/s",
        "not probed: ",
        "5,184 GPU-hours",
        "core-seconds a verdict",
    ):
        assert words in said.stdout
    assert not (tmp_path / "runs").exists()


def test_a_row_is_the_papers_problems_times_its_pool(priced):
    [row], [total] = rows_of(priced("--task", "mbppplus", "--model", SEVEN))
    assert (row["problems"], row["n"], row["sampler"]) == (378, 6400, "vanilla:top_p=0.95")
    assert row["responses"] == 378 * 6400
    assert row["tokens_at_most"] == 378 * 6400 * 768
    assert row["tokens_expected"] == 378 * 6400 * row["assumed"]["response_tokens"]
    assert row["verifier_hours"] == pytest.approx(378 * 6400 * row["assumed"]["verdict_s"] / 3600, rel=1e-3)
    bytes_a_response = 512 * 4 + 3 * row["assumed"]["response_tokens"] + 3
    assert row["disk_bytes"] == 378 * 6400 * bytes_a_response
    assert total["responses"] == row["responses"]
    assert (row["lengths"], row["speed"], row["verdicts"], row["disk"]) == ("assumed",) * 4


def test_another_representation_of_a_pool_costs_a_second_pass_and_its_vectors(priced):
    rows, [total] = rows_of(priced("--task", "math", "--model", SEVEN))
    pools = [row for row in rows if not row["second_pass"]]
    assert [row["sampler"] for row in pools] == ["vanilla", "low-temp", "high-temp", "min-p", "nucleus"]
    again = {row["embedder"]: row for row in rows if row["second_pass"]}
    assert set(again) == {"hidden-last", "hidden-penultimate"}
    for row in again.values():
        assert (row["responses"], row["verifier_hours"], row["disk_bytes"]) == (0, 0, 32_000_000 * 512 * 4)
        assert 0 < row["device_hours"] < pools[0]["device_hours"]
    assert total["responses"] == 5 * 32_000_000
    assert total["device_hours"] == pytest.approx(sum(row["device_hours"] for row in rows), rel=1e-3)


def test_sizes_given_replace_the_papers(priced):
    given = ("--n", 64, "--limit", 100, "--max-tokens", 100, "--dim", 128)
    [row], _ = rows_of(priced("--task", "game24", "--model", "microsoft/phi-4", *given))
    assert (row["responses"], row["tokens_at_most"], row["tokens_expected"]) == (6400, 640_000, 640_000)
    assert row["disk_bytes"] == 6400 * (128 * 4 + 3 * 100 + 3)


def test_the_speed_is_the_slower_of_reading_and_computing():
    gpu = replace(GPUS["h100"], bandwidth_share=1.0, flop_share=1.0, step_ms=1e-9)
    one = speed(replace(gpu, sequences=1), SIZE, 100, 200)
    assert one.token_s == pytest.approx((2 * 7.62e9 + 2 * 2 * 28 * 512 * 200) / 3350e9)
    many = speed(replace(gpu, sequences=4096, memory_gb=1e6), SIZE, 1, 1)
    assert many.token_s == pytest.approx(2 * 7.62e9 / 989e12)
    assert many.read_s == pytest.approx(2 * 7.62e9 / 989e12)


def test_sequences_are_as_many_as_memory_holds_and_weights_too_large_take_more_gpus():
    one = speed(replace(find_gpu("a100-40gb:sequences=100000"), memory_gb=1e3, step_ms=1e-9), SIZE, 1000, 4000)
    assert one.sequences == (0.9 * one.devices * 1e12 - 2 * 7.62e9) // (2 * 2 * 28 * 512 * 5000)
    assert speed(GPUS["h100"], SIZE, 100, 200).sequences == 256
    large = ModelSize(70e9, layers=80, kv_width=1024, width=8192)
    assert speed(GPUS["a100-40gb"], large, 100, 300).devices >= 8
    assert speed(GPUS["h200"], large, 100, 300).devices >= 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("h10", "--gpu: unknown 'h10' (did you mean 'h100'?"),
        ("h100:speed=3", "--gpu h100: no 'speed'; there are memory_gb, bandwidth_gbs"),
        ("h100:step_ms=fast", "--gpu h100: step_ms must be a number above 0, got 'fast'"),
        ("h100:sequences=0", "--gpu h100: sequences must be a number above 0, got '0'"),
    ],
)
def test_a_gpu_that_is_none_is_one_line(text, said):
    assert refusal_of(find_gpu, text).startswith(said)


def test_a_gpus_assumptions_can_be_set(priced):
    slow, fast = (
        rows_of(priced("--task", "gsm8k", "--model", SEVEN, "--gpu", f"h100:step_ms={step}"))[0][0]["device_hours"]
        for step in (50, 1)
    )
    assert slow > 2 * fast


def test_a_model_that_is_here_is_measured(priced):
    outcome = priced("--task", "game24", "--model", "tiny24", "--limit", 20, "--n", 100, "--max-tokens", 128)
    [row], [total] = rows_of(outcome)
    assert "probe: game24 with tiny24" in outcome.err
    assert row["device"] == total["device"] == "this machine"
    assert (row["lengths"], row["speed"], row["verdicts"], row["disk"]) == ("measured",) * 4
    assert (row["assumed"], row["not_probed"], total["assumptions"]) == ({}, None, [])
    assert 2000 * 5 < row["tokens_expected"] < 2000 * 200  # tiny24's responses have 20 to 60 tokens
    assert 0 < row["device_hours"] < row["device_hours_at_most"]
    assert 128 * 4 < row["disk_bytes"] / 2000 < 128 * 4 + 500  # tiny24's states have a width of 128


def test_a_task_outside_the_paper_is_priced_by_its_own_settings(priced):
    asked = ("--task", "colours", "--engine", "toy", "--plugin", TOY)
    [row], _ = rows_of(priced(*asked, "--model", "polly"))
    assert (row["row"], row["problems"], row["n"], row["tokens_at_most"]) == ("not in the paper", 6, 16, 6 * 16 * 8)
    assert (row["tokens_expected"], row["lengths"]) == (6 * 16 * 3, "measured")
    refused = priced(*asked)
    assert refused.code == 2
    assert "has no rows of task 'colours'" in refused.err


def test_a_model_that_cannot_be_had_is_priced_where_its_size_is_known_and_else_said(priced):
    [row], [total] = rows_of(priced("--task", "game24", "--model", "nobody/nothing-0B"))
    assert (row["device_hours"], total["rows_without_hours"]) == (None, 1)
    assert "nobody/nothing-0B" in row["not_probed"]
    assert row["disk_bytes"] > 0
    assert any("nobody/nothing-0B" in line for line in total["assumptions"])


def test_an_option_that_the_table_does_not_know_is_refused(priced):
    refused = priced("--task", "game24", "--sampler", "min-p")
    assert (refused.code, refused.out) == (2, "")
    assert "prices the paper's own rows, and takes no --sampler" in refused.err


def test_while_a_model_is_looked_for_nothing_is_fetched_and_afterwards_all_is_as_before(monkeypatch):
    from huggingface_hub import constants

    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with hub_offline():
        assert constants.HF_HUB_OFFLINE
        assert hub_is_out_of_reach()
        assert os.environ["HF_HUB_OFFLINE"] == "1"
    assert not constants.HF_HUB_OFFLINE
    assert "HF_HUB_OFFLINE" not in os.environ


def test_with_selectors_a_dry_run_is_that_of_the_run(harness, tmp_path):
    args = ("--task", "game24", "--selector", "uniform", "--limit", 2, "--store", tmp_path)
    stages = json.loads(harness("run", "--paper", "--dry-run", "--json", *args).out)
    assert [stage["stage"] for stage in stages] == ["sample", "embed", "verify", "rank uniform"]
