"""Embedder `random-features`: noise, equal for equal texts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest
from support.refusals import refusal_of

from harness import Problem
from harness_plugins.embedders.random_features import RandomFeatures

PROBLEM = Problem("1", "Say a colour.")
TEXTS = ["the house is red", "a very old one", "", "the house is red", "\ud800", "\x00"]


def embed(texts, **options) -> np.ndarray:
    return RandomFeatures(**options).embed(PROBLEM, texts)


def test_they_are_equal_for_equal_texts_wherever_they_stand():
    vectors = embed(TEXTS)
    assert (vectors.shape, vectors.dtype) == ((len(TEXTS), 64), np.float32)
    assert len(np.unique(vectors, axis=0)) == len(set(TEXTS))
    assert np.isfinite(vectors).all()
    assert np.array_equal(embed(TEXTS[::-1])[::-1], vectors)
    assert np.array_equal(RandomFeatures().embed(Problem("2", "Say a number."), TEXTS), vectors)
    assert embed([], dim=5).shape == (0, 5)
    assert not np.isclose(vectors, embed(TEXTS, seed=1)).any()


def test_they_are_those_that_they_were():
    assert embed(["the house is red"], dim=3)[0] == pytest.approx([-0.669369, -0.220677, 0.032396], abs=1e-6)


def test_they_are_standard_normal_and_unrelated_between_like_texts():
    vectors = embed([f"the house is number {i}" for i in range(400)], dim=50)
    assert kstest(vectors.ravel(), "norm").pvalue > 0.001
    cosines = np.corrcoef(vectors)[np.triu_indices(400, 1)]
    assert np.abs(cosines).max() < 0.75
    assert cosines.std() == pytest.approx(1 / np.sqrt(50), rel=0.05)


def test_a_width_of_zero_is_refused():
    assert refusal_of(RandomFeatures, dim=0) == "random-features: dim must be at least 1, got 0"
