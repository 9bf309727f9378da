"""Uniform selection without repeats."""

from support.selector_pools import after, mixed_pool, pool_of, ranked

from harness_selectors.dedup import Dedup
from harness_selectors.uniform import Uniform


def test_it_is_uniform_with_the_repeats_moved_to_the_end():
    pool = mixed_pool(50)
    for selector, keys in ((Dedup(), pool.texts), (Dedup(by="answer"), pool.answers)):
        firsts, repeats, seen = [], [], {None}
        for index in ranked(Uniform(), pool, 8):
            (repeats if keys[index] in seen else firsts).append(index)
            seen.add(keys[index])
        assert ranked(selector, pool, 8) == firsts + repeats


def test_trailing_whitespace_makes_no_other_text_and_leading_does():
    pool = pool_of(["x", "x \n", " x"])
    assert all(2 in ranked(Dedup(), pool, seed)[:2] for seed in range(8))


def test_repeats_of_what_was_verified_come_after_all_that_is_new():
    pool = pool_of(["a", "b ", "b", "c", "a", "d"])
    for seed in range(10):
        order = after(Dedup(), pool, (1, 0), seed)
        assert (set(order[:2]), set(order[2:])) == ({3, 5}, {2, 4})
