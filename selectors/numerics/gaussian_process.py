"""A Gaussian process over a pool's vectors, for selectors that learn from outcomes (scikit-learn's regressor).

    k(x, x') = exp(-|x - x'|² / 2ℓ²)      ℓ = `length` times the median distance of two rows of the pool

Measured values are standardised by those seen. Outcomes that are all 0 or 1 are centred at 1/2, so that a wrong
response lowers what is expected near it, also as long as none is correct. Nothing is fitted but the values: a few dozen
outcomes do not fix a kernel's parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from harness import HarnessError, Outcome

from .vectors import Copies, squared_norms

if TYPE_CHECKING:
    from .vectors import Float64s, Floats

ROWS = 256  # by which the median distance is estimated, at even steps through the pool


def check_parameters(selector: str, **values: float) -> None:
    """Raise HarnessError unless every value is > 0 and finite."""
    for name, value in values.items():
        if not 0 < value < np.inf:
            raise HarnessError(f"{selector}: {name} must be > 0 and finite, got {value}")


def candidates(h: Floats, outcomes: Sequence[Outcome]) -> Any:
    """Return the indices of h to pick from, ascending: those in no outcome whose row is no copy of a picked one.

    A copy's value is known as well as that of the picked row, but the largest mean would take it again and again. If
    only copies are left, all of them.
    """
    picked = [outcome.index for outcome in outcomes]
    rest = np.setdiff1d(np.arange(len(h)), picked)
    row = Copies(h).row
    fresh = rest[~np.isin(row[rest], row[picked])]
    return fresh if len(fresh) else rest


def length_scale(h: Floats, length: float) -> float:
    """Return ℓ; `length` itself if half of the rows or more are equal."""
    rows = np.asarray(h[:: -(-len(h) // ROWS)], np.float64)
    squared = squared_norms(rows)
    distances = np.maximum(squared[:, None] + squared - 2 * rows @ rows.T, 0)[np.triu_indices(len(rows), 1)]
    median = float(np.sqrt(np.median(distances))) if len(distances) else 0.0
    return length * median if median > 1e-6 * np.sqrt(squared.max(initial=0)) else length


def standardised(values: Sequence[float]) -> Float64s:
    """Return the values around 0 with a spread of about 1: see the module's docstring."""
    given = np.asarray(values, np.float64)
    if np.isin(given, (0.0, 1.0)).all():
        return 2 * given - 1
    spread = given.std()
    scaled: Float64s = (given - given.mean()) / (spread if spread > 0 else 1.0)
    return scaled


def fitted(h: Floats, rows: Sequence[int], values: Any, scale: float, noise: float) -> Any:
    """Return the process given standardised `values` of the rows of h; `noise` is their standard deviation."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF

    kernel = RBF(scale, "fixed")
    return GaussianProcessRegressor(kernel, alpha=noise**2, optimizer=None).fit(h[list(rows)], values)


def known(outcomes: Sequence[Outcome]) -> tuple[list[int], Float64s, list[int]]:
    """Return the indices with a value, their standardised values, and the indices whose outcome is not known."""
    rows = [outcome.index for outcome in outcomes if outcome.value is not None]
    values = [outcome.value for outcome in outcomes if outcome.value is not None]
    return rows, standardised(values), [outcome.index for outcome in outcomes if outcome.value is None]
