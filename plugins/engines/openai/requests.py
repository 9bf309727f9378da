"""Send requests to a server, with limits on rate and retries, and with errors that never show the key.

After 429 and 5xx answers, timeouts, broken connections and malformed answers a request is repeated, with exponential
backoff and jitter. `Retry-After` is followed. After a 429 fewer requests are in flight for a while (additive increase,
multiplicative decrease). Nothing more is requested if the server asks for a pause of over an hour, or answers only 429
for half an hour. A request that keeps failing is `Unanswered`; after ten in a row, or a refused key, no more are sent.
"""

from __future__ import annotations

import asyncio
import email.utils
import json
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from harness.system import extras
from harness.system.json_text import BadJSON, parsed

from .key import Key as Key
from .wire import Malformed, reason_in

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
Gate = Callable[[], AbstractAsyncContextManager[Any]]

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 60.0
LONGEST_REQUESTED_PAUSE_S = 300.0  # a longer pause that a server requests is cut to it
LONGEST_WAIT_S = 3600.0  # if a server requests a longer pause, no more requests are sent
SILENT_S = 1800.0  # after so long with only 429 answers, no more requests are sent
CONNECT_S = 10.0
GIVE_UP = 10  # unanswered requests in a row, after which no more are sent
TIMEOUTS = 3  # quick failures that a timeout counts for, among the retries
HASTE = 0.5  # the same for a 429, which shows that the server works
HOPELESS = (401, 402, 403, 404, 405)  # statuses that every later request would get too


class Refused(Exception):
    """The server refuses this request, and would refuse it again."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


class Unanswered(Exception):
    """A request failed as often as allowed. `hopeless`: any other request would fail too."""

    def __init__(self, reason: str, hopeless: bool = False) -> None:
        super().__init__(reason)
        self.hopeless = hopeless


class _Again(Exception):
    """A try failed, and another may succeed. `wait_s`: the pause that the server requests; `limited`: a 429 answer."""

    def __init__(self, reason: str, cost: float = 1, wait_s: float | None = None, limited: bool = False) -> None:
        super().__init__(reason)
        self.cost, self.wait_s, self.limited = cost, wait_s, limited


class Lost(_Again):
    """A try that was sent and got no answer: the server may have worked, and asks to be paid, for it."""


@dataclass(frozen=True)
class Server:
    """A server's address, and the limits on requests to it. `url` ends with the version: https://host/v1."""

    url: str
    key: Key
    timeout_s: float = 600.0
    retries: int = 8
    concurrency: int = 16

    @property
    def is_local(self) -> bool:
        """Return whether the url names this machine; a proxy is then not used."""
        host = urlsplit(self.url).hostname or ""
        return host == "localhost" or host == "::1" or host.startswith("127.")


