"""A server's address as users write it, and what of its description of a model lasts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from harness import HarnessError

PATHS = {"chat": "/chat/completions", "completions": "/completions"}


def base_url(text: str) -> str:
    """Return the API's root, checked: adds `/v1` to a bare host, and removes an endpoint's path."""
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError as failure:
        raise HarnessError(f"openai: url is no address ({failure}); write http://host:port/v1") from None
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise HarnessError("openai: url must hold no user, password or query: the key comes from the environment")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise HarnessError(f"openai: url must be http://host:port/v1 or https://..., got {text!r:.200}")
    path = parts.path.rstrip("/")
    for ending in PATHS.values():
        path = path.removesuffix(ending)
    return f"{parts.scheme}://{parts.netloc}{path or '/v1'}"


def lasting(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a model's entry that is stable over time (not `created`, not the permissions)."""
    names = ("owned_by", "root", "parent")
    strings = {name: without_folder(entry[name]) for name in names if isinstance(entry.get(name), str)}
    meta = entry.get("meta")
    sizes = {name: value for name, value in meta.items() if isinstance(value, int)} if isinstance(meta, dict) else {}
    return strings | {name: sizes[name] for name in ("n_params", "n_embd", "n_vocab", "size") if name in sizes}


def without_folder(name: str) -> str:
    """Return a model's name; of a path on the server only the last part, since records are published."""
    return name.rstrip("/").rsplit("/", 1)[-1] if name.startswith("/") else name


def some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
