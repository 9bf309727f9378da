"""Selectors that are objects of a Python session: a class in a notebook's cell is raced without a plugin file.

They are registered while `harness.run` or `harness.select` works, and rank in this process: no other one could build
them. Their keys hold the class's name, the object's fields and its code. That of a class in a file is the file's hash
(`component.source_hash`). What no file tells, a class of a notebook and a field that is neither plain nor an array, has
another key in each call: nobody can say whether the cells that it depends on are still the same.
"""

from __future__ import annotations

import hashlib
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from harness.errors import HarnessError, error_text

from .component import parameters, source_hash
from .registry import SESSION, Origin, Registration, own_selectors

SHOWN = 30  # characters of a field's value in a selector's name


@contextmanager
def registered(selectors: Sequence[Any]) -> Iterator[tuple[str, ...]]:
    """Register inside the selectors that are objects (or classes, which are then built), and yield all as specs.

    HarnessError for what is no selector, and for two of one name.
    """
    built = [each if isinstance(each, str) else _object(each) for each in selectors]
    own = [_registration(each) for each in built if not isinstance(each, str)]
    names = [registration.name for registration in own]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise HarnessError(f"two selectors are called {twice!r}: give their classes different names")
    token = own_selectors.set(tuple(own))
    remaining = iter(names)
    try:
        yield tuple(each if isinstance(each, str) else next(remaining) for each in built)
    finally:
        own_selectors.reset(token)


def _object(given: Any) -> Any:
    if isinstance(given, type):
        try:
            given = given()
        except Exception as failure:
            raise HarnessError(f"selector {given.__name__} cannot be built: {error_text(failure)}") from failure
    if not (hasattr(given, "rank") or hasattr(given, "select")):
        raise HarnessError(
            f"a selector is a spec such as 'repexp:lam=0.1', or an object with rank(pool, rng), got {given!r:.60}"
        )
    return given


def _registration(selector: Any) -> Registration:
    cls = type(selector)
    fields = parameters(selector) or dict(getattr(selector, "__dict__", {"slots": selector}))
    defaults = {field.name: field.default for field in getattr(cls, "__dataclass_fields__", {}).values()}
    shown = [f"{name}={value!r}" for name, value in fields.items() if _is_short(value) and value != defaults.get(name)]
    name = f"{cls.__name__}({', '.join(shown)})" if shown else cls.__name__
    module = sys.modules.get(cls.__module__)
    is_in_file = hasattr(module, "__file__") and hasattr(module, cls.__qualname__.partition(".")[0])
    described = {
        "name": cls.__name__,
        "params": {key: _in_key(value) for key, value in fields.items()},
        "dist": SESSION,
        "code": source_hash(selector) if is_in_file else secrets.token_hex(8),
    }
    return Registration("selector", name, lambda: selector, Origin(SESSION, "", cls.__name__), described)


def _is_short(value: Any) -> bool:
    """Whether a field's value can stand in the selector's name, where `:` would begin a spec's parameters."""
    text = repr(value)
    return isinstance(value, (bool, int, float, str)) and len(text) <= SHOWN and text.isprintable() and ":" not in text


def _in_key(value: Any) -> Any:
    """The value as keys hold it: JSON, the hash of an array, and for anything else a text that never comes again."""
    if isinstance(value, Mapping):
        return {str(name): _in_key(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_in_key(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return f"array:{value.dtype.str}{value.shape}:{content}"
    is_json = value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and np.isfinite(value))
    return value if is_json else f"{type(value).__name__}:{secrets.token_hex(8)}"
