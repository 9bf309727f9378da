"""The inputs on which components are checked: pools, texts and prompts, made from fixed seeds.

Example: `pool(3).texts[0]` is `Take 8 and 5. 8 * 5 = 40, then 40 - 9 = 31. Answer: 31`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.records import Message, Pool, Problem

PROMPTS: tuple[list[Message], ...] = (
    [{"role": "user", "content": "Use the numbers 4, 5, 6, 10 to make 24."}],
    [{"role": "user", "content": "Say a number, then a longer one."}],
)
PROBLEM = Problem("conformance/1", "Take three numbers and say what comes out.", reference="31")
UNICODE = ("", " ", "\n\n", "\0", "naïve Ünïcödé ßæ", "数学は楽しい", "🙂🙃", "e\u0301 \u202e\u200b", "\ud800")


def pool(n: int = 24, d: int = 8, seed: int = 0, dtype: Any = np.float32) -> Pool:
    """Return a pool of n short sums with all columns: some texts equal, clusters of answers, centred vectors.

    One answer in seven is None, and the only score is "score". The vectors, (n, d) in the given dtype, come from three
    clusters.
    """
    rng = np.random.default_rng([n, d, seed])
    texts, answers = [], []
    for i, (a, b, c) in enumerate(rng.integers(2, 7, size=(n, 3)).tolist()):
        long = f"Take {a} and {b}. {a} * {b} = {a * b}, then {a * b} - {c} = {a * b - c}. Answer: {a * b - c}"
        texts.append(long if i % 3 else f"{a} * {b} - {c} = {a * b - c}")
        answers.append(None if i % 7 == 3 else str((a * b - c) % 5))
    lengths = np.array([len(text.split()) for text in texts], np.int64)
    h = rng.normal(size=(n, d)) + 2 * rng.normal(size=(3, d))[rng.integers(3, size=n)]
    h, logprobs = (h - h.mean(axis=0)).astype(dtype), -lengths * rng.uniform(0.1, 2, n)
    mean = -h.min(axis=0, initial=0).astype(
        np.float32
    )  # rows as they were given have no entry below 0, as bits and counts
    return Pool(texts, h, logprobs, lengths, answers, {"score": rng.normal(size=n)}, mean)


def without_ties(n: int = 8) -> Pool:
    """A pool of n responses without ties: all texts, lengths, likelihoods, answers and distances differ.

    The texts have 4, 9, 14, ... words, in shuffled order. All begin with the same two words and share no others, so
    that no two texts ever add equally many new n-grams.
    """
    rng = np.random.default_rng(20)
    lengths = 4 + 5 * rng.permutation(n)
    texts = ["we have " + " ".join(f"w{i}x{j}" for j in range(length - 2)) for i, length in enumerate(lengths)]
    logprobs = -lengths * rng.uniform(0.1, 2, n)
    h, answers = rng.normal(size=(n, 4)).astype(np.float32), [f"a{i}" for i in range(n)]
    return Pool(texts, h, logprobs, lengths, answers, {"score": rng.normal(size=n)}, -h.min(axis=0))


def texts(n: int = 12) -> list[str]:
    """n short responses, the last of them equal to the first."""
    of_pool = pool(n).texts
    return [*of_pool[:-1], of_pool[0]]
