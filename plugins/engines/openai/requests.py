"""Send requests to a server, with its key, retries, and a limit on what is in flight; no error shows the key.

After 429 and 5xx answers, timeouts, broken connections and answers that make no sense a request is repeated, with
exponential backoff and jitter. `Retry-After` is followed; after a 429 all requests wait. No more are sent after ten in
a row have failed for good, after a refused key, or if the server asks for a pause of over ten minutes.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import random
import re
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from harness import HarnessError
from harness.system import extras
from harness.system.json_text import BadJSON, parsed

from .wire import Again, Failed, Refused, reason_in

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")

SHOWN = 300  # characters of a server's message
VARIABLE = re.compile(r"[A-Z][A-Z_]{0,63}[0-9]{0,2}")  # a name that cannot be a key: those have digits amid letters
PLACEHOLDERS = {"dummy-key", "lm-studio", "no-key", "not-needed", "ollama", "placeholder", "sk-no-key-required"}
SHORTEST_KEY = 6  # a shorter one ("EMPTY", "x") is no secret, and redacting it would remove ordinary words

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 60.0
LONGEST_WAIT_S = 600.0  # if a server requests a longer pause, no more requests are sent
CONNECT_S = 10.0
GIVE_UP = 10  # requests in a row that failed for good, after which no more are sent
TIMEOUTS = 3  # quick failures that a timeout counts for, among the retries
HASTE = 0.5  # the same for a 429, which shows that the server works
HOPELESS = (401, 402, 403, 404, 405)  # statuses that every later request would get too
MOST_BYTES = 2**26  # of an answer


@dataclass(frozen=True)
class Key:
    """The name of the environment variable with the key; the key itself is read when needed, never a field of this.

    required   whether a missing key is an error
    """

    variable: str
    required: bool

    def __post_init__(self) -> None:
        if not (VARIABLE.fullmatch(self.variable) or self.variable in os.environ):
            raise HarnessError(
                "openai: key_env must be the name of the environment variable that holds the key, in capitals, e.g. "
                "MY_API_KEY; what was given (not shown: it may be the key itself) is none, and none of that name is set"
            )

    @property
    def name(self) -> str:
        """Return the variable's name if it cannot be the key itself, given by mistake; else a description."""
        return self.variable if VARIABLE.fullmatch(self.variable) else "the variable of key_env"

    def headers(self) -> dict[str, str]:
        """Return the HTTP header with the key; {} without a key, or HarnessError if the key is required."""
        key = self._value()
        if not key:
            if self.required:
                raise HarnessError(f"openai: key_env={self.name}, but no such environment variable is set")
            return {}
        if not key.isascii() or not key.isprintable() or " " in key:
            raise HarnessError(f"openai: the key in {self.name} holds characters that no key has: set it anew")
        return {"Authorization": f"Bearer {key}"}

    def redacted(self, value: Any) -> Any:
        """Replace the key by `[key]` in all texts of a JSON value: plain, percent-encoded, in hex, or in base64.

        A key of under six characters is no secret, and neither is a common placeholder: these are not replaced.
        """
        key = self._value()
        if len(key) < SHORTEST_KEY or not key.isascii() or key.lower() in PLACEHOLDERS:
            return value
        pattern = _forms_of(key)

        def clear(value: Any) -> Any:
            if isinstance(value, str):
                return pattern.sub("[key]", value)
            if isinstance(value, dict):
                return {clear(name): clear(item) for name, item in value.items()}
            return [clear(item) for item in value] if isinstance(value, list) else value

        return clear(value)

    def shown(self, text: str) -> str:
        """Return the text as one line of printable characters, cut after 300, without the key."""
        plain = "".join(character if character.isprintable() else " " for character in self.redacted(text))
        line = " ".join(plain.split())
        return line if len(line) <= SHOWN else f"{line[:SHOWN]} ..."

    def _value(self) -> str:
        return os.environ.get(self.variable, "").strip()


@lru_cache(maxsize=8)
def _forms_of(key: str) -> re.Pattern[str]:
    """Return a pattern for a key: plain, percent-encoded in part or whole, in hex, in base64 at any offset."""
    raw = key.encode()
    forms = {"".join(f"(?:{re.escape(chr(byte))}|%{byte:02x})" for byte in raw)}
    forms.add("[ :]?".join(f"{byte:02x}" for byte in raw))
    for before in range(3):  # number of bytes before the key that share its first group of four base64 characters
        start, end = -(-before * 8 // 6), (before + len(raw)) * 8 // 6
        encoded = base64.b64encode(bytes(before) + raw + bytes(2)).decode()[start:end]
        either = {"+": "[-+]", "/": "[_/]"}  # also the base64 alphabet of URLs
        forms.add(r"\s*".join(either.get(letter, letter) for letter in encoded))
    return re.compile("|".join(sorted(forms, key=len, reverse=True)), re.IGNORECASE)


@dataclass(frozen=True)
class Server:
    """A server's address, which ends with the version (https://host/v1), its key, and the seconds of one try."""

    url: str
    key: Key
    timeout_s: float

    @asynccontextmanager
    async def session(self, concurrency: int) -> AsyncIterator[Session]:
        """Yield a pool of connections, with so many requests in flight; HarnessError if httpx is not installed."""
        extras.require("engine openai", "httpx")
        import httpx

        async with httpx.AsyncClient(
            headers={**self.key.headers(), "Accept": "application/json", "Content-Type": "application/json"},
            timeout=httpx.Timeout(None, connect=min(CONNECT_S, self.timeout_s)),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=concurrency),
            follow_redirects=False,  # the key must not be sent to another host
            mounts={f"all://{host}": None for host in ("localhost", "127.0.0.1", "[::1]")},  # by no proxy
        ) as client:
            yield Session(self, client, concurrency)


