"""Check a selector on unusual pools: tiny ones, copies, zero vectors, other precisions and scales."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..records import Pool
from . import examples
from .checking import Inapplicable, Violation, check
from .picking import is_ranker, no_runtime_warnings, order
from .selector_basics import BASIC


def _require_order(selector: Any, pool: Pool, what: str) -> None:
    """Raise Violation unless it gives a complete order, or subsets of small and large k, without numpy warnings."""
    n = len(pool)
    for k in [None] if is_ranker(selector) else sorted({1, max(1, n // 2), n}):
        with no_runtime_warnings():
            try:
                order(selector, pool, k=k)
            except Violation as violation:
                raise Violation(f"{what}: {violation}") from violation


@check("handle n = 1", presumes=BASIC)
def one_response(selector: Any) -> None:
    """A pool of one response is ordered."""
    _require_order(selector, examples.pool(1), "a pool of one response")
    _require_order(selector, examples.pool(2), "a pool of two responses")


@check("handle k = n", presumes=BASIC)
def whole_pool(selector: Any) -> None:
    """A subset of all n responses is the whole pool."""
    if is_ranker(selector):
        raise Inapplicable("for a ranker `complete` checks it")
    for n in (24, 7):
        order(selector, examples.pool(n), k=n)


@check("take equal responses in any order, but take them all", presumes=BASIC)
def identical_rows(selector: Any) -> None:
    """A pool of equal responses is ordered, their vectors zero (as centring leaves them) or not."""
    pool = examples.pool().part([4] * 12)
    _require_order(selector, pool, "equal responses")
    _require_order(selector, examples.replaced(pool, embeddings=np.zeros((12, 8), np.float32)), "equal zero vectors")


@check("handle vectors of length 0", presumes=BASIC)
def zero_rows(selector: Any) -> None:
    """A zero vector among others is ordered with them."""
    pool = examples.pool()
    h = pool.embeddings.copy()
    h[7] = 0
    _require_order(selector, examples.replaced(pool, embeddings=h), "a zero vector")


@check("take equal responses in any order, but take them all", presumes=BASIC)
def duplicates(selector: Any) -> None:
    """Copies of responses are all picked, each once."""
    _require_order(selector, examples.pool().part([*range(12), *range(12)]), "copies")
    _require_order(selector, examples.pool().part([3] * 5 + [8] * 11), "copies of two responses")


@check("convert the vectors to one dtype before computing", presumes=BASIC)
def precisions(selector: Any) -> None:
    """Vectors of float16 and float64 are ordered as those of float32 are."""
    for dtype in (np.float16, np.float64):
        _require_order(selector, examples.pool(dtype=dtype), f"{np.dtype(dtype).name} vectors")


@check("make thresholds relative to the vectors' scale", presumes=BASIC)
def scale(selector: Any) -> None:
    """Vectors a million times smaller or larger are ordered, without numpy's warnings."""
    pool = examples.pool()
    for factor in (1e-6, 1e6):
        scaled = (pool.embeddings * factor).astype(np.float32)
        _require_order(selector, examples.replaced(pool, embeddings=scaled), f"vectors times {factor:g}")


CHECKS = (
    one_response,
    whole_pool,
    identical_rows,
    zero_rows,
    duplicates,
    precisions,
    scale,
)
