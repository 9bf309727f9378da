"""Embedders and engines with one mistake each."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import ClassVar

import numpy as np

from harness import HarnessError, Responses, Sampler
from support.broken import broken
from support.toy import Letters, Parrot

# Embedders

# fmt: off

@broken("embedder", "contract")
class Stateful(Letters):  # takes a state that no engine gives
    state = "first"

@broken("embedder", "contract")
class Normed(Letters):  # divides by the length of a vector, also where it is 0
    def embed(self, problem, texts):
        vectors = super().embed(problem, texts)
        with np.errstate(all="ignore"):
            return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

@broken("embedder", "contract")
class Noisy(Letters):  # adds noise
    def embed(self, problem, texts):
        return super().embed(problem, texts) + np.random.default_rng().normal(size=(len(texts), 8))

@broken("embedder", "same-text-same-vector")
class Placed(Letters):  # adds each text's place
    def embed(self, problem, texts): return super().embed(problem, texts) + np.arange(len(texts))[:, None]

@broken("embedder", "unusual-texts")
class Vocabulary(Letters):  # needs one word in one of the texts, as scikit-learn's vectorizers do
    def embed(self, problem, texts):
        if not any(texts):
            raise ValueError("empty vocabulary")
        return super().embed(problem, texts)

@broken("embedder", "unusual-texts")
class Centring(Letters):  # divides by n - 1
    def embed(self, problem, texts): return super().embed(problem, texts) / (len(texts) - 1 or np.nan)

@broken("embedder", "global-rngs-untouched")
class Projecting(Letters):  # draws a projection from numpy's global generator, seeded
    def embed(self, problem, texts):
        np.random.seed(0)
        return super().embed(problem, texts) @ np.random.normal(size=(8, 4))

@broken("embedder", "same-in-another-process")
class Hashing(Letters):  # hashes words with Python's hash()
    def embed(self, problem, texts):
        rows = np.zeros((len(texts), 64))
        for row, text in zip(rows, texts, strict=True):
            for word in text.split():
                row[hash(word) % 64] += 1
        return rows

# Engines

class SoundEngine(Parrot):  # the toy engine, soundly: `encode` knows its rows again by their log-probability
    def check(self, prompts, max_tokens):
        if max_tokens > 1000:
            raise HarnessError("toy: a parrot forgets after 1,000 tokens")
    def sample(self, request):
        if request.sampler.steers:
            raise HarnessError("toy: a parrot is not steered")
        sampled = super().sample(replace(request, done=lambda j, responses: None))
        sampled = [
            replace(
                made,
                lengths=np.ones(len(made), np.int64),
                logprobs=-np.arange(len(made)) / 8.0,
                token_ids=[ids[:1] for ids in made.token_ids],
            )
            for made in sampled
        ]
        return [replace(made, states={"mean": self._pooled(made)} if request.states else {}) for made in sampled]
    def encode(self, prompt, responses, states, report=lambda rows: None): return {"mean": self._pooled(responses)}
    def _pooled(self, responses: Responses):
        return np.eye(8, dtype=np.float32)[[ids[0] for ids in responses.token_ids]]

@broken("engine", "contract")
class Unnamed(SoundEngine):  # says what it is in something that JSON has no word for
    def identity(self): return {"engine": {"toy"}}

@broken("engine", "honest-columns")
class Bright(SoundEngine):  # gives probabilities for their logarithms
    def sample(self, request):
        return [replace(made, logprobs=np.exp(made.logprobs)) for made in super().sample(request)]

@broken("engine", "rows-of-their-own")
class Seedless(SoundEngine):  # ignores the seeds
    turn: ClassVar[list[int]] = [0]
    def sample(self, request):
        self.turn[0] += 1
        return super().sample(replace(request, seeds=[self.turn[0]] * len(request.seeds)))

@broken("engine", "rows-of-their-own")
class OneStream(SoundEngine):  # draws all rows of a call from one stream
    def sample(self, request):
        base = 1000 * sum(request.seeds) + 10 * request.n
        return super().sample(replace(request, seeds=[base + j for j in range(len(request.seeds))]))

@broken("engine", "hidden-states")
class Disturbed(SoundEngine):  # draws other rows when states are asked for
    def sample(self, request):
        return super().sample(replace(request, seeds=[seed + bool(request.states) for seed in request.seeds]))

@broken("engine", "hidden-states")
class Forgetful(SoundEngine):  # encodes without the end-of-sequence token
    def encode(self, prompt, responses, states, report=lambda rows: None):
        return {"mean": self._pooled(responses) * 0.9}

@broken("engine", "refuses-what-it-cannot")
class Boundless(SoundEngine):  # takes any length
    def check(self, prompts, max_tokens): pass

@broken("engine", "refuses-what-it-cannot")
class Obliging(SoundEngine):  # takes a sampler that steers, and samples as ever
    def sample(self, request): return super().sample(replace(request, sampler=Sampler()))

@broken("engine", "progress-reported")
class Silent(SoundEngine):  # reports no progress
    def sample(self, request): return super().sample(replace(request, report=lambda rows: None))

@broken("engine", "progress-reported")
class Hasty(SoundEngine):  # says that the first two responses were all
    def sample(self, request):
        sampled = super().sample(replace(request, done=lambda j, responses: None))
        for j, responses in enumerate(sampled):
            request.done(j, responses.first(2))
        return sampled

@broken("engine", "global-rngs-untouched")
class Restless(SoundEngine):  # seeds Python's global generator
    def sample(self, request):
        random.seed(1)
        return super().sample(request)
