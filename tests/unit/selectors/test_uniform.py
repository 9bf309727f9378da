"""Uniform selection: every order is equally likely."""

from __future__ import annotations

from itertools import permutations

from support.selector_pools import assert_equally_often, pool_of

from harness_selectors.uniform import Uniform


def test_every_order_comes_equally_often():
    assert_equally_often(Uniform(), pool_of(["a", "b", "c"]), permutations(range(3)), 3000)
