"""Strategies for values that have canonical text."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from hypothesis import strategies as st

_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(max_size=8)
    | st.complex_numbers(allow_nan=False)
    | st.fractions()
    | st.decimals("-1e400", "1e400", allow_nan=False, places=9)
    | st.sampled_from([0, 1, 1.0, True, -0.0, 2**70, 2.0**70, 0.1, Fraction(1, 10), Decimal("0.10"), Decimal("1e70")])
)
_HASHABLE = st.recursive(
    _SCALARS, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=4
)
VALUES = st.recursive(
    _HASHABLE | st.sets(_HASHABLE, max_size=3),
    lambda inner: (
        st.lists(inner, max_size=12)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(_HASHABLE, inner, max_size=3)
    ),
    max_leaves=12,
)

_NUMBERS = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.complex_numbers()
ARRAYS = st.recursive(
    _NUMBERS | st.none() | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple),
    max_leaves=8,
)
