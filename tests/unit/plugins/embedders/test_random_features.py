"""Embedders without a model of their own: random-features, tfidf, and hidden-*, whose vectors the engine gives."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest
from support.refusals import refusal_of

from harness import Problem
from harness.plugin_system.component import build
from harness.plugin_system.registry import load_registry
from harness_plugins.embedders.random_features import RandomFeatures
from harness_plugins.embedders.tfidf import Tfidf

PROBLEM = Problem("1", "Say a colour.")


def test_an_embedder_of_hidden_states_names_its_state_and_embeds_no_text():
    for state in ("mean", "last", "penultimate"):
        embedder = build(load_registry(), "embedder", f"hidden-{state}")
        assert embedder.state == state
        line = f"hidden-{state} takes the engine's hidden states and cannot embed texts by itself"
        assert refusal_of(embedder.embed, PROBLEM, ["red"]) == line


def embed(texts, **options) -> np.ndarray:
    return RandomFeatures(**options).embed(PROBLEM, texts)


def test_they_are_those_that_they_were_and_others_with_another_seed():
    texts = ["the house is red", "\ud800", "", "the house is red"]
    vectors = embed(texts, dim=3)
    assert vectors[0] == pytest.approx([-0.669369, -0.220677, 0.032396], abs=1e-6)
    assert np.array_equal(vectors[0], vectors[3])
    assert not np.isclose(vectors, embed(texts, dim=3, seed=1)).any()


def test_they_are_standard_normal_and_unrelated_between_like_texts():
    vectors = embed([f"the house is number {i}" for i in range(400)], dim=50)
    assert kstest(vectors.ravel(), "norm").pvalue > 0.001
    cosines = np.corrcoef(vectors)[np.triu_indices(400, 1)]
    assert np.abs(cosines).max() < 0.75
    assert cosines.std() == pytest.approx(1 / np.sqrt(50), rel=0.05)


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


def test_a_width_or_a_run_of_zero_is_refused():
    assert refusal_of(RandomFeatures, dim=0) == "random-features: dim must be at least 1, got 0"
    assert refusal_of(Tfidf, ngrams=0) == "tfidf: ngrams must be at least 1, got 0"
