"""What may be missing: libraries, with the extra of this distribution that brings each, and the Hugging Face hub."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec

from harness.errors import LacksLibrary

HUB_ANSWER_S = 5.0
# Import name -> the extra. Libraries of other distributions' plugins are not here.
EXTRA = {
    "torch": "hf",
    "transformers": "hf",
    "datasets": "hf",
    "huggingface_hub": "hf",
    "math_verify": "math",
    "matplotlib": "plots",
    "httpx": "api",
    "ray": "ray",
    "kmedoids": "kmedoids",
    "sentence_transformers": "sentence",
    "inspect_ai": "inspect",
    "trackio": "tracking",
    "wandb": "tracking",
    "trl": "trl",
    "accelerate": "hf",
    "gguf": "gguf",
    "peft": "lora",
}


def missing(libraries: Iterable[str]) -> list[str]:
    """The libraries, by import name, that are not installed; a mere folder of that name is none. None is imported."""
    return [name for name in libraries if (spec := find_spec(name)) is None or spec.origin is None]


def require(who: str, *libraries: str) -> None:
    """Raise LacksLibrary, one line that begins with `who`, unless all these libraries are installed."""
    require_all({who: libraries})


def require_all(needed: Mapping[str, Iterable[str]]) -> None:
    """Raise LacksLibrary, one line with all missing libraries and the pip command that installs them.

    needed  who -> the import names of the libraries that it needs
    """
    absent = {who: missing(libraries) for who, libraries in needed.items()}
    if not any(absent.values()):
        return
    listed = "; ".join(f"{who} needs {', '.join(names)}" for who, names in absent.items() if names)
    raise LacksLibrary(f"{listed}: not installed: {pip_command(name for names in absent.values() for name in names)}")


def pip_command(libraries: Iterable[str]) -> str:
    """The command that installs these libraries: our extras, and by their own names those that no extra brings."""
    names = set(libraries)
    extras = sorted({EXTRA[name] for name in names if name in EXTRA})
    ours = [f"'diversity-harness[{','.join(extras)}]'"] if extras else []
    return " ".join(["pip install", *ours, *sorted(name for name in names if name not in EXTRA)])


def hub_is_out_of_reach() -> bool:
    """Whether the hub is switched off or does not answer within `HUB_ANSWER_S`; then only caches can be used.

    On a machine without network this takes less than a second; the hub's client would retry for half a minute.
    """
    require("the Hugging Face hub", "huggingface_hub")
    from huggingface_hub import constants
    from huggingface_hub.utils import get_session

    if constants.HF_HUB_OFFLINE:
        return True
    try:
        get_session().head(constants.ENDPOINT, timeout=HUB_ANSWER_S)
    except Exception:  # the client is httpx or, of older versions, requests: they have no error in common
        return True
    return False


@contextmanager
def hub_offline() -> Iterator[None]:
    """Let the hub's client, and child processes started inside, use only their caches and fetch nothing."""
    from huggingface_hub import constants

    before, variable = constants.HF_HUB_OFFLINE, os.environ.get("HF_HUB_OFFLINE")
    constants.HF_HUB_OFFLINE = True
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before
        if variable is None:
            del os.environ["HF_HUB_OFFLINE"]
        else:
            os.environ["HF_HUB_OFFLINE"] = variable
