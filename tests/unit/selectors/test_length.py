"""Order by length alone."""

from hypothesis import given
from hypothesis import strategies as st
from support.selector_pools import pool_of, ranked

from harness_selectors.length import Length


@given(lengths=st.lists(st.integers(0, 5), min_size=1, max_size=12))
def test_orders_are_sorted_by_length_with_ties_to_the_lowest_index(lengths):
    n = range(len(lengths))
    assert ranked(Length(), pool_of(lengths=lengths)) == sorted(n, key=lambda i: lengths[i])
    assert ranked(Length(first="long"), pool_of(lengths=lengths)) == sorted(n, key=lambda i: -lengths[i])