class Session:
    """A pool of connections to a server, used within one event loop."""

    def __init__(self, server: Server) -> None:
        self.server, self.pace = server, Pace(server.concurrency)
        self.jitter = random.Random()
        self.unanswered, self.over, self.answered_at = 0, "", time.monotonic()

    async def __aenter__(self) -> Session:
        httpx, server = library(), self.server
        self.client = httpx.AsyncClient(
            headers={**server.key.headers(), "Accept": "application/json"},
            timeout=httpx.Timeout(None, connect=min(CONNECT_S, server.timeout_s)),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=server.concurrency),
            follow_redirects=False,  # the key must not be sent to another host
            trust_env=not server.is_local,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.client.aclose()

    async def get(self, path: str, most_bytes: int, waits: bool = False) -> Any:
        """Return the parsed answer to a GET request; without `waits` only a 429 is tried again, of all failures.

        An answer of more than `most_bytes` is a failure. Raises Unanswered, or Refused if the server refuses.
        """
        return await self.answered(lambda: self.once("GET", path, None, most_bytes), waits)

    async def post(
        self, path: str, body: Mapping[str, Any], most_bytes: int, read: Callable[[Any], T], gate: Gate = nullcontext
    ) -> T:
        """Return `read(answer)` for a POST request, with retries; also if `read` raises Malformed.

        An answer of more than `most_bytes` is a failure. Raises Unanswered, or Refused if the server refuses. Each try,
        `read` included, is inside `gate()`.
        """
        content = json.dumps(body).encode()

        async def attempt() -> T:
            async with gate():
                return read(await self.once("POST", path, content, most_bytes))

        return await self.answered(attempt)

    async def answered(self, attempt: Callable[[], Awaitable[T]], waits: bool = True) -> T:
        """Return what `attempt()` returns, with retries; without `waits` only a 429 is tried again."""
        spent, tries = 0.0, 0
        while True:
            try:
                async with self.pace.slot():
                    if self.over:
                        raise Unanswered(self.over, hopeless=True)
                    result = await attempt()
            except (_Again, Malformed) as failure:
                again = failure if isinstance(failure, _Again) else _Again(f"an answer with {failure}")
                spent, tries = spent + again.cost, tries + 1
                self._require_patience(again)
                if spent > self.server.retries or not (waits or again.limited):
                    raise self._given_up(f"{self._shown(again)} ({tries} {'tries' if tries > 1 else 'try'})") from None
                await self._pause(again, tries)
            except Refused as refusal:
                if refusal.status in HOPELESS and waits:
                    self.over = refusal.reason
                raise
            else:
                self.unanswered, self.answered_at = 0, time.monotonic()
                self.pace.answered()
                return result

    def _require_patience(self, again: _Again) -> None:
        """Raise Unanswered, and send no more requests, if the server requests too long a pause or answers only 429."""
        silent_s = time.monotonic() - self.answered_at
        if again.wait_s is not None and again.wait_s > LONGEST_WAIT_S:
            self.over = f"{self._shown(again)}; it asks to wait {again.wait_s:.3g} s: run the same command later"
        elif again.limited and silent_s > SILENT_S:
            self.over = f"{self._shown(again)}; no other answer for {silent_s:.0f} s: run the same command later"
        else:
            return
        raise Unanswered(self.over, hopeless=True)

    def _given_up(self, reason: str) -> Unanswered:
        self.unanswered += 1
        if self.unanswered >= GIVE_UP:
            self.over = self.over or f"{reason}; {GIVE_UP} requests in a row"
        return Unanswered(reason)

    async def _pause(self, again: _Again, tries: int) -> None:
        """Wait as long as the server requests, else with growing pauses; with jitter, so that requests spread out."""
        backoff = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** (tries - 1)) * self.jitter.uniform(0.5, 1)
        pause = (
            backoff
            if again.wait_s is None
            else min(again.wait_s, LONGEST_REQUESTED_PAUSE_S) * self.jitter.uniform(1, 1.1)
        )
        if again.limited:
            self.pace.limited(pause)
        await asyncio.sleep(pause)

    async def once(
        self, method: str, path: str, body: bytes | None, most_bytes: int, content_type: str = "application/json"
    ) -> Any:
        """Send a request once, and return the parsed answer."""
        async with self.sent(method, path, body, content_type) as response:
            content = await _read(response, most_bytes)
        return self._judged(response, content)

    @asynccontextmanager
    async def sent(
        self, method: str, path: str, body: bytes | None = None, content_type: str = "application/json"
    ) -> AsyncIterator[httpx.Response]:
        """Send a request, and yield the answer as it begins."""
        httpx = library()
        headers = {"Content-Type": content_type}
        try:
            async with (
                asyncio.timeout(self.server.timeout_s),
                self.client.stream(method, self.server.url + path, content=body, headers=headers) as response,
            ):
                yield response
        except TimeoutError:
            raise Lost(f"no answer within {self.server.timeout_s:g} s", cost=TIMEOUTS) from None
        except httpx.RequestError as failure:
            is_sent = not isinstance(failure, (httpx.ConnectError, httpx.ConnectTimeout))
            raise (Lost if is_sent else _Again)(f"{type(failure).__name__}: {failure}") from None
        except httpx.InvalidURL as failure:
            raise Refused(0, self._shown(failure)) from None

    async def lines(self, path: str, most_bytes: int, each: Callable[[bytes], None]) -> None:
        """Call `each(line)` for every line of a file at the server; again from the first line after a failure.

        A line of more than `most_bytes` is a failure. Raises Unanswered, or Refused if the server refuses.
        """

        async def attempt() -> None:
            async with self.sent("GET", path) as response:
                if response.status_code != 200:
                    self._judged(response, await _read(response, most_bytes))
                rest = b""
                async for part in response.aiter_bytes():
                    *whole, rest = (rest + part).split(b"\n")
                    for line in whole:
                        each(line)
                    if len(rest) > most_bytes:
                        raise Lost(f"a line of more than {most_bytes / 2**20:.0f} MiB")
                each(rest)

        await self.answered(attempt)

    def _judged(self, response: httpx.Response, content: bytes) -> Any:
        status, answer = response.status_code, _parsed(content)
        if (
            status == 200
            and isinstance(answer, (dict, list))
            and not (isinstance(answer, dict) and answer.get("error"))
        ):
            return answer
        reason = self._shown(reason_in(answer) or _plain(response, content))
        if 300 <= status < 400:
            raise Refused(404, f"it redirects ({status}): give the url that it leads to")
        if status == 429 and "quota" in reason:
            raise Refused(402, reason)
        if status == 429:
            raise _Again(f"429: {reason}", HASTE, _retry_after(response.headers), limited=True)
        if status >= 500 or status in (200, 408, 409, 425):
            raise _Again(f"{status}: {reason}", wait_s=_retry_after(response.headers))
        raise Refused(status, f"{status}: {reason}")

    def _shown(self, message: object) -> str:
        return self.server.key.shown(str(message))


