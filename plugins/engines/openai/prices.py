"""Tokens of requests, as a server counts them, and what they cost by the user's price file.

A price file is TOML or JSON. Prices are per million tokens; `cached` is `input` and `batch` is 1 where they are absent:

    currency = "USD"

    [models."gpt-4o-mini"]
    input = 0.15
    cached = 0.075     # prompt tokens that the provider had in its cache
    output = 0.60      # tokens of reasoning included
    batch = 0.5        # a batch costs this share of the prices above
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from harness import HarnessError, Message
from harness.errors import did_you_mean
from harness.system.json_text import parsed

from .wire import Choice, usage_count

MILLION = 1_000_000
BYTES_A_TOKEN = 4  # of text, where a server counts no tokens
TEMPLATE_TOKENS = 100  # more than a chat template adds to the texts of a prompt
RATES = ("input", "cached", "output", "batch")


@dataclass(frozen=True)
class Tokens:
    """Tokens of some requests: of prompts (`cached` ones included), and of responses (those of `reasoning` included).

    guessed   requests whose server counted nothing: their tokens are estimated from their texts
    """

    requests: int = 0
    prompt: int = 0
    cached: int = 0
    completion: int = 0
    reasoning: int = 0
    guessed: int = 0

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(Tokens)))

    def __sub__(self, other: Tokens) -> Tokens:
        return Tokens(*(getattr(self, each.name) - getattr(other, each.name) for each in fields(Tokens)))

    @property
    def total(self) -> int:
        """Return the tokens of prompts and responses together."""
        return self.prompt + self.completion


def tokens_in(answer: Any) -> Tokens | None:
    """Return what an answer's `usage` counts for one request; None if it counts no tokens."""
    prompt, completion = usage_count(answer, "prompt_tokens"), usage_count(answer, "completion_tokens")
    if prompt is None or completion is None:
        return None
    cached = usage_count(answer, "prompt_tokens_details", "cached_tokens") or 0
    reasoning = usage_count(answer, "completion_tokens_details", "reasoning_tokens") or 0
    cached = cached or usage_count(answer, "prompt_cache_hit_tokens") or 0  # DeepSeek's name
    return Tokens(1, prompt, min(cached, prompt), completion, min(reasoning, completion))


def guessed(prompt: Sequence[Message], choices: Iterable[Choice]) -> Tokens:
    """Return the tokens of one request, estimated from its texts."""
    sizes = [length(choice) for choice in choices]
    return Tokens(1, math.ceil(_bytes(prompt) / BYTES_A_TOKEN), completion=sum(sizes), guessed=1)


def worst_case(prompt: Sequence[Message], rows: int, max_tokens: int) -> Tokens:
    """Return the most that one request for some rows can use: no token is shorter than a byte."""
    return Tokens(1, _bytes(prompt) + TEMPLATE_TOKENS, completion=rows * max_tokens)


def length(choice: Choice) -> int:
    """Return a response's length in tokens: counted by the server, else estimated from its text."""
    if choice.token_ids is not None:
        return len(choice.token_ids)
    if choice.tokens is not None:
        return choice.tokens
    return math.ceil(len(choice.text.encode("utf-8", "surrogatepass")) / BYTES_A_TOKEN)


def characters(prompt: Sequence[Message]) -> int:
    """Return the length of a prompt's texts."""
    return sum(len(message["content"]) for message in prompt)


def _bytes(prompt: Sequence[Message]) -> int:
    return sum(len(message["content"].encode("utf-8", "surrogatepass")) for message in prompt)


@dataclass(frozen=True)
class Price:
    """A model's prices per million tokens. `batch`: the share of them that a batch costs."""

    input: float
    cached: float
    output: float
    batch: float
    currency: str = field(default="", compare=False)

    def cost(self, tokens: Tokens, batch: bool = False) -> float:
        """Return what the tokens cost."""
        prompt = (tokens.prompt - tokens.cached) * self.input + tokens.cached * self.cached
        return (prompt + tokens.completion * self.output) / MILLION * (self.batch if batch else 1)

    def shown(self, cost: float) -> str:
        """Return an amount with its currency: 12.30 USD, 0.00123 USD."""
        digits = 2 if cost >= 1 or cost == 0 else 1 - math.floor(math.log10(cost)) + 1
        return f"{cost:,.{min(digits, 12)}f} {self.currency}".strip()


def quoted(price: Price, prompts: Iterable[tuple[Sequence[Message], int]], completion: int, batch: bool) -> str:
    """Return a clause about what requests cost at most: (prompt, how often it is sent), and all responses' tokens."""
    sent = sum(count * math.ceil(characters(prompt) / BYTES_A_TOKEN) for prompt, count in prompts)
    cost = price.shown(price.cost(Tokens(prompt=sent, completion=completion), batch))
    return f"which cost up to about {cost} (prompts estimated: {BYTES_A_TOKEN} characters a token)"


def read_price(path: Path, model: str) -> Price:
    """Return the price of a model in a price file; HarnessError, one line, if it has none or is no price file."""
    content = _content(path)
    models, currency = content.get("models"), content.get("currency", "")
    if not isinstance(models, dict) or not isinstance(currency, str):
        raise HarnessError(f"--prices {path}: must hold `models`, and `currency` as a text (docs/engines.md)")
    if model not in models:
        guess = did_you_mean(model, models).replace("installed", "it has")
        raise HarnessError(f"--prices {path}: no price of model {model!r} {guess}")
    return Price(**_rates(f"--prices {path}: model {model!r}", models[model]), currency=currency[:16])


def _content(path: Path) -> Mapping[str, Any]:
    try:
        text = path.read_bytes().decode()
        content = parsed(text, str(path)) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as failure:
        raise HarnessError(f"--prices {path}: cannot be read ({failure.strerror})") from None
    except (ValueError, RecursionError) as failure:
        kind = "JSON" if path.suffix == ".json" else "TOML"
        raise HarnessError(f"--prices {path}: is no {kind} ({failure})") from None
    return content if isinstance(content, dict) else {}


def _rates(who: str, given: Any) -> dict[str, float]:
    if not isinstance(given, dict) or not {"input", "output"} <= set(given):
        raise HarnessError(f"{who}: must have the prices `input` and `output`, per million tokens")
    for name, rate in given.items():
        if name not in RATES:
            raise HarnessError(f"{who}: no price {name!r} {did_you_mean(name, RATES).replace('installed', 'prices')}")
        if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 <= rate < math.inf:
            raise HarnessError(f"{who}: {name} must be a number >= 0, got {rate!r:.40}")
    return {"cached": given["input"], "batch": 1.0, **given}
