"""What broken plugins begin from: sound ones, and the list that each broken one is kept in."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from harness import HarnessError

BY_KIND = {"selector": [], "task": [], "sampler": [], "embedder": [], "engine": []}


def broken(kind, *caught_by):
    """Keep the class among the broken ones of a kind; `CAUGHT_BY` are the checks that must fail, and no others."""

    def keep(factory):
        factory.CAUGHT_BY = set(caught_by)
        BY_KIND[kind].append(factory)
        return factory

    return keep


class Sound:
    """Needs nothing and ranks at random, soundly; what is broken begins from here."""

    needs: ClassVar[tuple[str, ...]] = ()

    def rank(self, pool, rng):
        yield from rng.permutation(len(pool)).tolist()


class SoundOnVectors:
    """Farthest from the pool's mean first, soundly."""

    needs: ClassVar[tuple[str, ...]] = ("embeddings",)

    def key(self, h):
        return (np.asarray(h, np.float64) ** 2).sum(axis=1)

    def rank(self, pool, rng):
        h = pool.embeddings
        if not np.isfinite(h).all():
            raise HarnessError(f"{type(self).__name__}: response {np.isfinite(h).all(axis=1).argmin()} is not finite")
        yield from np.argsort(-self.key(h), kind="stable").tolist()
