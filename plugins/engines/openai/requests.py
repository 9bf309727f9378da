"""Requests to an OpenAI-compatible server: what is written, how it is sent, and how an answer is read, field by field.

Supported (as documented July to November 2026): OpenAI's chat completions and legacy completions; vLLM's
`return_token_ids`, `top_k` and `min_p`; llama.cpp, which gives log-probabilities of plain completions in the form of
chat. If a server refuses an optional field, it is left out (`Form`); a field that a sampler needs is never left out.

After 429 and 5xx answers, timeouts, broken connections and answers that make no sense a request is repeated, with
exponential backoff and jitter. `Retry-After` is followed; after a 429 all requests wait. No more are sent after ten in
a row have failed for good, after a refused key, or if the server asks for a pause of over ten minutes. No error shows
the key.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
import os
import random
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache
from typing import Any, TypeVar

from harness import HarnessError, Message, Sampler
from harness.records import SampleRequest
from harness.system import extras
from harness.system.json_text import BadJSON, parsed

T = TypeVar("T")

PATHS = {"chat": "/chat/completions", "completions": "/completions"}
# Each is left out if a server refuses it; in this order if the server does not name the refused field.
OPTIONAL = ("return_token_ids", "repetition_penalty", "logprobs", "seed")
# A server's defaults may filter (vLLM takes a model's generation config, llama.cpp top_k = 40 and min_p = 0.05).
NEUTRAL = {"temperature": 1.0, "top_p": 1.0, "min_p": 0.0, "top_k": -1, "repetition_penalty": 1.0}
EXTRA = ("min_p", "top_k", "repetition_penalty")  # of NEUTRAL, those that OpenAI does not know
TOO_LONG = re.compile(r"context (length|size|window)|too (large|long)|at most \d+", re.I)

STOPPED = ("stop", "eos", "eos_token", "end_turn", "stop_sequence", "content_filter", "tool_calls", "function_call")
CUT = ("length", "max_tokens", "max_length")
INT32 = 2**31
BYTES_A_TOKEN = 4  # of text, where a server counts no tokens
MOST_BYTES = 2**26  # of an answer

SHOWN = 300  # characters of a server's message
VARIABLE = re.compile(r"[A-Z][A-Z_]{0,63}[0-9]{0,2}")  # a name that cannot be a key: those have digits amid letters
PLACEHOLDERS = {"dummy-key", "lm-studio", "no-key", "not-needed", "ollama", "placeholder", "sk-no-key-required"}
SHORTEST_KEY = 6  # a shorter one ("EMPTY", "x") is no secret, and redacting it would remove ordinary words

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 60.0
LONGEST_WAIT_S = 600.0  # if a server requests a longer pause, no more requests are sent
CONNECT_S = 10.0
GIVE_UP = 10  # requests in a row that failed for good, after which no more are sent
TIMEOUT, LIMITED = 3, 0.5  # tries that a timeout counts for, and a 429, which shows that the server works
HOPELESS = (401, 402, 403, 404, 405)  # statuses that every later request would get too


@dataclass(eq=False)
class Failed(Exception):
    """A request, or one try of it, got no response.

    status   of HTTP, if the server refuses the request, or has too many (429); 0: another reason
    cost     how many tries it counts for; 0: the request is not sent again in this run
    wait_s   the pause that the server requests; 0: none
    is_paid  whether the server may have worked, and asks to be paid, for it
    """

    reason: str
    _: KW_ONLY
    status: int = 0
    cost: float = 0
    wait_s: float = 0
    is_paid: bool = False


# Bodies of requests.


@dataclass(frozen=True)
class Form:
    """The form of requests that a server accepts; narrowed each time it refuses a field.

    api      "chat" or "completions"
    fields   the optional and neutral fields that are sent
    limit    the server's name for the maximum number of tokens of a response
    """

    api: str
    fields: frozenset[str]
    limit: str = "max_tokens"

    def body(self, model: str, prompt: Sequence[Message], request: SampleRequest, seed: int) -> dict[str, Any]:
        """Return the body of a request for a response to a prompt."""
        chats = self.api == "chat"
        plain = "\n\n".join(message["content"] for message in prompt)
        optional = {**NEUTRAL, "logprobs": True if chats else 1, "return_token_ids": True, "seed": seed}
        return {
            "model": model,
            **({"messages": [dict(message) for message in prompt]} if chats else {"prompt": plain}),
            self.limit: request.max_tokens,
            **({"stop": list(request.stop)} if request.stop else {}),
            **{name: value for name, value in optional.items() if name in self.fields},
            **required(request.sampler),
        }

    def after_refusal(self, refusal: str, sampler: Sampler, proven: bool) -> Form | None:
        """Return the form to try after a refusal, given the server's text; None if no other form can help.

        It has the other name of the token limit, or lacks the named field, else the next optional one. None if the
        prompt is too long, or an earlier request has `proven` the form. HarnessError if the sampler needs the field.
        """
        if self.limit == "max_tokens" and re.search(r"max_completion_tokens\W+instead", refusal):
            return replace(self, limit="max_completion_tokens")
        if TOO_LONG.search(refusal):
            return None
        if needed := [name for name in required(sampler) if re.search(rf"\b{name}\b", refusal)]:
            raise HarnessError(
                f"openai: the server refuses {needed[0]}, which the sampler needs ({refusal}): choose another "
                "--sampler, or a server that takes it"
            )
        named = [name for name in sorted(self.fields) if re.search(rf"\b{name}\b", refusal)]
        left_out = named or [name for name in OPTIONAL if name in self.fields]
        return replace(self, fields=self.fields - {left_out[0]}) if left_out and not proven else None


def first_form(api: str, knows_extras: bool) -> Form:
    """Return the form to begin with; `knows_extras`: the server may filter by default, and requests can change that."""
    return Form(api, frozenset({*OPTIONAL, *NEUTRAL} - (set() if knows_extras else {*EXTRA})))


def required(sampler: Sampler) -> dict[str, Any]:
    """Return the sampler's decoding parameters that differ from the defaults: a server must accept them."""
    names, plain = ("temperature", "top_p", "min_p", "top_k"), Sampler()
    return {name: getattr(sampler, name) for name in names if getattr(sampler, name) != getattr(plain, name)}


