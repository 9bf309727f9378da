"""Report what a chunk of rows has so far, while it is sampled: about once a second, so that counting costs no time."""

from __future__ import annotations

import time
from collections.abc import Callable

from harness.records import SampleRequest

EVERY_S = 1.0


class ChunkReport:
    """Tells a request's `report` and `tokens` how many rows and tokens a chunk has more than before."""

    def __init__(self, request: SampleRequest) -> None:
        self.request, self.told, self.due = request, (0, 0), time.monotonic() + EVERY_S
        request.tokens(0)

    def look(self, count: Callable[[], tuple[int, int]]) -> None:
        """Report `count()`, the chunk's finished rows and its tokens, if a second has passed; called at each step."""
        if time.monotonic() >= self.due:
            self.tell(*count())
            self.due = time.monotonic() + EVERY_S

    def tell(self, rows: int, tokens: int) -> None:
        """Report that the chunk has these finished rows and tokens; 0 and 0 take back what was reported of it."""
        before, self.told = self.told, (rows, tokens)
        if tokens != before[1]:
            self.request.tokens(tokens - before[1])
        if rows != before[0]:
            self.request.report(rows - before[0])
