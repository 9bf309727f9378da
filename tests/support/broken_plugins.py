"""Broken plugins, each with one mistake that people make: what the conformance kit must catch.

A class names in `CAUGHT_BY` the checks that must fail; all others must pass or not apply.
"""

from __future__ import annotations

import random
import sys
import time
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from harness import HarnessError, Responses, Sampler, correct, error, hookimpl, wrong
from support.toy import Colours, Letters, Parrot, Rule

SELECTORS, TASKS, SAMPLERS, EMBEDDERS, ENGINES = [], [], [], [], []
BY_KIND = {
    "selector": SELECTORS,
    "task": TASKS,
    "sampler": SAMPLERS,
    "embedder": EMBEDDERS,
    "engine": ENGINES,
}


def broken(kind, *caught_by):
    """Keep the class among the broken ones of a kind."""

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


# Selectors: the form of the answer


@broken("selector", "contract")
class Nameless:
    """Calls its method otherwise."""

    def order(self, pool, rng):
        return rng.permutation(len(pool))


@broken("selector", "contract")
class Greedy(Sound):
    """Needs what no pool has."""

    needs = ("verdicts",)


@broken("selector", "contract")
class OffByOne(Sound):
    """Raises at the last pick."""

    def rank(self, pool, rng):
        order = rng.permutation(len(pool))
        yield from (int(order[i + 1]) for i in range(len(pool)))


@broken("selector", "valid-indices")
class OneBased(Sound):
    """Counts from 1."""

    def rank(self, pool, rng):
        yield from (rng.permutation(len(pool)) + 1).tolist()


@broken("selector", "valid-indices")
class FromTheEnd(Sound):
    """Counts from the end."""

    def rank(self, pool, rng):
        yield from (rng.permutation(len(pool)) - len(pool)).tolist()


@broken("selector", "valid-indices")
class Floats(Sound):
    """Yields floats."""

    def rank(self, pool, rng):
        yield from rng.permutation(len(pool)).astype(float)


@broken("selector", "distinct-indices")
class WithReplacement(Sound):
    """Draws with replacement."""

    def rank(self, pool, rng):
        yield from rng.integers(len(pool), size=len(pool)).tolist()


@broken("selector", "complete")
class AllButOne(Sound):
    """Forgets the last one."""

    def rank(self, pool, rng):
        yield from rng.permutation(len(pool)).tolist()[:-1]


@broken("selector", "complete")
class OneMore:
    """Selects k + 1 where it can."""

    needs = ()

    def select(self, pool, k, rng):
        return rng.permutation(len(pool))[: k + 1]


