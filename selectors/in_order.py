"""The order in which responses were generated: the first is verified first.

    pick the lowest remaining index

On a pool of independent samples this is one random order, the same in every trial. It is meant for responses that were
generated one after another, each depending on the earlier ones (`repexp-guided`). For them the order is the method;
any other ranker measures the pool, not the sampler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from harness import Pool, hookimpl


@dataclass(frozen=True)
class InOrder:
    """The pool's own order, from the first response generated to the last."""

    needs: ClassVar[tuple[str, ...]] = ()
    reads: ClassVar[tuple[str, ...]] = ("order",)

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """Return all n indices, ascending."""
        return iter(range(len(pool)))


@hookimpl
def register_selectors(register: Callable[[str, str], None]) -> None:
    register("in-order", "harness_selectors.in_order:InOrder")
