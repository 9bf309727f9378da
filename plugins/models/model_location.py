"""Find out what a model's name means: an embedded model, a folder, or the hub; else a one-line error."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness import HarnessError
from harness.errors import Lacking, did_you_mean
from harness.records import Weights
from harness.system.json_text import read

from .file_hashes import file_hashes

WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
TOKENIZER = ("tokenizer*", "vocab.*", "merges.txt", "special_tokens_map.json", "added_tokens.json", "chat_template*")
# Files in a model's folder that do not change its output: hidden files, texts, code (which is never run), formats of
# other runtimes, files left by training. All other files are part of the content hash.
IGNORED = re.compile(
    r"\..*|(README|LICENSE|LICENCE|NOTICE|USE_POLICY)\b.*|.*\.(md|pdf|html|png|jpe?g|gif|svg|py|log|csv)"
    r"|.*\.(gguf|onnx|h5|msgpack|ot|tflite|mlmodel|pth?|lock)|(optimizer|scheduler|rng_state|events\.out)\b.*"
    r"|training_args\.bin|trainer_state\.json|(all|train|eval)_results\.json",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Location:
    """A model's name as tables show it, and its folder (None: the model is on the hub).

    gguf  the GGUF file that is the model, in that folder; nothing else of the folder is read
    """

    name: str
    folder: Path | None
    gguf: Path | None = None

    @property
    def source(self) -> str:
        """Return the first argument for `from_pretrained`: the folder, or the hub's id."""
        return str(self.folder or self.name)

    @property
    def weights(self) -> list[Weights]:
        """What a run shows of the owner and licence of a fetched model; empty for any other."""
        from . import smollm2

        return [smollm2.WEIGHTS] if self.name == smollm2.NAME and self.folder == smollm2.folder() else []

    @property
    def content(self) -> Path | None:
        """The folder or file whose content is the model; None for a model on the hub."""
        return self.gguf or self.folder


def locate(model: str, takes_gguf: bool = False) -> Location:
    """Return the location that a model's name means, by the first rule that fits.

    A folder or GGUF file if the name looks like a path ("./x", "~/x", "/x"), an embedded model, a folder or GGUF file
    that exists, the fetched model `smollm2-135m`, or a model on the hub ("org/name"; not looked up here). HarnessError
    for any other name, for a folder without config, weights or tokenizer, and for GGUF unless it `takes_gguf`.
    """
    from . import smollm2
    from .tiny24 import folder, names

    path = Path(model).expanduser()
    looks_like_path = model.startswith((".", "~")) or os.path.isabs(model)
    embedded = None if looks_like_path else folder(model)
    if embedded is not None:
        return Location(model, embedded)
    if not (looks_like_path or path.exists()):
        if model == smollm2.NAME:
            return Location(model, smollm2.fetched())
        if "/" not in model:
            guess = did_you_mean(model, [*names(), smollm2.NAME]).replace("installed", "embedded")
            raise HarnessError(f"unknown model {model!r} {guess}: else give a folder, or a hub id as org/name")
        return Location(model, None)
    if path.suffix.lower() == ".gguf" and path.is_file() and takes_gguf:
        return Location(path.stem, path.parent, path)
    _require_checkpoint(path)
    return Location(path.resolve().name, path)


def _require_checkpoint(folder: Path) -> None:
    if not folder.exists():
        raise HarnessError(f"model folder {folder} does not exist")
    if folder.suffix.lower() == ".gguf" and folder.is_file():
        raise HarnessError(
            f"model {folder} is in GGUF format, which only engine transformers reads: "
            f"`python -m {__package__}.dequantize {folder} FOLDER` makes a folder that all engines read"
        )
    if not folder.is_dir():
        raise HarnessError(f"model {folder} is a file: give its folder")
    if (files := _files(folder, ["*.gguf"])) and not _files(folder, WEIGHTS):
        raise HarnessError(f"model folder {folder} has only GGUF: give the file, e.g. --model {files[0]}")
    if (folder / "adapter_config.json").is_file():
        raise HarnessError(
            f"model folder {folder} is an adapter{_base_of(folder)}: give that as --model, and the adapter as "
            f"--engine transformers:adapter={folder} (or vllm:adapter=...)"
        )
    for part, patterns in (("config.json", ["config.json"]), ("weights", WEIGHTS), ("tokenizer", TOKENIZER)):
        if not _files(folder, patterns):
            raise HarnessError(f"model folder {folder} has no {part} (looked for {', '.join(patterns)})")


