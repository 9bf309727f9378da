"""Runs that stopped at the first correct response: their files, the row of them, and Kaplan and Meier's estimate."""

import json

import numpy as np
import pytest
from support.refusals import refusal_of

from harness.results import stopping_times
from harness.results.stopping_times import kaplan_meier


def record(seed=0, times=(1, 2, 2), solved=(True, True, False), budget=2):
    entries = enumerate(zip(times, solved, strict=True))
    problems = [{"id": f"p{i}", "time": at, "solved": end, "tokens": 3 * at, "errors": i} for i, (at, end) in entries]
    about = {"kind": stopping_times.KIND, "schema": stopping_times.SCHEMA, "labels": {"task": "colours", "seed": seed}}
    return {**about, "budget": budget, "inputs": {"seed": seed}, "problems": problems}


def test_a_record_comes_back_and_what_was_edited_is_refused(tmp_path):
    for made in (record(), record(times=(1, 1, 2)), record(seed=1)):
        stopping_times.write(tmp_path, made)
    path, _ = sorted((tmp_path / "sequences").glob("*.json"), key=lambda path: '"seed": 1' in path.read_text())
    written = json.loads(path.read_text())  # those of one run are one file
    assert stopping_times.read(path) == written == record(times=(1, 1, 2)) | {"checksum": written["checksum"]}
    for content, fault in (
        ("{", ": not JSON ("),
        (json.dumps(written | {"schema": 2}), "is no sequence of schema 1"),
        (json.dumps(written | {"budget": 3}), "was edited or cut after it was measured"),
    ):
        path.write_text(content)
        assert fault in refusal_of(stopping_times.read, path)


def test_a_row_has_the_counts_the_shares_the_restricted_means_and_their_errors_by_clusters_of_a_problem():
    row = stopping_times.row([record()])
    names = "task seed seeds n problems sequences solved censored responses tokens errors"
    assert [row[name] for name in names.split()] == ["colours", 0, [0], 2, 3, 3, 2, 1, 5, 15, 3]
    solved_at = np.array([1, 2, 99])
    for k in (1, 2):
        for name, values in (("share_solved", solved_at <= k), ("restricted_mean", np.minimum(solved_at, k + 1))):
            assert row[name][str(k)] == pytest.approx(values.mean())
            assert row[f"{name}_se"][str(k)] == pytest.approx(values.std() / np.sqrt(3))
    both = stopping_times.row([record(), record(seed=1, times=(1, 1, 1), budget=4)])
    assert [both[name] for name in ("seed", "seeds", "problems", "sequences")] == [None, [0, 1], 3, 6]
    assert (both["n"], both["share_solved"]["4"], both["restricted_mean_se"]["4"]) == (4, None, None)


def test_nothing_is_said_beyond_what_was_followed():
    # Six sequences, two of them censored: at call 2 (by a smaller budget) and at call 5.
    curve = kaplan_meier(np.array([1, 2, 2, 3, 5, 5]), [True, True, False, True, True, False], range(6))
    np.testing.assert_allclose(curve.left, [1, 5 / 6, 2 / 3, 4 / 9, 4 / 9, 2 / 9])
    assert curve.restricted_mean(2)[0] == pytest.approx(1 + 5 / 6 + 2 / 3)
    assert curve.solved(6) is curve.restricted_mean(6) is None
    curve = kaplan_meier(np.array([1, 3]), [True, True], "ab")  # once all are solved, they stay so
    assert (curve.solved(100), curve.restricted_mean(100)[0]) == ((1.0, 0.0), pytest.approx(2.0))


def test_the_error_is_greenwoods_and_copies_of_a_problem_are_one_cluster():
    rng = np.random.default_rng(0)
    stops, budgets = rng.geometric(0.1, 80), rng.integers(3, 30, 80)
    times, solved = np.minimum(stops, budgets), stops <= budgets
    curve = kaplan_meier(times, solved, range(80))
    copied = kaplan_meier(np.tile(times, 4), np.tile(solved, 4), list(range(80)) * 4)
    left, variance = 1.0, 0.0
    for k in range(1, 12):
        risk, deaths = (times >= k).sum(), ((times == k) & solved).sum()
        left *= 1 - deaths / risk
        variance += deaths / (risk * (risk - deaths))
        assert curve.solved(k) == pytest.approx((1 - left, left * np.sqrt(variance)), rel=1e-9)
        assert copied.solved(k) == pytest.approx(curve.solved(k))
        assert copied.restricted_mean(k) == pytest.approx(curve.restricted_mean(k))
