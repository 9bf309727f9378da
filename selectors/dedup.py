"""Uniform selection without repeats: each text (or answer) once before any comes again.

    the order of `uniform`, with every repeat of an earlier text moved behind all first appearances

The control for what a diversity selector gains by skipping duplicates, and by nothing else. With the same seed it is
the order of `uniform` if no text repeats. A text with many copies is as likely to come early as in that order.

Texts are equal if they agree up to trailing whitespace, which no grader reads. Leading whitespace and indentation have
a meaning in code. (Of CodeGen-16B's 100 HumanEval samples per problem 75.7 % differ as they are, 73.6 % up to trailing
whitespace, 72.9 % with all whitespace as one blank.) With `by=answer` a response without an answer counts as a repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from harness import HarnessError, Pool, hookimpl

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Dedup:
    """Uniform selection without repeats: each text (or with `by=answer` each answer) once before any comes again."""

    needs: ClassVar[tuple[str, ...]] = ()

    by: Literal["text", "answer"] = "text"

    @property
    def reads(self) -> tuple[str, ...]:
        """Return the column that is compared."""
        return (f"{self.by}s",)

    def __post_init__(self) -> None:
        if self.by not in ("text", "answer"):
            raise HarnessError(f"dedup: by must be 'text' or 'answer', got {self.by!r}")

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """Yield all n indices: the first appearances of texts (or answers), then repeats, both in `uniform`'s order."""
        return self.rank_after(pool, (), rng)

    def rank_after(self, pool: Pool, verified: Sequence[int], rng: np.random.Generator) -> Iterator[int]:
        """Return the indices not in `verified`, ordered as by `rank`; copies of verified responses count as repeats."""
        keys = pool.answers if self.by == "answer" else [text.rstrip() for text in pool.texts]
        return _first_appearances_first(keys, rng.permutation(len(pool)).tolist(), verified)


def _first_appearances_first(keys: Sequence[str | None], order: Sequence[int], picked: Sequence[int]) -> Iterator[int]:
    picked_set, repeats = set(picked), []
    seen: set[str | None] = {None, *(keys[index] for index in picked)}
    for index in order:
        if index in picked_set:
            continue
        if keys[index] in seen:
            repeats.append(index)
        else:
            seen.add(keys[index])
            yield index
    yield from repeats


@hookimpl
def register_selectors(register: Callable[[str, str], None]) -> None:
    register("dedup", "harness_selectors.dedup:Dedup")
