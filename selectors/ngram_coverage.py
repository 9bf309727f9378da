"""N-gram coverage (Lin & Bilmes 2011): each pick has the most n-grams, by weight, that no earlier pick has.

    f(S) = Σ of weight(g) over the n-grams g in any response of S      pick the largest f(S + i) - f(S)
    weights=uniform   1 for every n-gram                               weights=idf   ln(n / responses that have g)

Lin & Bilmes, "A Class of Submodular Functions for Document Summarization" (ACL 2011): f is monotone and submodular, so
greedy picks cover at least 1 - 1/e of the best k's weight (Nemhauser, Wolsey, Fisher 1978). An n-gram is a run of up to
`ngrams` units: words, numbers and single signs (upper and lower case differ), or characters.

When everything that can be covered is covered, a new round begins: nothing counts as covered any more, and coverage
starts again among the remaining responses. Responses that cover nothing even then (empty texts, or those without
weight) come last, by index.

We differ only in cost. All gains are kept up to date: when a pick covers an n-gram for the first time, the gain of each
response that has it falls by its weight, over a round once for every pair of the two. This takes 1 to 40 % of the time
of Minoux's lazy evaluations (1978), whose bounds become loose where responses are alike. Weights are whole numbers, idf
in units of 2⁻²⁰, so that sums are exact and equal gains tie, to the lowest index. 6,400 responses of 500 words: 2 CPU
seconds to read them, before the first pick, and 0.4 to order them all; 0.4 GB. With `unit=character,ngrams=3`: 20
seconds and 2 GB.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from math import log
from typing import Any, ClassVar, Literal

import numpy as np

from harness import Pool

from .numerics.columns import Float64s, RanksAfter, check_parameters

Unit = Literal["word", "character"]
Weights = Literal["uniform", "idf"]

WORD = re.compile(r"\w+|[^\w\s]")
IDF_UNIT = 2.0**-20


def reference_order(
    texts: Sequence[str], ngrams: int, unit: Unit, weights: Weights, picked: Sequence[int] = ()
) -> list[int]:
    """Return all n indices by the module's definition: all gains anew at every pick, ties to the lowest index.

    Indices `picked` before come first, except those without weight.
    """

    def in_text(units: list[str]) -> set[tuple[str, ...]]:
        return {tuple(units[i : i + n]) for n in range(1, ngrams + 1) for i in range(len(units) - n + 1)}

    has = [in_text(WORD.findall(text) if unit == "word" else list(text)) for text in texts]  # a set for each response
    responses = Counter(g for some in has for g in some)
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


@dataclass(frozen=True)
class NgramCoverage(RanksAfter):
    """N-gram coverage (Lin & Bilmes 2011): each pick has the most n-grams that no earlier pick has.

    `ngrams`: n-grams of 1 to so many units count; `unit`: "word" or "character"; `weights`: "uniform" or "idf".
    """

    needs: ClassVar[tuple[str, ...]] = ()
    reads: ClassVar[tuple[str, ...]] = ("texts",)

    ngrams: int = 2
    unit: Unit = "word"
    weights: Weights = "uniform"

    def __post_init__(self) -> None:
        check_parameters("ngram-coverage", self, ngrams=">= 1")

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


def incidence(texts: Sequence[str], longest: int, units: Callable[[str], list[str]]) -> Any:
    """Return which text has which n-gram of up to `longest` units: a sparse CSR matrix (n, n-grams) of ones.

    units   splits a text into its units, e.g. words
    """
    from scipy.sparse import csr_array

    number: dict[str, int] = defaultdict(count().__next__)
    split = [units(text) for text in texts]
    unit = np.array([number[each] for in_text in split for each in in_text], np.int64)  # of all texts, numbered
    owner = np.repeat(np.arange(len(texts)), [len(in_text) for in_text in split])
    rows, columns, total = [owner], [unit], len(number)
    run = unit  # the n-gram that begins at each unit
    for n in range(2, longest + 1):
        whole = owner[: 1 - n] == owner[n - 1 :]  # n-grams that end in the text in which they begin
        ngrams, ngram = np.unique((run[:-1] * len(number) + unit[n - 1 :])[whole], return_inverse=True)
        rows.append(owner[: 1 - n][whole])
        columns.append(total + ngram)
        total += len(ngrams)
        run = np.zeros(len(whole), np.int64)
        run[whole] = ngram
    pairs = np.concatenate(rows), np.concatenate(columns)
    has = csr_array((np.ones(len(pairs[0]), np.int8), pairs), shape=(len(texts), total))
    has.data[:] = 1  # before, the number of occurrences
    return has


def coverage_rounds(has: Any, weight: Float64s, picked: Sequence[int] = ()) -> Iterator[int]:
    """Yield the rows of `has` (sparse, n x columns, 0 or 1) by the weight of newly covered columns, in rounds.

    weight (columns,): whole numbers. Ties go to the lowest index. Rows `picked` before count as the first picks (those
    without weight are skipped), and are not yielded; all others are, those without weight last.
    """
    equal: dict[bytes, list[int]] = {}
    for index, (start, end) in enumerate(pairwise(has.indptr)):
        equal.setdefault(has.indices[start:end].tobytes(), []).append(index)
    groups = list(equal.values())  # of equal rows, each ascending
    has = has[[group[0] for group in groups]]  # (rows, columns)
    rows_of = has.T.tocsr()  # (columns, rows)
    head = np.array([group[0] for group in groups])  # the lowest unpicked index of each group
    total = has @ weight  # (rows,)
    uncovered = weight.copy()  # 0 for covered columns
    row_of = {index: row for row, group in enumerate(groups) for index in group}
    forced = deque(index for index in picked if total[row_of[index]])
    while total.any():
        gain, covered = total.copy(), []
        while (best := gain.max()) > 0:
            if forced:
                row = row_of[index := forced.popleft()]
                groups[row].remove(index)
            else:
                tied = np.flatnonzero(gain == best)
                row = int(tied[head[tied].argmin()])
                yield groups[row].pop(0)
            if groups[row]:
                head[row] = groups[row][0]
            else:
                total[row] = 0
            columns = has.indices[has.indptr[row] : has.indptr[row + 1]]
            columns = columns[uncovered[columns] > 0]
            size = rows_of.indptr[columns + 1] - rows_of.indptr[columns]
            end = size.cumsum()
            sharing = rows_of.indices[np.arange(size.sum()) + (rows_of.indptr[columns] - end + size).repeat(size)]
            gain -= np.bincount(sharing, uncovered[columns].repeat(size), len(groups))
            uncovered[columns] = 0
            covered.append(columns)
        again = np.concatenate(covered)
        uncovered[again] = weight[again]
    yield from sorted({index for group in groups for index in group}.difference(picked))
