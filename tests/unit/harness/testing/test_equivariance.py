"""The test that a selector orders by content: its two pools, random rankers, and clusters."""

from collections import Counter

import numpy as np
import pytest
from support.broken import Sound

from harness.testing import examples
from harness.testing.checking import Violation
from harness.testing.equivariance import require_equivariant


def test_without_ties_nothing_ties():
    pool = examples.without_ties()
    n = len(pool)
    distances = np.linalg.norm(pool.embeddings[:, None] - pool.embeddings[None], axis=2)[np.triu_indices(n, 1)]
    for column in (pool.texts, pool.answers, pool.logprobs, pool.lengths, pool.logprobs / pool.lengths, distances):
        assert len(set(np.asarray(column).tolist())) == len(column)
    assert sorted(examples.DISTINCT_MOVED) == list(range(n))


def test_copies_are_equal_in_every_column_and_their_permutation_changes_every_part():
    pool, kind = examples.with_copies()
    for a in range(len(pool)):
        for b in range(len(pool)):
            same = pool.texts[a] == pool.texts[b] and (pool.embeddings[a] == pool.embeddings[b]).all()
            assert same == (kind[a] == kind[b])
    assert sorted(np.bincount(kind)) == [1, 2, 4]
    moved = kind[list(examples.COPIES_MOVED)]
    for part in (slice(0, 1), slice(0, 3), slice(0, 4), slice(3, 4), slice(4, 7), slice(6, 7), slice(0, 7, 2)):
        assert sorted(kind[part]) != sorted(moved[part])


def test_a_random_ranker_is_judged_by_the_distribution_of_its_picks():
    class Biased(Sound):
        bias = 0.35

        def rank(self, pool, rng):
            order = rng.permutation(len(pool))
            at = int(np.flatnonzero(order == 0)[0])
            if rng.random() < self.bias:
                order[[0, at]] = order[[at, 0]]
            yield from order.tolist()

    with pytest.raises(Violation, match="changes the distribution of the pick number 1"):
        require_equivariant(Biased())
    Biased.bias = 0.0
    require_equivariant(Biased())


def test_a_deterministic_ranker_may_break_ties_by_the_lowest_index():
    class ByCluster(Sound):
        """Clusters of answers by size, ties to the first to come; within one as they come."""

        def rank(self, pool, rng):
            size = Counter(pool.answers)
            yield from sorted(range(len(pool)), key=lambda i: (-size[pool.answers[i]], i))

    require_equivariant(ByCluster())
