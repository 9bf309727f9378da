"""maj@k and best-of-k of a pool: the chance that one answer, chosen from k random responses, is correct.

Both are exact expectations over all subsets of k of the pool's n responses. Neither is pass@k, which asks whether any
of the k is correct. Beside them stands avg@k, the share of correct ones among the k, whose expectation is c/n.

maj@k (self-consistency: Wang et al. 2022, arXiv:2203.11171)
    The answer that most of the k responses have; equally frequent answers have equal chances. A response without an
    answer has no vote, and k responses without any answer count as wrong. Equal answers can have different verdicts:
    an answer that wins counts as the share of its responses that are correct.
best-of-k
    The response with the highest score; equal scores have equal chances. NaN is below every number.

How maj@k is computed: a random subset of k has the counts of independent binomials with p = k/n whose sum happens to
be k. Answer i of size s_i wins with m votes, and shares this with t - 1 others, with a chance of 1/t, which is the
integral of u^(t-1) over u from 0 to 1. With a(x) = P(Binomial(s, p) = x), the chance that answer i wins with m votes is
therefore the coefficient of z^k in

    integral over u of   a_i(m) z^m  *  product over j != i of  ( sum over x < m of a_j(x) z^x  +  u a_j(m) z^m ),

divided by P(Binomial(n, p) = k). A sum over roots of unity takes the coefficient, a Gauss-Legendre sum the integral.
Answers of one size are a power. The error is below 1e-10. Cost for each k: about 1 ms at n = 100, and at most
150 ms at n = 6,400.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from math import isqrt, sqrt
from typing import Any

import numpy as np
from scipy.stats import binom

from harness.records import Floats

from .metrics import random_misses

NEGLIGIBLE = 1e-15  # a probability

Sizes = tuple[tuple[int, int, float], ...]  # ascending: size, how many answers have it, sum of their correct shares


def best_of_k(scores: Floats, correct: Sequence[bool], ks: Sequence[int]) -> list[float]:
    """The chance that the highest score of k random responses is a correct response's, for each k of `ks`.

    scores (n,), the larger the better; 1 <= k <= n
    """
    known = np.where(np.isnan(scores), -np.inf, scores)
    _, level, size = np.unique(-known, return_inverse=True, return_counts=True)
    share = np.bincount(level, np.asarray(correct, float)) / size
    at_least = np.append(0, size.cumsum())  # responses above the first level, above the second, ...
    none_of = random_misses(np.array(len(scores)), at_least[:, None], np.asarray(ks))
    chances: list[float] = (share @ (none_of[:-1] - none_of[1:])).tolist()
    return chances


def majority_at_k(answers: Sequence[str | None], correct: Sequence[bool], ks: Sequence[int]) -> list[float]:
    """The chance that the most frequent answer of k random responses is correct, for each k of `ks`; 1 <= k <= n."""
    verdicts: dict[str, list[bool]] = defaultdict(list)
    for answer, is_correct in zip(answers, correct, strict=True):
        if answer is not None:
            verdicts[answer].append(is_correct)
    shares: dict[int, list[float]] = defaultdict(list)
    for votes in verdicts.values():
        shares[len(votes)].append(sum(votes) / len(votes))
    sizes = tuple((size, len(shares[size]), sum(shares[size])) for size in sorted(shares))
    return [_majority(sizes, len(answers), k) for k in ks]


@lru_cache(maxsize=2**16)  # all selectors of a run have cells of the same pools
def _majority(sizes: Sizes, n: int, k: int) -> float:
    """maj@k of n responses whose answers have these sizes; the others have no answer."""
    if not sizes:
        return 0.0
    if k == n:
        _, count, share = sizes[-1]
        return share / count
    size, count = np.array([group[:2] for group in sizes]).T
    pmf = binom.pmf(np.arange(min(k, sizes[-1][0]) + 1), size[:, None], k / n)  # (sizes, votes)
    reached = count[:, None] * pmf[:, ::-1].cumsum(axis=1)[:, ::-1]  # expected answers with so many votes or more
    within = (pmf.cumsum(axis=1) ** count[:, None]).prod(axis=0)  # P(no answer has more votes)
    total = float(binom.pmf(k, n, k / n))
    able = reached >= NEGLIGIBLE * total
    likely = np.flatnonzero(able.any(axis=0) & (within >= NEGLIGIBLE * total))
    z, weights = _circle(n, k)
    fewer = pmf[:, : likely[0]] @ z ** np.arange(likely[0])[:, None]  # (sizes, points), of counts below m
    won = 0.0
    for m in range(likely[0], likely[-1] + 1):
        level = pmf[:, m, None] * z**m
        if m > 0:
            voting = [(*sizes[place][1:], fewer[place], level[place]) for place in np.flatnonzero(able[:, m])]
            others = (1 + k / n * (z - 1)) ** (n - int((size * count)[able[:, m]].sum()))
            won += float((_won(voting, others, k // m) @ weights).real)
        fewer += level
    return min(max(won / total, 0.0), 1.0)


def _won(voting: Sequence[tuple[int, float, Any, Any]], others: Any, most: int) -> Any:
    """The generating function of the chance that a correct answer wins with m votes, at the points z.

    voting  for each size that can have m votes: how many answers have it, the sum of their correct shares, and the
            generating functions of counts below m, and of m
    others  the generating function of all other responses
    most    how many answers at once can have m votes
    """
    u, tie_weights = _nodes(min(sum(count for count, *_ in voting), most))
    product = np.tile(others, (len(u), 1))
    winning = np.zeros_like(product)
    for count, correct_share, fewer, level in voting:
        factor = fewer + u[:, None] * level
        twins = factor ** (count - 1)
        winning = (winning * factor + product * correct_share * level) * twins
        product = product * factor * twins
    return tie_weights @ winning


@lru_cache(maxsize=64)
def _circle(n: int, k: int) -> tuple[Any, Any]:
    """Points z on half the unit circle, and weights: the real part of sum(F(z) weights) is F's coefficient of z^k.

    F's coefficients are below the probabilities of Binomial(n, k/n): those ten standard deviations from k do not count.
    """
    points = min(n + 1, 28 + int(10 * sqrt(k * (1 - k / n))))
    place = np.arange(points // 2 + 1)
    z = np.exp(2j * np.pi * place / points)
    twice = np.where((place == 0) | (2 * place == points), 1, 2)  # the other half is the complex conjugate
    return z, twice * z**-k / points


@lru_cache(maxsize=256)
def _nodes(ties: int) -> tuple[Floats, Floats]:
    """Nodes and weights of a Gauss-Legendre sum over 0 to 1, for polynomials of degree < `ties`: within 1e-10."""
    nodes, weights = np.polynomial.legendre.leggauss(min((ties + 1) // 2, 16 + 3 * isqrt(ties)))
    return (nodes + 1) / 2, weights / 2
