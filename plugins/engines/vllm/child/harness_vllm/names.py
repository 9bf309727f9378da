"""Names of requests, from which the extensions in vLLM's processes read what a request is.

`d31x7`: request 7, sampled after a prompt of 31 tokens. `g31x7`: a given response after a prompt of 31 tokens. vLLM
adds `{child}_` in front and `-{random}` at the end. Requests with other names are ignored.
"""

from __future__ import annotations

import re
from typing import NamedTuple

FORM = re.compile(r"^(?:(\d+)_)?([dg])(\d+)x(\d+)(?:-[^_]*)?$")


class Name(NamedTuple):
    """Parts of a request's name: which of n children, whether it is sampled, tokens of its prompt, its number."""

    child: int
    sampled: bool
    prompt: int
    number: int


def written(sampled: bool, prompt: int, number: int) -> str:
    """Return the name for a request; `prompt`: the number of its prompt's tokens."""
    return f"{'d' if sampled else 'g'}{prompt}x{number}"


def read(name: str) -> Name | None:
    """Return the parts of a name as vLLM has it; None if the name has another form."""
    match = FORM.match(name)
    if match is None:
        return None
    child, kind, prompt, number = match.groups()
    return Name(int(child or 0), kind == "d", int(prompt), int(number))
