"""Write requests to an OpenAI-compatible server, and read its answers; every field of an answer is checked.

Supported (as documented July to November 2026): OpenAI's chat completions and legacy completions; vLLM's
`return_token_ids`, `top_k` and `min_p`; llama.cpp, which gives log-probabilities of plain completions in the form of
chat. If a server refuses an optional field, it is left out (`Form`); a field that a sampler needs is never left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness import Message, Sampler

# Each is left out if a server refuses it; in this order if the server does not name the refused field.
OPTIONAL = ("return_token_ids", "repetition_penalty", "logprobs", "seed")
# A server's defaults may filter (vLLM takes a model's generation config, llama.cpp top_k = 40 and min_p = 0.05).
NEUTRAL = {"temperature": 1.0, "top_p": 1.0, "min_p": 0.0, "top_k": -1, "repetition_penalty": 1.0}
ALWAYS_SENT = ("temperature", "top_p")
EXTRA = ("min_p", "top_k", "repetition_penalty")

STOPPED = ("stop", "eos", "eos_token", "end_turn", "stop_sequence", "content_filter", "tool_calls", "function_call")
CUT = ("length", "max_tokens", "max_length")
INT32 = 2**31
TOO_LONG = re.compile(r"context (length|size|window)|too (large|long)|at most \d+", re.I)


class Malformed(ValueError):
    """An answer that does not follow the API."""


@dataclass(frozen=True)
class Form:
    """The form of requests that a server accepts; narrowed each time it refuses a field.

    api      "chat" or "completions"
    fields   the optional and neutral fields that are sent
    limit    the server's name for the maximum number of tokens of a response
    rows     the maximum number of responses that are requested at once
    """

    api: str
    fields: frozenset[str]
    limit: str = "max_tokens"
    rows: int = 1

    def body(
        self, model: str, prompt: Sequence[Message], sampler: Sampler, max_tokens: int, seed: int, rows: int
    ) -> dict[str, Any]:
        """Return the body of a request for `rows` responses to a prompt."""
        body: dict[str, Any] = {"model": model, self.limit: max_tokens, **required(sampler)}
        if self.api == "chat":
            body["messages"] = [dict(message) for message in prompt]
        else:
            body["prompt"] = "\n\n".join(message["content"] for message in prompt)
        body |= {name: NEUTRAL[name] for name in NEUTRAL if name in self.fields and name not in body}
        optional = {"logprobs": True if self.api == "chat" else 1, "return_token_ids": True, "seed": seed}
        body |= {name: value for name, value in optional.items() if name in self.fields}
        return body if rows == 1 else body | {"n": rows}

    def without(self, name: str) -> Form:
        """Return the form without this field."""
        return replace(self, fields=self.fields - {name})

    def one_row(self) -> Form:
        """Return the form that requests one response at a time."""
        return replace(self, rows=1)

    def after_refusal(self, refusal: str, sampler: Sampler, rows: int, proven: bool) -> Form | None:
        """Return the form to try after a refusal, given the server's text; None if no other form can help.

        It has the other name of the token limit, lacks the named field, asks for one row, or lacks the next optional
        field. None if the prompt is too long, or the server refuses a field that the sampler needs. `rows`: how many
        the refused request asked for. If the form is `proven`, an earlier request with it succeeded: then no field is
        left out.
        """
        if self.limit == "max_tokens" and re.search(r"max_completion_tokens\W+instead", refusal):
            return replace(self, limit="max_completion_tokens")
        if TOO_LONG.search(refusal) or self.needed(refusal, sampler):
            return None
        named = [] if proven else [name for name in sorted(self.fields) if re.search(rf"\b{name}\b", refusal)]
        if named:
            return self.without(named[0])
        if rows > 1:
            return self.one_row()
        optional = [] if proven else [name for name in OPTIONAL if name in self.fields]
        return self.without(optional[0]) if optional else None

    def needed(self, refusal: str, sampler: Sampler) -> str | None:
        """Return the first parameter that the sampler needs and the refusal's text names; None if there is none."""
        return next((name for name in required(sampler) if re.search(rf"\b{name}\b", refusal)), None)


def required(sampler: Sampler) -> dict[str, Any]:
    """Return the sampler's decoding parameters that differ from the defaults: a server must accept them."""
    return {
        name: getattr(sampler, name)
        for name in ("temperature", "top_p", "min_p", "top_k")
        if getattr(sampler, name) != getattr(Sampler(), name)
    }


def first_form(api: str, rows: int, knows_extras: bool) -> Form:
    """Return the form to begin with; `knows_extras`: the server may filter by default, and requests can change that."""
    fields = {*OPTIONAL, *ALWAYS_SENT} - {"repetition_penalty"}
    return Form(api, frozenset(fields | set(EXTRA) if knows_extras else fields), rows=rows)


@dataclass(frozen=True)
class Choice:
    """One response as the server gave it.

    finish     "stop" or "length"
    tokens     the number of tokens; if the server counts only those of several responses together, this one's share by
               length of text; None if it counts none
    logprob    the sum over its tokens; NaN if the server gives none, or another number of them than token ids
    token_ids  None if the server gives none
    """

    text: str
    finish: str
    tokens: int | None
    logprob: float
    token_ids: list[int] | None


@dataclass(frozen=True)
class Answered:
    """The answer to one request: responses by their index in it."""

    choices: dict[int, Choice]
    prompt_tokens: int | None


