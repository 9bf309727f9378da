"""How the site shows docstrings: their aligned lists of names as lists."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Lists(griffe.Extension):
    """Shows the lists of names in docstrings as lists."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = with_lists(obj.docstring.value)


def with_lists(docstring: str) -> str:
    """The docstring with its aligned lists of names ("name  meaning", a meaning may have several lines) as bullets."""
    return "\n\n".join(map(_with_list, docstring.split("\n\n")))


def _with_list(paragraph: str) -> str:
    if not re.match(r"\S[^\n]*? {2,}\S", paragraph):
        return paragraph
    joined = re.sub(r"\n {2,}", " ", paragraph)
    return re.sub(r"^(\S.*?) {2,}", r"- `\1`: ", joined, flags=re.M)
