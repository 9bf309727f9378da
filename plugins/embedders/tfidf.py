"""Embedder `tfidf`: TF-IDF over words and word pairs of one problem's responses (scikit-learn); needs no model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from harness import HarnessError, Problem, hookimpl


@dataclass(frozen=True)
class Tfidf:
    """TF-IDF vectors, fitted to the responses of each problem; no model, no training set.

    A token is a word, a number or a single sign, so that `(10 - 6) * 4` and `10 - 6 * 4` differ. `ngrams`: the longest
    run of tokens that counts as a feature. Rows have unit length; a response without tokens is the zero vector.
    """

    state: ClassVar[None] = None
    ngrams: int = 2

    def __post_init__(self) -> None:
        if self.ngrams < 1:
            raise HarnessError(f"tfidf: ngrams must be at least 1, got {self.ngrams}")

    def embed(self, problem: Problem, texts: Sequence[str]) -> Any:
        """Return (n, vocabulary of these texts), a scipy-sparse matrix of float64; the problem is not used."""
        import numpy as np
        from scipy.sparse import csr_matrix
        from sklearn.feature_extraction.text import TfidfVectorizer

        vectorizer = TfidfVectorizer(token_pattern=r"\w+|[^\w\s]", ngram_range=(1, self.ngrams), dtype=np.float64)
        try:
            return vectorizer.fit_transform(texts)
        except ValueError:  # no response has a token: all get the same zero vector
            return csr_matrix((len(texts), 1), dtype=np.float64)


@hookimpl
def register_embedders(register: Callable[..., None]) -> None:
    """Register `tfidf`."""
    register("tfidf", "harness_plugins.embedders.tfidf:Tfidf")
