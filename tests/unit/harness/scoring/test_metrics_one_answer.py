"""maj@k and best-of-k equal enumeration of all subsets, and simulation where these are too many."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.scoring import metrics as votes

NAN = float("nan")
RESPONSE = st.tuples(st.sampled_from([None, "a", "b", "c", "d"]), st.sampled_from([NAN, -np.inf, 0.0, 0.5, 7.0]))
POOLS = st.lists(st.tuples(RESPONSE, st.booleans()), min_size=1, max_size=8)


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


@given(POOLS)
def test_both_equal_the_mean_over_all_subsets(pool):
    (answers, scores), correct = zip(*(response for response, _ in pool), strict=True), [hit for _, hit in pool]
    ks = range(1, len(pool) + 1)
    majority, best_of = votes.majority_at_k(answers, correct, ks), votes.best_of_k(np.array(scores), correct, ks)
    for k, *values in zip(ks, majority, best_of, strict=True):
        subsets = list(combinations(range(len(pool)), k))
        expected = [
            np.mean([voted(answers, correct, subset) for subset in subsets]),
            np.mean([best(scores, correct, subset) for subset in subsets]),
        ]
        assert values == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("spread", [1.1, 1.5, 3.0])
def test_both_equal_simulation_at_a_hundred_responses(spread):
    rng = np.random.default_rng(int(10 * spread))
    answers = [None if answer > 60 else str(answer) for answer in rng.zipf(spread, 100)]
    correct = [answer in ("2", "7") or rng.random() < 0.1 for answer in answers]
    scores = rng.integers(0, 30, 100) + 5.0 * np.array(correct)
    for k in (2, 5, 16, 64, 99):
        subsets = [rng.choice(100, k, replace=False) for _ in range(1000)]
        for exact, simulated in (
            (votes.majority_at_k(answers, correct, [k]), [voted(answers, correct, subset) for subset in subsets]),
            (votes.best_of_k(scores, correct, [k]), [best(scores, correct, subset) for subset in subsets]),
        ):
            error = np.std(simulated) / np.sqrt(1000)
            assert exact[0] == pytest.approx(np.mean(simulated), abs=4 * error + 1e-9), k


def test_one_response_has_the_average_and_all_responses_the_pools_own_vote_and_best():
    answers, correct = ["a", "a", "a", "b", "b", None], [True, False, True, False, False, True]
    assert votes.majority_at_k(answers, correct, [1, 6]) == pytest.approx([2 / 6, 2 / 3])  # None has no vote
    assert votes.best_of_k(np.array([1.0, 9, 1, 9, 0, NAN]), [False, True, True, False, True, True], [1, 6]) == (
        pytest.approx([4 / 6, 1 / 2])
    )
    assert votes.majority_at_k([None, None], [True, True], [1, 2]) == [0.0, 0.0]
    assert votes.best_of_k(np.full(3, NAN), [True, False, False], [1, 2, 3]) == pytest.approx([1 / 3] * 3)


def test_many_responses_lose_no_precision():
    """Six thousand different answers: each subset is a tie of k; and two answers, whose vote is a hypergeometric."""
    from scipy.stats import hypergeom

    distinct = votes.majority_at_k([str(i) for i in range(6000)], [i < 1500 for i in range(6000)], [3, 700, 5999])
    assert distinct == pytest.approx([0.25] * 3, abs=1e-10)
    two = ["right"] * 3100 + ["wrong"] * 2900
    for k in (5, 512, 4096):
        votes_for = hypergeom(6000, 3100, k)
        expected = votes_for.sf(k // 2) + (votes_for.pmf(k // 2) / 2 if k % 2 == 0 else 0)
        assert votes.majority_at_k(two, [answer == "right" for answer in two], [k]) == pytest.approx([expected], 1e-9)
