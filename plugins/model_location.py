"""Where a model's name leads: to the embedded model, a folder, or the hub. Nowhere is an error of one line."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness import HarnessError
from harness.errors import did_you_mean

WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
TOKENIZER = ("tokenizer*", "vocab.*", "merges.txt", "special_tokens_map.json", "added_tokens.json", "chat_template*")
CONFIG = ("config.json", "generation_config.json", "*.index.json")
WHOLE_UP_TO = 64 * 2**20  # bytes
END = 2**20  # bytes of head and of tail, of a larger file


@dataclass(frozen=True)
class Location:
    """A model's name as tables show it, and its folder (None: it is on the hub)."""

    name: str
    folder: Path | None

    @property
    def source(self) -> str:
        """What `from_pretrained` takes."""
        return str(self.folder or self.name)


def locate(model: str) -> Location:
    """What a name means: a folder if it looks like a path, an embedded model, a folder that exists, else the hub."""
    from .tiny24 import folder, names

    path = Path(model).expanduser()
    looks_like_path = model.startswith((".", "~")) or os.path.isabs(model)
    embedded = None if looks_like_path else folder(model)
    if embedded is not None:
        return Location(model, embedded)
    if not (looks_like_path or path.exists()):
        if "/" not in model:
            known = did_you_mean(model, names()).replace("installed", "embedded")
            raise HarnessError(f"unknown model {model!r} {known}: else give a folder, or a hub id as org/name")
        return Location(model, None)
    _require_checkpoint(path)
    return Location(path.resolve().name, path)


def _require_checkpoint(folder: Path) -> None:
    if not folder.exists():
        raise HarnessError(f"model folder {folder} does not exist")
    if not folder.is_dir():
        raise HarnessError(f"model {folder} is a file: give its folder")
    for what, patterns in (("config.json", ["config.json"]), ("weights", WEIGHTS), ("tokenizer", TOKENIZER)):
        if not _files(folder, patterns):
            raise HarnessError(f"model folder {folder} has no {what} (looked for {', '.join(patterns)})")


def content_hash(folder: Path) -> str:
    """Hash (16 hex digits) of config, weights and tokenizer: whole files up to 64 MB, else size, first and last MB."""
    digest = hashlib.sha256()
    for path in _files(folder, (*CONFIG, *WEIGHTS, *TOKENIZER)):
        digest.update(f"{path.name} {path.stat().st_size}\n".encode())
        digest.update(_content(path))
    return digest.hexdigest()[:16]


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        if path.stat().st_size <= WHOLE_UP_TO:
            return hashlib.file_digest(file, "sha256").digest()
        head = file.read(END)
        file.seek(-END, os.SEEK_END)
        return head + file.read()


def _files(folder: Path, patterns: tuple[str, ...] | list[str]) -> list[Path]:
    return sorted({path for pattern in patterns for path in folder.glob(pattern) if path.is_file()})


@contextmanager
def one_line_errors(location: Location) -> Iterator[None]:
    """What `from_pretrained` raises for a model that is missing, unreachable, broken or unknown to it, as one line."""
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, ValueError, SafetensorError) as failure:
        reason = str(failure).strip().split("\n")[0]
        if location.folder is not None:
            message = f"model folder {location.folder} cannot be loaded: {reason}"
        elif "not a valid model identifier" in reason or "Repo id must be" in reason:
            message = f"model {location.name!r} is not embedded, not a folder here, and not on the hub (or private)"
        elif isinstance(failure, OSError):
            message = f"model {location.name!r} cannot be fetched (offline?): give a local folder"
        else:
            message = f"model {location.name!r} cannot be loaded: {reason}"
        raise HarnessError(message) from failure
