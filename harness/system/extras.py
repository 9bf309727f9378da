"""What may be missing: libraries, with the extra of this distribution that brings each, and the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec

from harness.errors import Lacking

HUB_ANSWER_S = 5.0
# Extra -> the import names of what it brings. Libraries of other distributions' plugins are not here.
EXTRAS = {
    "hf": ("torch", "transformers", "datasets", "huggingface_hub", "accelerate"),
    "math": ("math_verify",),
    "plots": ("matplotlib",),
    "api": ("httpx",),
    "sentence": ("sentence_transformers",),
    "inspect": ("inspect_ai",),
    "lora": ("peft",),
    "chem": ("rdkit",),
    **{name: (name,) for name in ("ray", "kmedoids", "trl", "gguf")},
}
EXTRA = {library: extra for extra, libraries in EXTRAS.items() for library in libraries}


def missing(libraries: Iterable[str]) -> list[str]:
    """The libraries, by import name, that are not installed; a mere folder of that name is none. None is imported."""
    return [name for name in libraries if (spec := find_spec(name)) is None or spec.origin is None]


def require(who: str, *libraries: str) -> None:
    """Raise Lacking, one line that begins with `who`, unless all these libraries are installed."""
    require_all({who: libraries})


def require_all(needed: Mapping[str, Iterable[str]]) -> None:
    """Raise Lacking, one line with all libraries that somebody needs and that are missing, and the pip command."""
    absent = {who: names for who, libraries in needed.items() if (names := missing(libraries))}
    if absent:
        listed = "; ".join(f"{who} needs {', '.join(names)}" for who, names in absent.items())
        command = pip_command(name for names in absent.values() for name in names)
        raise Lacking(f"{listed}: not installed: {command}")


def pip_command(libraries: Iterable[str]) -> str:
    """The command that installs these libraries: our extras, and by their own names those that no extra brings."""
    names = set(libraries)
    extras = sorted({EXTRA[name] for name in names & EXTRA.keys()})
    ours = [f"'diversity-harness[{','.join(extras)}]'"] if extras else []
    return " ".join(["pip install", *ours, *sorted(names - EXTRA.keys())])


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
