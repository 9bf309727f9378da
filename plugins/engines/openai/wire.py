"""What goes over the wire to an OpenAI-compatible server: request bodies, and answers taken apart without trust.

Forms (read July to November 2026): OpenAI's chat completions and legacy completions; vLLM's `return_token_ids`,
`top_k` and `min_p`; llama.cpp, which gives log-probabilities of plain completions in the form of chat. A server that
refuses an optional field is asked without it (`Form`); what a sampler needs is never left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness import Message, Sampler

# Each is left out where a server refuses it, in this order where it does not say which one it refuses.
OPTIONAL = ("return_token_ids", "repetition_penalty", "logprobs", "seed")
# A server's own defaults may filter (vLLM takes a model's generation config, llama.cpp top_k = 40 and min_p = 0.05).
NEUTRAL = {"temperature": 1.0, "top_p": 1.0, "min_p": 0.0, "top_k": -1, "repetition_penalty": 1.0}
ALWAYS_SAID = ("temperature", "top_p")
EXTRA = ("min_p", "top_k", "repetition_penalty")

STOPPED = ("stop", "eos", "eos_token", "end_turn", "stop_sequence", "content_filter", "tool_calls", "function_call")
CUT = ("length", "max_tokens", "max_length")
INT32 = 2**31
TOO_LONG = re.compile(r"context (length|size|window)|too (large|long)|at most \d+", re.I)


class Malformed(ValueError):
    """An answer that is not what the API says."""


@dataclass(frozen=True)
class Form:
    """How one server is asked: what it was found to refuse.

    api      "chat" or "completions"
    says     the optional and neutral fields that are sent
    limit    what it calls the most tokens of a response
    rows     the most responses that one request asks for
    """

    api: str
    says: frozenset[str]
    limit: str = "max_tokens"
    rows: int = 1

    def body(
        self, model: str, prompt: Sequence[Message], sampler: Sampler, max_tokens: int, seed: int, rows: int
    ) -> dict[str, Any]:
        """The request for `rows` responses to a prompt."""
        body: dict[str, Any] = {"model": model, self.limit: max_tokens, **asked(sampler)}
        if self.api == "chat":
            body["messages"] = [dict(message) for message in prompt]
        else:
            body["prompt"] = "\n\n".join(message["content"] for message in prompt)
        body |= {name: NEUTRAL[name] for name in NEUTRAL if name in self.says and name not in body}
        optional = {"logprobs": True if self.api == "chat" else 1, "return_token_ids": True, "seed": seed}
        body |= {name: value for name, value in optional.items() if name in self.says}
        return body if rows == 1 else body | {"n": rows}

    def without(self, name: str) -> Form:
        """The form that does not say it."""
        return replace(self, says=self.says - {name})

    def one_row(self) -> Form:
        """The form that asks for one response a request."""
        return replace(self, rows=1)

    def after_refusal(self, refusal: str, sampler: Sampler, rows: int, proven: bool) -> Form | None:
        """What to try next: without what the refusal names, one row a request, without the next optional field.

        None where nothing of it helps: the prompt is too long, or the server refuses what the sampler needs. Of a form
        that is `proven` only the rows are given up: it is this one prompt that the server does not like.
        """
        if self.limit == "max_tokens" and re.search(r"max_completion_tokens\W+instead", refusal):
            return replace(self, limit="max_completion_tokens")
        if TOO_LONG.search(refusal) or self.needed(refusal, sampler):
            return None
        named = [] if proven else [name for name in sorted(self.says) if re.search(rf"\b{name}\b", refusal)]
        if named:
            return self.without(named[0])
        if rows > 1:
            return self.one_row()
        left = [] if proven else [name for name in OPTIONAL if name in self.says]
        return self.without(left[0]) if left else None

    def needed(self, refusal: str, sampler: Sampler) -> str | None:
        """The parameter of the sampler that a refusal names."""
        return next((name for name in asked(sampler) if re.search(rf"\b{name}\b", refusal)), None)


def asked(sampler: Sampler) -> dict[str, Any]:
    """The decoding parameters that change something: no server may leave them out."""
    return {
        name: getattr(sampler, name)
        for name in ("temperature", "top_p", "min_p", "top_k")
        if getattr(sampler, name) != getattr(Sampler(), name)
    }


def first_form(api: str, rows: int, knows_extras: bool) -> Form:
    """The form to begin with; `knows_extras`: the server is one whose own defaults may filter, and can be overruled."""
    says = {*OPTIONAL, *ALWAYS_SAID} - {"repetition_penalty"}
    return Form(api, frozenset(says | set(EXTRA) if knows_extras else says), rows=rows)


@dataclass(frozen=True)
class Choice:
    """One response. `tokens` is None where the server does not count them for each response.

    logprob    the sum over its tokens; NaN where not served
    """

    text: str
    finish: str
    tokens: int | None
    logprob: float
    token_ids: list[int] | None


def read_choices(answer: Any, rows: int) -> dict[int, Choice]:
    """The responses in an answer by their place in the request, at most `rows`; Malformed where it makes no sense."""
    raw = _field(answer, "choices", list)
    if not raw:
        raise Malformed("no choices")
    places = [one.get("index") if isinstance(one, dict) else None for one in raw]
    in_order = sorted(map(str, places)) == sorted(map(str, range(len(raw))))
    found = {
        int(place) if in_order else at: _choice(one) for at, (place, one) in enumerate(zip(places, raw, strict=True))
    }
    kept = {at: choice for at, choice in found.items() if at < rows}
    return _counted(kept, answer, whole=len(found) == len(kept))


def prompt_tokens(answer: Any) -> int | None:
    """How many tokens the prompt had, where the server says."""
    return _usage(answer, "prompt_tokens")


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
    """A choice's text; "" where a model gave none (only thoughts, or a call of a tool)."""
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
    whole = all(isinstance(one, int) and not isinstance(one, bool) and 0 <= one < INT32 for one in raw)
    return raw if whole else None


