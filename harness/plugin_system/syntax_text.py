"""Write the syntax tree of a Python file as a text that is equal in all Python versions; standard library only.

`ast.dump` differs between versions of Python, so keys must not depend on it. This text leaves out what changes no
result: comments, positions, docstrings (kept in a file that reads `__doc__`), annotations outside class bodies,
statements that do nothing, the order of neighbouring imports, blocks under `if TYPE_CHECKING`. Annotations in class
bodies stay: ClassVar, InitVar and the fields of dataclasses depend on them.

The sources of imports are not part of the text. They are listed separately, in the order of their places in the text;
`code_hash` replaces each by the hash of the imported code, so that moving a file changes nothing.
"""

from __future__ import annotations

import ast
import hashlib
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
IMPORTS = (ast.Import, ast.ImportFrom)
LEFT_OUT = frozenset({"ctx", "type_comment", "type_ignores", "kind", "returns"})
FILE = re.compile(r"\w+\.py")
DOTTED = re.compile(r"[A-Za-z_]\w*(\.\w+)+")
FACTORY = re.compile(r"[\w.]+:(\w+)")


class Import(NamedTuple):
    """The source of one name: `from ..module import name` has level 2; `name` is "" for `import module`.

    `level` -1: a string that may name a module, -2: a string that may name a file in the same folder.
    """

    level: int
    module: str
    name: str = ""


@dataclass(frozen=True)
class SyntaxText:
    """The hash (hex SHA-256) of a file's text, and its imports in the order of their places in the text."""

    digest: str
    imports: Sequence[Import]


