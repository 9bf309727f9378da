"""N-gram coverage (Lin & Bilmes 2011): each pick has the most n-grams, by weight, that no pick has had yet.

    f(S) = Σ of weight(g) over the n-grams g in any response of S      pick the largest f(S + i) - f(S)
    weights=uniform   1 for every n-gram                               weights=idf   ln(n / responses that have g)

Lin & Bilmes, "A Class of Submodular Functions for Document Summarization" (ACL 2011): f is monotone and submodular, so
greedy picks cover at least 1 - 1/e of the best k's weight (Nemhauser, Wolsey, Fisher 1978). An n-gram is a run of up to
`ngrams` units: words, numbers and single signs, upper and lower case apart, or characters.

Once all is covered that can be, coverage starts again from nothing among the responses left: a new round, as often as
needed. What covers nothing even then, an empty text or one of no weight, comes last, by index.

We differ in cost alone. Instead of Minoux's lazy evaluations (1978) all gains are kept exact: when a pick covers g for
the first time, the gain of each response that has g falls by its weight, which over a round touches every pair of
response and n-gram once. That took 1 to 40 % of the time of lazy evaluation (6,400 responses of 500 words; 6,400 short
programs; 6,400 game24 answers), whose bounds grow stale where responses are alike. Weights are whole numbers, idf in
units of 2⁻²⁰, so that sums are exact and equal gains tie, to the lowest index.

6,400 responses of 500 words: 2 CPU seconds to read them, before the first pick, and 0.4 to order them all; 0.4 GB.
With `unit=character,ngrams=3`: 20 seconds and 2 GB.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from harness import HarnessError, Pool, hookimpl

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Float64s = NDArray[np.float64]
    Ints = NDArray[np.int64]

WORD = re.compile(r"\w+|[^\w\s]")
IDF_UNIT = 2.0**-20


@dataclass(frozen=True)
class NgramCoverage:
    """N-gram coverage (Lin & Bilmes 2011): each pick has the most n-grams that no pick before it had.

    `ngrams`: runs of up to so many units count; `unit`: "word" or "character"; `weights`: "uniform" or "idf".
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
        """All n indices, lazily, no draw; the texts are read when the first is pulled. Memory O(units of all texts)."""
        return self.rank_after(pool, (), rng)

    def rank_after(self, pool: Pool, verified: Sequence[int], rng: np.random.Generator) -> Iterator[int]:
        """The rest; those verified cover what they have, and bring on new rounds, as picks do."""
        if not len(pool):
            return
        has = incidence(pool.texts, self.ngrams, WORD.findall if self.unit == "word" else list)
        weight = np.ones(has.shape[1])
        if self.weights == "idf":
            responses = np.bincount(has.indices, minlength=has.shape[1])
            weight = np.rint(np.log(len(pool) / responses) / IDF_UNIT)
        yield from coverage_order(has, weight, verified)


def incidence(texts: Sequence[str], longest: int, units: Callable[[str], list[str]]) -> Any:
    """Which response has which n-gram: sparse (n, n-grams) in CSR form, 1 where it has."""
    from scipy.sparse import csr_array

    unit, owner, total = _numbered_units(texts, units)
    rows, columns = [owner], [unit]
    run, different = unit, total  # the n-gram that begins at each unit
    for n in range(2, longest + 1):
        whole = owner[: 1 - n] == owner[n - 1 :]  # those that do not run over their text's end
        ngrams, number = np.unique((run[:-1] * different + unit[n - 1 :])[whole], return_inverse=True)
        rows.append(owner[: 1 - n][whole])
        columns.append(total + number)
        total += len(ngrams)
        run = np.zeros(len(whole), np.int64)
        run[whole] = number
    where = np.concatenate(rows), np.concatenate(columns)
    has = csr_array((np.ones(len(where[0]), np.int8), where), shape=(len(texts), total))
    has.data[:] = 1  # how often it has it was counted
    return has


def _numbered_units(texts: Sequence[str], units: Callable[[str], list[str]]) -> tuple[Ints, Ints, int]:
    """The units of all texts (units,) numbered from 0; whose each is (units,); how many differ."""
    number: dict[str, int] = defaultdict(count().__next__)
    sizes = []
    numbered: list[int] = []
    for text in texts:
        found = units(text)
        sizes.append(len(found))
        numbered.extend(map(number.__getitem__, found))
    return np.array(numbered, np.int64), np.repeat(np.arange(len(texts)), sizes), len(number)


def coverage_order(has: Any, weight: Float64s, picked: Sequence[int] = ()) -> Iterator[int]:
    """All n rows of `has` (sparse, n x columns, 0 or 1) by the weight of columns that no row before had, in rounds.

    weight (columns,): whole numbers. Lazy; ties to the lowest index. What was `picked` before is picked first, and is
    not yielded.
    """
    groups = _alike(has)
    has = has[[group[0] for group in groups]]  # (rows, columns)
    of = has.T.tocsr()  # (columns, rows)
    head = np.array([group[0] for group in groups])  # the lowest index left of each group
    total = has @ weight  # (rows,)
    fresh = weight.copy()  # 0 for what is covered
    row_of = {index: row for row, group in enumerate(groups) for index in group if picked}
    before = set(picked)
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
            columns = columns[fresh[columns] > 0]
            size = of.indptr[columns + 1] - of.indptr[columns]
            gain -= np.bincount(_runs(of, columns, size), fresh[columns].repeat(size), len(groups))
            fresh[columns] = 0
            covered.append(columns)
        again = np.concatenate(covered)
        fresh[again] = weight[again]
    yield from sorted(index for group in groups for index in group if index not in before)


def _runs(sparse: Any, rows: Any, size: Any) -> Any:
    """The column numbers of these rows of a CSR matrix, one row after the other; size (rows,): how many each has."""
    end = size.cumsum()
    return sparse.indices[np.arange(size.sum()) + (sparse.indptr[rows] - end + size).repeat(size)]


def _alike(has: Any) -> list[list[int]]:
    """The rows in groups of equal rows, each ascending, the groups by their first."""
    groups: dict[bytes, list[int]] = {}
    for row, (start, end) in enumerate(pairwise(has.indptr)):
        groups.setdefault(has.indices[start:end].tobytes(), []).append(row)
    return list(groups.values())


@hookimpl
def register_selectors(register: Callable[[str, str], None]) -> None:
    register("ngram-coverage", "harness_selectors.ngram_coverage:NgramCoverage")
