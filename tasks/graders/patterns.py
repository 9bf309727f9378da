"""Search a response by a regular expression, in a process that is ended if the search takes too long.

Some patterns need exponential time on some texts, and Python's `re` cannot be interrupted.
"""

from __future__ import annotations

import re
from collections import deque

from harness.system.children import limited

LOOK_AT = 20_000  # characters, the last ones
LIMIT_S = 5.0


def last_match(pattern: str, response: str) -> str | None:
    """Return the first group of the pattern's last match, or the match if it has no group; None without a match.

    Raises TimeoutError if the search takes longer than 5 seconds, EOFError if its process was killed.
    """
    return limited(_searched, (pattern, response[-LOOK_AT:]), LIMIT_S)


def _searched(search: tuple[str, str]) -> str | None:
    last = deque(re.finditer(*search), maxlen=1)
    return (last[0][min(1, last[0].re.groups)] or "") if last else None
