"""The key of a server: read from the environment when it is needed, removed from every text that is shown or kept."""

from __future__ import annotations

import base64
import os
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from harness import HarnessError

SHOWN = 300  # characters of a server's message
VARIABLE = re.compile(r"[A-Z][A-Z_]{0,63}[0-9]{0,2}")  # a name that cannot be a key: those have digits amid letters
PLACEHOLDERS = {"dummy-key", "lm-studio", "no-key", "not-needed", "ollama", "placeholder", "sk-no-key-required"}
SHORTEST_KEY = 6  # a shorter one ("EMPTY", "x") is no secret, and redacting it would remove ordinary words


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

    def redacted(self, text: str) -> str:
        """Replace the key in a text by `[key]`: plain, percent-encoded, in hex, or in base64 inside other text.

        A key of under six characters is no secret, and neither is a common placeholder: these are not replaced.
        """
        key = self._value()
        secret = len(key) >= SHORTEST_KEY and key.isascii() and key.lower() not in PLACEHOLDERS
        return _forms_of(key).sub("[key]", text) if secret else text

    def redacted_in(self, value: Any) -> Any:
        """Replace the key in every string of a parsed JSON value, as `redacted` does."""
        if isinstance(value, str):
            return self.redacted(value)
        if isinstance(value, list):
            return [self.redacted_in(item) for item in value]
        if isinstance(value, dict):
            return {self.redacted(name): self.redacted_in(item) for name, item in value.items()}
        return value

    def shown(self, text: str) -> str:
        """Return the text as one line of printable characters, cut after 300, without the key."""
        text = self.redacted(text)
        plain = "".join(character if character.isprintable() else " " for character in text)
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
