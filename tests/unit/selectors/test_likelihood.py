"""Order by the model's own log-probability, of the whole response or per token, and (`length.py`) by length alone."""

from hypothesis import given
from hypothesis import strategies as st
from support.selector_pools import pool_of, ranked

from harness_selectors.score import Length, Logprob, Unlikely


@given(rows=st.lists(st.tuples(st.integers(-6, 0), st.integers(0, 3)), min_size=1, max_size=12))
def test_orders_are_sorted_by_likelihood_with_ties_to_the_lowest_index(rows):
    n = range(len(rows))
    pool = pool_of(logprobs=[logprob for logprob, _ in rows], lengths=[length for _, length in rows])
    mean = [logprob / max(length, 1) for logprob, length in rows]
    assert ranked(Logprob(), pool) == sorted(n, key=lambda i: -rows[i][0])
    assert ranked(Unlikely(), pool) == sorted(n, key=lambda i: rows[i][0])
    assert ranked(Logprob(per="token"), pool) == sorted(n, key=lambda i: -mean[i])
    assert ranked(Unlikely(per="token"), pool) == sorted(n, key=lambda i: mean[i])


@given(lengths=st.lists(st.integers(0, 5), min_size=1, max_size=12))
def test_orders_are_sorted_by_length_with_ties_to_the_lowest_index(lengths):
    n = range(len(lengths))
    assert ranked(Length(), pool_of(lengths=lengths)) == sorted(n, key=lambda i: lengths[i])
    assert ranked(Length(first="long"), pool_of(lengths=lengths)) == sorted(n, key=lambda i: -lengths[i])
