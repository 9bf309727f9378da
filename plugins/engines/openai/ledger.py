"""What a pool's requests have used in all runs, the caps on it, and the responses that are paid for and not stored yet.

Both are files in the pool's folder `paid`, to which lines are only added, so that a kill leaves them whole. Before a
request is sent, the most that it can use is added to `spent.jsonl`, and with its answer what it used less. So a request
without an answer, which may have been paid for, counts at its worst. `HASH.paid.jsonl` holds a problem's
responses as they arrive. A line is 16 hex digits of the SHA-256 of what follows, a space, and a JSON value.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import math
import os
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from harness import HarnessError, Message
from harness.records import Limits
from harness.system.files import disk_errors
from harness.system.json_text import parsed

from .requests import Failed, size

Tokens: TypeAlias = npt.NDArray[np.int64]  # (3,): requests, tokens of their prompts, tokens of their responses

TEMPLATE_TOKENS = 100  # more than a chat template adds to the texts of a prompt
PAUSE_S = 0.05  # between two looks whether a request fits now


def worst_case(prompt: Sequence[Message], max_tokens: int) -> Tokens:
    """Return the most that one request can use: no token is shorter than a byte."""
    return np.array([1, sum(size(part["content"]) for part in prompt) + TEMPLATE_TOKENS, max_tokens], np.int64)


def shown(money: float) -> str:
    """Return an amount with the digits that count: 12.30, 0.00123."""
    digits = 2 if money >= 1 or money <= 0 else 2 - math.floor(math.log10(money))
    return f"{money:,.{min(digits, 12)}f}"


class Ledger:
    """What the pool of `limits.folder` has used at most, and its caps; nothing is written but while it is open.

    prices     money per million tokens of prompts and of responses
    unwritten  what was used before the folder existed (by checks)
    over       the line that says which cap a request did not fit
    """

    def __init__(self, limits: Limits, prices: tuple[float, float], unwritten: Iterable[Tokens] = ()) -> None:
        self.limits, self.path = limits, limits.folder and limits.folder / "spent.jsonl"
        self.rates = np.array([0, *prices]) / 1e6
        self.unwritten = list(unwritten)
        self.is_open, self.live, self.over = False, 0, ""
        self.read()

    @property
    def is_charged(self) -> bool:
        """Whether money or a cap is at stake."""
        return bool(self.rates.any() or self.limits.max_cost or self.limits.max_tokens)

    def read(self) -> None:
        """Sum what was written, by other runs too."""
        written = lines(self.path) if self.path else []
        self.spent: Tokens = np.array([[0, 0, 0], *written, *self.unwritten], np.int64).sum(axis=0)

    def add(self, tokens: Tokens) -> None:
        """Add tokens, in the file too if it is open."""
        self.spent = self.spent + tokens
        self.unwritten.append(tokens)
        if self.is_open and self.path:
            append(self.path, [each.tolist() for each in self.unwritten], durable=self.is_charged)
            self.unwritten.clear()

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Write what is added inside; HarnessError if there is a cap or a price and another run pays for the pool."""
        assert self.path
        with disk_errors(self.path):
            lock = self.path.open("ab")
        with lock:
            try:
                if self.is_charged:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                where = self.path.parent
                raise HarnessError(f"openai: another run is paying for this pool ({where}): wait for its end") from None
            except OSError:
                pass  # a disk without locks
            self.read()
            self.is_open = True
            try:
                yield
            finally:
                self.is_open = False

    @asynccontextmanager
    async def request(self, worst: Tokens) -> AsyncIterator[None]:
        """Wait until the request cannot exceed a cap, and count it at its worst inside, and for good if it may be paid.

        Failed if it does not fit even when no other is in flight.
        """
        while line := self.exceeded(worst):
            if not self.live:
                self.over = line
                raise Failed(line)
            await asyncio.sleep(PAUSE_S)
        self.add(worst)
        self.live += 1
        try:
            yield
        except Failed as failure:
            if not failure.is_paid:
                self.add(-worst)
            raise
        finally:
            self.live -= 1

    def exceeded(self, worst: Tokens) -> str:
        """Return which cap this exceeds together with all that is spent and in flight, as a line; "" if none."""
        money = ("--max-cost", self.limits.max_cost, self.rates, shown)
        tokens = ("--max-tokens-total", self.limits.max_tokens, np.array([0, 1, 1]), "{:,.0f} tokens".format)
        for option, cap, weights, text in (money, tokens):
            spent, more = float(self.spent @ weights), float(worst @ weights)
            if cap is not None and spent + more > cap * (1 + 1e-12):
                return (
                    f"openai: stopped before {option}, {text(cap)}: {text(spent)} spent on this pool in all runs, and "
                    f"what comes next may take {text(more)}; what was paid for is kept: go on with a higher {option}"
                )
        return ""

    @property
    def cost(self) -> str:
        """What has been spent, in money."""
        return shown(float(self.spent @ self.rates))

    def spending(self) -> str:
        """Return what the pool has cost so far: "0.12 of 5.00 spent"; "" without prices or cap."""
        cap, most = self.limits.max_cost, self.limits.max_tokens
        if self.rates.any():
            return f"{self.cost}{f' of {shown(cap)}' if cap else ''} spent"
        return f"{self.spent[1:].sum():,} of {most:,} tokens spent" if most else ""

    def bill(self) -> str:
        """Return one line about all that the pool has used, in other runs too; "" if it has used nothing."""
        self.read()
        requests, prompt, completion = self.spent
        cost = f": {self.cost}" if self.rates.any() else ""
        tokens = f"{prompt:,} prompt tokens, {completion:,} response tokens{cost}"
        return f"openai: {requests:,} requests, {tokens}, in all runs of this pool" if requests else ""


# Files to which lines are only added.


def append(path: Path, values: Iterable[Any], durable: bool) -> None:
    """Add lines to a file; `durable` waits for the disk."""
    contents = [json.dumps(value).encode() for value in values]
    with disk_errors(path), path.open("ab") as file:
        file.write(b"".join(b"%s %s\n" % (_digest(content), content) for content in contents))
        file.flush()
        if durable:
            os.fsync(file.fileno())


def lines(path: Path) -> list[Any]:
    """Return a file's lines, [] if there is none; one that a killed run left unfinished is cut off.

    HarnessError, with the remedy, if a line is damaged.
    """
    if not path.exists():
        return []
    with disk_errors(path):
        content = path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            os.truncate(path, len(whole))
    pairs = [line.partition(b" ") for line in whole.splitlines()]
    for number, (digest, _, text) in enumerate(pairs, 1):
        if digest != _digest(text):
            raise HarnessError(
                f"openai: {path}, line {number}, is damaged: delete the file; what it holds is then not counted, and "
                "its responses are asked for (and paid for) again"
            )
    return [parsed(text, str(path), lenient=True) for _, _, text in pairs]


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest()[:16].encode()
