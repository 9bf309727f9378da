"""Embedder `tfidf`: words, signs and their pairs."""

from __future__ import annotations

import numpy as np
from support.refusals import refusal_of

from harness import Problem
from harness_plugins.embedders.tfidf import Tfidf

PROBLEM = Problem("1", "Say a colour.")


def test_signs_and_the_order_of_words_count_and_rows_have_unit_length():
    texts = ["(10 - 6) * 4", "10 - 6 * 4", "4 * 6 - 10", "10 - 6 * 4", "x"]
    vectors = Tfidf().embed(PROBLEM, texts).toarray()
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1)
    likeness = vectors @ vectors.T
    assert likeness[1, 3] > 0.999 > likeness[1, 2] > 0.1 > likeness[1, 4]
    assert likeness[0, 1] < 0.999
    words_alone = Tfidf(ngrams=1).embed(PROBLEM, texts).toarray()
    assert np.allclose(words_alone[1], words_alone[2])  # the same tokens in another order


def test_responses_without_a_token_have_zero_vectors():
    assert Tfidf().embed(PROBLEM, ["", " ", "\n"]).toarray().tolist() == [[0.0]] * 3
    assert Tfidf().embed(PROBLEM, ["", "red"]).toarray()[0].sum() == 0


def test_no_run_of_tokens_is_refused():
    assert refusal_of(Tfidf, ngrams=0) == "tfidf: ngrams must be at least 1, got 0"
