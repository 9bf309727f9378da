"""Order by the model's own log-probability: `logprob` takes the most likely response first, `unlikely` the least.

    per=response   Σ over the T tokens of log p(token)          the log-probability of the whole text
    per=token      the sum / T                                  so that long texts are not unlikely by their length

Chen et al., "Evaluating Large Language Models Trained on Code" (2021), arXiv:2107.03374, choose among samples by both,
without tests: the mean per token beats a random choice, the sum can be worse than it. He, Fried, Welleck, "Rewarding
the Unlikely" (EMNLP 2025), arXiv:2506.02355, do the opposite in RL: the less likely a correct sample, the larger its
reward.

T is the pool's `lengths`: tokens with the end-of-sequence token, or characters for an imported pool without token
counts. The sum falls with every token and so prefers short responses: compare with `length`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from harness import HarnessError, Pool, hookimpl

from .numerics.vectors import logprobs_of

if TYPE_CHECKING:
    from .numerics.vectors import Float64s

Unit = Literal["response", "token"]


@dataclass(frozen=True)
class Logprob:
    """The most likely response first (Chen et al. 2021). `per`: the sum over a "response", or its mean per "token"."""

    needs: ClassVar[tuple[str, ...]] = ("logprobs",)
    reads: ClassVar[tuple[str, ...]] = ()

    per: Unit = "response"

    def __post_init__(self) -> None:
        _check("logprob", self.per)

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """Return all n indices; ties go to the lowest. No randomness."""
        return iter(np.argsort(-_likelihood(pool, self.per, "logprob"), kind="stable").tolist())


@dataclass(frozen=True)
class Unlikely:
    """The least likely response first (He et al. 2025). `per`: the sum over a "response", or its mean per "token"."""

    needs: ClassVar[tuple[str, ...]] = ("logprobs",)
    reads: ClassVar[tuple[str, ...]] = ()

    per: Unit = "response"

    def __post_init__(self) -> None:
        _check("unlikely", self.per)

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """Return all n indices; ties go to the lowest. No randomness."""
        return iter(np.argsort(_likelihood(pool, self.per, "unlikely"), kind="stable").tolist())


def _likelihood(pool: Pool, per: Unit, selector: str) -> Float64s:
    """Return each response's log-probability (n,), whole or per token; one without tokens counts as one token."""
    logprobs = logprobs_of(pool, selector)
    return logprobs if per == "response" else logprobs / np.maximum(pool.lengths, 1)


def _check(selector: str, per: str) -> None:
    if per not in ("response", "token"):
        raise HarnessError(f"{selector}: per must be 'response' or 'token', got {per!r}")


@hookimpl
def register_selectors(register: Callable[[str, str], None]) -> None:
    register("logprob", "harness_selectors.likelihood:Logprob")
    register("unlikely", "harness_selectors.likelihood:Unlikely")
