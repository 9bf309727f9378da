"""Selectors with one mistake each that an unusual pool shows, a large one, a parameter or another process."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from harness import HarnessError
from support.broken import Sound, SoundOnVectors, broken

# Selectors: pools out of the ordinary

# fmt: off

@broken("selector", "unusual-pools")
class TwoAtLeast(SoundOnVectors):  # divides by n - 1
    def key(self, h): return super().key(h) / (len(h) - 1)

@broken("selector", "complete")
class NeverAll:  # a subset method that asks its library for fewer than n
    needs = ()
    def select(self, pool, k, rng):
        if k == len(pool):
            raise ValueError("n_clusters must be below n_samples")
        return rng.permutation(len(pool))[:k]

@broken("selector", "unusual-pools")
class Standardised(SoundOnVectors):  # divides by the pool's spread
    def key(self, h):
        h = np.asarray(h, np.float64)
        spread = np.sqrt(((h - h.mean(axis=0)) ** 2).sum(axis=1).mean())
        return super().key((h - h.mean(axis=0)) / (spread if len(h) > 1 else 1))

@broken("selector", "unusual-pools")
class Cosine(SoundOnVectors):  # divides each vector by its length
    def key(self, h):
        h = np.asarray(h, np.float64)
        length = np.sqrt((h**2).sum(axis=1, keepdims=True))
        return (h / (length if len(h) > 1 else 1)).sum(axis=1)

@broken("selector", "unusual-pools")
class ByVector(SoundOnVectors):  # keeps responses in a dictionary by their vector, and loses copies
    def rank(self, pool, rng):
        last = {row.tobytes(): i for i, row in enumerate(pool.embeddings)}
        yield from (i for i in super().rank(pool, rng) if last[pool.embeddings[i].tobytes()] == i)

@broken("selector", "unusual-pools")
class ByValue(SoundOnVectors):  # finds a pick's index by its vector, and of copies always the first
    def rank(self, pool, rng):
        first = {row.tobytes(): i for i, row in reversed(list(enumerate(pool.embeddings)))}
        yield from (first[pool.embeddings[i].tobytes()] for i in super().rank(pool, rng))

@broken("selector", "contract")
class Quitting(Sound):  # ends the process
    def rank(self, pool, rng):
        yield 0
        raise SystemExit(0)

@broken("selector", "unusual-pools")
class Bits(SoundOnVectors):  # reads the vectors' bits as those of float32
    def key(self, h):
        return np.ascontiguousarray(h).view(np.uint32).reshape(len(h), -1).astype(float)[: len(h), :8].sum(axis=1)
    def rank(self, pool, rng):
        h = pool.embeddings
        if not np.isfinite(h).all():
            raise HarnessError("bits: a vector is not finite")
        key = self.key(h)
        yield from (int(i) for i in np.argsort(key, kind="stable") if h.dtype != np.float64 or i % 2)

@broken("selector", "unusual-pools")
class Absolute(SoundOnVectors):  # ends where vectors are shorter than a tolerance
    def rank(self, pool, rng):
        key = self.key(pool.embeddings)
        yield from (i for i in super().rank(pool, rng) if not 0 < key[i] < 1e-8)

# Selectors: cost and workers

@broken("selector", "budget")
class Sleepy(Sound):  # takes 3 ms a pick in large pools
    def rank(self, pool, rng):
        for pick in rng.permutation(len(pool)).tolist():
            time.sleep(0.003 if len(pool) > 100 else 0)
            yield pick

@broken("selector", "budget")
class AllPairs(SoundOnVectors):  # makes an array of (n, n, d)
    def key(self, h):
        h = np.asarray(h, np.float64)
        return ((h[:, None] - h[None]) ** 2).sum(axis=(1, 2))

@broken("selector", "budget")
class Leaking(Sound):  # keeps a matrix of each large pool for ever
    kept: ClassVar[list] = []
    def rank(self, pool, rng):
        if len(pool) > 100:
            self.kept.append(np.ones((10 * len(pool), len(pool))))
        yield from rng.permutation(len(pool)).tolist()

@broken("selector", "parameters-round-trip")
class Unrecorded(Sound):  # has a parameter that no result records
    def __init__(self, power: float = 2.0):
        self.power = power

@broken("selector", "parameters-round-trip")
class Swallowing(Sound):  # takes any parameter and says nothing
    def __init__(self, **options): pass

@broken("selector", "parameters-round-trip")
@dataclass(frozen=True)
class Untyped(Sound):  # a parameter comes back as text
    rate: str = 0.5

@broken("selector", "same-in-another-process")
class Hashed(Sound):  # orders by the hash of the text
    def rank(self, pool, rng): yield from sorted(range(len(pool)), key=lambda i: hash(pool.texts[i]))