def _base_of(folder: Path) -> str:
    """Return " of NAME" for the adapter's base model; " of some model" if its config does not name it."""
    try:
        base = read(folder / "adapter_config.json", "adapter", lenient=True)["base_model_name_or_path"]
    except (HarnessError, KeyError, TypeError):
        base = None
    return f" of {base}" if isinstance(base, str) else " of some model"


def content_hash(folder: Path) -> str:
    """Return a hash (16 hex digits) of all files that can change a model's output; the folder's path is not part of it.

    `folder` may be a GGUF file, which is a model alone.

    It covers the files directly in the folder and in the folders of its parts (chat templates, a sentence model's
    modules), except for hidden files, texts and images about the model, code, formats of other runtimes, and files left
    by training.
    """
    files = [folder] if folder.is_file() else _content(folder)
    digest = hashlib.sha256()
    try:
        hashes = file_hashes(files, f"model {folder.name}" if folder.is_file() else f"model folder {folder.name}")
        for path, hashed in zip(files, hashes, strict=True):
            digest.update(f"{path.relative_to(folder).as_posix()} {path.stat().st_size}\n".encode())
            digest.update(bytes.fromhex(hashed))
    except OSError as failure:
        raise HarnessError(f"model folder {folder} cannot be read: {failure.strerror or failure}") from failure
    return digest.hexdigest()[:16]


def _content(folder: Path) -> list[Path]:
    parts = [folder, folder / "additional_chat_templates", *_modules(folder)]
    files = [path for part in dict.fromkeys(parts) if part.is_dir() for path in part.iterdir()]
    return sorted(path for path in files if path.is_file() and not IGNORED.fullmatch(path.name))


def _modules(folder: Path) -> list[Path]:
    """Return the folders of a sentence-transformers model's modules."""
    try:
        named = read(folder / "modules.json", "model", lenient=True)
        return [folder / module["path"] for module in named if module["path"]]
    except (HarnessError, KeyError, TypeError):
        return []


def _files(folder: Path, patterns: tuple[str, ...] | list[str]) -> list[Path]:
    return sorted({path for pattern in patterns for path in folder.glob(pattern) if path.is_file()})


@contextmanager
def one_line_errors(location: Location) -> Iterator[None]:
    """Turn exceptions of `from_pretrained` into a HarnessError; Lacking if the hub is out of reach."""
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, ValueError, ImportError, RuntimeError, KeyError, SafetensorError) as failure:
        reason = str(failure).strip().split("\n")[0]
        if location.gguf is not None:
            message = f"model {location.gguf} cannot be loaded: {reason}"
        elif location.folder is not None:
            message = f"model folder {location.folder} cannot be loaded: {reason}"
        elif isinstance(failure, OSError) and "file named config.json" in reason:
            message = (
                f"model {location.name!r} has no config.json (an adapter? GGUF?): give a whole model's safetensors"
            )
        elif "not a valid model identifier" in reason or "Repo id must be" in reason:
            message = f"model {location.name!r} is not embedded, not a folder here, and not on the hub (or private)"
        elif isinstance(failure, OSError):
            missing = f"model {location.name!r} cannot be fetched (offline?): give a local folder"
            raise Lacking(missing) from failure
        else:
            message = f"model {location.name!r} cannot be loaded: {reason}"
        raise HarnessError(message) from failure
