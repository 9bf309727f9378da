"""N-gram coverage (Lin & Bilmes 2011): each pick has the most n-grams, by weight, that no earlier pick has.

    f(S) = Σ of weight(g) over the n-grams g in any response of S      pick the largest f(S + i) - f(S)
    weights=uniform   1 for every n-gram                               weights=idf   ln(n / responses that have g)

Lin & Bilmes, "A Class of Submodular Functions for Document Summarization" (ACL 2011): f is monotone and submodular, so
greedy picks cover at least 1 - 1/e of the best k's weight (Nemhauser, Wolsey, Fisher 1978). An n-gram is a run of up to
`ngrams` units: words, numbers and single signs (upper and lower case differ), or characters.

When everything that can be covered is covered, a new round begins: nothing counts as covered any more, and coverage
starts again among the remaining responses. Responses that cover nothing even then (empty texts, or those without
weight) come last, by index.

We differ only in cost (see `set_coverage`). Weights are whole numbers, idf in units of 2⁻²⁰, so that sums are exact and
equal gains tie, to the lowest index. 6,400 responses of 500 words: 2 CPU seconds to read them, before the first pick,
and 0.4 to order them all; 0.4 GB. With `unit=character,ngrams=3`: 20 seconds and 2 GB.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from harness import HarnessError, Pool, hookimpl

from .numerics.set_coverage import coverage_rounds, incidence

if TYPE_CHECKING:
    Unit = Literal["word", "character"]
    Weights = Literal["uniform", "idf"]

WORD = re.compile(r"\w+|[^\w\s]")
IDF_UNIT = 2.0**-20


def reference_order(
    texts: Sequence[str], ngrams: int, unit: Unit, weights: Weights, picked: Sequence[int] = ()
) -> list[int]:
    """Return all n indices by the module's definition: all gains anew at every pick, ties to the lowest index.

    Indices `picked` before come first, except those without weight.

    `NgramCoverage` must return exactly the same.
    """
    has = [_reference_ngrams(text, ngrams, unit) for text in texts]  # a set for each response
    responses = Counter(g for in_text in has for g in in_text)
    weight = {g: round(log(len(texts) / responses[g]) / IDF_UNIT) if weights == "idf" else 1 for g in responses}
    order: list[int] = []
    covered: set[tuple[str, ...]] = set()
    while len(order) < len(texts):
        remaining = [i for i in range(len(texts)) if i not in order]
        of_weight = [i for i in remaining if any(weight[g] for g in has[i])]
        gain = {i: sum(weight[g] for g in has[i] - covered) for i in remaining}
        if any(gain.values()):
            forced = [i for i in picked if i in of_weight]
            order.append(forced[0] if forced else max(remaining, key=gain.__getitem__))
            covered |= has[order[-1]]
        elif of_weight:
            covered = set()  # a new round
        else:
            order += remaining
    return order


def _reference_ngrams(text: str, ngrams: int, unit: Unit) -> set[tuple[str, ...]]:
    units = WORD.findall(text) if unit == "word" else list(text)
    return {tuple(units[i : i + n]) for n in range(1, ngrams + 1) for i in range(len(units) - n + 1)}


@dataclass(frozen=True)
class NgramCoverage:
    """N-gram coverage (Lin & Bilmes 2011): each pick has the most n-grams that no earlier pick has.

    `ngrams`: n-grams of 1 to so many units count; `unit`: "word" or "character"; `weights`: "uniform" or "idf".
    """

    needs: ClassVar[tuple[str, ...]] = ()
    reads: ClassVar[tuple[str, ...]] = ("texts",)

    ngrams: int = 2
    unit: Literal["word", "character"] = "word"
    weights: Literal["uniform", "idf"] = "uniform"

    def __post_init__(self) -> None:
        if self.ngrams < 1:
            raise HarnessError(f"ngram-coverage: ngrams must be at least 1, got {self.ngrams}")
        if self.unit not in ("word", "character"):
            raise HarnessError(f"ngram-coverage: unit must be 'word' or 'character', got {self.unit!r}")
        if self.weights not in ("uniform", "idf"):
            raise HarnessError(f"ngram-coverage: weights must be 'uniform' or 'idf', got {self.weights!r}")

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """Yield all n indices; the texts are read before the first one. No randomness.

        Memory O(units of all texts).
        """
        return self.rank_after(pool, (), rng)

    def rank_after(self, pool: Pool, verified: Sequence[int], rng: np.random.Generator) -> Iterator[int]:
        """Yield the indices not in `verified`; as picks do, verified ones cover their n-grams and can begin rounds."""
        if not len(pool):
            return
        has = incidence(pool.texts, self.ngrams, WORD.findall if self.unit == "word" else list)
        weight = np.ones(has.shape[1])
        if self.weights == "idf":
            responses = np.bincount(has.indices, minlength=has.shape[1])
            weight = np.rint(np.log(len(pool) / responses) / IDF_UNIT)
        yield from coverage_rounds(has, weight, verified)


@hookimpl
def register_selectors(register: Callable[[str, str], None]) -> None:
    register("ngram-coverage", "harness_selectors.ngram_coverage:NgramCoverage")
