"""Every estimator meets enumeration."""

import json
import math
from collections import defaultdict
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom

from harness.scoring import metrics, stats
from harness.scoring.metrics import Outcomes, best_of_k, budgets, majority_at_k, random_pass_at_k, summary

NAN = float("nan")
POOLS = [(n, c) for n in range(1, 9) for c in range(n + 1)]


def ranks_of(n, c, m=1):
    """The rank of the m-th correct response in each placing of c correct ones among n; n + 1 where there are fewer."""
    return np.array([([*places, *[n] * m][m - 1]) + 1 if c >= m else n + 1 for places in combinations(range(n), c)])


def outcomes(ranks, n, c, m=1):
    return Outcomes(np.array(n), np.array(c), np.zeros_like(n), ranks=np.array(ranks), correct=m)


def subsets(hits, n, c):
    hits = {k: np.array(values, bool) for k, values in hits.items()}
    return Outcomes(np.array(n), np.array(c), np.zeros_like(n), hits=hits)


def test_random_selection_is_the_mean_over_all_orders_and_a_win_a_share_of_them():
    for n, c, m in ((*pool, m) for pool in POOLS for m in range(1, pool[0] + 2)):  # to the m-th correct one
        theirs = ranks_of(n, c, m)
        assert metrics.random_samples_to_correct(n, c, m) == pytest.approx(theirs.mean(), rel=1e-12)
        row = summary(outcomes([[m]], [n], [c], m))
        ends = [row[f"samples_to_correct_{name}"] for name in ("oracle", "anti_oracle")]
        assert (ends, row["solvable"]) == ([theirs.min(), theirs.max()], c >= m)
        for k in range(1, n + 3):
            share = ((theirs <= min(k, n)) & (c >= m)).mean()
            assert random_pass_at_k(np.array([n]), np.array([c]), k, m)[0] == pytest.approx(share, abs=1e-12)
            assert metrics.random_restricted_mean(n, c, k, m) == pytest.approx(
                np.minimum(theirs, k + 1).mean(), rel=1e-12
            )
        ours = np.arange(m, n - c + m + 1) if c >= m else np.array([n + 1])
        shares = np.array(metrics.win_tie_loss(ours[None], np.array([n]), np.array([c]), m))[:, 0]
        expected = [[(rank < theirs).mean(), (rank == theirs).mean(), (rank > theirs).mean()] for rank in ours]
        assert pytest.approx(np.array(expected), abs=1e-12) == shares.T


def test_the_p_of_a_rank_sum_is_the_share_of_all_orders_and_of_many_hits_has_the_moments_of_the_closed_form():
    for m in range(1, 6):
        pools = [(8, 5), (7, m), (6, min(5, m + 1))]
        sums = np.array([sum(ranks) for ranks in product(*(ranks_of(*pool, m) for pool in pools))])
        for ranks in ([m, m, m], [m, m + 1, m], [min(m + 2, 8), 7, m + 1]):
            tails = (sums <= sum(ranks)).mean(), (sums >= sum(ranks)).mean()
            p = summary(outcomes([[rank] for rank in ranks], *zip(*pools, strict=True), m))["p_random"]
            assert p == pytest.approx(min(1, 2 * min(tails)), rel=1e-5)
    for n, c, m in ((14_700, 500, 10), (14_700, 30, 30), (10_000, 5_000, 500)):
        first, law = stats._rank_sum_law(np.array([n, n]), np.array([c, c]), 2, m)
        assert law.sum() == pytest.approx(1, abs=1e-6)
        mean = ((first + np.arange(len(law))) * law).sum()
        assert mean == pytest.approx(4 * metrics.random_samples_to_correct(n, c, m), rel=1e-6)


def test_large_pools_agree_with_exact_integers_and_budgets_are_the_powers_of_two_and_n():
    for n, c, k in ((6400, 3, 100), (8192, 1, 4096), (6400, 6400, 1), (6400, 0, 6400)):
        assert float(metrics.random_misses(n, c, k)) == pytest.approx(math.comb(n - c, k) / math.comb(n, k), rel=1e-9)
    assert [budgets(n) for n in (1, 2, 3, 8, 9)] == [[1], [1, 2], [1, 2, 3], [1, 2, 4, 8], [1, 2, 4, 8, 9]]


def test_hits_at_k_are_those_of_all_orders_and_their_interval_is_over_problems():
    for n, c in POOLS:
        orders = [[place in places for place in range(n)] for places in combinations(range(n), c)]
        sizes = {k: min(k, n) for k in budgets(n)} | {share: math.ceil(share * n) for share in (0.01, 0.05)}
        counts = {k: np.array([[sum(order[:size]) for order in orders]]) for k, size in sizes.items()}
        row = summary(replace(outcomes([[1] * len(orders)], [n], [c]), counts=counts))
        assert row["hits_at_k"] == pytest.approx(row["hits_at_k_random"])  # random's is the mean over all orders
        assert row["enrichment_factor"] == dict.fromkeys("15", pytest.approx(1) if c else None)
    hits = np.array([[0, 1], [2, 2], [1, 1]])
    row = summary(replace(outcomes([[1, 1]] * 3, [40] * 3, [4, 4, 4]), counts=dict.fromkeys((2, 0.01, 0.05), hits)), 3)
    low, high = stats.difference_interval(hits.mean(axis=1) / 2, 3)
    assert row["hits_at_k_ci"]["2"] == pytest.approx([max(0, 2 * low), min(2, 2 * high)], rel=1e-5)


