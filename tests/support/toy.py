"""A toy task, engine, embedder and selectors without torch: they drive the whole pipeline in well under a second."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from harness import HarnessError, Problem, Responses, Task, contracts, correct, error, hookimpl, wrong

WORDS = ("red", "green", "blue", "white", "black", "grey", "pink", "brown")


class Colours(Task):
    """Problem i is solved by saying the i-th colour; `broken` in a prompt makes the verifier raise."""

    n = 16
    max_tokens = 8
    splits = ("test", "broken")

    def __init__(self, data=None):
        self.size = int(data or 6)

    def problems(self, split):
        for i in range(self.size):
            yield Problem(f"{split}/{i}", f"Say colour {i} ({split}).", reference=WORDS[i % 7])

    def verify(self, problem, response):
        if "broken" in problem.prompt and response.endswith("grey"):
            raise RuntimeError("the verifier is out of order")
        if "broken" in problem.prompt and response.endswith("pink"):
            return error("no answer from the lab")
        return correct() if self.answer(problem, response) == problem.reference else wrong("colour")

    def answer(self, problem, response):
        return response.split()[-1] if response else None


class Keyed(Colours):
    """Colours whose verdict depends on the answer alone; `graded` holds what was. Its second grader is strict."""

    graded: ClassVar[list[tuple[str, str]]] = []

    def check(self, unsafe_exec=False):
        if self.size == 13 and not unsafe_exec:
            raise HarnessError("keyed: nothing here confines 13 colours (--unsafe-exec to go on)")
        return f"keyed: grading in room {'0' if unsafe_exec else '1'}"

    def conditions(self):
        return {"room": "1"}

    def verify(self, problem, response):
        self.graded.append((problem.id, response))
        if response.endswith("grey"):
            return error("the lamp is broken")
        if response.endswith("white"):
            return wrong("checker timeout", route="slow")
        return replace(super().verify(problem, response), route="by word")

    def verdict_key(self, problem, response, answer, *, finish):
        return answer

    def audit(self, problem, response):
        return wrong("must be red") if "red" not in response else super().verify(problem, response)

    def plain(self, problem):
        return f"{problem.prompt} I say"


class Rule:
    """Measures how long a response is."""

    def identity(self):
        return {"measurer": "rule", "version": 1}

    def measure(self, texts):
        return [{"letters": float(len(text))} for text in texts]


class Measured(contracts.Measured, Colours):
    """Colours judged by a figure that is kept: short ones are correct."""

    def measurer(self):
        return Rule()

    def judge(self, problem, response, measurements):
        return correct() if measurements["letters"] < 8 else wrong("long")


@dataclass
class Parrot:
    """Says `say word`; row i of a problem depends on (seed, i) alone. `delay_s` a problem, `width` of a vector."""

    model: str | None = None
    delay_s: float = 0.0
    group: int = 2
    width: int = 8

    steers = False
    states = ("mean",)

    @property
    def name(self):
        return self.model or "parrot"

    def identity(self):
        return {"engine": "toy", "model": self.name}

    def problems_per_call(self, n):
        return self.group

    def check(self, prompts, max_tokens):
        if max_tokens > 1000:
            raise HarnessError("toy: a parrot forgets after 1,000 tokens")

    def sample(self, request):
        n = request.n
        sampled = []
        for seed in request.seeds:
            time.sleep(self.delay_s)
            words = [int(np.random.default_rng([seed, row]).integers(7)) for row in range(n)]
            texts = [f"say {WORDS[word]}" for word in words]
            vectors = np.array([self._vector(seed, row, word) for row, word in enumerate(words)], np.float32)
            sampled.append(
                Responses(
                    texts, ["stop"] * n, np.full(n, 3), -np.arange(n) / n, [[w] * 3 for w in words], {"mean": vectors}
                )
            )
            request.report(n)
            request.done(len(sampled) - 1, sampled[-1])
        return sampled

    def encode(self, prompt, responses, states, report=lambda rows: None):
        words = [WORDS.index(text.split()[-1]) for text in responses.texts]
        return {"mean": np.eye(8, dtype=np.float32)[words]}

    def _vector(self, seed, row, word):
        return np.eye(8, self.width)[word] + 0.1 * np.random.default_rng([seed, row, 1]).normal(size=self.width)


class Base(Parrot):
    """A parrot without a chat template: it repeats the prompt."""

    chats = False

    def sample(self, request):
        sampled = super().sample(replace(request, done=lambda j, responses: None))
        questions = [prompt[-1]["content"] for prompt in request.prompts]
        return [replace(made, texts=[text] * len(made)) for made, text in zip(sampled, questions, strict=True)]


class Stateless(Parrot):
    """A parrot that gives no hidden states, as a server does."""

    states = ()


@dataclass(frozen=True)
class Letters:
    """Counts of eight letters."""

    state = None

    def embed(self, problem, texts):
        return np.array([[text.count(letter) for letter in "abdegnru"] for text in texts], float)


@dataclass(frozen=True)
class Shuffle:
    """A random order; `offset` does nothing but stand in the parameters."""

    offset: int = 0
    needs = ()

    def rank(self, pool, rng):
        yield from rng.permutation(len(pool))


class Vowels:
    """Scores a response by its vowels, unknown if it has none."""

    def score(self, problem, prompt, texts):
        assert prompt[-1]["content"] == problem.prompt
        return [sum(map(text.count, "aeiou")) or np.nan for text in texts]


class Spread:
    """Farthest vector first."""

    def rank(self, pool, rng):
        yield from np.argsort(-(pool.embeddings**2).sum(axis=1), kind="stable")


class Particular:
    """Refuses vectors that are not centred over the pool."""

    def rank(self, pool, rng):
        assert np.abs(pool.embeddings.mean(axis=0)).max() < 1e-6
        assert np.abs(pool.embeddings).max() > 0.1
        yield from range(len(pool))


class Likely:
    """Most likely first."""

    needs = ("logprobs",)

    def rank(self, pool, rng):
        yield from np.argsort(-pool.logprobs, kind="stable")


class Head:
    """The subset method: the first k."""

    needs = ()

    def select(self, pool, k, rng):
        return range(k)


class Twice:
    """Broken: picks index 0 again and again."""

    needs = ()

    def rank(self, pool, rng):
        while True:
            yield 0


class Raising:
    """Broken: raises after one pick."""

    needs = ()

    def rank(self, pool, rng):
        yield len(pool) - 1
        raise ZeroDivisionError("oh")


class Short:
    """Broken: ends early."""

    needs = ()

    def rank(self, pool, rng):
        return iter(())


@hookimpl
def register_tasks(register):
    register("colours", Colours)
    register("keyed", Keyed)
    register("measured", Measured)


@hookimpl
def register_engines(register):
    register("toy", Parrot)
    register("base", Base)
    register("stateless", Stateless)


@hookimpl
def register_embedders(register):
    register("letters", Letters)


@hookimpl
def register_scorers(register):
    register("vowels", Vowels)


@hookimpl
def register_selectors(register):
    for factory in (Shuffle, Spread, Particular, Likely, Head, Twice, Raising, Short):
        register(factory.__name__.lower(), factory)
