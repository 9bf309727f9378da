"""The order in which responses were generated."""

from __future__ import annotations

from support.selector_pools import mixed_pool, ranked

from harness_selectors.in_order import InOrder


def test_responses_come_in_the_order_in_which_they_were_generated():
    assert ranked(InOrder(), mixed_pool(20)) == list(range(20))
