"""Complete names on the command line: of components, of kinds, and of models that this machine has.

Each function returns what begins with the text typed so far. Plugins are asked for names only: no component is loaded.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

import typer

from .registry import KINDS, load_registry

Completer = Callable[[str], list[str]]


def of_option(field: str) -> Completer | None:
    """The completer of an option by its name (`task`, `selectors`, `model`, ...); None if it has none."""
    kind = field if field in KINDS else field.removesuffix("s")
    if kind in KINDS:
        return lambda incomplete: names(kind, incomplete)
    return models if kind == "model" else None


def names(kind: str, incomplete: str) -> list[str]:
    """Names of installed components of a kind."""
    try:
        with redirect_stdout(sys.stderr):  # the shell reads stdout
            registered = load_registry().of_kind(kind)
    except Exception:  # a broken plugin must not break the user's shell
        return []
    return sorted({each.name for each in registered if each.name.startswith(incomplete)})


def names_after_kind(context: typer.Context, incomplete: str) -> list[str]:
    """Names of components of the kind that is the command's argument `kind`."""
    kind = (context.params.get("kind") or "").removesuffix("s")
    return names(kind, incomplete) if kind in KINDS else []


def kinds(incomplete: str) -> list[str]:
    """Kinds of components."""
    return [kind for kind in KINDS if kind.startswith(incomplete)]


def models(incomplete: str) -> list[str]:
    """Models in the cache of the Hugging Face hub, and folders with a config.json; no folder is searched for them."""
    cached = [folder.name.removeprefix("models--").replace("--", "/") for folder in _cache().glob("models--*")]
    typed = Path(incomplete or ".")
    beside = typed if incomplete.endswith("/") or not incomplete else typed.parent
    folders = [f"{path}/" for path in sorted(beside.glob("*")) if path.is_dir() and not path.name.startswith(".")]
    return sorted(name for name in [*cached, *folders] if name.startswith(incomplete))


def _cache() -> Path:
    """The folder in which the hub's client keeps models."""
    home = os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface"
    return Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub")