def read_choices(answer: Any, rows: int) -> dict[int, Choice]:
    """Return an answer's responses by their index in the request, at most `rows`; Malformed if it is not valid."""
    raw = _field(answer, "choices", list)
    if not raw:
        raise Malformed("no choices")
    indices: list[Any] = [entry.get("index") if isinstance(entry, dict) else None for entry in raw]
    numbered = sorted(map(str, indices)) == sorted(map(str, range(len(raw))))
    choices = {
        int(index) if numbered else at: _choice(entry)
        for at, (index, entry) in enumerate(zip(indices, raw, strict=True))
    }
    requested = {at: choice for at, choice in choices.items() if at < rows}
    return _counted(requested, answer, whole=len(choices) == len(requested))


def prompt_tokens(answer: Any) -> int | None:
    """Return the number of tokens of the prompt; None if the server does not give it."""
    return usage_count(answer, "prompt_tokens")


def _choice(raw: Any) -> Choice:
    if not isinstance(raw, dict):
        raise Malformed(f"a choice is {type(raw).__name__}")
    token_ids = _token_ids(raw.get("token_ids"))
    logprobs = _logprobs(raw.get("logprobs"))
    tokens = len(token_ids) if token_ids is not None else (len(logprobs) if logprobs is not None else None)
    agree = token_ids is None or logprobs is None or len(token_ids) == len(logprobs)
    return Choice(
        text=_text(raw),
        finish=_finish(raw.get("finish_reason")),
        tokens=tokens,
        logprob=min(0.0, math.fsum(logprobs)) if logprobs is not None and agree else math.nan,
        token_ids=token_ids,
    )


def _text(raw: Mapping[str, Any]) -> str:
    """Return a choice's text; "" if the model gave none (only reasoning, or a call of a tool)."""
    content = _field(raw, "message", dict).get("content") if "message" in raw else _field(raw, "text", str)
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict) and part.get("type") == "text"]
        content = "".join(str(part.get("text", "")) for part in parts)
    if content is not None and not isinstance(content, str):
        raise Malformed("a choice without text")
    return content or ""


def _finish(reason: Any) -> str:
    if reason in STOPPED:
        return "stop"
    if reason in CUT:
        return "length"
    raise Malformed(f"a response ended by {reason!r}")


def _token_ids(raw: Any) -> list[int] | None:
    if not isinstance(raw, list):
        return None
    valid = all(isinstance(token, int) and not isinstance(token, bool) and 0 <= token < INT32 for token in raw)
    return raw if valid else None


def _logprobs(raw: Any) -> list[float] | None:
    """Return each token's log-probability, from chat's form (`content`) or that of completions (`token_logprobs`)."""
    if not isinstance(raw, dict):
        return None
    entries = raw.get("content", raw.get("token_logprobs"))
    if not isinstance(entries, list):
        return None
    values: list[Any] = [entry.get("logprob") if isinstance(entry, dict) else entry for entry in entries]
    return [float(value) for value in values] if all(map(_is_logprob, values)) else None


def _is_logprob(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -1e6 < value <= 1e-3


def _counted(choices: dict[int, Choice], answer: Any, whole: bool) -> dict[int, Choice]:
    """Return the choices, with token counts from the answer's `usage` if they have no counts.

    `usage` counts a request's responses together; each then gets its share by length of text.
    """
    total = usage_count(answer, "completion_tokens")
    if total is None or not whole or all(choice.token_ids is not None for choice in choices.values()):
        return choices
    if len(choices) == 1:
        return {at: replace(choice, tokens=total) for at, choice in choices.items()}
    if all(choice.tokens is not None for choice in choices.values()):
        return choices
    sizes = {at: len(choice.text.encode("utf-8", "surrogatepass")) for at, choice in choices.items()}
    share = total / max(1, sum(sizes.values()))
    return {at: replace(choice, tokens=max(1, round(sizes[at] * share))) for at, choice in choices.items()}


def usage_count(answer: Any, *names: str) -> int | None:
    """Return a number of an answer's `usage`, or of an object in it; None if the server does not give it."""
    value = answer.get("usage") if isinstance(answer, dict) else None
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < INT32 else None


def _field(value: Any, name: str, kind: type) -> Any:
    field = value.get(name) if isinstance(value, dict) else None
    if not isinstance(field, kind):
        raise Malformed(f"no {name}")
    return field


def reason_in(answer: Any) -> str:
    """Return a server's error text: `error.message` with the field it names, `message`, or `detail`; else ""."""
    if not isinstance(answer, dict):
        return ""
    error = answer.get("error", answer)
    if isinstance(error, str):
        return error
    if not isinstance(error, dict):
        return ""
    parts = [error.get("message"), error.get("param"), error.get("code"), *_details(error.get("detail"))]
    texts = [part for part in parts if isinstance(part, str) and part]
    return " ".join(dict.fromkeys(texts))


def _details(detail: Any) -> Iterable[Any]:
    """Return the errors in FastAPI's `detail`, one text for each wrong field of the body."""
    if not isinstance(detail, list):
        return [detail]
    entries = [entry for entry in detail if isinstance(entry, dict)]
    return [f"{entry.get('msg')} ({'.'.join(map(str, _as_list(entry.get('loc'))))})" for entry in entries]


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