class Session:
    """A pool of connections to a server, used within one event loop. `over`: why no more requests are sent."""

    def __init__(self, server: Server, client: httpx.AsyncClient, concurrency: int) -> None:
        self.server, self.client, self.slots = server, client, asyncio.Semaphore(concurrency)
        self.failed, self.not_before, self.over = 0, 0.0, ""

    async def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        read: Callable[[Any], T] = lambda answer: answer,
        gate: Callable[[], AbstractAsyncContextManager[Any]] = nullcontext,
        retries: int = 1,
    ) -> T:
        """Return `read(answer)` for a request, with retries, also if `read` raises Again.

        Each try, `read` included, is inside `gate()`. Raises Failed, or Refused if the server refuses.
        """
        content = None if body is None else json.dumps(body).encode()
        spent, tries = 0.0, 0
        while True:
            try:
                async with self.slots:
                    await asyncio.sleep(max(0.0, self.not_before - time.monotonic()))
                    if self.over:
                        raise Failed(self.over)
                    async with gate():
                        result = read(await self._once(method, path, content))
            except Again as again:
                spent, tries = spent + again.cost, tries + 1
                await asyncio.sleep(self._pause(again, tries, spent > retries))
            except Refused as refusal:
                if refusal.status in HOPELESS:
                    self.over = str(refusal)
                raise
            else:
                self.failed = 0
                return result

    def _pause(self, again: Again, tries: int, is_last: bool) -> float:
        """Return how long to wait: as the server requests, else longer each time; with jitter, so that requests spread.

        Failed if that was the last try, or the pause is too long.
        """
        reason = self.server.key.shown(str(again))
        if again.wait_s > LONGEST_WAIT_S:
            self.over = f"{reason}; it asks to wait {again.wait_s:.3g} s: run the same command later"
            raise Failed(self.over)
        if is_last:
            reason = f"{reason} ({tries} {'tries' if tries > 1 else 'try'})"
            self.failed += 1
            if self.failed >= GIVE_UP:
                self.over = self.over or f"{reason}; {GIVE_UP} requests in a row"
            raise Failed(reason)
        backoff = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** (tries - 1)) * random.uniform(0.5, 1)
        pause = again.wait_s * random.uniform(1, 1.1) or backoff
        if again.is_limited:
            self.not_before = max(self.not_before, time.monotonic() + pause)
        return pause

    async def _once(self, method: str, path: str, content: bytes | None) -> Any:
        """Send a request once, and return the parsed answer, without the key."""
        import httpx

        received = bytearray()
        try:
            async with (
                asyncio.timeout(self.server.timeout_s),
                self.client.stream(method, self.server.url + path, content=content) as response,
            ):
                async for part in response.aiter_bytes():
                    received += part
                    if len(received) > MOST_BYTES:
                        raise Again(f"an answer of more than {MOST_BYTES / 2**20:.0f} MiB", is_paid=True)
        except TimeoutError:
            raise Again(f"no answer within {self.server.timeout_s:g} s", TIMEOUTS, is_paid=True) from None
        except (httpx.RequestError, httpx.InvalidURL) as failure:
            is_sent = not isinstance(failure, (httpx.ConnectError, httpx.ConnectTimeout))
            raise Again(f"{type(failure).__name__}: {failure}", is_paid=is_sent) from None
        status, answer = response.status_code, None
        with suppress(BadJSON):
            answer = self.server.key.redacted(parsed(bytes(received), "answer", lenient=True))
        is_error = isinstance(answer, dict) and answer.get("error")
        if status == 200 and isinstance(answer, (dict, list)) and not is_error:
            return answer
        kind = response.headers.get("content-type", "").split(";")[0] or "no type"
        page = f"no answer of an OpenAI-compatible API ({kind}): {received.decode(errors='replace')}"
        reason = self.server.key.shown(f"{status}: {reason_in(answer) or page}")
        if 300 <= status < 400:
            raise Refused(404, f"it redirects ({status}): give the url that it leads to")
        wait_s = 0.0
        with suppress(KeyError, ValueError):  # a date is not followed
            wait_s = max(0.0, float(response.headers["retry-after"]))  # 0 for NaN
        if status == 429 and "quota" not in reason:
            raise Again(reason, HASTE, wait_s, is_limited=True)
        if status >= 500 or status in (200, 408, 409, 425):
            raise Again(reason, wait_s=wait_s)
        raise Refused(402 if status == 429 else status, reason)


def finished(work: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine and return its result; in a new thread if this one already runs an event loop (a notebook)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(asyncio.run, work).result()
