"""Orders that read no vectors, as baselines: `uniform` at random, `dedup` without repeats, `in-order` as sampled.

    uniform    a random order, every one equally likely
    dedup      that order, with every repeat of an earlier text (or answer) moved behind all first appearances
    in-order   the lowest remaining index

For a pool of N with c correct, the expected samples-to-correct of `uniform` is (N + 1) / (c + 1), and its pass@k is
that of Chen et al. 2021, arXiv:2107.03374.

`dedup` is the control for what a diversity selector gains by skipping duplicates, and by nothing else. With the same
seed it is the order of `uniform` if no text repeats. A text with many copies is as likely to come early as in that
order. Texts are equal if they agree up to trailing whitespace, which no grader reads. Leading whitespace and
indentation have a meaning in code. (Of CodeGen-16B's 100 HumanEval samples per problem 75.7 % differ as they are, 73.6
% up to trailing whitespace, 72.9 % with all whitespace as one blank.) With `by=answer` a response without an answer
counts as a repeat.

`in-order` is meant for responses that were generated one after another, each depending on the earlier ones
(`repexp-guided`): for them the order is the method, and any other ranker measures the pool, not the sampler.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from harness import Pool

from .numerics.columns import RanksAfter, check_parameters


@dataclass(frozen=True)
class Uniform:
    """A random permutation of the pool."""

    needs: ClassVar[tuple[str, ...]] = ()
    reads: ClassVar[tuple[str, ...]] = ()

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """Return all n indices."""
        return iter(rng.permutation(len(pool)).tolist())


@dataclass(frozen=True)
class Dedup(RanksAfter):
    """Uniform selection without repeats: each text (or with `by=answer` each answer) once before any comes again."""

    needs: ClassVar[tuple[str, ...]] = ()

    by: Literal["text", "answer"] = "text"

    def __post_init__(self) -> None:
        check_parameters("dedup", self)

    @property
    def reads(self) -> tuple[str, ...]:
        """Return the column that is compared."""
        return (f"{self.by}s",)

    def rank_after(self, pool: Pool, verified: Sequence[int], rng: np.random.Generator) -> Iterator[int]:
        """Yield the indices not in `verified`, ordered as by `rank`; copies of verified responses count as repeats."""
        keys = pool.answers if self.by == "answer" else [text.rstrip() for text in pool.texts]
        seen: set[str | None] = {None, *(keys[index] for index in verified)}
        repeats, done = [], set(verified)
        for index in rng.permutation(len(pool)).tolist():
            if index in done:
                continue
            if keys[index] in seen:
                repeats.append(index)
            else:
                seen.add(keys[index])
                yield index
        yield from repeats


@dataclass(frozen=True)
class InOrder:
    """The pool's own order, from the first response generated to the last."""

    needs: ClassVar[tuple[str, ...]] = ()
    reads: ClassVar[tuple[str, ...]] = ("order",)

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """Return all n indices, ascending."""
        return iter(range(len(pool)))
