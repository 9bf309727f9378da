"""Keys: hashes of canonical JSON, and the readable names of shards."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from harness.records import Problem


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no blanks: equal values, equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: Any, length: int = 20) -> str:
    """The first `length` hex digits of the SHA-256 of the value's canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()[:length]


def text_hash(text: str) -> str:
    """The hash of a response, 32 hex digits, under which its measurements are stored."""
    return digest(storable(text), 32)


def shard_name(problem: Problem) -> str:
    """A readable file stem for a problem, distinct for distinct prompts and references: `4-5-6-10.1f0c9a2b77de`."""
    return named_shard(problem.id, digest([problem.id, problem.prompt, repr(problem.reference)], 12))


def named_shard(problem_id: str, hashed: str) -> str:
    """The file stem for a problem, made of its id (at most 80 characters) and its hash: `4-5-6-10.1f0c9a2b77de`."""
    readable = re.sub(r"[^A-Za-z0-9-]+", "_", problem_id)[:80]
    return f"{readable}.{hashed}"


def storable(text: str) -> str:
    """The text with lone surrogates (which no UTF-8 can hold) replaced by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
