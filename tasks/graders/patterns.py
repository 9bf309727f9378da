"""Search a response by a regular expression, in a process that is ended if the search takes too long.

Some patterns need exponential time on some texts, and Python's `re` cannot be interrupted.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from contextlib import suppress
from multiprocessing.connection import Connection

from harness.system.bounded_child import BoundedChild
from harness.system.lifeline import end_with_owner

LOOK_AT = 20_000  # characters, the last ones
LIMIT_S, START_S = 5.0, 60.0

_lock = threading.Lock()
_children: list[BoundedChild] = []


def last_match(pattern: str, response: str) -> str | None:
    """Return the first group of the pattern's last match, or the match if it has no group; None without a match.

    Raises TimeoutError if the search takes longer than 5 seconds, EOFError if its process was killed.
    """
    with _lock:
        if not _children or not _children[0].alive:
            _children[:] = [BoundedChild(_serve)]
            _children[0].answer(START_S)
        found: str | None = _children[0].ask((pattern, response[-LOOK_AT:]), LIMIT_S)
        return found


def _serve(link: Connection) -> None:
    end_with_owner()
    with suppress(EOFError, KeyboardInterrupt):
        link.send("ready")
        while True:
            pattern, text = link.recv()
            last = deque(re.finditer(pattern, text), maxlen=1)
            link.send((last[0][min(1, last[0].re.groups)] or "") if last else None)
