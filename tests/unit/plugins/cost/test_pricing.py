"""What the paper's table is said to cost: its rows, their arithmetic, what is measured and what is assumed."""

import socket

import pytest
from support.paths import TOY
from support.refusals import error_line

SEVEN = "Qwen/Qwen2.5-7B-Instruct"


@pytest.fixture
def priced(harness, monkeypatch, tmp_path):
    """The rows and the total of `harness run --paper --dry-run --json ARGS`, with an empty cache and no network."""

    def refuse(*_):
        raise AssertionError("a connection was tried")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(socket.socket, "connect", refuse)

    def call(*args):
        outcome = harness("run", "--paper", "--dry-run", "--json", *args)
        assert outcome.code == 0, outcome.err
        return outcome.rows[:-1], outcome.rows[-1]

    return call


def test_the_whole_table_is_printed_with_every_assumption_and_makes_nothing(harness, priced, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "150")
    outcome = harness("run", "--paper", "--dry-run", "--store", tmp_path / "runs")
    assert outcome.code == 0, outcome.err
    for task, length in (("math", 350), ("gsm8k", 220), ("mbppplus", 200), ("game24", 250), ("aime25", 1500)):
        assert outcome.out.count(f"\n {task} ") >= 10
        assert f"{task} {length}" in outcome.out
    for words in ("speed: h100 (80 GB, 3,350 GB/s", "not probed: ", "5,184 GPU-hours", "core-seconds a verdict"):
        assert words in outcome.out
    assert not (tmp_path / "runs").exists()


def test_a_row_is_the_papers_problems_times_its_pool(priced):
    [row], total = priced("--task", "mbppplus", "--model", SEVEN)
    assumed, responses = row["assumed"], 378 * 6400
    assert (row["problems"], row["n"], row["sampler"]) == (378, 6400, "vanilla:top_p=0.95")
    assert row["responses"] == total["responses"] == responses
    assert row["tokens_at_most"] == responses * 768
    assert row["tokens_expected"] == responses * assumed["response_tokens"]
    assert row["verifier_hours"] == pytest.approx(responses * assumed["verdict_s"] / 3600, rel=1e-3)
    assert row["disk_bytes"] == responses * (512 * 4 + 3 * assumed["response_tokens"] + 3)
    seconds = row["tokens_expected"] / assumed["tokens_a_device_second"]
    assert row["device_hours"] == pytest.approx(seconds / 3600, rel=0.01)  # and a little for the prompts
    assert row["device_hours"] < row["device_hours_at_most"]
    assert (row["lengths"], row["speed"], row["verdicts"], row["disk"]) == ("assumed",) * 4


def test_another_representation_of_a_pool_costs_a_second_pass_and_its_vectors(priced):
    rows, total = priced("--task", "math", "--model", SEVEN)
    pools = [row for row in rows if not row["second_pass"]]
    assert [row["sampler"] for row in pools] == ["vanilla", "low-temp", "high-temp", "min-p", "nucleus"]
    again = {row["embedder"]: row for row in rows if row["second_pass"]}
    assert set(again) == {"hidden-last", "hidden-penultimate"}
    for row in again.values():
        assert (row["responses"], row["verifier_hours"], row["disk_bytes"]) == (0, 0, 32_000_000 * 512 * 4)
        assert 0 < row["device_hours"] < pools[0]["device_hours"]
    assert total["responses"] == 5 * 32_000_000
    assert total["device_hours"] == pytest.approx(sum(row["device_hours"] for row in rows), rel=1e-3)


def test_sizes_given_replace_the_papers_and_a_gpus_assumptions_can_be_set(priced):
    given = ("--task", "game24", "--model", "microsoft/phi-4", "--n", 64, "--limit", 100, "--max-tokens", 100)
    [slow], _ = priced(*given, "--dim", 128, "--gpu", "h100:step_ms=50")
    assert (slow["responses"], slow["tokens_at_most"], slow["tokens_expected"]) == (6400, 640_000, 640_000)
    assert slow["disk_bytes"] == 6400 * (128 * 4 + 3 * 100 + 3)
    [fast], _ = priced(*given, "--gpu", "h100:step_ms=1")
    assert slow["device_hours"] > 2 * fast["device_hours"]


def test_a_model_that_is_here_is_measured_on_a_task_outside_the_paper_too(harness, priced):
    named = ("--task", "colours", "--engine", "toy", "--plugin", TOY)
    [row], total = priced(*named, "--model", "polly")
    assert (row["row"], row["problems"], row["n"], row["tokens_at_most"]) == ("not in the paper", 6, 16, 6 * 16 * 8)
    assert row["tokens_expected"] == 6 * 16 * 3
    assert row["device"] == total["device"] == "this machine"
    assert (row["lengths"], row["speed"], row["verdicts"], row["disk"]) == ("measured",) * 4
    assert (row["assumed"], row["not_probed"], total["assumptions"]) == ({}, None, [])
    assert 8 * 4 < row["disk_bytes"] / 96 < 8 * 4 + 100  # the toy's vectors have a width of 8
    line = error_line(harness("run", "--paper", "--dry-run", *named))
    assert "--paper: arXiv:2510.11686 has no rows of task 'colours' (" in line
    assert line.endswith("; or give --model too")


def test_a_model_of_unknown_size_that_cannot_be_had_has_no_hours_and_that_is_said(priced):
    [row], total = priced("--task", "game24", "--model", "nobody/nothing-0B")
    assert (row["device_hours"], total["rows_without_hours"]) == (None, 1)
    assert "nobody/nothing-0B" in row["not_probed"]
    assert row["disk_bytes"] > 0
    assert any("nobody/nothing-0B" in line for line in total["assumptions"])


def test_an_option_that_the_table_does_not_know_is_refused_and_with_selectors_the_run_is_shown(harness, tmp_path):
    paper = ("run", "--paper", "--dry-run")
    line = error_line(harness(*paper, "--task", "game24", "--sampler", "min-p"))
    assert "prices the paper's own rows, and takes no --sampler" in line
    toy = ("--task", "colours", "--engine", "toy", "--plugin", TOY, "--selector", "spread", "--store", tmp_path)
    stages = [stage["stage"] for stage in harness(*paper, *toy, "--json").rows]
    assert stages == ["sample", "embed", "verify", "rank spread"]
