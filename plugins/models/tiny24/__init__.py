"""The embedded models: small Llamas that this project trained on Game of 24 (README.md; trained by train.py).

Example: `folder("tiny24")` is a folder for `AutoModelForCausalLM.from_pretrained`. Nothing heavy is imported here.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def names() -> list[str]:
    """Return the names of the embedded models, in alphabetical order."""
    return sorted(path.name for path in _models().iterdir() if (path / "config.json").is_file())


def folder(name: str) -> Path | None:
    """Return the Hugging Face folder of an embedded model; None for any other name."""
    return _models() / name if name in names() else None


def _models() -> Path:
    """Return the folder of the models; the package is always installed as plain files."""
    return Path(str(files(__name__))) / "models"