@broken("selector", "valid-indices", "distinct-indices")
class Mask(Sound):
    """Yields a mask of the pool where indices are wanted."""

    def rank(self, pool, rng):
        yield from (rng.permutation(len(pool)) < len(pool) // 2).tolist()


# Selectors: randomness and state


@broken("selector", "same-rng-same-order")
class Entropy(Sound):
    """Seeds itself."""

    def rank(self, pool, rng):
        yield from np.random.default_rng().permutation(len(pool)).tolist()


@broken("selector", "own-rng-only")
class Borrowed(Sound):
    """Takes its seed from the process's generator, which it leaves alone."""

    def rank(self, pool, rng):
        yield from np.random.default_rng(random.getstate()[1][5]).permutation(len(pool)).tolist()


@broken("selector", "global-rngs-untouched")
class Reseeding(Sound):
    """Seeds numpy's global generator from its rng, and draws from that."""

    def rank(self, pool, rng):
        np.random.seed(int(rng.integers(2**31)))
        yield from np.random.permutation(len(pool)).tolist()


@broken("selector", "prefix-consistent")
class Resuming(Sound):
    """Goes on with a ranking that was left."""

    left: ClassVar[dict] = {}

    def rank(self, pool, rng):
        key = (len(pool), rng.bit_generator.state["state"]["state"])
        going = self.left.setdefault(key, iter(rng.permutation(len(pool)).tolist()))
        yield from going
        self.left.pop(key, None)


@broken("selector", "independent-rankings")
class OneScratch(Sound):
    """Keeps what is left on the selector, for all rankings under way."""

    scratch: ClassVar[list] = []

    def rank(self, pool, rng):
        self.scratch[:] = rng.permutation(len(pool)).tolist()
        for _ in range(len(pool)):
            yield self.scratch.pop() if self.scratch else 0


@broken("selector", "independent-rankings")
class Counting:
    """A subset method whose draws depend on the pool it saw before."""

    needs = ()
    last = 24

    def select(self, pool, k, rng):
        before, type(self).last = self.last, len(pool)
        order = rng.permutation(len(pool))
        return order[-k:] if before == 13 else order[:k]


@broken("selector", "permutation-equivariant")
class AsTheyCome(Sound):
    """Leaves the pool in its order."""

    def rank(self, pool, rng):
        yield from range(len(pool))


@broken("selector", "permutation-equivariant")
class FirstIsZero(SoundOnVectors):
    """Begins with row 0 and takes the farthest from it."""

    def key(self, h):
        return super().key(np.asarray(h, np.float64) - h[0]) * -1


@broken("selector", "permutation-equivariant")
class FrontHalf(Sound):
    """Draws its first pick from the front half."""

    def rank(self, pool, rng):
        first = int(rng.integers((len(pool) + 1) // 2))
        yield first
        yield from (i for i in rng.permutation(len(pool)).tolist() if i != first)


@broken("selector", "permutation-equivariant")
class FrontThenFar(SoundOnVectors):
    """Draws its first pick from the front half, and goes on soundly."""

    def rank(self, pool, rng):
        first = int(rng.integers((len(pool) + 1) // 2))
        order = list(super().rank(pool, rng))
        yield from (first, *(i for i in order if i != first))


# Selectors: what it sees and keeps


@broken("selector", "label-blind")
class Peeking(Sound):
    """Looks for the verdicts in its callers' frames."""

    def rank(self, pool, rng):
        order = rng.permutation(len(pool)).tolist()
        frame = sys._getframe()
        while frame and "is_correct" not in frame.f_locals:
            frame = frame.f_back
        yield from sorted(order, key=lambda i: not frame.f_locals["is_correct"][i]) if frame else order


@broken("selector", "keeps-no-pool")
class Hoarding(Sound):
    """Remembers what it ranked."""

    def rank(self, pool, rng):
        self.seen = pool
        yield from rng.permutation(len(pool)).tolist()


@broken("selector", "keeps-no-pool")
@dataclass
class Annealing:
    """Changes its own parameter."""

    needs: ClassVar[tuple[str, ...]] = ()
    rate: float = 1.0

    def rank(self, pool, rng):
        self.rate *= 0.5
        yield from rng.permutation(len(pool)).tolist()


@broken("selector", "inputs-unchanged")
class InPlace(SoundOnVectors):
    """Scales the vectors where they lie, by way of the array that they are a view of."""

    def rank(self, pool, rng):
        yield from super().rank(pool, rng)
        pool.embeddings.base[...] *= 2


@broken("selector", "inputs-stay-read-only")
class Unlocking(SoundOnVectors):
    """Makes the vectors writeable."""

    def rank(self, pool, rng):
        yield from super().rank(pool, rng)
        pool.embeddings.flags.writeable = True


@broken("selector", "needs-what-it-says")
class Undeclared(SoundOnVectors):
    """Reads vectors and does not say so."""

    needs = ()


@broken("selector", "reads-what-it-says")
class Misread(Sound):
    """Reads answers and does not say so."""

    reads = ("texts",)

    def rank(self, pool, rng):
        order = rng.permutation(len(pool)).tolist()
        yield from sorted(order, key=lambda i: pool.answers[i] is None)


@broken("selector", "many-as-one-by-one")
class OneStreamForAll(Sound):
    """Ranks many pools at once, all of them by the first trial's rng."""

    many = 4

    def rank_many(self, pools, rngs):
        return [[self.rank(pool, trials[0]) for _ in trials] for pool, trials in zip(pools, rngs, strict=True)]


@broken("selector", "rest-after-verified")
class Reoffering(Sound):
    """Offers again what is verified."""

    def rank_after(self, pool, verified, rng):
        yield from rng.permutation(len(pool)).tolist()


# Selectors: pools out of the ordinary


@broken("selector", "one-response")
class TwoAtLeast(SoundOnVectors):
    """Divides by n - 1."""

    def key(self, h):
        return super().key(h) / (len(h) - 1)


@broken("selector", "whole-pool", "one-response", "identical-rows", "duplicates", "zero-rows", "precisions", "scale")
class NeverAll:
    """A subset method that asks its library for fewer than n."""

    needs = ()

    def select(self, pool, k, rng):
        if k == len(pool):
            raise ValueError("n_clusters must be below n_samples")
        return rng.permutation(len(pool))[:k]


@broken("selector", "identical-rows")
class Standardised(SoundOnVectors):
    """Divides by the pool's spread."""

    def key(self, h):
        h = np.asarray(h, np.float64)
        spread = np.sqrt(((h - h.mean(axis=0)) ** 2).sum(axis=1).mean())
        return super().key((h - h.mean(axis=0)) / (spread if len(h) > 1 else 1))


@broken("selector", "zero-rows", "identical-rows")
class Cosine(SoundOnVectors):
    """Divides each vector by its length."""

    def key(self, h):
        h = np.asarray(h, np.float64)
        length = np.sqrt((h**2).sum(axis=1, keepdims=True))
        return (h / (length if len(h) > 1 else 1)).sum(axis=1)


@broken("selector", "duplicates", "identical-rows")
class ByVector(SoundOnVectors):
    """Keeps responses in a dictionary by their vector, and loses copies."""

    def rank(self, pool, rng):
        last = {row.tobytes(): i for i, row in enumerate(pool.embeddings)}
        yield from (i for i in super().rank(pool, rng) if last[pool.embeddings[i].tobytes()] == i)


@broken("selector", "duplicates", "identical-rows")
class ByValue(SoundOnVectors):
    """Finds a pick's index by its vector, and of copies always the first."""

    def rank(self, pool, rng):
        first = {row.tobytes(): i for i, row in reversed(list(enumerate(pool.embeddings)))}
        yield from (first[pool.embeddings[i].tobytes()] for i in super().rank(pool, rng))


@broken("selector", "contract")
class Quitting(Sound):
    """Ends the process."""

    def rank(self, pool, rng):
        yield 0
        raise SystemExit(0)


@broken("selector", "precisions")
class Bits(SoundOnVectors):
    """Reads the vectors' bits as those of float32."""

    def key(self, h):
        return np.ascontiguousarray(h).view(np.uint32).reshape(len(h), -1).astype(float)[: len(h), :8].sum(axis=1)

    def rank(self, pool, rng):
        h = pool.embeddings
        if not np.isfinite(h).all():
            raise HarnessError("bits: a vector is not finite")
        key = self.key(h)
        yield from (int(i) for i in np.argsort(key, kind="stable") if h.dtype != np.float64 or i % 2)


@broken("selector", "scale")
class Absolute(SoundOnVectors):
    """Ends where vectors are shorter than a tolerance."""

    def rank(self, pool, rng):
        key = self.key(pool.embeddings)
        yield from (i for i in super().rank(pool, rng) if not 0 < key[i] < 1e-8)


# Selectors: cost and workers


@broken("selector", "time-budget")
class Sleepy(Sound):
    """Takes 3 ms a pick in large pools."""

    def rank(self, pool, rng):
        for pick in rng.permutation(len(pool)).tolist():
            time.sleep(0.003 if len(pool) > 100 else 0)
            yield pick


@broken("selector", "memory-budget")
class AllPairs(SoundOnVectors):
    """Makes an array of (n, n, d)."""

    def key(self, h):
        h = np.asarray(h, np.float64)
        return ((h[:, None] - h[None]) ** 2).sum(axis=(1, 2))


@broken("selector", "memory-budget")
class Leaking(Sound):
    """Keeps a matrix of each large pool for ever."""

    kept: ClassVar[list] = []

    def rank(self, pool, rng):
        if len(pool) > 100:
            self.kept.append(np.ones((10 * len(pool), len(pool))))
        yield from rng.permutation(len(pool)).tolist()


@broken("selector", "parameters-round-trip")
class Unrecorded(Sound):
    """Has a parameter that no result records."""

    def __init__(self, power: float = 2.0):
        self.power = power


@broken("selector", "parameters-round-trip")
class Swallowing(Sound):
    """Takes any parameter and says nothing."""

    def __init__(self, **options):
        pass


@broken("selector", "parameters-round-trip")
@dataclass(frozen=True)
class Untyped(Sound):
    """A parameter comes back as text."""

    rate: str = 0.5


@broken("selector", "picklable")
class Closure(Sound):
    """Holds a lambda."""

    def __init__(self):
        self.key = lambda index: index


@broken("selector", "same-in-another-process")
class Hashed(Sound):
    """Orders by the hash of the text."""

    def rank(self, pool, rng):
        yield from sorted(range(len(pool)), key=lambda i: hash(pool.texts[i]))


# Tasks


class Lamps(Colours):
    """The toy task, four problems of it, soundly: it says nothing but correct and wrong."""

    def problems(self, split):
        return list(super().problems("test"))

    def answer(self, problem, response):
        return response.split()[-1] if response.strip() else None


@broken("task", "unique-ids")
class SameId(Lamps):
    """Numbers within groups."""

    def problems(self, split):
        return [replace(problem, id=problem.id[:-1]) for problem in super().problems(split)]


@broken("task", "same-problems-again")
class Shuffled(Lamps):
    """Shuffles when it reads."""

    turn: ClassVar[list[int]] = [0]

    def problems(self, split):
        self.turn[0] += 1
        found = super().problems(split)
        return found[self.turn[0] % 6 :] + found[: self.turn[0] % 6]


@broken("task", "contract")
class NoGrader(Lamps):
    """Counts its grader's version as a number."""

    grader = 1


@broken("task", "contract")
class Unjudged(Lamps):
    """Measures responses, and cannot judge the measurements."""

    def measurer(self):
        return Rule()


@broken("task", "chat-messages")
class Bare(Lamps):
    """Gives the prompt and no chat."""

    def messages(self, problem):
        return problem.prompt

    def plain(self, problem):
        return problem.prompt


@broken("task", "plain-text")
class Blank(Lamps):
    """Has nothing to say to base models."""

    def plain(self, problem):
        return ""


@broken("task", "hostile-responses")
class Fragile(Lamps):
    """Raises for a response that is long."""

    def verify(self, problem, response):
        if len(response) > 50_000:
            raise RecursionError("too deep")
        return super().verify(problem, response)


@broken("task", "hostile-responses")
class Excusing(Lamps):
    """Calls a response that it cannot encode an error of its own."""

    def verify(self, problem, response):
        try:
            response.encode()
        except UnicodeEncodeError as failure:
            return error(str(failure))
        return super().verify(problem, response)


@broken("task", "hostile-responses", "reference-is-correct")
class Lenient(Lamps):
    """Finds everything correct."""

    def verify(self, problem, response):
        return correct()


@broken("task", "pure-verdicts")
class Moody(Lamps):
    """Takes an answer once."""

    taken: ClassVar[set] = set()

    def verify(self, problem, response):
        first = (problem.id, response) not in self.taken
        self.taken.add((problem.id, response))
        return wrong() if not first and response == f" {problem.reference}\n" else super().verify(problem, response)


@broken("task", "pure-verdicts")
class Batched(Lamps):
    """Grades a batch in another order."""

    def verify_all(self, problem, responses):
        return super().verify_all(problem, responses)[::-1]


@broken("task", "pure-verdicts")
class Scribbling(Lamps):
    """Notes on the problem what it graded."""

    def verify(self, problem, response):
        problem.meta["graded"] = problem.meta.get("graded", 0) + 1
        return super().verify(problem, response)


@broken("task", "answers-are-text")
class Numbers(Lamps):
    """Gives answers that are no text."""

    def answer(self, problem, response):
        return len(response)

    def verify(self, problem, response):
        return correct() if problem.reference in response.split() else wrong()


@broken("task", "equal-keys-equal-verdicts")
class OneKey(Lamps):
    """Keys verdicts by too little."""

    def verdict_key(self, problem, response, answer):
        return str(len(response) > 1000)


@broken("task", "reference-is-correct")
class ByHeart(Lamps):
    """Knows the first problem's answer only."""

    def verify(self, problem, response):
        return correct() if self.answer(problem, response) == "red" else wrong()


# Samplers


@broken("sampler", "contract")
@dataclass(frozen=True)
class Cold:
    """Has a temperature and nothing else."""

    steers: ClassVar[bool] = False
    temperature: float = 0.5


@broken("sampler", "out-of-range-refused")
@dataclass(frozen=True)
class Careless(Sampler):
    """Checks nothing."""

    def __post_init__(self):
        pass


@broken("sampler", "within-ranges", "out-of-range-refused")
@dataclass(frozen=True)
class Percent(Careless):
    """Has its top_p in percent."""

    top_p: float = 90.0


@broken("sampler", "out-of-range-refused")
@dataclass(frozen=True)
class Unbounded(Sampler):
    """Checks all but top_k."""

    def __post_init__(self):
        Sampler(self.temperature, self.top_p, self.min_p)


@broken("sampler", "out-of-range-refused")
@dataclass(frozen=True)
class Endless(Sampler):
    """Takes an infinite temperature."""

    def __post_init__(self):
        Sampler(min(self.temperature, 100.0), self.top_p, self.min_p, self.top_k)


@broken("sampler", "fixed")
@dataclass
class Loose:
    """Can be changed after it is built."""

    steers: ClassVar[bool] = False
    temperature: float = 1.0
    top_p: float = 1.0
    min_p: float = 0.0
    top_k: int = 0

    def __post_init__(self):
        Sampler(self.temperature, self.top_p, self.min_p, self.top_k)


# Embedders


@broken("embedder", "contract")
class Stateful(Letters):
    """Takes a state that no engine gives."""

    state = "first"


@broken("embedder", "one-row-a-text")
class Distinct(Letters):
    """Returns a row for each distinct text."""

    def embed(self, problem, texts):
        return super().embed(problem, list(dict.fromkeys(texts)))


@broken("embedder", "finite")
class Normed(Letters):
    """Divides by the length of a vector, also where it is 0."""

    def embed(self, problem, texts):
        found = super().embed(problem, texts)
        with np.errstate(all="ignore"):
            return found / np.linalg.norm(found, axis=1, keepdims=True)


@broken("embedder", "repeatable")
class Noisy(Letters):
    """Adds noise."""

    def embed(self, problem, texts):
        return super().embed(problem, texts) + np.random.default_rng().normal(size=(len(texts), 8))


@broken("embedder", "same-text-same-vector", "order-equivariant")
class Placed(Letters):
    """Adds each text's place."""

    def embed(self, problem, texts):
        return super().embed(problem, texts) + np.arange(len(texts))[:, None]


@broken("embedder", "empty-texts", "any-text")
class Wordy(Letters):
    """Takes the first word of each text."""

    def embed(self, problem, texts):
        return np.array([[float(len(text.split()[0])), 1] for text in texts])


@broken("embedder", "empty-texts")
class Vocabulary(Letters):
    """Needs one word in one of the texts, as scikit-learn's vectorizers do."""

    def embed(self, problem, texts):
        if not any(texts):
            raise ValueError("empty vocabulary")
        return super().embed(problem, texts)


@broken("embedder", "any-text")
class Encoding(Letters):
    """Encodes as UTF-8, strictly."""

    def embed(self, problem, texts):
        return np.array([[len(text.encode()), 1.0] for text in texts])


@broken("embedder", "one-text")
class Centring(Letters):
    """Divides by n - 1."""

    def embed(self, problem, texts):
        return super().embed(problem, texts) / (len(texts) - 1 or np.nan)


@broken("embedder", "global-rngs-untouched")
class Projecting(Letters):
    """Draws a projection from numpy's global generator, seeded."""

    def embed(self, problem, texts):
        np.random.seed(0)
        return super().embed(problem, texts) @ np.random.normal(size=(8, 4))


@broken("embedder", "same-in-another-process")
class Hashing(Letters):
    """Hashes words with Python's hash()."""

    def embed(self, problem, texts):
        rows = np.zeros((len(texts), 64))
        for row, text in zip(rows, texts, strict=True):
            for word in text.split():
                row[hash(word) % 64] += 1
        return rows


@broken("embedder", "parameters-round-trip")
class Unsaid(Letters):
    """Has a parameter that no result records."""

    def __init__(self, power: float = 2.0):
        pass


@broken("embedder", "picklable")
class Loaded(Letters):
    """Holds an open generator, as a loaded model may."""

    def __init__(self):
        object.__setattr__(self, "stream", (n for n in range(3)))


# Engines


class SoundEngine(Parrot):
    """The toy engine, soundly: `encode` knows its rows again by their log-probability."""

    def check(self, prompts, max_tokens):
        if max_tokens > 1000:
            raise HarnessError("toy: a parrot forgets after 1,000 tokens")

    def sample(self, request):
        if request.sampler.steers:
            raise HarnessError("toy: a parrot is not steered")
        drawn = super().sample(replace(request, done=lambda j, responses: None))
        drawn = [
            replace(
                one,
                lengths=np.ones(len(one), np.int64),
                logprobs=-np.arange(len(one)) / 8.0,
                token_ids=[ids[:1] for ids in one.token_ids],
            )
            for one in drawn
        ]
        return [replace(one, states={"mean": self._pooled(one)} if request.states else {}) for one in drawn]

    def encode(self, prompt, responses, states, report=lambda rows: None):
        return {"mean": self._pooled(responses)}

    def _pooled(self, responses: Responses):
        return np.eye(8, dtype=np.float32)[[ids[0] for ids in responses.token_ids]]


@broken("engine", "contract")
class Unnamed(SoundEngine):
    """Says what it is in something that JSON has no word for."""

    def identity(self):
        return {"engine": {"toy"}}


@broken("engine", "honest-columns")
class Bright(SoundEngine):
    """Gives probabilities for their logarithms."""

    def sample(self, request):
        return [replace(one, logprobs=np.exp(one.logprobs)) for one in super().sample(request)]


@broken("engine", "same-seeds-same-responses")
class Seedless(SoundEngine):
    """Ignores the seeds."""

    turn: ClassVar[list[int]] = [0]

    def sample(self, request):
        self.turn[0] += 1
        return super().sample(replace(request, seeds=[self.turn[0]] * len(request.seeds)))


@broken("engine", "rows-of-their-own")
class OneStream(SoundEngine):
    """Draws all rows of a call from one stream."""

    def sample(self, request):
        base = 1000 * sum(request.seeds) + 10 * request.n
        return super().sample(replace(request, seeds=[base + j for j in range(len(request.seeds))]))


@broken("engine", "rows-differ")
class Monotonous(SoundEngine):
    """Gives every row the first row's words."""

    def sample(self, request):
        drawn = super().sample(request)
        first = [(one.texts[0], one.token_ids[0]) for one in drawn]
        return [
            replace(
                one, texts=[text] * len(one), token_ids=[ids] * len(one), logprobs=np.full(len(one), -1.0), states=s
            )
            for one, (text, ids) in zip(drawn, first, strict=True)
            for s in [{"mean": np.eye(8, dtype=np.float32)[[ids[0]] * len(one)]} if request.states else {}]
        ]


@broken("engine", "rows-differ")
class OneSeed(SoundEngine):
    """Draws the same rows for every problem."""

    def sample(self, request):
        return super().sample(replace(request, seeds=[0] * len(request.seeds)))


@broken("engine", "state-shapes")
class Disturbed(SoundEngine):
    """Draws other rows when states are asked for."""

    def sample(self, request):
        return super().sample(replace(request, seeds=[seed + bool(request.states) for seed in request.seeds]))


@broken("engine", "state-shapes")
class Double(SoundEngine):
    """Gives float64 states."""

    def _pooled(self, responses):
        return super()._pooled(responses).astype(np.float64)


@broken("engine", "encode-equals-sample")
class Forgetful(SoundEngine):
    """Encodes without the end-of-sequence token."""

    def encode(self, prompt, responses, states, report=lambda rows: None):
        return {"mean": self._pooled(responses) * 0.9}


@broken("engine", "too-long-refused")
class Boundless(SoundEngine):
    """Takes any length."""

    def check(self, prompts, max_tokens):
        pass


@broken("engine", "steering-refused")
class Obliging(SoundEngine):
    """Takes a sampler that steers, and draws as ever."""

    def sample(self, request):
        return super().sample(replace(request, sampler=Sampler()))


@broken("engine", "progress-reported")
class Silent(SoundEngine):
    """Reports no progress."""

    def sample(self, request):
        return super().sample(replace(request, report=lambda rows: None))


@broken("engine", "finished-prompts-told")
class Hasty(SoundEngine):
    """Says that the first two responses were all."""

    def sample(self, request):
        drawn = super().sample(replace(request, done=lambda j, responses: None))
        for j, responses in enumerate(drawn):
            request.done(j, responses.first(2))
        return drawn


@broken("engine", "global-rngs-untouched")
class Restless(SoundEngine):
    """Seeds Python's global generator."""

    def sample(self, request):
        random.seed(1)
        return super().sample(request)


@hookimpl
def register_selectors(register):
    register("sound", Sound)
    for factory in SELECTORS:
        register(factory.__name__.lower(), factory)


@hookimpl
def register_tasks(register):
    register("lamps", Lamps)
