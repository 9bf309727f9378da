"""Hash the code of a class that a Python session defines: in a notebook's cell, or in a script's `__main__`.

A session has no file of its own, or one that also holds much else. So the class's functions are hashed by their source
(`inspect.getsource`), and with them all that they name: functions, classes and constants of the session, closures, and
modules in the user's own files (`code_hash`). Installed libraries count by name; comments and docstrings do not count.
What no hash can hold (a fitted model in a global variable) is refused: a stale ranking would be worse.
"""

from __future__ import annotations

import dataclasses
import dis
import enum
import functools
import hashlib
import importlib.util
import inspect
import re
import sys
import sysconfig
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import CellType, CodeType, FunctionType, GetSetDescriptorType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

import numpy as np

from harness.errors import HarnessError

from .code_hash import BUILT_IN, CORE, SHARED_FOLDERS, SHOWN, code_hash
from .syntax_text import Import, syntax_text

# Members of a class that follow from others, or that change no result.
GENERATED = {
    *("__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__", "__dict__", "__doc__"),
    *("__firstlineno__", "__match_args__", "__module__", "__qualname__", "__static_attributes__", "__weakref__"),
    *("__dataclass_params__", "__abstractmethods__", "_abc_impl"),
}


def session_code(cls: type) -> str:
    """The hash of a class's code, 16 hex digits; HarnessError if it has no source, or names what cannot be hashed."""
    if not _is_of_session(cls.__module__):
        return code_hash([cls])
    texts = _Walk(cls.__name__).texts(cls)
    return hashlib.sha256("\n".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:SHOWN]


class _Walk:
    """Goes once through all that a class of the session names."""

    def __init__(self, name: str) -> None:
        self.name, self.seen = name, dict[int, int]()  # of functions and classes: id -> the place where it came first

    def texts(self, value: Any, path: str = "") -> Iterator[str]:
        """Texts that are equal for equal code. `path`: the variable that holds the value, for messages."""
        value = _unwrapped(value)
        if isinstance(value, (FunctionType, type)) and _is_of_session(value.__module__ or ""):
            if id(value) in self.seen:
                yield f"{self.seen[id(value)]}"
            else:
                self.seen[id(value)] = len(self.seen)
                yield from self._function(value) if isinstance(value, FunctionType) else self._class(value)
        elif isinstance(value, (FunctionType, type, ModuleType)) or hasattr(value, "__name__"):
            yield _elsewhere(value)
        elif dataclasses.is_dataclass(value):
            yield from self.texts(type(value), path)
            yield from self.texts({field.name: getattr(value, field.name) for field in dataclasses.fields(value)}, path)
        elif isinstance(value, enum.Enum):
            yield repr(value)
            yield from self.texts(type(value), path)
        elif isinstance(value, dataclasses.Field):
            yield from self.texts([value.name, value.init, _given(value.default), _given(value.default_factory)], path)
        elif isinstance(value, functools.partial):
            yield from self.texts([value.func, value.args, value.keywords], path)
        elif isinstance(value, (list, tuple, set, frozenset, Mapping)):
            yield from self._container(value, path)
        else:
            yield plain_text(value, f"selector {self.name}: reads {path or 'a value'!r}")

    def _container(self, value: Any, path: str) -> Iterator[str]:
        yield type(value).__name__
        items = value.items() if isinstance(value, Mapping) else value
        parts = ["\n".join(self.texts(item, path)) for item in items]
        yield from sorted(parts) if isinstance(value, (set, frozenset)) else parts

    def _class(self, cls: type) -> Iterator[str]:
        for base in cls.__mro__:
            if base is not cls:
                yield from self.texts(base)
        for name in sorted(set(vars(cls)) - GENERATED):
            member = vars(cls)[name]
            is_generated = dataclasses.is_dataclass(cls) and _is_generated(name, member)
            if not is_generated and not isinstance(member, (MemberDescriptorType, GetSetDescriptorType)):
                yield f"{name}:"
                yield from self.texts(member, f"{cls.__name__}.{name}")

    def _function(self, function: FunctionType) -> Iterator[str]:
        try:
            source = textwrap.dedent(inspect.getsource(function.__code__))  # a wrapper's own, not of what it wraps
        except (OSError, TypeError):
            raise HarnessError(
                f"selector {self.name}: {function.__qualname__} has no source, of which its key is made: define it in "
                "a notebook's cell or in a file"
            ) from None
        text = syntax_text(source.encode())
        yield text.digest
        yield from (_elsewhere(module) for each in text.imports for module in _imported(each))
        yield from self.texts([function.__defaults__, function.__kwdefaults__], function.__qualname__)
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        named = {
            name: function.__globals__[name] for name in _globals(function.__code__) if name in function.__globals__
        }
        for name, value in {**named, **{name: cell.cell_contents for name, cell in cells if _is_set(cell)}}.items():
            yield f"{name}="
            yield from self.texts(value, name)


