"""Pools that are out of the ordinary: tiny ones, repeats, zeros, what is no number, other precisions and scales."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import HarnessError
from ..records import Pool
from . import examples
from .checking import Inapplicable, Violation, check, expect, require_one_line
from .picking import is_ranker, needs, no_runtime_warnings, order
from .selector_basics import BASIC


def _require_order(selector: Any, pool: Pool, what: str) -> None:
    """A whole answer, and answers for small and large k, without numpy's warnings."""
    n = len(pool)
    for k in [None] if is_ranker(selector) else sorted({1, max(1, n // 2), n}):
        with no_runtime_warnings():
            try:
                order(selector, pool, k=k)
            except Violation as found:
                raise Violation(f"{what}: {found}") from found


@check("mind n = 1", presumes=BASIC)
def one_response(selector: Any) -> None:
    """A pool of one response is ordered."""
    _require_order(selector, examples.pool(1), "a pool of one response")
    _require_order(selector, examples.pool(2), "a pool of two responses")


@check("mind k = n", presumes=BASIC)
def whole_pool(selector: Any) -> None:
    """A subset of all n responses is the whole pool."""
    if is_ranker(selector):
        raise Inapplicable("a ranker's whole pool is for `complete`")
    for n in (24, 7):
        order(selector, examples.pool(n), k=n)


@check("take equal responses in any order, but take them all", presumes=BASIC)
def identical_rows(selector: Any) -> None:
    """A pool of equal responses is ordered, their vectors zero (as centring leaves them) or not."""
    pool = examples.pool().part([4] * 12)
    _require_order(selector, pool, "equal responses")
    _require_order(selector, examples.replaced(pool, embeddings=np.zeros((12, 8), np.float32)), "equal zero vectors")


@check("mind the length 0", presumes=BASIC)
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


@check("refuse it with a HarnessError `name: what, which response`, before the first pick", presumes=BASIC)
def nan_refused(selector: Any) -> None:
    """NaN in a column that it needs is refused with one line that names the selector."""
    _require_refused(selector, np.nan)


@check("refuse it with a HarnessError `name: what, which response`, before the first pick", presumes=BASIC)
def infinity_refused(selector: Any) -> None:
    """Infinity in a column that it needs is refused with one line that names the selector."""
    _require_refused(selector, np.inf)
    _require_refused(selector, -np.inf)


def _require_refused(selector: Any, value: float) -> None:
    if not needs(selector):
        raise Inapplicable("it needs no numbers")
    for name in needs(selector):
        pool = examples.pool()
        column = getattr(pool, name).copy()
        column[17, ...] = value
        try:
            with no_runtime_warnings():
                _first(selector, examples.replaced(pool, **{name: column}))
        except HarnessError as refusal:
            text = require_one_line(refusal)
            expect(_names(text, selector), f"its refusal does not name the selector: {text!r:.120}")
        else:
            raise Violation(f"it takes {value} in {name}")


def _first(selector: Any, pool: Pool) -> None:
    rng = np.random.default_rng(0)
    if is_ranker(selector):
        next(iter(selector.rank(pool, rng)))
    else:
        selector.select(pool, 8, rng)


def _names(text: str, selector: Any) -> bool:
    """Whether a line names the selector: by its class, its module's file or its attribute `name`, dashes aside."""
    factory = type(selector)
    known = (factory.__name__, factory.__module__.rpartition(".")[2], str(getattr(selector, "name", "")))
    return any(_plain(name) in _plain(text) for name in known if name)


def _plain(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter.isalnum())


@check("compute in a dtype of its own", presumes=BASIC)
def precisions(selector: Any) -> None:
    """Vectors of float16 and float64 are ordered as those of float32 are."""
    for dtype in (np.float16, np.float64):
        _require_order(selector, examples.pool(dtype=dtype), f"{np.dtype(dtype).name} vectors")


@check("let no threshold be absolute", presumes=BASIC)
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
    nan_refused,
    infinity_refused,
    precisions,
    scale,
)
