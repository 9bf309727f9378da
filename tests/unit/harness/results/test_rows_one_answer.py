"""avg@k, maj@k and best-of-k of a row: means over its pools, what is missing, and the line below a table."""

import csv
import io
from dataclasses import replace

import pytest
from support.cells import cell, entry, keyed

from harness.results import leaderboard, rows
from harness.results.rows import answer_remarks

KS = ("1", "2", "4", "8")
BY_SIZE = dict(zip(KS, (0.25, 0.25, 0.5, 1.0), strict=True))
FIELDS = ("avg_at_k", "maj_at_k", "best_of_k")


def answered(name, majority=BY_SIZE, c=2, **best):
    """A problem whose maj@k is `majority` (None: without answers) and whose best-of-k by each score is given."""
    votes = {} if majority is None else {"maj_at_k": majority}
    return entry(name, [1, 2], c, **votes, best_of_k=best)


def of(*entries, **options):
    return rows.row(cell(entries, **options))


def values(row):
    return [getattr(row, name) for name in FIELDS]


def test_a_row_has_the_means_over_its_problems():
    row = of(answered("a", reward=BY_SIZE), answered("b", dict.fromkeys(KS, 0.5), c=4, reward=dict.fromkeys(KS, 0.0)))
    average, majority, best = values(row)
    assert average == 3 / 8
    assert majority == dict(zip(KS, (0.375, 0.375, 0.5, 0.75), strict=True))
    assert best == {"reward": dict(zip(KS, (0.125, 0.125, 0.25, 0.5), strict=True))}
    assert [row.to_json()[name] for name in FIELDS] == values(row)


def test_a_problem_without_answers_counts_nothing_and_one_without_scores_the_average():
    row = of(answered("a", reward=BY_SIZE), answered("b", None, c=4))
    assert row.maj_at_k == dict(zip(KS, (0.125, 0.125, 0.25, 0.5), strict=True))
    assert row.best_of_k["reward"] == dict(zip(KS, (0.375, 0.375, 0.5, 0.75), strict=True))
    assert values(of(answered("a", None))) == [0.25, None, {}]


def test_pools_of_different_sizes_share_the_budgets_that_all_have():
    small = {"maj_at_k": {"1": 0.5, "2": 0.5, "3": 1.0}, "best_of_k": {}}
    row = of(answered("a"), entry("b", [1, 2], 1, n=3, **small))
    assert row.maj_at_k == {"1": 0.375, "2": 0.375}


def test_each_pool_of_several_seeds_counts_once():
    other = dict.fromkeys(KS, 1.0)
    pools = [cell([answered("a")], seed=0, pool="x"), cell([answered("a", other)], seed=1, pool="y")]
    more = [cell([answered("a")], seed=2, pool="x"), cell([answered("a", other)], seed=3, pool="y")]
    [group] = rows.rows_of(keyed(*pools, *more))
    assert rows.row_of(group).maj_at_k == dict(zip(KS, (0.625, 0.625, 0.75, 1.0), strict=True))


def test_the_remark_names_the_budgets_of_the_table_and_which_answer_is_taken():
    row = of(answered("a", reward=BY_SIZE))
    expected = "a random one (avg@k): 25.0; the commonest answer (maj@4): 50.0; the highest reward (best of 4): 50.0"
    assert list(answer_remarks([row])) == [f"one answer taken from k responses, % correct: {expected}"]
    assert list(answer_remarks([of(answered("a", None))])) == []
    [both] = answer_remarks([row, of(answered("a", judge=BY_SIZE))])  # another selector read another score
    assert both.count("(best of 4)") == 2
    tiny = replace(row, maj_at_k={"1": 0.5, "2": 0.75}, best_of_k={})
    assert next(answer_remarks([tiny])).endswith("(maj@2): 75.0")


def test_a_leaderboard_has_them_in_all_its_files():
    gathered = leaderboard.Gathered(keyed(cell([answered("a", reward=BY_SIZE)])))
    tables = leaderboard.boards(gathered)
    [row] = csv.DictReader(io.StringIO(leaderboard.as_csv(tables)))
    assert {name: row[name] for name in ("avg_at_k", "maj_at_k_4", "best_of_k_reward_8")} == {
        "avg_at_k": "0.25",
        "maj_at_k_4": "0.5",
        "best_of_k_reward_8": "1.0",
    }
    assert '"maj_at_k": {' in leaderboard.as_json(tables)
    markdown = leaderboard.markdown(tables, [])
    assert r"One answer taken from k responses, % correct: a random one \(avg@k\): 25.0;" in markdown


def test_plots_have_a_curve_of_each():
    answers = rows.one_answer_of([[answered("a", reward=BY_SIZE), answered("b", None)]])
    curves = answers.curves()
    assert list(curves) == ["avg@k", "maj@k", "best of k by reward"]
    assert curves["avg@k"].tolist() == [[0.25] * 4] * 2
    assert curves["maj@k"].mean(axis=0) == pytest.approx([0.125, 0.125, 0.25, 0.5])
    assert rows.one_answer_of([[answered("a", None)]]).curves() == {}
    several = rows.one_answer_of([[answered("a", reward=BY_SIZE)], [answered("a", judge=BY_SIZE)]])
    assert list(several.curves()) == ["avg@k", "maj@k", "best of k by reward", "best of k by judge"]
