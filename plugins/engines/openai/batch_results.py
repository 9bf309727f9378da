"""Read a batch's results line by line, and write their rows to the journals of their problems.

A request's `custom_id` is the name of its problem's journal, its first row, and the number of its rows. A line may come
twice, since a download that broke off begins again: it counts once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from harness.system.json_text import parsed

from . import journal
from .prices import Tokens
from .wire import Choice, Malformed, reason_in

if TYPE_CHECKING:
    from .engine import OpenAI

CUSTOM_ID = re.compile(r"([0-9a-f]{12})-(\d{1,9})-(\d{1,4})")


class Results:
    """The results of a batch of at most `most` requests. `example`: the journal of any problem of the pool."""

    def __init__(self, engine: OpenAI, example: Path, most: int) -> None:
        self.engine, self.folder, self.most = engine, example.parent, most
        self.suffix = example.name.removeprefix(example.name.partition(".")[0])
        self.tokens: dict[str, Tokens] = {}
        self.failures: dict[tuple[str, int], str] = {}
        self.kept: dict[str, set[int]] = {}

    @property
    def used(self) -> Tokens:
        """Return the tokens of all results."""
        return sum(self.tokens.values(), Tokens())

    def add(self, line: bytes) -> None:
        """Write a result's rows to its problem's journal, or note why they failed; other lines are ignored."""
        try:
            result = parsed(line, "result", lenient=True)
            match = CUSTOM_ID.fullmatch(result["custom_id"])
        except (ValueError, TypeError, KeyError):
            return
        if match is None or (match[0] not in self.tokens and len(self.tokens) >= self.most):
            return
        name, rows = match[1], range(int(match[2]), int(match[2]) + int(match[3]))
        answer = result.get("response")
        body = answer.get("body") if isinstance(answer, dict) else None
        if isinstance(answer, dict) and answer.get("status_code") == 200:
            choices, self.tokens[match[0]] = self.engine._read(body, len(rows), ())
            if not isinstance(choices, Malformed):
                return self._keep(name, {rows[at]: choice for at, choice in choices.items()})
            reason = f"an answer with {choices}"
        else:
            reason = self.engine._server.key.shown(reason_in(body) or reason_in(result) or "the request failed")
        self.failures |= dict.fromkeys(((name, row) for row in rows), f"batch: {reason}")

    def _keep(self, name: str, choices: Mapping[int, Choice]) -> None:
        if name not in self.kept:
            self.kept[name] = set(journal.read(self._path(name)))
        new = {row: choice for row, choice in choices.items() if row not in self.kept[name]}
        journal.append(self._path(name), new, durable=False)
        self.kept[name] |= set(new)

    def sync(self) -> None:
        """Wait until all that was written is on the disk."""
        for name in self.kept:
            journal.append(self._path(name), {}, durable=True)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}{self.suffix}"
