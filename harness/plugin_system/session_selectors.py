"""Selectors that are objects of a Python session: a class in a notebook's cell is raced without a plugin file.

They are registered while `harness.run` or `harness.select` works. Their keys hold the class's name, the object's fields
and the hash of its code (`session_code`). They rank in this process: no other one could build them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from harness.errors import HarnessError, error_text

from .component import parameters
from .registry import SESSION, Origin, Registration, own_selectors
from .session_code import plain_text, session_code

SHOWN = 30  # characters of a field's value in a selector's name


@contextmanager
def registered(selectors: Sequence[Any], keyed: bool = True) -> Iterator[tuple[str, ...]]:
    """Register inside the selectors that are objects (or classes, which are then built), and yield all as specs.

    Without `keyed` any object will do, since nothing that it makes is kept.

    HarnessError for what is no selector, for two of one name, and for an object of which no key can be made.
    """
    built = [each if isinstance(each, str) else _object(each) for each in selectors]
    own = [_registration(each, keyed) for each in built if not isinstance(each, str)]
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


def _registration(selector: Any, keyed: bool) -> Registration:
    cls = type(selector)
    fields = parameters(selector) if dataclasses.is_dataclass(selector) else _attributes(selector)
    defaults = {field.name: field.default for field in getattr(cls, "__dataclass_fields__", {}).values()}
    shown = [f"{name}={value!r}" for name, value in fields.items() if _is_short(value) and value != defaults.get(name)]
    name = f"{cls.__name__}({', '.join(shown)})" if shown else cls.__name__
    described = _described(cls, fields) if keyed else None
    return Registration("selector", name, lambda: selector, Origin(SESSION, "", cls.__name__), described)


def _described(cls: type, fields: Mapping[str, Any]) -> dict[str, Any]:
    params = {key: _in_key(value, f"selector {cls.__name__}: has {key!r}") for key, value in fields.items()}
    return {"name": cls.__name__, "params": params, "dist": SESSION, "code": session_code(cls)}


def _attributes(selector: Any) -> dict[str, Any]:
    slots = [name for base in type(selector).__mro__ for name in getattr(base, "__slots__", ())]
    return {
        **{name: getattr(selector, name) for name in slots if hasattr(selector, name)},
        **getattr(selector, "__dict__", {}),
    }


def _is_short(value: Any) -> bool:
    """Whether a field's value can stand in the selector's name, where `:` would begin a spec's parameters."""
    text = repr(value)
    return isinstance(value, (bool, int, float, str)) and len(text) <= SHOWN and text.isprintable() and ":" not in text


def _in_key(value: Any, who: str) -> Any:
    """The value as keys hold it: JSON, and a hash in place of an array."""
    if isinstance(value, Mapping):
        return {str(name): _in_key(item, who) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_in_key(item, who) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    is_json = value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and np.isfinite(value))
    return value if is_json else plain_text(value, who)
