"""Count the tokens that vLLM samples and the rows that end, while its requests run; report them about once a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from . import names

EVERY_S = 1.0


class Counts:
    """Counts what a vLLM engine's core puts out of sampled responses; nothing where this vLLM has another form.

    report   called with the tokens and the ended rows since the last time
    """

    def __init__(self, engine: Any) -> None:
        self.tokens = self.rows = 0
        self.due = 0.0
        self.report: Callable[[int, int], None] = lambda tokens, rows: None
        core: Any = getattr(engine, "engine_core", None)
        get_output: Any = getattr(core, "get_output", None)
        if get_output is None:
            return

        def counted() -> Any:
            outputs = get_output()
            for each in getattr(outputs, "outputs", ()):
                self._count(each)
            return outputs

        core.get_output = counted

    def _count(self, output: Any) -> None:
        name = names.read(str(getattr(output, "request_id", "")))
        if name is not None and name.sampled:
            self.tokens += len(getattr(output, "new_token_ids", ()))
            self.rows += getattr(output, "finish_reason", None) is not None

    def look(self) -> None:
        """Report what is new if a second has passed since the last time."""
        if (self.tokens or self.rows) and time.monotonic() >= self.due:
            self.report(self.tokens, self.rows)
            self.tokens = self.rows = 0
            self.due = time.monotonic() + EVERY_S