# A server.


class Server:
    """A server's address, which ends with the version (https://host/v1), and requests to it, within `connected`.

    variable   the environment variable that holds the key, which is read when needed and never a field of this
    required   whether a missing key is an error
    timeout_s  seconds of one try
    """

    def __init__(self, url: str, variable: str, required: bool, timeout_s: float) -> None:
        if not VARIABLE.fullmatch(variable):
            raise HarnessError(
                "openai: key_env must be the name of the environment variable that holds the key, in capitals, e.g. "
                "MY_API_KEY; what was given is none (it is not shown: it may be the key itself)"
            )
        self.url, self.variable, self.required, self.timeout_s = url, variable, required, timeout_s

    @property
    def _key(self) -> str:
        return os.environ.get(self.variable, "").strip()

    def redacted(self, value: Any) -> Any:
        """Replace the key by `[key]` in all texts of a JSON value: plain, percent-encoded, in hex, or in base64.

        A key of under six characters is no secret, and neither is a common placeholder: these are not replaced.
        """
        key = self._key
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

    @asynccontextmanager
    async def connected(self, concurrency: int) -> AsyncIterator[None]:
        """Allow so many requests at once inside; HarnessError without httpx, or without a key that is required."""
        extras.require("engine openai", "httpx")
        import httpx

        key = self._key
        if not key and self.required:
            raise HarnessError(f"openai: key_env={self.variable}, but no such environment variable is set")
        if not key.isascii() or not key.isprintable() or " " in key:
            raise HarnessError(f"openai: the key in {self.variable} holds characters that no key has: set it anew")
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        # `_over` says why no more requests are sent.
        self._slots, self._failed, self._not_before, self._over = asyncio.Semaphore(concurrency), 0, 0.0, ""
        async with httpx.AsyncClient(
            headers=headers | ({"Authorization": f"Bearer {key}"} if key else {}),
            timeout=httpx.Timeout(None, connect=min(CONNECT_S, self.timeout_s)),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=concurrency),
            follow_redirects=False,  # the key must not be sent to another host
            mounts={f"all://{host}": None for host in ("localhost", "127.0.0.1", "[::1]")},  # by no proxy
        ) as self._client:
            yield

    async def tried(self, once: Callable[[], Awaitable[T]], retries: int = 1) -> T:
        """Return what `once` does; it is called again, after a pause, if it raises Failed with a cost.

        Raises Failed without one: with a status if the server refuses the request.
        """
        spent, tries = 0.0, 0
        while True:
            try:
                async with self._slots:
                    await asyncio.sleep(max(0.0, self._not_before - time.monotonic()))
                    if self._over:
                        raise Failed(self._over)
                    result = await once()
                self._failed = 0
                return result
            except Failed as failure:
                if failure.status in HOPELESS:
                    self._over = failure.reason
                if not failure.cost:
                    raise
                spent, tries, reason = spent + failure.cost, tries + 1, self.shown(failure.reason)
                if failure.wait_s > LONGEST_WAIT_S:
                    self._over = f"{reason}; it asks to wait {failure.wait_s:.3g} s: run the same command later"
                    raise Failed(self._over) from None
                if spent > retries:
                    reason, self._failed = f"{reason} ({tries} {'tries' if tries > 1 else 'try'})", self._failed + 1
                    if self._failed >= GIVE_UP:
                        self._over = self._over or f"{reason}; {GIVE_UP} requests in a row"
                    raise Failed(reason) from None
                pause = pause_s(tries, failure.wait_s)
                if failure.status == 429:
                    self._not_before = max(self._not_before, time.monotonic() + pause)
            await asyncio.sleep(pause)

    async def send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send a request once, and return the parsed answer, without the key; Failed if there is none."""
        import httpx

        content, received = body and json.dumps(body).encode(), bytearray()
        try:
            async with (
                asyncio.timeout(self.timeout_s),
                self._client.stream(method, self.url + path, content=content) as response,
            ):
                async for part in response.aiter_bytes():
                    received += part
                    if len(received) > MOST_BYTES:
                        raise Failed(f"an answer of more than {MOST_BYTES >> 20} MiB", cost=1, is_paid=True)
        except TimeoutError:
            raise Failed(f"no answer within {self.timeout_s:g} s", cost=TIMEOUT, is_paid=True) from None
        except (httpx.RequestError, httpx.InvalidURL) as failure:
            is_sent = not isinstance(failure, (httpx.ConnectError, httpx.ConnectTimeout))
            raise Failed(f"{type(failure).__name__}: {failure}", cost=1, is_paid=is_sent) from None
        status, answer = response.status_code, None
        with suppress(BadJSON):
            answer = self.redacted(parsed(bytes(received), "answer", lenient=True))
        is_error = isinstance(answer, dict) and answer.get("error")
        if status == 200 and isinstance(answer, (dict, list)) and not is_error:
            return answer
        if 300 <= status < 400:
            raise Failed(f"it redirects ({status}): give the url that it leads to", status=404)
        kind = response.headers.get("content-type", "").split(";")[0] or "no type"
        page = f"no answer of an OpenAI-compatible API ({kind}): {received.decode(errors='replace')}"
        reason, wait_s = self.shown(f"{status}: {reason_in(answer) or page}"), 0.0
        with suppress(KeyError, ValueError):  # a date is not followed
            wait_s = max(0.0, float(response.headers["retry-after"]))  # 0 for NaN
        if status == 429 and "quota" not in reason:
            raise Failed(reason, status=429, cost=LIMITED, wait_s=wait_s)
        if status >= 500 or status in (200, 408, 409, 425):
            raise Failed(reason, cost=1, wait_s=wait_s)
        raise Failed(reason, status=402 if status == 429 else status)


def pause_s(tries: int, wait_s: float) -> float:
    """Return how long to wait: as the server requests, else longer each time; with jitter, so that requests spread."""
    backoff = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(tries - 1, 20)) * random.uniform(0.5, 1)
    return wait_s * random.uniform(1, 1.1) or backoff


@cache
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


def finished(work: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine and return its result; in a new thread if this one already runs an event loop (a notebook)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(asyncio.run, work).result()


# Answers.


@dataclass(frozen=True)
class Choice:
    """One response as the server gave it.

    finish     "stop" or "length"
    length     in tokens; estimated from the text if the server does not count this one's
    logprob    the sum over its tokens; None if the server gives none, or another number of them than token ids
    token_ids  None if the server gives none
    """

    text: str
    finish: str
    length: int
    logprob: float | None
    token_ids: list[int] | None


def read_choice(answer: Any, stop: Sequence[str] = ()) -> Choice:
    """Return an answer's response; Failed, to be tried again, if it has none. "" if the model gave only reasoning."""
    choices = answer.get("choices") if isinstance(answer, dict) else None
    raw = choices[0] if isinstance(choices, list) and choices else None
    raw = raw if isinstance(raw, dict) else {}
    message, reason, given = raw.get("message"), raw.get("finish_reason"), raw.get("logprobs")
    text = (message.get("content") or "") if isinstance(message, dict) else raw.get("text")
    if not isinstance(text, str) or reason not in (*STOPPED, *CUT):
        fault = f"with a response ended by {reason!r}" if isinstance(text, str) else "without a response"
        raise Failed(f"an answer {fault}", cost=1, is_paid=True)
    count, ids = usage(answer)[1], raw.get("token_ids")
    if not isinstance(ids, list) or not all(map(is_count, ids)) or "[key]" in text:  # ids would spell an echoed key
        ids = None
    # The log-probability of each token, in chat's form (`content`) or that of completions (`token_logprobs`).
    entries = given.get("content", given.get("token_logprobs")) if isinstance(given, dict) else None
    entries = entries if isinstance(entries, list) else None
    each: list[Any] = [entry.get("logprob") if isinstance(entry, dict) else entry for entry in entries or ()]
    valid = entries is not None and all(type(value) in (int, float) and -1e6 < value <= 1e-3 for value in each)
    logprobs = each if valid and (ids is None or len(ids) == len(each)) else None
    if ends := [at for string in stop if (at := text.find(string)) >= 0]:  # of a server that does not know `stop`
        text, reason, ids, logprobs, count = text[: min(ends)], "stop", None, None, None
    listed = [None if tokens is None else len(tokens) for tokens in (ids, logprobs)]
    counts = (listed[0], count, listed[1], math.ceil(size(text) / BYTES_A_TOKEN))
    return Choice(
        text=text,
        finish="stop" if reason in STOPPED else "length",
        length=next(count for count in counts if count is not None),
        logprob=None if logprobs is None else min(0.0, math.fsum(logprobs)),
        token_ids=ids,
    )


def usage(answer: Any) -> list[int | None]:
    """Return the numbers of tokens of an answer's prompt and response; None for one that the server does not give."""
    given = answer.get("usage") if isinstance(answer, dict) else None
    counts = [given.get(f"{name}_tokens") if isinstance(given, dict) else None for name in ("prompt", "completion")]
    return [count if is_count(count) else None for count in counts]


def is_count(value: Any) -> bool:
    """Whether a value is a whole number that the store can hold."""
    return type(value) is int and 0 <= value < INT32


def size(text: str) -> int:
    """Return the bytes of a text."""
    return len(text.encode("utf-8", "surrogatepass"))


def reason_in(answer: Any) -> str:
    """Return a server's error text: `error.message` with the field it names, or the error as it is; "" if none is."""
    error = answer.get("error", answer) if isinstance(answer, dict) else None
    if isinstance(error, dict):
        parts = [part for name in ("message", "param", "code") if isinstance(part := error.get(name), str)]
        return " ".join(dict.fromkeys(parts)) or json.dumps(error)
    return error if isinstance(error, str) else ""