class Pace:
    """Limits the requests in flight: fewer after a 429, then slowly more again; none until a pause is over."""

    def __init__(self, most: int) -> None:
        self.most, self.allowed, self.busy = most, float(most), 0
        self.not_before = self.cut_at = 0.0
        self.free = asyncio.Condition()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait until a request may be sent, and count it as in flight inside the block."""
        async with self.free:
            await self.free.wait_for(lambda: self.busy < int(self.allowed))
            self.busy += 1
        try:
            await asyncio.sleep(max(0.0, self.not_before - time.monotonic()))
            yield
        finally:
            self.busy -= 1
            async with self.free:
                self.free.notify_all()

    def limited(self, pause_s: float) -> None:
        """Halve the limit, and send nothing for `pause_s`; several 429 answers within a pause halve it only once."""
        now = time.monotonic()
        if now >= self.cut_at:
            self.allowed = max(1.0, self.allowed / 2)
            self.cut_at = now + pause_s
        self.not_before = max(self.not_before, now + pause_s)

    def answered(self) -> None:
        """Count an answer: increase the limit by 1 / limit, up to `most`."""
        self.allowed = min(float(self.most), self.allowed + 1 / self.allowed)


def finished(work: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine and return its result; in a new thread if this one already runs an event loop (a notebook)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(asyncio.run, work).result()


def library() -> Any:
    """Return the module httpx; HarnessError, one line, if it is not installed."""
    extras.require("engine openai", "httpx")
    import httpx

    return httpx


async def _read(response: httpx.Response, most_bytes: int) -> bytes:
    content = bytearray()
    async for part in response.aiter_bytes():
        content += part
        if len(content) > most_bytes:
            raise Lost(f"an answer of more than {most_bytes / 2**20:.0f} MiB")
    return bytes(content)


def _parsed(content: bytes) -> Any:
    with suppress(BadJSON):
        return parsed(content, "answer", lenient=True)
    return None


def _plain(response: httpx.Response, content: bytes) -> str:
    """Describe an answer that does not come from the API: a proxy's page, an incomplete answer."""
    kind = response.headers.get("content-type", "").split(";")[0] or "no type"
    return f"no answer of an OpenAI-compatible API ({kind}): {content.decode(errors='replace')}"


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds > 0 in `retry-after-ms` or `Retry-After` (a number or a date); None if neither gives any."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        with suppress(KeyError, ValueError, TypeError):
            return _some_seconds(float(headers[name]) * unit)
    with suppress(KeyError, ValueError, TypeError, OverflowError):
        return _some_seconds(email.utils.parsedate_to_datetime(headers["retry-after"]).timestamp() - time.time())
    return None


def _some_seconds(seconds: float) -> float | None:
    return seconds if seconds > 0 else None  # also None for NaN
