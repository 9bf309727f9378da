"""Uniform selection: the responses in random order, every order equally likely; the baseline of other selectors.

For a pool of N with c correct, its expected samples-to-correct is (N + 1) / (c + 1), and its pass@k is that of Chen et
al. 2021, arXiv:2107.03374.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from harness import Pool, hookimpl


@dataclass(frozen=True)
class Uniform:
    """A random permutation of the pool."""

    needs: ClassVar[tuple[str, ...]] = ()
    reads: ClassVar[tuple[str, ...]] = ()

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """Return all n indices."""
        return iter(rng.permutation(len(pool)).tolist())


@hookimpl
def register_selectors(register: Callable[[str, str], None]) -> None:
    register("uniform", "harness_selectors.uniform:Uniform")
