"""Requests' names, by which our parts in vLLM's processes know what they are.

`d31x7`: drawn, with a prompt of 31 tokens, request 7. `g31x7`: a given response after a prompt of 31 tokens. vLLM puts
`{child}_` before and `-{random}` behind. Any other request is left alone.
"""

from __future__ import annotations

import re
from typing import NamedTuple

FORM = re.compile(r"^(?:(\d+)_)?([dg])(\d+)x(\d+)(?:-[^_]*)?$")


class Name(NamedTuple):
    """Parts of a request's name: its child of n, whether it is drawn, tokens of its prompt, its number."""

    child: int
    drawn: bool
    prompt: int
    number: int


def written(drawn: bool, prompt: int, number: int) -> str:
    """The name that we give."""
    return f"{'d' if drawn else 'g'}{prompt}x{number}"


def read(name: str) -> Name | None:
    """The parts of a name as vLLM has it; None where it is none of ours."""
    found = FORM.match(name)
    if found is None:
        return None
    child, kind, prompt, number = found.groups()
    return Name(int(child or 0), kind == "d", int(prompt), int(number))
