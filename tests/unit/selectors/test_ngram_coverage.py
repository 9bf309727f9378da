"""Coverage of n-grams: every pick adds most to what the picks cover, round after round."""

from hypothesis import given
from hypothesis import strategies as st
from support.selector_pools import after, pool_of, ranked

from harness_selectors.ngram_coverage import NgramCoverage, reference_order

TEXTS = st.lists(st.lists(st.sampled_from("abcd"), max_size=5).map(" ".join), min_size=1, max_size=8)
WEIGHTS = st.sampled_from(["uniform", "idf"])


@given(
    texts=TEXTS, longest=st.integers(1, 4), unit=st.sampled_from(["word", "character"]), weights=WEIGHTS, data=st.data()
)
def test_the_order_is_that_of_the_reference_also_after_what_was_verified(texts, longest, unit, weights, data):
    selector, n = NgramCoverage(ngrams=longest, unit=unit, weights=weights), len(texts)
    assert ranked(selector, pool_of(texts)) == reference_order(texts, longest, unit, weights)
    verified = data.draw(st.permutations(range(n)))[: data.draw(st.integers(1, n))]
    order = reference_order(texts, longest, unit, weights, verified)
    assert after(selector, pool_of(texts), verified) == [index for index in order if index not in verified]


def test_the_reference_adds_most_to_the_coverage_of_lin_and_bilmes():
    texts = ["a b a", "b c", "a", "c d e", "e e", "d", "a b c", "f"]
    order = reference_order(texts, 1, "word", "uniform")
    for k in range(5):  # then all is covered, and a new round begins
        value = {i: len(set(" ".join(texts[j] for j in [*order[:k], i]).split())) for i in order[k:]}
        assert value[order[k]] == max(value.values())


def test_case_tells_words_apart_spaces_do_not_and_texts_without_ngrams_or_weight_come_last_by_index():
    assert ranked(NgramCoverage(), pool_of(["let x be", "let   x\nbe", "let X be"]))[:2] == [0, 2]
    assert ranked(NgramCoverage(), pool_of(["", "a", " ", "a"])) == [1, 3, 0, 2]
    assert ranked(NgramCoverage(weights="idf"), pool_of(["a", "a", "a b"])) == [2, 0, 1]
