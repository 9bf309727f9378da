"""Order by length alone: the first confound to rule out when a selector seems to find correct responses.

    pick the shortest (or longest) remaining response

Hassid et al., "Don't Overthink it" (2025), arXiv:2505.17813: of several reasoning chains for one question the short
ones are correct more often; their short-m@k takes the m that finish first. Some models need long chains: `first=long`.

Lengths are in tokens, or in characters for an imported pool without token counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from harness import HarnessError, Pool, hookimpl

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Length:
    """The shortest response first (Hassid et al. 2025), or with `first=long` the longest. Ties to the lowest."""

    needs: ClassVar[tuple[str, ...]] = ()
    reads: ClassVar[tuple[str, ...]] = ("texts",)

    first: Literal["short", "long"] = "short"

    def __post_init__(self) -> None:
        if self.first not in ("short", "long"):
            raise HarnessError(f"length: first must be 'short' or 'long', got {self.first!r}")

    def rank(self, pool: Pool, rng: np.random.Generator) -> Iterator[int]:
        """Return all n indices."""
        key = pool.lengths if self.first == "short" else -pool.lengths
        return iter(key.argsort(kind="stable").tolist())


@hookimpl
def register_selectors(register: Callable[[str, str], None]) -> None:
    register("length", "harness_selectors.length:Length")
