"""Convert the arguments of MBPP+'s tests from JSON, which has no tuples, sets or complex numbers.

For some 70 problems evalplus' release file holds lists in the place of other types. Which argument of which problem
becomes what is a table of evalplus (0.3.1, `data/mbpp.py`); a test compares ours with it over the whole release.

Example: Mbpp/2 takes two tuples. `converted("Mbpp/2", [[[3, 4], [5, 4]]])` is `[[(3, 4), (5, 4)]]`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Convert = Callable[[Any], Any]


def converted(name: str, inputs: Sequence[Any]) -> list[Any]:
    """Return the arguments of each test of the problem of this name, in the types that its solution takes."""
    convert = _CONVERSIONS.get(int(name.rpartition("/")[2]), lambda arguments: arguments)
    return [convert(arguments) for arguments in inputs]


def _each(convert: Convert) -> Convert:
    """Convert every member of a list."""
    return lambda values: [convert(value) for value in values]


def _only(place: int, convert: Convert) -> Convert:
    """Convert one member of a list, and leave the others."""
    return lambda values: [convert(value) if i == place else value for i, value in enumerate(values)]


def _then(*steps: Convert) -> Convert:
    def convert(value: Any) -> Any:
        for step in steps:
            value = step(value)
        return value

    return convert


def _deep(value: Any) -> Any:
    """Convert a list and all lists inside to tuples."""
    return tuple(map(_deep, value)) if isinstance(value, list) else value


def _if_list(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _set_or_dict(value: Any) -> Any:
    return set(value) if isinstance(value, list) and value else {}


def _values(mapping: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) for key, value in mapping.items()}


_TUPLES, _LISTS_OF_TUPLES = _each(tuple), _each(_each(tuple))

# Conversion of a test's list of arguments -> numbers of the problems
_TABLE: dict[Convert, tuple[int, ...]] = {
    _TUPLES: (
        *(2, 116, 132, 143, 222, 261, 273, 394, 399, 421, 424),
        *(429, 470, 560, 579, 596, 616, 630, 726, 740, 744, 809),
    ),
    _LISTS_OF_TUPLES: (63, 64, 70, 94, 120, 237, 272, 299, 400, 409, 417, 438, 473, 614, 780),
    _then(_LISTS_OF_TUPLES, _TUPLES): (259, 401, 445),
    _only(0, _each(tuple)): (75, 413, 444, 753),
    _only(0, tuple): (250, 307, 405, 446, 617, 720, 763, 808),
    _only(1, tuple): (106, 750),
    _only(0, _values): (722,),
    _only(0, complex): (252,),
    _then(_only(0, float), _only(1, complex), tuple): (124,),
    _each(_each(_set_or_dict)): (115,),
    _each(_then(_each(_if_list), tuple)): (278,),
    _deep: (580, 615, 791),
}
_CONVERSIONS = {number: convert for convert, numbers in _TABLE.items() for number in numbers}