def test_a_rankers_row_counts_n_plus_one_for_an_unsolvable_problem_and_never_as_passed():
    row = summary(outcomes([[1, 3], [11, 11]], n=[10, 10], c=[2, 0]))
    expected = {
        **{"n": 10, "problems": 2, "solvable": 1, "errors": 0, "k95": 3, "k95_random": 8, "calls_saved": 5},
        **{"samples_to_correct": 13 / 2, "samples_to_correct_random": (11 / 3 + 11) / 2, "improvement": 44 / 3 / 13},
        **{"samples_to_correct_solvable": 2, "improvement_solvable": 11 / 6},
    }
    assert {name: row[name] for name in expected} == pytest.approx(expected)
    for name, values in (
        ("pass_at_k", [0.25, 0.25, 0.5, 0.5, 0.5]),
        ("pass_at_k_oracle", [0.5] * 5),
        ("pass_at_k_anti_oracle", [0, 0, 0, 0, 0.5]),
        ("restricted_mean", [1.75, 2.5, 3.5, 5.5, 6.5]),
        ("gain_at_k", [0.25 - 0.1, 0.25 - 17 / 90, 0.5 - 1 / 3, 0.5 - 44 / 90, 0]),
    ):
        assert row[name] == pytest.approx(dict(zip(("1", "2", "4", "8", "10"), values, strict=True)))
    assert row["restricted_improvement"]["1"] == pytest.approx(1.9 / 1.75)
    assert row["restricted_improvement_ci"]["10"] == row["improvement_ci"]


@settings(max_examples=40)
@given(st.lists(st.sampled_from(POOLS), min_size=1, max_size=4), st.floats(0.05, 1))
def test_a_budget_is_the_smallest_for_a_share_of_the_ceiling_or_where_random_comes_nearest_to_half_of_it(pools, share):
    n, c = np.array(pools).T
    budget, telling = metrics.random_budget_for(share, n, c), metrics.telling_budget(n * 0 + 8, c)
    if not c.any():
        assert budget is telling is None
        return
    passed = lambda k: random_pass_at_k(n, c, k).mean()  # noqa: E731
    wanted = share * (c > 0).mean() - 1e-9
    assert passed(budget) >= wanted
    assert budget == 1 or passed(budget - 1) < wanted
    away = {k: abs(random_pass_at_k(n * 0 + 8, c, k).mean() - (c > 0).mean() / 2) for k in (1, 2, 4, 8)}
    assert away[telling] <= min(away.values()) + 1e-9


def test_a_row_says_why_it_has_no_interval_is_flagged_where_over_a_hundredth_are_errors_and_is_plain_json():
    for errors, flagged in ((2, False), (3, True)):
        row = summary(Outcomes(np.array([100, 100]), np.ones(2, int), np.array([1, errors - 1]), np.ones((2, 1), int)))
        assert (row["errors"], row["flagged"]) == (errors, flagged)
    row = summary(outcomes([[64], [1]], [64, 64], [1, 1]))
    assert (row["improvement_ci"], row["no_interval"]["improvement_ci"]) == (None, stats.TOO_WIDE)
    assert row["no_interval"]["restricted_improvement_ci"] == f"k = 1, 2, 4, 8, 16, 32, 64: {stats.TOO_WIDE}"
    assert row["no_interval"]["gain_at_k_ci"].endswith(f": {stats.BEYOND_RANGE}")
    alone = summary(outcomes([[60], [65]], [64, 64], [1, 0]))
    assert alone["no_interval"]["improvement_solvable_ci"] == stats.ONE_PROBLEM
    for ranks, c in (([[5]], [0]), ([[1]], [4]), ([], [])):
        row = summary(outcomes(np.array(ranks, int).reshape(len(c), 1), np.full(len(c), 4), np.array(c, int)))
        json.dumps(row, allow_nan=False)
        if not any(c):
            assert not {"improvement_solvable", "samples_to_correct_solvable"} & set(row)
            assert row.get("improvement") == (1.0 if c else None)


def test_a_subset_method_has_no_figure_that_needs_a_rank_and_is_tested_at_the_telling_budget_if_it_has_one():
    every = [[True], [False]]
    subset = summary(subsets({1: every, 2: every, 4: every}, [4, 4], [2, 0]))
    of_ranks = {"improvement", "p_random", "k95", "win", "samples_to_correct", "restricted_mean"}
    assert of_ranks <= set(summary(outcomes([[1], [5]], [4, 4], [2, 0]))) - set(subset)
    assert subset["k95_random"] == 3
    row = summary(subsets({k: [[1, 1]] * 40 for k in budgets(8)}, [8] * 40, [2] * 40))
    assert (row["budget"], row["p_budget"]) == (2, stats.P_FLOOR)
    elsewhere = summary(subsets({8: [[1, 1]] * 40}, [8] * 40, [2] * 40))
    assert [elsewhere.get(name) for name in ("budget", "p_budget", "win_budget")] == [2, None, None]


