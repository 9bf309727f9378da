"""The embedded models: small Llamas trained by this project on Game of 24 (README.md; train.py makes them).

Example: `folder("tiny24")` is a folder for `AutoModelForCausalLM.from_pretrained`. Nothing heavy is imported here.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def names() -> list[str]:
    """The embedded models, in alphabetical order."""
    return sorted(path.name for path in _models().iterdir() if (path / "config.json").is_file())


def folder(name: str) -> Path | None:
    """The Hugging Face folder of an embedded model; None for any other name."""
    return _models() / name if name in names() else None


def _models() -> Path:
    """Where the models lie; the package is always installed as plain files."""
    return Path(str(files(__name__))) / "models"
