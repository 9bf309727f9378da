"""The report's file, table and curves: those of the run's own table, and of the closed form."""

import numpy as np
import pytest
from support.report_page import picks_of, pool_file

from harness.scoring.metrics import random_pass_at_k


def test_the_table_has_the_references_and_the_rows_of_the_run_the_best_first(shown):
    references = [row for row in shown.data["rows"] if row["reference"]]
    controls = ["length", "length:first=long", "norm"]
    assert [row["name"] for row in references] == ["random (exact)", "oracle", "anti-oracle", *controls]
    row = shown.rows["shuffle"]
    assert references[0]["samples_to_correct"] == row["samples_to_correct_random"]
    assert references[0]["k95"] == row["k95_random"]
    measured = shown.data["rows"][6:]
    improvements = [row["improvement"] for row in measured[:-1]]
    assert improvements == sorted(improvements, reverse=True)
    same = {name: name for name in ("samples_to_correct", "improvement", "cell", "k95", "calls_saved")}
    for entry in measured:
        row = shown.rows[entry["name"]]
        for ours, theirs in {**same, "interval": "improvement_ci"}.items():
            assert entry[ours] == row[theirs], ours
        assert entry["passed"] == [row["pass_at_k"][k] for k in shown.data["budgets"]]
        ranked = entry["name"] != "head"
        assert entry["shares"] == ([row["win"], row["tie"], row["loss"]] if ranked else None)
        assert entry["p"] == row["p_random" if ranked else "p_budget"]
        assert entry["q"] >= entry["p"]
        assert entry["trust"] == ("few problems" if ranked else None)


def test_random_selections_curve_is_the_closed_form_and_lies_in_its_band(shown):
    random, oracle, *others = shown.data["curves"]
    n = np.array([problem["n"] for problem in shown.data["problems"]])
    c = np.array([problem["c"] for problem in shown.data["problems"]])
    for place, k in enumerate(random["k"]):
        assert random["mean"][place] == pytest.approx(random_pass_at_k(n, c, k).mean(), abs=1e-4)
        assert random["low"][place] <= random["mean"][place] <= random["high"][place]
    assert oracle["mean"] == [pytest.approx((c > 0).mean(), abs=1e-4)] * len(random["k"])
    assert oracle["low"] is None
    shuffle = next(curve for curve in others if curve["name"] == "shuffle")
    assert shuffle["k"] == sorted(set(shuffle["k"]))
    assert shuffle["k"][-1] == n[0]
    assert sum(high > low for low, high in zip(shuffle["low"], shuffle["high"], strict=True)) > 3


def test_one_answer_of_k_has_curves_without_bands_and_a_line_below_the_table(shown):
    answers = [curve for curve in shown.data["curves"] if curve["kind"] == "answer"]
    assert [curve["name"] for curve in answers] == ["avg@k", "maj@k", "best of k by mean-logprob"]
    row = shown.rows["shuffle"]
    for curve, values in zip(answers[1:], (row["maj_at_k"], row["best_of_k"]["mean-logprob"]), strict=True):
        assert curve["mean"] == pytest.approx(list(values.values()), abs=1e-4)
        assert (curve["k"], curve["low"]) == ([1, 2, 4, 8, 16], None)
    [line] = shown.data["about"]["one_answer"]
    assert f"maj@4, 16): {100 * row['maj_at_k']['4']:.1f}, {100 * row['maj_at_k']['16']:.1f}" in line


def test_a_pool_without_a_correct_response_says_so_as_the_terminal_does(harness, report, tmp_path):
    pool = pool_file(tmp_path / "p.jsonl", {"a": [("x", 0), ("y", 0)]})
    printed = harness("run", "--pool", pool, "--selector", "uniform", "--store", tmp_path / "runs").out
    (line,) = [each for each in report(plugin=None)["about"]["remarks"] if each.startswith("no response is correct")]
    assert f"{line};" in printed


def test_a_curve_counts_no_problem_without_a_correct_response(harness, report, tmp_path):
    pool = pool_file(tmp_path / "p.jsonl", {"a": [("x", 1), ("y", 0)], "b": [("x", 0), ("y", 0)]})
    harness("run", "--pool", pool, "--selector", "uniform", "--store", tmp_path / "runs")
    data = report(plugin=None)
    assert [curve["mean"][-1] for curve in data["curves"]] == [0.5, 0.5, 0.5]
    assert data["problems"][0]["picks"][0]["ranks"] == [3] * 5  # the hardest first


def test_a_subset_method_has_budgets_and_sets_and_no_order(shown):
    curve = next(curve for curve in shown.data["curves"] if curve["name"] == "head")
    assert curve["k"] == [1, 2, 4, 8, 16]
    assert {entry["name"]: entry["kind"] for entry in shown.data["selectors"]}["head"] == "subset"
    pairs = zip(picks_of(shown.data, "head"), shown.data["problems"], strict=True)
    solvable = [picks for picks, problem in pairs if problem["c"] > 0]
    assert solvable
    assert all(picks["sets"]["4"] == [0, 1, 2, 3] and "order" not in picks for picks in solvable)


def test_the_report_is_one_file_in_the_store_and_the_same_store_gives_the_same_bytes(report, shown, copied):
    assert shown.path == shown.store / "report.html"
    (copied / "report.html").unlink()
    report()
    assert report.path == copied / "report.html"
    assert report.path.read_bytes() == shown.path.read_bytes()
