"""The test that a selector orders by content: its two pools, random rankers, and clusters."""

from collections import Counter

import numpy as np
import pytest
from support.broken import Sound

from harness.testing.checking import Violation
from harness.testing.equivariance import require_equivariant


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
