"""Selectors with one mistake each: of form, of randomness, of state, and of what they read and keep."""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from support.broken import Sound, SoundOnVectors, broken

# Selectors: the form of the answer

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

@broken("selector", "complete")
class OneBased(Sound):  # counts from 1
    def rank(self, pool, rng): yield from (rng.permutation(len(pool)) + 1).tolist()

@broken("selector", "complete")
class FromTheEnd(Sound):  # counts from the end
    def rank(self, pool, rng): yield from (rng.permutation(len(pool)) - len(pool)).tolist()

@broken("selector", "complete")
class Floats(Sound):  # yields floats
    def rank(self, pool, rng): yield from rng.permutation(len(pool)).astype(float)

@broken("selector", "complete")
class WithReplacement(Sound):  # draws with replacement
    def rank(self, pool, rng): yield from rng.integers(len(pool), size=len(pool)).tolist()

@broken("selector", "complete")
class AllButOne(Sound):  # forgets the last one
    def rank(self, pool, rng): yield from rng.permutation(len(pool)).tolist()[:-1]

@broken("selector", "complete")
class OneMore:  # selects k + 1 where it can
    needs = ()
    def select(self, pool, k, rng): return rng.permutation(len(pool))[: k + 1]

@broken("selector", "complete")
class Mask(Sound):  # yields a mask of the pool where indices are wanted
    def rank(self, pool, rng): yield from (rng.permutation(len(pool)) < len(pool) // 2).tolist()

# Selectors: randomness and state

@broken("selector", "same-rng-same-order")
class Entropy(Sound):  # seeds itself
    def rank(self, pool, rng): yield from np.random.default_rng().permutation(len(pool)).tolist()

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
class Resuming(Sound):  # goes on with a ranking that was left
    left: ClassVar[dict] = {}
    def rank(self, pool, rng):
        key = (len(pool), rng.bit_generator.state["state"]["state"])
        going = self.left.setdefault(key, iter(rng.permutation(len(pool)).tolist()))
        yield from going
        self.left.pop(key, None)

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
class FirstIsZero(SoundOnVectors):  # begins with row 0 and takes the farthest from it
    def key(self, h): return super().key(np.asarray(h, np.float64) - h[0]) * -1

@broken("selector", "permutation-equivariant")
class FrontHalf(Sound):  # draws its first pick from the front half
    def rank(self, pool, rng):
        first = int(rng.integers((len(pool) + 1) // 2))
        yield first
        yield from (i for i in rng.permutation(len(pool)).tolist() if i != first)

@broken("selector", "permutation-equivariant")
class FrontThenFar(SoundOnVectors):  # draws its first pick from the front half, and goes on soundly
    def rank(self, pool, rng):
        first = int(rng.integers((len(pool) + 1) // 2))
        order = list(super().rank(pool, rng))
        yield from (first, *(i for i in order if i != first))

# Selectors: what it sees and keeps

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
class UndeclaredScore(Sound):  # reads a score and does not say so
    def rank(self, pool, rng): yield from np.argsort(-pool.scores["score"], kind="stable").tolist()

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
