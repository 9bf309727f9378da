"""Write requests to an OpenAI-compatible server, and read its answers; every field of an answer is checked.

Supported (as documented July to November 2026): OpenAI's chat completions and legacy completions; vLLM's
`return_token_ids`, `top_k` and `min_p`; llama.cpp, which gives log-probabilities of plain completions in the form of
chat. If a server refuses an optional field, it is left out (`Form`); a field that a sampler needs is never left out.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness import HarnessError, Message, Sampler
from harness.records import SampleRequest

PATHS = {"chat": "/chat/completions", "completions": "/completions"}
# Each is left out if a server refuses it; in this order if the server does not name the refused field.
OPTIONAL = ("return_token_ids", "repetition_penalty", "logprobs", "seed")
# A server's defaults may filter (vLLM takes a model's generation config, llama.cpp top_k = 40 and min_p = 0.05).
NEUTRAL = {"temperature": 1.0, "top_p": 1.0, "min_p": 0.0, "top_k": -1, "repetition_penalty": 1.0}
EXTRA = ("min_p", "top_k", "repetition_penalty")  # of NEUTRAL, those that OpenAI does not know

STOPPED = ("stop", "eos", "eos_token", "end_turn", "stop_sequence", "content_filter", "tool_calls", "function_call")
CUT = ("length", "max_tokens", "max_length")
INT32 = 2**31
BYTES_A_TOKEN = 4  # of text, where a server counts no tokens
TOO_LONG = re.compile(r"context (length|size|window)|too (large|long)|at most \d+", re.I)


class Failed(Exception):
    """A request got no response, and is not sent again in this run."""


class Refused(Failed):
    """The server refuses this request, and would refuse it again."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Again(Exception):
    """A try failed, and another may succeed.

    cost        how many failures it counts for, among the retries
    wait_s      the pause that the server requests; 0: none
    is_limited  whether the server has too many requests (429)
    is_paid     whether the server may have worked, and asks to be paid, for it
    """

    def __init__(
        self, reason: str, cost: float = 1, wait_s: float = 0, is_limited: bool = False, is_paid: bool = False
    ) -> None:
        super().__init__(reason)
        self.cost, self.wait_s, self.is_limited, self.is_paid = cost, wait_s, is_limited, is_paid


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
        if name := next((name for name in required(sampler) if re.search(rf"\b{name}\b", refusal)), ""):
            raise HarnessError(
                f"openai: the server refuses {name}, which the sampler needs ({refusal}): choose another --sampler, or "
                "a server that takes it"
            )
        if proven:
            return None
        named = [name for name in sorted(self.fields) if re.search(rf"\b{name}\b", refusal)]
        optional = [name for name in OPTIONAL if name in self.fields]
        return replace(self, fields=self.fields - {(named or optional)[0]}) if named or optional else None


def first_form(api: str, knows_extras: bool) -> Form:
    """Return the form to begin with; `knows_extras`: the server may filter by default, and requests can change that."""
    fields = {*OPTIONAL, *NEUTRAL}
    return Form(api, frozenset(fields if knows_extras else fields - {*EXTRA}))


def required(sampler: Sampler) -> dict[str, Any]:
    """Return the sampler's decoding parameters that differ from the defaults: a server must accept them."""
    names, plain = ("temperature", "top_p", "min_p", "top_k"), Sampler()
    return {name: getattr(sampler, name) for name in names if getattr(sampler, name) != getattr(plain, name)}


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
    """Return an answer's response; Again if it has none. A text is "" if the model gave only reasoning."""
    choices = answer.get("choices") if isinstance(answer, dict) else None
    raw = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(raw, dict):
        raise Again("an answer with no choices", is_paid=True)
    message, reason, given = raw.get("message"), raw.get("finish_reason"), raw.get("logprobs")
    text = (message.get("content") or "") if isinstance(message, dict) else raw.get("text")
    if not isinstance(text, str):
        raise Again("an answer with a choice without text", is_paid=True)
    if reason not in (*STOPPED, *CUT):
        raise Again(f"an answer with a response ended by {reason!r}", is_paid=True)
    count = usage_count(answer, "completion_tokens")
    ids = raw.get("token_ids")
    if not isinstance(ids, list) or not all(map(is_count, ids)) or "[key]" in text:  # ids would spell an echoed key
        ids = None
    # The log-probability of each token, in chat's form (`content`) or that of completions (`token_logprobs`).
    entries = given.get("content", given.get("token_logprobs")) if isinstance(given, dict) else None
    each: list[Any] = [entry.get("logprob") if isinstance(entry, dict) else entry for entry in entries or ()]
    valid = isinstance(entries, list) and all(type(value) in (int, float) and -1e6 < value <= 1e-3 for value in each)
    logprobs = list(map(float, each)) if valid else None
    if ends := [at for string in stop if (at := text.find(string)) >= 0]:  # of a server that does not know `stop`
        text, reason, ids, logprobs, count = text[: min(ends)], "stop", None, None, None
    counts = [len(ids) if ids is not None else None, count, len(logprobs) if logprobs is not None else None]
    agree = logprobs is not None and (ids is None or len(ids) == len(logprobs))
    return Choice(
        text=text,
        finish="stop" if reason in STOPPED else "length",
        length=next((count for count in counts if count is not None), math.ceil(size(text) / BYTES_A_TOKEN)),
        logprob=min(0.0, math.fsum(logprobs or ())) if agree else None,
        token_ids=ids,
    )


def usage_count(answer: Any, name: str) -> int | None:
    """Return a number of an answer's `usage`; None if the server does not give it."""
    usage = answer.get("usage") if isinstance(answer, dict) else None
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if is_count(value) else None


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
