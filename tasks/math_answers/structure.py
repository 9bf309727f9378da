"""Read the outer structure of a normal form: brackets, and the elements of a list, tuple, interval or set."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

MAX_DEPTH = 30  # nested brackets

_SYMBOL = re.compile(r"\\[A-Za-z]+|\\.|.", re.DOTALL)
_COMMAND = re.compile(r"\\[A-Za-z]+")
_INEQUALITY = re.compile(r"<|>|\\[lgn]e(?![A-Za-z])")
_STEP = {**dict.fromkeys(["(", "[", "{", r"\{"], 1), **dict.fromkeys([")", "]", "}", r"\}"], -1)}
_PARTNERS = {"(": (")", "]"), "[": (")", "]"), "{": ("}",), r"\{": (r"\}",)}


class Collection(NamedTuple):
    """A list, tuple, interval or set: its opening bracket ("" for a bare list), its elements, its closing bracket."""

    opening: str
    elements: tuple[str, ...]
    closing: str


def is_balanced(text: str) -> bool:
    """Whether every bracket has a partner, as in `(a,b]` too, and at most MAX_DEPTH are open at a time."""
    open_brackets: list[str] = []
    for symbol in _SYMBOL.findall(text):
        step = _STEP.get(symbol, 0)
        if step > 0:
            open_brackets.append(symbol)
        if len(open_brackets) > MAX_DEPTH:
            return False
        if step < 0 and (not open_brackets or symbol not in _PARTNERS[open_brackets.pop()]):
            return False
    return not open_brackets


def without_commands(text: str) -> str:
    r"""Return the text with a space in place of each command such as `\frac` or `\pi`."""
    return _COMMAND.sub(" ", text)


def split(text: str, separator: str) -> list[str]:
    """Return the parts of a text between the separators that are outside all brackets."""
    if separator not in text:
        return [text]
    parts, depth, start = [], 0, 0
    for match in _SYMBOL.finditer(text):
        symbol = match.group()
        depth += _STEP.get(symbol, 0)
        if symbol == separator and not depth:
            parts.append(text[start : match.start()].strip())
            start = match.end()
    return [*parts, text[start:].strip()]


@lru_cache(maxsize=1 << 12)
def collection(text: str) -> Collection | None:
    r"""Return a normal form as brackets and elements; None for a single value. `\pm` makes two elements of one."""
    opening, inner, closing = _unwrapped(text)
    elements = split(inner, ",")
    if opening != r"\{" and len(elements) == 1 and (opening or not _has_plus_minus(text)):
        return None
    if opening in ("", r"\{"):
        elements = [signed for element in elements for signed in _plus_minus(element)]
    return Collection(opening, tuple(elements), closing)


def _has_plus_minus(text: str) -> bool:
    return text.count(r"\pm") == 1 and r"\mp" not in text


def _plus_minus(element: str) -> list[str]:
    r"""Return the two values of an element with one `\pm`; of any other element only itself."""
    if not _has_plus_minus(element):
        return [element]
    before, after = element.split(r"\pm")
    return [f"{before}+{after.strip()}".lstrip("+"), f"{before}-{after.strip()}"]


def _unwrapped(text: str) -> tuple[str, str, str]:
    """Return opening bracket, inside and closing bracket if one pair encloses the whole text; else "", text, ""."""
    opening = text[:2] if text.startswith(r"\{") else text[:1]
    if opening not in ("(", "[", r"\{"):
        return "", text, ""
    depth = 0
    for match in _SYMBOL.finditer(text):
        depth += _STEP.get(match.group(), 0)
        if not depth:
            closing = match.group()
            encloses_all = match.end() == len(text) and closing in _PARTNERS[opening]
            return (opening, text[len(opening) : match.start()], closing) if encloses_all else ("", text, "")
    return "", text, ""


def has_inequality(text: str) -> bool:
    """Whether a normal form has a sign of inequality."""
    return _INEQUALITY.search(text) is not None
