"""Selectors with one mistake each."""

from __future__ import annotations

import random
import sys
import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from support.broken import Sound, SoundOnVectors, broken

# The form of the answer

# fmt: off

@broken("selector", "contract")
class Nameless:  # calls its method otherwise
    def order(self, pool, rng): return rng.permutation(len(pool))

@broken("selector", "contract")
class Greedy(Sound):  # needs what no pool has
    needs = ("verdicts",)

@broken("selector", "contract")
class OffByOne(Sound):  # raises at the last pick
    def rank(self, pool, rng):
        order = rng.permutation(len(pool))
        yield from (int(order[i + 1]) for i in range(len(pool)))

@broken("selector", "contract")
class Quitting(Sound):  # ends the process
    def rank(self, pool, rng):
        yield 0
        raise SystemExit(0)

@broken("selector", "complete")
class FromTheEnd(Sound):  # counts from the end
    def rank(self, pool, rng): yield from (rng.permutation(len(pool)) - len(pool)).tolist()

@broken("selector", "complete")
class Floats(Sound):  # yields floats
    def rank(self, pool, rng): yield from rng.permutation(len(pool)).astype(float)

@broken("selector", "complete")
class Mask(Sound):  # yields a mask of the pool where indices are wanted
    def rank(self, pool, rng): yield from (rng.permutation(len(pool)) < len(pool) // 2).tolist()

@broken("selector", "complete")
class WithReplacement(Sound):  # draws with replacement
    def rank(self, pool, rng): yield from rng.integers(len(pool), size=len(pool)).tolist()

@broken("selector", "complete")
class AllButOne(Sound):  # forgets the last one
    def rank(self, pool, rng): yield from rng.permutation(len(pool)).tolist()[:-1]

@broken("selector", "complete")
class NeverAll:  # a subset method that asks its library for fewer than n, and one more than k
    needs = ()
    def select(self, pool, k, rng): return rng.permutation(len(pool))[: min(k + 1, len(pool) - 1)]

# Randomness and state

@broken("selector", "same-rng-same-order")
class Borrowed(Sound):  # takes its seed from the process's generator, which it leaves alone
    def rank(self, pool, rng):
        yield from np.random.default_rng(random.getstate()[1][5]).permutation(len(pool)).tolist()

@broken("selector", "same-rng-same-order")
class Reseeding(Sound):  # seeds numpy's global generator from its rng, and draws from that
    def rank(self, pool, rng):
        np.random.seed(int(rng.integers(2**31)))
        yield from np.random.permutation(len(pool)).tolist()

@broken("selector", "independent-rankings")
class OneScratch(Sound):  # keeps what is left on the selector, for all rankings under way
    scratch: ClassVar[list] = []
    def rank(self, pool, rng):
        self.scratch[:] = rng.permutation(len(pool)).tolist()
        for _ in range(len(pool)):
            yield self.scratch.pop() if self.scratch else 0

@broken("selector", "independent-rankings")
class Counting:  # a subset method whose draws depend on the pool it saw before
    needs = ()
    last = 24
    def select(self, pool, k, rng):
        before, type(self).last = self.last, len(pool)
        order = rng.permutation(len(pool))
        return order[-k:] if before == 13 else order[:k]

@broken("selector", "permutation-equivariant")
class AsTheyCome(Sound):  # leaves the pool in its order
    def rank(self, pool, rng): yield from range(len(pool))

@broken("selector", "permutation-equivariant")
class FrontThenFar(SoundOnVectors):  # draws its first pick from the front half, and goes on soundly
    def rank(self, pool, rng):
        first = int(rng.integers((len(pool) + 1) // 2))
        order = list(super().rank(pool, rng))
        yield from (first, *(i for i in order if i != first))

@broken("selector", "same-in-another-process")
class Hashed(Sound):  # orders by the hash of the text
    def rank(self, pool, rng): yield from sorted(range(len(pool)), key=lambda i: hash(pool.texts[i]))

# What it sees and keeps

@broken("selector", "label-blind")
class Peeking(Sound):  # looks for the verdicts in its callers' frames
    def rank(self, pool, rng):
        order = rng.permutation(len(pool)).tolist()
        frame = sys._getframe()
        while frame and "is_correct" not in frame.f_locals:
            frame = frame.f_back
        yield from sorted(order, key=lambda i: not frame.f_locals["is_correct"][i]) if frame else order

@broken("selector", "leaves-no-trace")
class Hoarding(Sound):  # remembers what it ranked
    def rank(self, pool, rng):
        self.seen = pool
        yield from rng.permutation(len(pool)).tolist()

@broken("selector", "leaves-no-trace")
@dataclass
class Annealing:  # changes its own parameter
    needs: ClassVar[tuple[str, ...]] = ()
    rate: float = 1.0
    def rank(self, pool, rng):
        self.rate *= 0.5
        yield from rng.permutation(len(pool)).tolist()

@broken("selector", "leaves-no-trace")
class InPlace(SoundOnVectors):  # scales the vectors where they lie, by way of the array that they are a view of
    def rank(self, pool, rng):
        yield from super().rank(pool, rng)
        pool.embeddings.base[...] *= 2

@broken("selector", "leaves-no-trace")
class Unlocking(SoundOnVectors):  # makes the vectors writeable
    def rank(self, pool, rng):
        yield from super().rank(pool, rng)
        pool.embeddings.flags.writeable = True

@broken("selector", "reads-what-it-says")
class Undeclared(SoundOnVectors):  # reads vectors and does not say so
    needs = ()

@broken("selector", "reads-what-it-says")
class Misread(Sound):  # reads answers and does not say so
    reads = ("texts",)
    def rank(self, pool, rng):
        order = rng.permutation(len(pool)).tolist()
        yield from sorted(order, key=lambda i: pool.answers[i] is None)

@broken("selector", "abilities")
class Insisting(Sound):  # takes the best outcome again
    def pick_after(self, pool, outcomes, rng):
        return max(outcomes, key=lambda outcome: outcome.value or 0).index if outcomes else 0

@broken("selector", "abilities")
class Wavering(Sound):  # picks by a seed of its own after an outcome
    def pick_after(self, pool, outcomes, rng):
        return int(np.random.default_rng().choice(np.arange(len(outcomes), len(pool))))

@broken("selector", "abilities")
class Drifting(Sound):  # goes on from what was verified by a seed of its own
    def rank_after(self, pool, verified, rng):
        yield from np.random.default_rng().permutation(np.setdiff1d(np.arange(len(pool)), verified)).tolist()

@broken("selector", "abilities")
class Reoffering(Sound):  # offers again what is verified
    def rank_after(self, pool, verified, rng): yield from rng.permutation(len(pool)).tolist()

# Pools out of the ordinary, and large ones

@broken("selector", "unusual-pools")
class TwoAtLeast(SoundOnVectors):  # divides by n - 1
    def key(self, h): return super().key(h) / (len(h) - 1)

@broken("selector", "unusual-pools")
class Cosine(SoundOnVectors):  # divides each vector by its length
    def key(self, h):
        h = np.asarray(h, np.float64)
        length = np.sqrt((h**2).sum(axis=1, keepdims=True))
        return (h / (length if len(h) > 1 else 1)).sum(axis=1)

@broken("selector", "unusual-pools")
class ByValue(SoundOnVectors):  # finds a pick's index by its vector, and of copies always the first
    def rank(self, pool, rng):
        first = {row.tobytes(): i for i, row in reversed(list(enumerate(pool.embeddings)))}
        yield from (first[pool.embeddings[i].tobytes()] for i in super().rank(pool, rng))

@broken("selector", "unusual-pools")
class Single(SoundOnVectors):  # loses every other vector where they are not float32
    def rank(self, pool, rng):
        yield from (i for i in super().rank(pool, rng) if pool.embeddings.dtype != np.float64 or i % 2)

@broken("selector", "unusual-pools")
class Absolute(SoundOnVectors):  # ends where vectors are shorter than a tolerance
    def rank(self, pool, rng):
        key = self.key(pool.embeddings)
        yield from (i for i in super().rank(pool, rng) if not 0 < key[i] < 1e-8)

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
