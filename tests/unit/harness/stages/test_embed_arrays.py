"""What an embedder may give as vectors, and how one that gives no array is refused."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from harness import HarnessError, Problem
from harness.stages.embed import embedded


def vectors(given):
    embedder = SimpleNamespace(embed=lambda problem, texts: given)
    return embedded(embedder, "mine", Problem("a", ""), ["x", "y"])


def test_an_embedder_may_give_lists():
    for given in ([[1, 2], [3, 4]], ((1.0, 2.0), (3.0, 4.0)), [np.array([1, 2]), np.array([3, 4])]):
        assert vectors(given).tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("given", [None, [[1, 2], [3]], [["a", "b"], ["c", "d"]], [[{}], [{}]], 3.0, [[1, 2]]])
def test_an_embedder_that_gives_no_array_is_named(given):
    with pytest.raises(HarnessError, match="embedder 'mine': gave "):
        vectors(given)
