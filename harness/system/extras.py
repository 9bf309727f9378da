"""Tell which libraries are not installed, and which extra of this distribution brings them. Nothing is imported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec

from harness.errors import LacksLibrary

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
    """The libraries, by their import names, that are not installed; a mere folder of that name is none."""
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