def plain_text(value: Any, who: str) -> str:
    """A text of a plain value, an array or a pattern; HarnessError, which begins with `who`, for anything else."""
    if value is None or value is ... or isinstance(value, (bool, int, float, complex, str, bytes, Path)):
        return f"{type(value).__name__}:{value!a}"
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and not value.dtype.hasobject):
        content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return f"array:{value.dtype.str}{value.shape}:{content}"
    if isinstance(value, re.Pattern):
        return f"pattern:{value.pattern!a}:{value.flags}"
    raise HarnessError(
        f"{who} of type {type(value).__name__}, of which no key can be made: build it inside the class, from plain "
        "values and arrays"
    )


def _unwrapped(value: Any) -> Any:
    """The functions in a method, a property or a cache; any other value as it is."""
    if isinstance(value, (staticmethod, classmethod, MethodType)):
        return value.__func__
    if isinstance(value, property):
        return [value.fget, value.fset, value.fdel]
    if isinstance(value, functools.cached_property):
        return value.func
    return value.__wrapped__ if isinstance(value, functools._lru_cache_wrapper) else value


def _is_generated(name: str, member: Any) -> bool:
    """Whether `dataclass` wrote the method: it follows from the fields, and has no source."""
    code = getattr(inspect.unwrap(member) if callable(member) else None, "__code__", None)
    is_written = code is not None and code.co_filename == "<string>"
    return name.startswith("__") and (is_written or getattr(member, "__module__", "") == "dataclasses")


def _globals(code: CodeType) -> Iterable[str]:
    """The names of global variables that the code reads, nested functions included, in order."""
    names = {each.argval for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    nested = (name for constant in code.co_consts if isinstance(constant, CodeType) for name in _globals(constant))
    return sorted({*names, *nested})


def _imported(origin: Import) -> Iterator[ModuleType]:
    """The modules in the user's own files that an import inside a function names."""
    for name in (origin.module, f"{origin.module}.{origin.name}") if origin.level == 0 else ():
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            continue
        if spec and _is_own_file(name, spec.origin):
            yield importlib.import_module(name)


def _elsewhere(value: Any) -> str:
    """The text of what another module defines: its code if that is a file of the user's, else its name."""
    module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None) or ""
    is_own = _is_own_file(module, getattr(sys.modules.get(module), "__file__", None))
    code = code_hash([type("Named", (), {"__module__": module})]) if is_own else ""
    return f"{module}.{getattr(value, '__qualname__', getattr(value, '__name__', ''))}:{code}"


def _is_of_session(module: str) -> bool:
    """Whether the module is `__main__`, or has no file and is not Python's own."""
    if module == "__main__":
        return True
    is_python = module.partition(".")[0] in sys.stdlib_module_names
    return not is_python and getattr(sys.modules.get(module), "__file__", None) is None


def _is_own_file(module: str, file: str | None) -> bool:
    """Whether a module's file is the user's: a source file that is no part of Python, of a library or of the core."""
    path = Path(file or "")
    is_python = module.partition(".")[0] in sys.stdlib_module_names
    is_shared = path.is_relative_to(sysconfig.get_path("stdlib")) or any(name in path.parts for name in SHARED_FOLDERS)
    is_ours = module.partition(".")[0] in BUILT_IN
    return path.suffix == ".py" and not is_python and (is_ours or not is_shared) and module.partition(".")[0] != CORE


def _given(value: Any) -> Any:
    return None if value is dataclasses.MISSING else value


def _is_set(cell: CellType) -> bool:
    """Whether the variable of a closure has a value."""
    try:
        return cell.cell_contents is cell.cell_contents
    except ValueError:
        return False
