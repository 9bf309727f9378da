"""The checks of an embedder. One with `state` uses the engine's vectors: its `embed` is never called.

A vector may depend on the other texts of its pool: tfidf is fitted to each pool.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import error_text
from . import examples
from .bounded_checks import called_elsewhere
from .checking import (
    Inapplicable,
    Violation,
    check,
    expect,
    parameter_check,
    picklable,
    require_global_rngs_untouched,
)

SAME = 1e-4  # relative to the largest entry: a model's batches round differently
STATES = ("mean", "last", "penultimate")


def _vectors(embedder: Any, texts: list[str]) -> Any:
    """Its vectors as a float64 array; errors of the embedder pass through. Inapplicable if the engine makes them."""
    if embedder.state is not None:
        raise Inapplicable(f"its vectors are the engine's ({embedder.state} hidden states)")
    h = embedder.embed(examples.PROBLEM, texts)
    return np.asarray(h.toarray() if hasattr(h, "toarray") else h, np.float64)


def _require_same(expected: Any, got: Any, what: str) -> None:
    expect(expected.shape == got.shape, f"{what} have the shape {got.shape}, not {expected.shape}")
    difference = np.abs(expected - got).max(initial=0)
    allowed = SAME * np.abs(expected).max(initial=0)
    expect(difference <= allowed, f"{what} differ by {difference:.2g}, where rounding may give {allowed:.2g}")


@check('set `state` to None and give it embed(problem, texts), or set `state` to "mean", "last" or "penultimate"')
def contract(embedder: Any) -> None:
    """It says whose vectors it takes, and embeds if they are its own."""
    state = getattr(embedder, "state", "missing")
    expect(state is None or state in STATES, f"state is {state!r}")
    expect(state is not None or callable(getattr(embedder, "embed", None)), "it has no embed")


@check("return one row of numbers for each text, dense or scipy-sparse", presumes=(contract,))
def one_row_a_text(embedder: Any) -> None:
    """n texts give (n, d) numbers, d at least 1."""
    for n in (12, 5):
        h = _vectors(embedder, examples.texts(n))
        expect(h.ndim == 2 and len(h) == n and h.shape[1] >= 1, f"{n} texts give the shape {h.shape}")


@check("find out what makes NaN or infinity: an empty text, a length of 0?", presumes=(contract, one_row_a_text))
def finite(embedder: Any) -> None:
    """No entry is NaN or infinite."""
    h = _vectors(embedder, examples.texts())
    count = (~np.isfinite(h)).sum()
    expect(not count, f"{count} of {h.size} entries are not finite")


@check(
    "compute vectors from the texts alone; give a fixed seed to whatever is random",
    presumes=(contract, one_row_a_text, finite),
)
def repeatable(embedder: Any) -> None:
    """The same texts give the same vectors, time after time."""
    first, second = (_vectors(embedder, examples.texts()) for _ in range(2))
    _require_same(first, second, "the same texts a second time")


BASIC = (contract, one_row_a_text, finite, repeatable)


@check("return the rows in the order of the texts, and compute a vector from its text, not from its place", BASIC)
def same_text_same_vector(embedder: Any) -> None:
    """Equal texts of a pool have equal vectors, wherever they stand."""
    texts = examples.texts(6)
    h = _vectors(embedder, [*texts, *texts])
    _require_same(h[:6], h[6:], "equal texts")
    moved = np.random.default_rng(3).permutation(12)
    _require_same(h[moved], _vectors(embedder, [texts[i % 6] for i in moved]), "permuted texts")


@check("give empty texts the zero vector, take n = 1, and encode with errors='replace'", BASIC)
def unusual_texts(embedder: Any) -> None:
    """Empty texts, a single one, Unicode, control characters, lone surrogates and long texts have finite vectors."""
    of_kind = {
        "empty texts among others": ["", *examples.texts(4), ""],
        "empty texts alone": ["", ""],
        "one text": ["4 * 5 = 20"],
        "Unicode": list(examples.UNICODE),
        "long texts": ["x" * 20_000, "4 * 5 = 20 " * 2_000],
    }
    for what, texts in of_kind.items():
        try:
            h = _vectors(embedder, texts)
        except Inapplicable:
            raise
        except Exception as failure:
            raise Violation(f"{what}: {error_text(failure)}") from failure
        is_valid = h.ndim == 2 and len(h) == len(texts) and np.isfinite(h).all()
        shape = f"vectors of shape {h.shape} for {len(texts)} texts, {(~np.isfinite(h)).sum()} not finite"
        expect(is_valid, f"{what}: {shape}")


@check("take random numbers from your own generator", BASIC)
def global_rngs_untouched(embedder: Any) -> None:
    """It leaves the global generators of random, numpy and torch as they were."""
    require_global_rngs_untouched(lambda: _vectors(embedder, examples.texts()))


@check("use hashlib, not hash(), and no order of a set", (*BASIC, picklable))
def same_in_another_process(embedder: Any) -> None:
    """Another process, with another hash seed and in an empty folder, gives the same vectors."""
    local, remote = np.array(vectors(embedder)), np.array(called_elsewhere(vectors, embedder))
    _require_same(local, remote, "vectors of another process")


def vectors(embedder: Any) -> list[list[float]]:
    """Return the embedder's vectors of a few example texts, one list of numbers for each text."""
    rows: list[list[float]] = _vectors(embedder, examples.texts()).tolist()
    return rows


CHECKS = (
    *BASIC,
    same_text_same_vector,
    unusual_texts,
    global_rngs_untouched,
    parameter_check("embedder"),
    picklable,
    same_in_another_process,
)
