"""Embedder `random-features`: a control, whose vectors only show which texts are equal.

Each text's vector is Gaussian noise, seeded by a hash of the text: equal texts get equal vectors, and the distances
between different texts are random. With these vectors a selector selects at random, with duplicates last (like
`dedup`); what it gains over this with a real embedder is due to the embedder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import HarnessError, Problem, hookimpl

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class RandomFeatures:
    """A control: standard normal vectors of width `dim`, seeded by a hash of each text; equal texts get equal vectors.

    `seed`: another seed gives other vectors for all texts.
    """

    state: ClassVar[None] = None
    dim: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        if self.dim < 1:
            raise HarnessError(f"random-features: dim must be at least 1, got {self.dim}")

    def embed(self, problem: Problem, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return (n, dim) float32; the problem is not used."""
        import numpy as np

        vectors = {}
        for text in dict.fromkeys(texts):
            hashed = hashlib.sha256(f"{self.seed}:{text}".encode("utf-8", "surrogatepass"))
            vectors[text] = np.random.default_rng(int.from_bytes(hashed.digest(), "big")).standard_normal(self.dim)
        return np.array([vectors[text] for text in texts], np.float32).reshape(len(texts), self.dim)


@hookimpl
def register_embedders(register: Callable[[str, str], None]) -> None:
    """Register `random-features`."""
    register("random-features", "harness_plugins.embedders.random_features:RandomFeatures")