@lru_cache(maxsize=1024)
def syntax_text(source: bytes, without: frozenset[str] = frozenset()) -> SyntaxText:
    """Return the hash of a file's text, and its imports; class members named in `without` are left out of the text.

    If this Python cannot parse the source, its bytes are hashed and no import is listed.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on invalid escapes in strings; Python versions warn differently
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return SyntaxText(hashlib.sha256(source).hexdigest(), ())
    writer = _Writer(without, keeps_docstrings=any(map(_reads_docstrings, ast.walk(tree))))
    writer.statements(tree.body)
    text = "".join(writer.parts).encode()
    return SyntaxText(hashlib.sha256(text).hexdigest(), tuple(writer.imports))


def _reads_docstrings(node: ast.AST) -> bool:
    return "__doc__" in (getattr(node, "id", None), getattr(node, "attr", None))


class _Writer:
    """Writes one file's text into `parts` and its imports into `imports`."""

    def __init__(self, without: frozenset[str], keeps_docstrings: bool) -> None:
        self.parts: list[str] = []
        self.imports: list[Import] = []
        self._without, self._keeps_docstrings = without, keeps_docstrings
        self._in_class = self._in_hook = False

    def statements(self, body: Sequence[ast.stmt]) -> None:
        """Write a body without statements that do nothing; neighbouring imports are sorted by the names they bind."""
        self.parts.append("{")
        pending: list[tuple[str, Import]] = []
        for statement in self._effective(body):
            if isinstance(statement, IMPORTS):
                pending.extend(_bindings(statement))
                continue
            self._write_imports(pending)
            pending = []
            self._node(statement)
            self.parts.append(";")
        self._write_imports(pending)
        self.parts.append("}")

    def _effective(self, body: Sequence[ast.stmt]) -> Iterable[ast.stmt]:
        for statement in body:
            if isinstance(statement, ast.If) and _is_type_checking(statement.test):
                yield from self._effective(statement.orelse)
            elif not (self._does_nothing(statement) or self._is_unwanted_member(statement)):
                yield statement

    def _does_nothing(self, statement: ast.stmt) -> bool:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            return not (self._keeps_docstrings and isinstance(statement.value.value, str))
        return isinstance(statement, ast.Pass)

    def _is_unwanted_member(self, statement: ast.stmt) -> bool:
        if not self._in_class or not self._without:
            return False
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        names = [getattr(statement, "name", None)] + [getattr(target, "id", None) for target in targets]
        return not self._without.isdisjoint(names)

    def _write_imports(self, pending: Sequence[tuple[str, Import]]) -> None:
        for binding, origin in sorted(pending, key=lambda pair: pair[0]):
            self.parts.append(f"import {binding};")
            self.imports.append(origin)

    def _node(self, node: ast.AST) -> None:
        if isinstance(node, ast.Constant):
            self._constant(node.value)
        elif isinstance(node, ast.AnnAssign) and not self._in_class:
            self._fields("Assign", {"targets": [node.target], "value": node.value})
        elif isinstance(node, ast.arg):
            self.parts.append(node.arg)
        elif isinstance(node, ast.JoinedStr):
            self._fields("JoinedStr", {"values": _merged(node.values)})
        elif isinstance(node, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
            self._scope(node)
        elif isinstance(node, ast.Call) and (origin := _imported_by_call(node)):
            self.parts.append("import_module")
            self.imports.append(origin)
        else:
            self._fields(type(node).__name__, _named_fields(node))

    def _scope(self, node: Any) -> None:
        """Write a function or a class; only directly in a class body annotations are kept."""
        before = self._in_class, self._in_hook
        fields = dict(_named_fields(node))
        if isinstance(node, FUNCTIONS):
            fields.pop("type_params", None)
            self._in_hook = self._in_hook or any(map(_is_hook, node.decorator_list))
        self._in_class = isinstance(node, ast.ClassDef)
        self._fields(type(node).__name__, fields)
        self._in_class, self._in_hook = before

    def _fields(self, name: str, fields: dict[str, Any]) -> None:
        self.parts.append(f"{name}(")
        for field, value in fields.items():
            if value is None or value == []:
                continue  # newer versions of Python add fields, which older code leaves empty
            self.parts.append(f"{field}=")
            self._value(value)
        self.parts.append(")")

    def _value(self, value: Any) -> None:
        if isinstance(value, ast.AST):
            self._node(value)
        elif isinstance(value, list) and value and isinstance(value[0], ast.stmt):
            self.statements(value)
        elif isinstance(value, list):
            self.parts.append("[")
            for item in value:
                self._value(item)
                self.parts.append(",")
            self.parts.append("]")
        else:
            self.parts.append(_literal(value))

    def _constant(self, value: Any) -> None:
        if isinstance(value, str) and self._in_hook:
            value = FACTORY.sub(
                r":\1", value
            )  # of "package.module:Class" only the class: the place of a file changes nothing
        if isinstance(value, str) and (FILE.fullmatch(value) or DOTTED.fullmatch(value)):
            self.parts.append("text")
            self.imports.append(Import(-2 if FILE.fullmatch(value) else -1, value))
        else:
            self.parts.append(_literal(value))


def _named_fields(node: ast.AST) -> dict[str, Any]:
    return {name: getattr(node, name, None) for name in sorted(node._fields) if name not in LEFT_OUT}


def _literal(value: Any) -> str:
    """A constant with its type, in ASCII: what `repr` escapes depends on the Unicode tables of the Python version."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"int:{value:x}"  # hexadecimal, since Python limits the length of decimal texts
    return f"{type(value).__name__}:{value!a}"


def _merged(values: Sequence[ast.expr]) -> list[ast.expr]:
    """The parts of an f-string with neighbouring texts joined: Python versions split them differently."""
    merged: list[ast.expr] = []
    for value in values:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            last = merged[-1] if merged else None
            if isinstance(last, ast.Constant) and isinstance(last.value, str):
                merged[-1] = ast.Constant(last.value + value.value)
                continue
            if not value.value:
                continue
        merged.append(value)
    return merged


def _bindings(statement: ast.Import | ast.ImportFrom) -> list[tuple[str, Import]]:
    """Each name that an import statement binds, and its source."""
    if isinstance(statement, ast.ImportFrom):
        level, module = statement.level, statement.module or ""
        return [(alias.asname or alias.name, Import(level, module, alias.name)) for alias in statement.names]
    return [(alias.asname or alias.name, Import(0, alias.name)) for alias in statement.names]


def _imported_by_call(node: ast.Call) -> Import | None:
    """The source of `import_module(".name", ...)`; absolute names are treated as any string that names a module."""
    called = getattr(node.func, "attr", getattr(node.func, "id", None))
    first = node.args[0] if node.args else None
    if called != "import_module" or not isinstance(first, ast.Constant) or not isinstance(first.value, str):
        return None
    module = first.value.lstrip(".")
    level = len(first.value) - len(module)
    return Import(level, module) if level else None


def _is_type_checking(test: ast.expr) -> bool:
    return "TYPE_CHECKING" in (getattr(test, "id", None), getattr(test, "attr", None))


def _is_hook(decorator: ast.expr) -> bool:
    decorator = decorator.func if isinstance(decorator, ast.Call) else decorator
    return "hookimpl" in (getattr(decorator, "id", None), getattr(decorator, "attr", None))
