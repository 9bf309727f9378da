"""Order by a score, the highest first: what best-of-n takes first, and then what it would take next.

    pick the response with the largest remaining score

The score is that of a reward model, a verifier or a judge: Stiennon et al., "Learning to summarize from human feedback"
(NeurIPS 2020), arXiv:2009.01325, and Cobbe et al., "Training Verifiers to Solve Math Word Problems" (2021),
arXiv:2110.14168, sample n responses and return the one with the highest score. They return one; here the rest follows.

Equal scores come in random order, then responses whose score is unknown (NaN). `by=logprob` and `by=mean-logprob` take
the model's own log-probability, whole or per token, as the score (see also `logprob`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Pool, hookimpl

from .numerics.scores import column_of, highest_first, scores_of

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Score:
    """The highest score first, as best-of-n (Stiennon et al. 2020): of a reward model or a judge.

    `by`: the score's name, or "logprob" or "mean-logprob"; none is the pool's only score.
    """

    reads: ClassVar[tuple[str, ...]] = ()

    by: str | None = None

    @property
    def needs(self) -> tuple[str, ...]:
        """The column with the score."""
        return (column_of(self.by),)

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """Return all n indices; O(n log n)."""
        return iter(highest_first(scores_of(pool, self.by, "score"), rng).tolist())


@hookimpl
def register_selectors(register: Callable[[str, str], None]) -> None:
    register("score", "harness_selectors.score:Score")