@settings(max_examples=20)
@given(st.integers(1, 7), st.data())
def test_win_tie_and_loss_at_the_budget_are_shares_of_all_subsets(n, data):
    c = data.draw(st.integers(1, n))
    trials = data.draw(st.lists(st.booleans(), min_size=1, max_size=3))
    row = summary(subsets({k: [trials] for k in budgets(n)}, [n], [c]))
    theirs = [any(index < c for index in subset) for subset in combinations(range(n), row["budget"])]
    pairs = list(product(trials, theirs))
    shares = [np.mean([ours > other for ours, other in pairs]), np.mean([ours < other for ours, other in pairs])]
    assert [row["win_budget"], row["loss_budget"]] == pytest.approx(shares, abs=1e-12)
    assert row["tie_budget"] == pytest.approx(1 - sum(shares), abs=1e-12)


def test_the_gain_is_pass_at_k_less_that_of_all_subsets_with_an_interval_over_problems():
    n, c = [6] * 4, [1, 2, 3, 0]
    hits = {1: [[1, 0], [1, 1], [1, 1], [0, 0]], 2: [[1, 1]] * 3 + [[0, 0]]}
    row = summary(subsets(hits | {4: hits[2], 6: hits[2]}, n, c), seed=5)
    for k in (1, 2, 4, 6):
        sets = list(combinations(range(6), k))
        random = [np.mean([any(index < correct for index in subset) for subset in sets]) for correct in c]
        ours = np.mean(hits[min(k, 2)], axis=1)
        assert row["gain_at_k"][str(k)] == pytest.approx(np.mean(ours - random), abs=1e-9)
        assert row["gain_at_k_ci"][str(k)] == pytest.approx(stats.difference_interval(ours - random, 5), abs=1e-6)
    assert (row["gain_at_k"]["6"], row["gain_at_k_ci"]["6"]) == (0, [0, 0])
    hits = {1: [[1], [1]], 2: [[1], [1]], 4: [[1], [1]], 5: [[1]], 8: [[1]]}
    assert list(summary(subsets(hits, [5, 8], [2, 2]))["gain_at_k"]) == ["1", "2", "4"]  # not every pool has 5, or 8


# maj@k and best-of-k equal enumeration of all subsets, and closed forms where these are too many.

RESPONSE = st.tuples(st.sampled_from([None, "a", "b", "c", "d"]), st.sampled_from([NAN, -np.inf, 0.0, 0.5, 7.0]))
ANSWERED = st.lists(st.tuples(RESPONSE, st.booleans()), min_size=1, max_size=7)


def voted(answers, correct, subset):
    """The value of the vote of one subset, by its definition."""
    clusters = defaultdict(list)
    for index in subset:
        if answers[index] is not None:
            clusters[answers[index]].append(correct[index])
    most = max(map(len, clusters.values()), default=0)
    return np.mean([np.mean(cluster) for cluster in clusters.values() if len(cluster) == most] or [0.0])


def best(scores, correct, subset):
    known = [-np.inf if np.isnan(scores[index]) else scores[index] for index in subset]
    return np.mean([correct[index] for index, score in zip(subset, known, strict=True) if score == max(known)])


@settings(max_examples=40)
@given(ANSWERED)
def test_both_equal_the_mean_over_all_subsets(pool):
    (answers, scores), correct = zip(*(response for response, _ in pool), strict=True), [hit for _, hit in pool]
    ks = range(1, len(pool) + 1)
    majority, best_of = majority_at_k(answers, correct, ks), best_of_k(np.array(scores), correct, ks)
    for k, *values in zip(ks, majority, best_of, strict=True):
        every = list(combinations(range(len(pool)), k))
        each = [(voted(answers, correct, subset), best(scores, correct, subset)) for subset in every]
        assert values == pytest.approx(np.mean(each, axis=0), abs=1e-12)


def test_many_responses_lose_no_precision():
    # Six thousand answers: each subset is a tie of k; and two answers, whose vote is a hypergeometric.
    distinct = majority_at_k([str(i) for i in range(6000)], [i < 1500 for i in range(6000)], [3, 700, 5999])
    assert distinct == pytest.approx([0.25] * 3, abs=1e-10)
    two = ["right"] * 3100 + ["wrong"] * 2900
    for k in (5, 512, 4096):
        ahead = hypergeom(6000, 3100, k)
        expected = ahead.sf(k // 2) + (ahead.pmf(k // 2) / 2 if k % 2 == 0 else 0)
        assert majority_at_k(two, [answer == "right" for answer in two], [k]) == pytest.approx([expected], 1e-9)
