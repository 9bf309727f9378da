"""Selectors across pools: the geometric mean, its two intervals, the worst pool."""

import math

import numpy as np
import pytest
from scipy.stats import t
from support.cells import cell, entry, keep, keyed, subset_entry

from harness.results.leaderboard import Gathered, across, boards, pool_name

RNG = np.random.default_rng(5)


def ranked(selector, sampler, most):
    """A cell of 40 problems with ranks up to `most`."""
    entries = [entry(f"p{i}", RNG.integers(1, most, size=5).tolist()) for i in range(40)]
    return cell(entries, selector, sampler=sampler, pool=sampler)


CELLS = [ranked(selector, f"s{pool}", most) for pool in range(3) for selector, most in (("a", 3 + pool), ("b", 6))]
CELLS += [ranked("c", "s1", 3), cell([subset_entry("p0", [1, 1])], "subset")]
BOARDS = boards(Gathered(keyed(*CELLS)))


def of(name):
    rows = [row for board in BOARDS for row in board.rows if row.selector == name]
    return rows, next(line for line in across(BOARDS) if line.selector == name)


def test_those_on_most_pools_come_first_then_the_largest_mean_and_sets_are_left_out():
    assert [(line.selector, line.pools) for line in across(BOARDS)] == [("a", 3), ("b", 3), ("c", 1)]


def test_the_mean_is_geometric_and_the_worst_pool_is_named():
    rows, line = of("a")
    improvements = [row.improvement for row in rows]
    assert line.improvement == pytest.approx(math.prod(improvements) ** (1 / 3))
    assert (line.worst, line.worst_pool) == (pytest.approx(min(improvements)), "colours, parrot, s2, n = 8")
    assert line.win == pytest.approx(np.mean([row.win for row in rows]))
    assert line.solvable == pytest.approx(math.prod(row.improvement_solvable for row in rows) ** (1 / 3))
    assert line.worst_pool in {pool_name(board) for board in BOARDS}


def test_problems_sampled_anew_spread_less_than_pools():
    rows, line = of("a")
    logs = np.log([row.improvement for row in rows])
    halves = np.log([row.improvement_ci[1] / row.improvement for row in rows])
    assert line.improvement_ci[1] == pytest.approx(line.improvement * math.exp(np.sqrt((halves**2).sum()) / 3), 1e-4)
    error = logs.std(ddof=1) / math.sqrt(3)
    ends = [math.exp(logs.mean() + side * t.ppf(0.975, 2) * error) for side in (-1, 1)]
    assert line.pools_ci == pytest.approx(ends, 1e-4)
    assert of("c")[1].pools_ci is None
    assert of("c")[1].improvement_ci == pytest.approx(of("c")[0][0].improvement_ci, 1e-4)


def test_the_command_prints_them_and_writes_nothing(harness, tmp_path):
    keep(tmp_path / "cells", *CELLS)
    outcome = harness("leaderboard", tmp_path / "cells", "--across")
    assert outcome.out.count("\n a ") == 1
    rows = harness("leaderboard", tmp_path / "cells", "--across", "--json").rows
    assert [row["selector"] for row in rows] == [*"abc"]
    assert rows[0]["worst_pool"] == "colours, parrot, s2, n = 8"
    assert not (tmp_path / "leaderboard.md").exists()


READS = {
    "answer-round-robin": ("answers", ["answers"]),
    "dedup:by=answer": ("answers", ["answers"]),
    "majority:turns=true,weight=mean-logprob": ("answers", ["answers", "logprobs"]),
    "ngram-coverage": ("texts", ["texts"]),
    "uniform": ("-", []),
    "of-others": ("?", None),  # a plugin that is not installed here
}


def test_the_table_tells_selectors_that_read_answers_from_those_that_do_not(harness, tmp_path):
    keep(tmp_path / "cells", *(ranked(selector, "s0", 3) for selector in READS))
    shown = [line.split() for line in harness("leaderboard", tmp_path / "cells", "--across").out.splitlines()]
    assert {words[0]: words[1] for words in shown if words and words[0] in READS} == {
        selector: text for selector, (text, _) in READS.items()
    }
    rows = harness("leaderboard", tmp_path / "cells", "--across", "--json").rows
    assert {row["selector"]: row["reads"] for row in rows} == {name: reads for name, (_, reads) in READS.items()}


def test_a_folder_without_cells_is_refused(harness, tmp_path):
    outcome = harness("leaderboard", tmp_path, "--across")
    assert (outcome.code, outcome.out) == (2, "")
    assert f"leaderboard: no cells in {tmp_path}: run something first" in outcome.err
