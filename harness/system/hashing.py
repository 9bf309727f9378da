"""Hashes of JSON values, and texts in a form that files can hold."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no blanks: equal values, equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: Any, length: int = 20) -> str:
    """The first `length` hex digits of the SHA-256 of the value's canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()[:length]


def readable(text: str) -> str:
    """The text as part of a file's name: letters, digits, hyphens and underscores, at most 60."""
    return re.sub(r"[^A-Za-z0-9-]+", "_", text)[:60]


def storable(text: str) -> str:
    """The text with lone surrogates (which no UTF-8 can hold) replaced by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
