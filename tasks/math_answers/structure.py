r"""The outer structure of a normal form: its brackets, the elements of a list, tuple, interval or set, sides of =."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

MAX_DEPTH = 30  # of brackets within brackets

_SYMBOL = re.compile(r"\\[A-Za-z]+|\\.|.", re.DOTALL)
_STEP = {**dict.fromkeys(["(", "[", "{", r"\{"], 1), **dict.fromkeys([")", "]", "}", r"\}"], -1)}
_PARTNERS = {"(": (")", "]"), "[": (")", "]"), "{": ("}",), r"\{": (r"\}",)}


class Collection(NamedTuple):
    r"""A list, tuple, interval or set: its brackets ("" for a bare list) and elements."""

    opening: str
    elements: tuple[str, ...]
    closing: str


def is_balanced(text: str) -> bool:
    """Whether every bracket has a partner and at most MAX_DEPTH are open at a time; `(a,b]` is fine."""
    waiting: list[str] = []
    for symbol in _SYMBOL.findall(text):
        step = _STEP.get(symbol, 0)
        if step > 0:
            waiting.append(symbol)
        if len(waiting) > MAX_DEPTH or (step < 0 and (not waiting or symbol not in _PARTNERS[waiting.pop()])):
            return False
    return not waiting


def split(text: str, separator: str) -> list[str]:
    """The parts of a text between separators that stand outside all brackets."""
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
    r"""A normal form as brackets and elements, `\pm` as two of them; None for a single value."""
    opening, inner, closing = _unwrapped(text)
    elements = split(inner, ",")
    if opening != r"\{" and len(elements) == 1 and not _has_plus_minus(text):
        return None
    if len(elements) == 1 and opening in ("(", "["):
        return None
    if opening in ("", r"\{"):
        elements = [one for element in elements for one in _plus_minus(element)]
    return Collection(opening, tuple(elements), closing)


def _has_plus_minus(text: str) -> bool:
    return text.count(r"\pm") == 1 and r"\mp" not in text


def _plus_minus(element: str) -> list[str]:
    if not _has_plus_minus(element):
        return [element]
    before, after = element.split(r"\pm")
    return [f"{before}+{after.strip()}".lstrip("+"), f"{before}-{after.strip()}"]


def _unwrapped(text: str) -> tuple[str, str, str]:
    """Opening bracket, inside and closing bracket of a text that one pair holds as a whole; else "", text, ""."""
    opening = text[:2] if text.startswith(r"\{") else text[:1]
    if opening not in ("(", "[", r"\{"):
        return "", text, ""
    depth = 0
    for match in _SYMBOL.finditer(text):
        depth += _STEP.get(match.group(), 0)
        if not depth:
            closing = match.group()
            whole = match.end() == len(text) and closing in _PARTNERS[opening]
            return (opening, text[len(opening) : match.start()], closing) if whole else ("", text, "")
    return "", text, ""
