"""Read a score of a pool's responses by name, standardise it, and order by it.

A name is that of a column of `Pool.scores` (a reward model, a judge), or one of `LIKELIHOODS`, which every pool with
log-probabilities has: "logprob", the sum over a response's tokens, and "mean-logprob", the mean per token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from harness import HarnessError, Pool

from .vectors import logprobs_of

if TYPE_CHECKING:
    from .vectors import Float64s, Ints

LIKELIHOODS = ("logprob", "mean-logprob")


def column_of(name: str | None) -> str:
    """Return the column of a pool, as in a selector's `needs`, in which the score of that name is."""
    return "logprobs" if name in LIKELIHOODS else "scores"


def scores_of(pool: Pool, name: str | None, selector: str) -> Float64s:
    """Return the scores of that name (n,), the larger the better, NaN where unknown; None: the pool's only ones.

    HarnessError, which begins with `selector`, if the pool has none of that name, or no name is given and it has
    several.
    """
    if name in LIKELIHOODS:
        logprobs = logprobs_of(pool, selector)
        return logprobs if name == "logprob" else logprobs / np.maximum(pool.lengths, 1)
    if not pool.scores:
        raise HarnessError(
            f"{selector}: the pool has no scores: give them in the pool file or make them by --scorer (docs/pools.md), "
            "or take the log-probability as the score (by=logprob)"
        )
    names = ", ".join(pool.scores)
    if name is None and len(pool.scores) > 1:
        raise HarnessError(f"{selector}: the pool has several scores: say by=NAME, one of {names}")
    if name is not None and name not in pool.scores:
        raise HarnessError(f"{selector}: the pool has no score {name!r}; it has {names}")
    return np.asarray(pool.scores[next(iter(pool.scores)) if name is None else name], np.float64)


def standardised(scores: Float64s) -> Float64s:
    """Return the scores (n,) minus their mean, over their standard deviation; unknown ones count as the lowest known.

    All are 0 if they are equal, or none is known.
    """
    known = scores[~np.isnan(scores)]
    filled = np.where(np.isnan(scores), known.min(initial=np.inf), scores) if len(known) else np.zeros(len(scores))
    centred = filled - filled.mean() if len(filled) else filled
    largest = np.abs(centred).max(initial=0)
    if not largest > 1e-12 * np.abs(filled).max(initial=0):
        return np.zeros(len(scores))
    centred /= largest  # so that no square overflows
    return np.asarray(centred / np.sqrt((centred**2).mean()))


def highest_first(scores: Float64s, rng: np.random.Generator) -> Ints:
    """Return all n indices by falling score; equal ones in random order, then the unknown ones in random order."""
    shuffled = rng.permutation(len(scores))
    return np.asarray(shuffled[np.argsort(-scores[shuffled], kind="stable")])
