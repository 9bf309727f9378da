"""A text of the byte code of classes and functions that have no file (from a notebook, or made by `exec`)."""

from __future__ import annotations

from collections.abc import Mapping
from types import CodeType, FunctionType
from typing import Any


def compiled_text(root: type | Any) -> str:
    """Return a text of the byte code of a class or function, and of everything in the same module that it names.

    It differs between Python versions. Positions are left out, and docstrings except those of nested functions.
    """
    texts: list[str] = []
    _add(root, root.__module__, set(), texts)
    return "\n".join(texts)


def _add(value: Any, module: str, seen: set[int], texts: list[str]) -> None:
    value = getattr(value, "__func__", getattr(value, "fget", value))  # a method's or a property's function
    if id(value) in seen:
        return
    is_local = getattr(value, "__module__", None) == module
    if isinstance(value, FunctionType) and is_local:
        seen.add(id(value))
        texts.append(_plain([value.__defaults__, value.__kwdefaults__]))
        _add_code(value.__code__, value, module, seen, texts)
    elif isinstance(value, type) and is_local:
        seen.add(id(value))
        for base in value.__mro__:
            members = vars(base) if base.__module__ == module else {}
            for name in sorted(set(members) - {"__doc__", "__dict__", "__weakref__", "__firstlineno__"}):
                texts.append(f"{name}:")
                _add(members[name], module, seen, texts)
    else:
        texts.append(_plain(value))


def _add_code(code: CodeType, function: FunctionType, module: str, seen: set[int], texts: list[str]) -> None:
    texts.append(_plain([code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars]))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _add_code(constant, function, module, seen, texts)
        elif constant is not None and constant != function.__doc__:
            texts.append(_plain(constant))
    for name in code.co_names:
        if name in function.__globals__:
            texts.append(f"{name}=")
            _add(function.__globals__[name], module, seen, texts)


def _plain(value: Any) -> str:
    """A value as its type and text; only the type if the text may contain a memory address."""
    if isinstance(value, Mapping):
        value = list(value.items())
    if isinstance(value, (set, frozenset)):
        value = sorted(map(_plain, value))
    if isinstance(value, (tuple, list)):
        return f"({','.join(map(_plain, value))})"
    is_plain = isinstance(value, (bool, int, float, complex, str, bytes)) or value is None
    return f"{type(value).__name__}:{value!a}" if is_plain else type(value).__name__
