"""Count what requests use, in all runs of a pool, and send none that could exceed a cap.

A process that pays for a pool has a file of its own in the pool's folder, `spent.ID.json`, which holds its tokens so
far and those that the requests in flight may use at most; a batch has one too, written before the batch is created. So
what a killed run had in flight counts as spent, at its worst, and the sum over all files is the most that the pool may
have cost.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness import HarnessError
from harness.records import Limits
from harness.system.files import disk_errors, write_atomically
from harness.system.json_text import parsed

from .prices import Price, Tokens
from .requests import Lost

PAUSE_S = 0.05  # between two looks whether a request fits now
_checks: dict[Path, Tokens] = {}  # a pool's folder, which does not exist yet -> what checks of the server used


class OverCap(Exception):
    """The next request could exceed a cap."""


@dataclass
class Entry:
    """One file: the tokens that a process or a batch has used, and those that are in flight, at their worst.

    batch     its id at the server, "" before it is created; None: not of a batch
    is_open   whether the batch's results are still to be fetched
    """

    name: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    tokens: Tokens = field(default_factory=Tokens)
    in_flight: Tokens = field(default_factory=Tokens)
    batch: str | None = None
    is_open: bool = False

    @property
    def worst(self) -> Tokens:
        """Return the most that it can have used."""
        return self.tokens + self.in_flight


class Account:
    """What the pool in `folder` has used. `opened` reads what others have spent; only then is anything written."""

    def __init__(self, batch: bool = False) -> None:
        self.batch, self.limits = batch, Limits()
        self.price: Price | None = None
        self.folder: Path | None = None
        self.own, self.others = Entry(), list[Entry]()
        self.is_open, self.live, self.over = False, 0, ""

    def charge(self, limits: Limits, price: Price | None) -> None:
        """Set limits and price, and read what the pool of `limits.folder` has used so far."""
        before, self.folder = self.folder, limits.folder
        self.limits, self.price = limits, price
        if before in _checks and self.folder:
            _checks[self.folder] = _checks.pop(before)
        self.own = Entry()
        self._read_others()

    @contextmanager
    def opened(self, folder: Path | None) -> Iterator[None]:
        """Keep the account in a pool's folder while the code inside runs; None: the responses are kept nowhere.

        HarnessError if prices or caps are given and another process is paying for the same pool.
        """
        self.over = ""
        if folder is None:
            yield
            return
        with _locked(folder) if self.is_charged else nullcontext():
            if folder != self.folder:
                self.folder, self.own = folder, Entry()
            self.own.tokens += _checks.pop(folder, Tokens())
            self._read_others()
            self.is_open = True
            try:
                self.write(self.own)
                yield
            finally:
                self.write(self.own, durable=self.is_charged)
                self.is_open = False

    @property
    def is_charged(self) -> bool:
        """Whether money or a cap is at stake."""
        return bool(self.price or self.limits.max_cost or self.limits.max_tokens or self.batch)

    @asynccontextmanager
    async def request(self, worst: Tokens) -> AsyncIterator[None]:
        """Wait until the request cannot exceed a cap, and count it as in flight inside the block.

        OverCap if it does not fit even when no other is in flight. A request that is broken off may have been paid for:
        it stays in flight.
        """
        while not self.fits(worst):
            if not self.live:
                raise OverCap(self.stopped(worst))
            await asyncio.sleep(PAUSE_S)
        self.own.in_flight, self.live = self.own.in_flight + worst, self.live + 1
        self.write(self.own)
        is_lost = True
        try:
            yield
            is_lost = False
        except Exception as failure:
            is_lost = isinstance(failure, Lost)
            raise
        finally:
            self.live -= 1
            if not is_lost:
                self.own.in_flight -= worst
            self.write(self.own)

    def count(self, tokens: Tokens) -> None:
        """Count what an answer says that its request used."""
        if self.is_open or not self.folder:
            self.own.tokens += tokens
        else:
            _checks[self.folder] = _checks.get(self.folder, Tokens()) + tokens

    def fits(self, worst: Tokens, batch: bool = False) -> bool:
        """Whether all that is spent and in flight, and this, is within the caps."""
        cost, most = self._cost() + (self.price.cost(worst, batch) if self.price else 0), self.limits.max_cost
        within = most is None or cost <= most * (1 + 1e-12)
        return within and (self.limits.max_tokens is None or self._tokens() + worst.total <= self.limits.max_tokens)

    def stopped(self, worst: Tokens, batch: bool = False) -> str:
        """Return the line, also kept in `over`, that says which cap a request does not fit."""
        price, limits = self.price, self.limits
        if price and limits.max_cost is not None and self._cost() + price.cost(worst, batch) > limits.max_cost:
            option, cap = "--max-cost", price.shown(limits.max_cost)
            so_far, more = price.shown(self._cost()), price.shown(price.cost(worst, batch))
        else:
            option, cap = "--max-tokens-total", f"{limits.max_tokens:,} tokens"
            so_far, more = f"{self._tokens():,}", f"{worst.total:,}"
        self.over = (
            f"openai: stopped before {option}, {cap}: {so_far} spent on this pool in all runs, and what comes next may "
            f"take {more}; all that was paid for is kept: go on with a higher {option}"
        )
        return self.over

    # Files.

    def write(self, entry: Entry, durable: bool = False) -> None:
        """Write an entry's file, which a kill leaves whole; `durable` waits for the disk, for the loss of power."""
        if self.is_open:
            values = {name: value for name, value in asdict(entry).items() if name != "name"}
            write_atomically(self.path(entry), (json.dumps(values) + "\n").encode(), durable)

    def path(self, entry: Entry) -> Path:
        """Return the file of an entry; the account must have a folder."""
        assert self.folder is not None
        return self.folder / f"spent.{entry.name}.json"

    def begin_batch(self, worst: Tokens) -> Entry:
        """Return the entry of a batch that will be created, written before that."""
        entry = Entry(in_flight=worst, batch="", is_open=True)
        self.others.append(entry)
        self.write(entry, durable=True)
        return entry

    def end_batch(self, entry: Entry, tokens: Tokens) -> None:
        """Count what a batch has used; it is no longer open."""
        entry.tokens, entry.in_flight, entry.is_open = tokens, Tokens(), False
        self.write(entry, durable=True)

    @property
    def batches(self) -> list[Entry]:
        """Return the batches whose results are still to be fetched."""
        return [entry for entry in self.others if entry.is_open]

    def _read_others(self) -> None:
        if self.folder:
            self.others = [entry for entry in entries(self.folder) if entry.name != self.own.name]

    # Sums, and what is shown of them.

    def _entries(self) -> list[Entry]:
        checks = Entry(tokens=_checks.get(self.folder, Tokens())) if self.folder else Entry()
        return [*self.others, self.own, checks]

    def _tokens(self) -> int:
        return sum(entry.worst.total for entry in self._entries())

    def _cost(self, in_flight: bool = True) -> float:
        price = self.price
        if price is None:
            return 0.0
        spent = ((entry.worst if in_flight else entry.tokens, entry.batch is not None) for entry in self._entries())
        return sum(price.cost(tokens, batch) for tokens, batch in spent)

    def spending(self) -> str:
        """Return what the pool has cost so far, for progress: "0.12 of 5.00 USD"; "" without prices or cap."""
        used = sum(entry.tokens.total for entry in self._entries())
        if self.price is None:
            return f"{used:,} of {self.limits.max_tokens:,} tokens paid" if self.limits.max_tokens else ""
        cost, cap = self.price.shown(self._cost(in_flight=False)), self.limits.max_cost
        return cost if cap is None else f"{cost.split()[0]} of {self.price.shown(cap)}"

    def bill(self) -> str:
        """Return one line about all that the pool has used, by other processes too; "" if it has used nothing."""
        self._read_others()
        used, lost = Tokens(), Tokens()
        for entry in self._entries():
            used, lost = used + entry.tokens, lost + entry.in_flight
        if not (used.requests or lost.requests):
            return ""
        cached = f" ({used.cached:,} of them cached)" if used.cached else ""
        reasoning = f" ({used.reasoning:,} of them reasoning)" if used.reasoning else ""
        cost = f": {self.price.shown(self._cost(in_flight=False))}" if self.price else ""
        parts = [
            f"openai: {used.requests:,} requests, {used.prompt:,} prompt tokens{cached}, {used.completion:,} response "
            f"tokens{reasoning}{cost}, in all runs of this pool",
            f"estimated, since the server did not count: {used.guessed:,} of them" if used.guessed else "",
            f"requests without an answer: {lost.requests:,}, which may cost {self._lost(lost)}"
            if lost.requests
            else "",
            *(f"batch {entry.batch} goes on at the server: the same command fetches it" for entry in self.batches),
        ]
        return "; ".join(filter(None, parts))

    def _lost(self, lost: Tokens) -> str:
        price = self.price
        return f"up to {price.shown(self._cost() - self._cost(False))}" if price else f"up to {lost.total:,} tokens"


def entries(folder: Path) -> list[Entry]:
    """Return what is known of the tokens that were used for the pool in a folder; HarnessError if a file is damaged."""
    return [_read(path) for path in sorted(folder.glob("spent.*.json"))]


def _read(path: Path) -> Entry:
    with disk_errors(path):
        content = path.read_bytes()
    try:
        values: dict[str, Any] = parsed(content, "usage")
        counts: dict[str, Any] = {name: Tokens(**values.pop(name)) for name in ("tokens", "in_flight")}
        return Entry(name=path.name.split(".")[1], **counts, **values)
    except (ValueError, TypeError, KeyError, AttributeError) as failure:
        raise HarnessError(
            f"openai: {path} is damaged ({failure}): delete it; what it counted is then not in the sum"
        ) from None


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the pool's folder, so that no other process pays for the same pool; not where a disk has no locks."""
    with disk_errors(folder):
        handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HarnessError(f"openai: another run is paying for this pool ({folder}): wait for its end") from None
        except OSError:
            pass  # a disk without locks
        yield
    finally:
        os.close(handle)