def _logprobs(raw: Any) -> list[float] | None:
    """Each token's log-probability: chat's form (`content`), or that of completions (`token_logprobs`)."""
    if not isinstance(raw, dict):
        return None
    entries = raw.get("content", raw.get("token_logprobs"))
    if not isinstance(entries, list):
        return None
    values = [entry.get("logprob") if isinstance(entry, dict) else entry for entry in entries]
    return [float(value) for value in values] if all(map(_is_logprob, values)) else None


def _is_logprob(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -1e6 < value <= 1e-3


def _counted(found: dict[int, Choice], answer: Any, whole: bool) -> dict[int, Choice]:
    """The choices with the tokens that `usage` counts, where they have no count of their own.

    It counts a request's responses together; each then gets its share by length of text.
    """
    total = _usage(answer, "completion_tokens")
    if total is None or not whole or all(choice.token_ids is not None for choice in found.values()):
        return found
    if len(found) == 1:
        return {at: replace(choice, tokens=total) for at, choice in found.items()}
    if all(choice.tokens is not None for choice in found.values()):
        return found
    sizes = {at: len(choice.text.encode("utf-8", "surrogatepass")) for at, choice in found.items()}
    share = total / max(1, sum(sizes.values()))
    return {at: replace(choice, tokens=max(1, round(sizes[at] * share))) for at, choice in found.items()}


def _usage(answer: Any, name: str) -> int | None:
    usage = answer.get("usage") if isinstance(answer, dict) else None
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < INT32 else None


def _field(value: Any, name: str, kind: type) -> Any:
    found = value.get(name) if isinstance(value, dict) else None
    if not isinstance(found, kind):
        raise Malformed(f"no {name}")
    return found


def reason_in(answer: Any) -> str:
    """What a server says is wrong: `error.message` with the field it names, `message`, or `detail`; else ""."""
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
    """FastAPI's list of what a body gets wrong."""
    if not isinstance(detail, list):
        return [detail]
    entries = [entry for entry in detail if isinstance(entry, dict)]
    return [f"{entry.get('msg')} ({'.'.join(map(str, _as_list(entry.get('loc'))))})" for entry in entries]


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
