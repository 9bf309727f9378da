"""Uniform selection without repeats: each text (or answer) once before any comes again.

    the order of `uniform`, with every repeat of an earlier text moved behind all first appearances

The control for what a diversity selector gains by skipping duplicates alone, and nothing more: with the same seed it is
`uniform`'s order wherever no text repeats. A text that came up often is as likely to stand early as it is there.

Texts are equal if they agree up to trailing whitespace, which no grader reads. (Leading whitespace and indentation mean
something in code. Of CodeGen-16B's 100 HumanEval samples a problem 75.7 % differ as they are, 73.6 % so, 72.9 % with
all whitespace as one blank.) A response without an answer repeats none and is no answer's first: `by=answer` puts it
among the repeats.
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
    """Uniform selection without repeats: each "text" (or with `by=answer` each answer) once before any comes again."""

    needs: ClassVar[tuple[str, ...]] = ()

    by: Literal["text", "answer"] = "text"

    @property
    def reads(self) -> tuple[str, ...]:
        """What is compared."""
        return (f"{self.by}s",)

    def __post_init__(self) -> None:
        if self.by not in ("text", "answer"):
            raise HarnessError(f"dedup: by must be 'text' or 'answer', got {self.by!r}")

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """All n indices, lazily; one permutation drawn, as `uniform` draws it."""
        return self.rank_after(pool, (), rng)

    def rank_after(self, pool: Pool, verified: Sequence[int], rng: np.random.Generator) -> Iterator[int]:
        """The rest; what repeats one of those verified counts as a repeat. The permutation is `rank`'s."""
        keys = pool.answers if self.by == "answer" else [text.rstrip() for text in pool.texts]
        return _first_appearances_first(keys, rng.permutation(len(pool)).tolist(), verified)


def _first_appearances_first(keys: Sequence[str | None], order: Sequence[int], picked: Sequence[int]) -> Iterator[int]:
    before, repeats = set(picked), []
    seen: set[str | None] = {None, *(keys[index] for index in picked)}
    for index in order:
        if index in before:
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
