"""Read JSON that comes from outside: a file, a server, a verifier, a journal that was edited. The only way to read it.

Whatever such a text holds, the outcome is a value or a HarnessError of one line. `json.loads` alone raises ValueError,
RecursionError or UnicodeDecodeError, and lets through what breaks later: numbers that no float can hold, values nested
a thousand levels deep, and an object that has a key twice, of which the last one would count.
"""

from __future__ import annotations

import json
import math
import sys
from functools import cache
from typing import Any, TypeVar, cast

from harness.errors import HarnessError

from .expansion import DEEPEST

_LARGEST = int(sys.float_info.max)
_INT_LIMIT = "; use sys.set_int_max_str_digits() to increase the limit"  # ends what Python says of 5,000 digits
_Shape = TypeVar("_Shape")


def parsed(text: str | bytes, where: str, remedy: str = "", *, nan: bool = False) -> Any:
    """The value of a JSON text; HarnessError, `WHERE: not JSON (REASON); REMEDY`, if there is none that we can use.

    Texts in it may hold lone surrogates, which `shaped` refuses.

    where   what the text is, as the message begins: "journal run.jsonl, line 3"
    remedy  what the user can do; "": nothing is said
    nan     accepts NaN and infinite numbers, which JSON has not and Python's own writer makes
    """
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8-sig", "surrogatepass")
        value = json.loads(text, object_pairs_hook=_object)
        _check(value, nan)
    except RecursionError:
        reason = f"({_TOO_DEEP})"
    except json.JSONDecodeError as failure:
        reason = f"({failure}); a truncated text ends like this"
        raise NotJSON("; ".join(filter(None, (f"{where}: not JSON {reason}", remedy)))) from None
    except ValueError as failure:
        reason = f"({failure})".replace(_INT_LIMIT, "")
    else:
        return value
    raise HarnessError("; ".join(filter(None, (f"{where}: not JSON {reason}", remedy))))


def shaped(value: Any, shape: type[_Shape], where: str, remedy: str = "") -> _Shape:
    """The value, if it has the shape; else HarnessError, `WHERE: 'asked' must be a valid list, got 3; REMEDY`.

    shape  a type as pydantic understands it, e.g. a TypedDict, whose keys may be NotRequired; further keys may be there
    """
    from pydantic import ValidationError

    try:
        _adapter(cast(Any, shape)).validate_python(value, strict=True)
    except ValidationError as failure:
        first = failure.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        reason = f"{place!r:.80}: {first['msg']}" if place else first["msg"]
        if first["type"] != "missing":
            reason += f", got {first['input']!r:.80}"
        raise HarnessError("; ".join(filter(None, (f"{where}: {reason}", remedy)))) from None
    return value  # type: ignore[no-any-return]


@cache
def _adapter(shape: Any) -> Any:
    from pydantic import TypeAdapter  # 0.2 s to import

    return TypeAdapter(shape)


class NotJSON(HarnessError):
    """A text that is no JSON at all, perhaps because it is truncated."""


_TOO_DEEP = f"lists and objects are more than {DEEPEST} inside one another"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in entries if names.count(name) > 1)
        raise ValueError(f"the key {twice!r:.80} is there twice")
    return entries


def _check(value: Any, nan: bool) -> None:
    """Raise ValueError for values nested too deep and for numbers that no float can hold; without recursion."""
    level = [value]
    for _ in range(DEEPEST + 2):
        below: list[Any] = []
        for node in level:
            if isinstance(node, dict):
                below.extend(node.values())
            elif isinstance(node, list):
                below.extend(node)
            elif isinstance(node, float) and not nan and not math.isfinite(node):
                raise ValueError("a number is NaN, infinite, or too large")
            elif isinstance(node, int) and not -_LARGEST <= node <= _LARGEST:
                raise ValueError(f"a number of {len(str(abs(node)))} digits is too large")
        level = below
        if not level:
            return
    raise ValueError(_TOO_DEEP)
