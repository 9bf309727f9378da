"""Orders by one number of each response: a score, the model's own log-probability, the length, or the size of its row.

    score       the largest remaining score
    logprob     the most likely response, `unlikely` the least       per=response  Σ over the T tokens of log p(token)
    length      the shortest, or with first=long the longest         per=token     the sum / T
    norm        the largest |h|, of its centred row h

Score: best-of-n, by a reward model, a verifier or a judge. Stiennon et al., "Learning to summarize from human feedback"
(NeurIPS 2020), arXiv:2009.01325, and Cobbe et al., "Training Verifiers to Solve Math Word Problems" (2021),
arXiv:2110.14168, sample n responses and return the one with the highest score. Here the rest follows. Equal scores come
in random order, then responses whose score is unknown (NaN). `by=logprob` and `by=mean-logprob` take log-probabilities.

Log-probability: Chen et al., "Evaluating Large Language Models Trained on Code" (2021), arXiv:2107.03374, choose among
samples by both, without tests: the mean per token beats a random choice, the sum can be worse than it. He, Fried,
Welleck, "Rewarding the Unlikely" (EMNLP 2025), arXiv:2506.02355, do the opposite in RL: the less likely a correct
sample, the larger its reward. The sum falls with every token and so prefers short responses: compare with `length`.

Length is the first confound to rule out. Hassid et al., "Don't Overthink it" (2025), arXiv:2505.17813: of several
reasoning chains for one question the short ones are correct more often; their short-m@k takes the m that finish first.

The size of a row is the second: RepExp's bonus for h after the picks p, with P = Σ p pᵀ, is

    hᵀ (lam I + P)⁻¹ h = |h|² / lam - hᵀ P h / lam² + ...      where lam is larger than P

so where lam is large against the rows it takes the largest ones, and explores nothing. `length` and `norm` are
controls: tables show them beside every selector that reads vectors, and say which of these cannot be told from them.

T is the pool's `lengths`: tokens with the end-of-sequence token, or characters for an imported pool without counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from harness import Pool

from .numerics.columns import check_parameters, column_of, logprobs_of, scores_of, vectors_of


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
        scores = scores_of(pool, self.by, "score")
        shuffled = rng.permutation(len(scores))
        return iter(shuffled[np.argsort(-scores[shuffled], kind="stable")].tolist())


@dataclass(frozen=True)
class Logprob:
    """The most likely response first (Chen et al. 2021). `per`: the sum over a "response", or its mean per "token"."""

    needs: ClassVar[tuple[str, ...]] = ("logprobs",)
    reads: ClassVar[tuple[str, ...]] = ()
    selector: ClassVar[str] = "logprob"
    sign: ClassVar[int] = -1

    per: Literal["response", "token"] = "response"

    def __post_init__(self) -> None:
        check_parameters(self.selector, self)

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """Return all n indices; ties go to the lowest. No randomness."""
        logprobs = logprobs_of(pool, self.selector, per_token=self.per == "token")
        return iter(np.argsort(self.sign * logprobs, kind="stable").tolist())


@dataclass(frozen=True)
class Unlikely(Logprob):
    """The least likely response first (He et al. 2025). `per`: the sum over a "response", or its mean per "token"."""

    selector: ClassVar[str] = "unlikely"
    sign: ClassVar[int] = 1


@dataclass(frozen=True)
class Length:
    """The shortest response first (Hassid et al. 2025), or with `first=long` the longest. Ties to the lowest."""

    needs: ClassVar[tuple[str, ...]] = ()
    reads: ClassVar[tuple[str, ...]] = ("texts",)

    first: Literal["short", "long"] = "short"

    def __post_init__(self) -> None:
        check_parameters("length", self)

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """Return all n indices."""
        key = pool.lengths if self.first == "short" else -pool.lengths
        return iter(key.argsort(kind="stable").tolist())


@dataclass(frozen=True)
class Norm:
    """The largest row first, whatever its direction: what RepExp becomes where lam is large against the rows."""

    needs: ClassVar[tuple[str, ...]] = ("embeddings",)
    reads: ClassVar[tuple[str, ...]] = ()

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """Return all n indices; ties go to the lowest. No randomness."""
        h = vectors_of(pool, "norm").astype(np.float64)
        return iter(np.argsort(-np.linalg.norm(h, axis=1), kind="stable").tolist())
