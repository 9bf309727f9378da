"""Runs that stopped at the first correct response: their files, and the row that is computed from them."""

import json

import numpy as np
import pytest
from support.refusals import refusal_of

from harness.results import stopping_times


def record(seed=0, times=(1, 2, 2), solved=(True, True, False), budget=2):
    problems = [
        {"id": f"p{i}", "time": time, "solved": end, "tokens": 3 * time, "errors": i}
        for i, (time, end) in enumerate(zip(times, solved, strict=True))
    ]
    about = {"kind": stopping_times.KIND, "schema": stopping_times.SCHEMA, "labels": {"task": "colours", "seed": seed}}
    return {**about, "budget": budget, "inputs": {"seed": seed}, "problems": problems}


def test_a_record_comes_back_and_what_was_edited_is_refused(tmp_path):
    stopping_times.write(tmp_path, record())
    [path] = (tmp_path / "sequences").glob("*.json")
    written = json.loads(path.read_text())
    assert stopping_times.read(path) == written == record() | {"checksum": written["checksum"]}
    stopping_times.write(tmp_path, record(times=(1, 1, 2)))
    assert list((tmp_path / "sequences").glob("*.json")) == [path]  # of the same run
    stopping_times.write(tmp_path, record(seed=1))
    assert len(list((tmp_path / "sequences").glob("*.json"))) == 2
    for content, fault in (
        ("{", ": not JSON ("),
        ("[]", "is no sequence of schema 1"),
        (json.dumps(written | {"kind": "another"}), "is no sequence of schema 1"),
        (json.dumps(written | {"schema": 2}), "is no sequence of schema 1"),
        (json.dumps(written | {"budget": 3}), "was edited or cut after it was measured"),
    ):
        path.write_text(content)
        assert fault in refusal_of(stopping_times.read, path)


def test_a_row_has_the_counts_the_shares_the_restricted_means_and_their_errors():
    row = stopping_times.row([record()])
    assert {name: row[name] for name in ("task", "seed", "seeds", "n", "problems", "sequences")} == {
        **{"task": "colours", "seed": 0, "seeds": [0], "n": 2, "problems": 3, "sequences": 3}
    }
    assert [row[name] for name in ("solved", "censored", "responses", "tokens", "errors")] == [2, 1, 5, 15, 3]
    solved_at = np.array([1, 2, 99])
    for k in (1, 2):
        assert row["share_solved"][str(k)] == pytest.approx((solved_at <= k).mean())
        assert row["share_solved_se"][str(k)] == pytest.approx((solved_at <= k).std() / np.sqrt(3))
        assert row["restricted_mean"][str(k)] == pytest.approx(np.minimum(solved_at, k + 1).mean())
        assert row["restricted_mean_se"][str(k)] == pytest.approx(np.minimum(solved_at, k + 1).std() / np.sqrt(3))


def test_the_sequences_of_several_seeds_are_clusters_by_problem_and_end_at_the_largest_budget():
    single, both = stopping_times.row([record()]), stopping_times.row([record(), record(seed=1)])
    assert (both["seed"], both["seeds"], both["problems"], both["sequences"]) == (None, [0, 1], 3, 6)
    assert both["share_solved_se"] == pytest.approx(single["share_solved_se"])
    longer = stopping_times.row([record(), record(seed=1, times=(1, 1, 1), budget=4, solved=(True, True, False))])
    assert (longer["n"], longer["share_solved"]["4"], longer["restricted_mean_se"]["4"]) == (4, None, None)
