"""Thompson sampling over a Gaussian process: each pick is the largest value of a function drawn from the posterior.

    f ~ GP given the outcomes of the picks so far;   pick  argmax of f over the rest

Thompson (1933); for Gaussian processes see Russo and Van Roy, "Learning to Optimize via Posterior Sampling" (2014),
arXiv:1301.2609. Picks whose outcome is not known are left out, as in Kandasamy et al. (AISTATS 2018): the draws differ,
so picks that are verified at once do too.

We differ: a draw is over at most `most` of the rest, taken at random, since it costs their number cubed; the kernel is
not fitted (see `numerics.gaussian_process`); a response whose vector equals a picked one waits until no other is left.
Without any outcome all values are equally likely: the order is random. It learns: in tables it has a mark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from harness import HarnessError, Outcome, Pool, hookimpl

from .numerics.gaussian_process import candidates, check_parameters, fitted, known, length_scale
from .numerics.vectors import vectors_of


@dataclass(frozen=True)
class GpThompson:
    """Thompson sampling: the largest value of a function drawn from a Gaussian process, given the outcomes so far.

    `noise`: the deviation of an outcome around its mean, in units of the outcomes' spread; `length`: the kernel's
    length in units of the pool's median distance; `most`: how many of the rest a draw is over.
    """

    needs: ClassVar[tuple[str, ...]] = ("embeddings",)
    reads: ClassVar[tuple[str, ...]] = ()

    noise: float = 0.1
    length: float = 1.0
    most: int = 512

    def __post_init__(self) -> None:
        check_parameters("gp-thompson", noise=self.noise, length=self.length)
        if self.most < 1:
            raise HarnessError(f"gp-thompson: most must be at least 1, got {self.most}")

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """Return all n indices in random order: that without outcomes."""
        return iter(rng.permutation(len(vectors_of(pool, "gp-thompson"))).tolist())

    def pick_after(self, pool: Pool, outcomes: Sequence[Outcome], rng: np.random.Generator) -> int:
        """Return the pick after these outcomes; O(m³ + most³) for m outcomes."""
        h = vectors_of(pool, "gp-thompson")
        rest = candidates(h, outcomes)
        rows, values, _ = known(outcomes)
        if not rows:
            return int(rng.choice(rest))
        if len(rest) > self.most:
            rest = np.sort(rng.choice(rest, self.most, replace=False))
        process = fitted(h, rows, values, length_scale(h, self.length), self.noise)
        drawn = process.sample_y(h[rest], random_state=int(rng.integers(2**31)))[:, 0]
        return int(rest[np.argmax(drawn)])


@hookimpl
def register_selectors(register: Callable[[str, str], None]) -> None:
    register("gp-thompson", "harness_selectors.gp_thompson:GpThompson")
