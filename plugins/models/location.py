"""What a model's name means, and all that is read of it without torch and transformers, which load for seconds.

A run whose responses are all stored needs nothing else of its model: name, content hash or commit, stored type, whether
it has a chat template. (Of a GGUF file transformers reads the template.)
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import re
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from harness import HarnessError
from harness.errors import Lacking, did_you_mean
from harness.system.files import user_cache, write_atomically
from harness.system.json_text import read

from . import smollm2

EMBEDDED = Path(__file__).parent / "tiny24" / "models"
WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
TOKENIZER = ("tokenizer*", "vocab.*", "merges.txt", "special_tokens_map.json", "added_tokens.json", "chat_template*")
CONFIG, TOKENIZER_CONFIG, ADAPTER_CONFIG = "config.json", "tokenizer_config.json", "adapter_config.json"
TEMPLATES = ("chat_template.jinja", "chat_template.json", "additional_chat_templates/default.jinja")
# Files in a model's folder that do not change its output: hidden files, texts, code (which is never run), formats of
# other runtimes, files left by training. All other files are part of the content hash.
IGNORED = re.compile(
    r"\..*|(README|LICENSE|LICENCE|NOTICE|USE_POLICY)\b.*|.*\.(md|pdf|html|png|jpe?g|gif|svg|py|log|csv)"
    r"|.*\.(gguf|onnx|h5|msgpack|ot|tflite|mlmodel|pth?|lock)|(optimizer|scheduler|rng_state|events\.out)\b.*"
    r"|training_args\.bin|trainer_state\.json|(all|train|eval)_results\.json",
    re.IGNORECASE,
)
# What people write -> the name of the type.
DTYPES = {"auto": "auto", "float32": "float32", "bfloat16": "bfloat16", "float16": "float16"}
DTYPES |= {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}

WHOLE_UP_TO = 8 * 2**20  # bytes; files up to this size are read each time, in a few milliseconds
NOTICE_FROM = 10**9  # bytes
SETTLED_NS = 2 * 10**9  # a file changed more recently may change again without a new timestamp
KEPT = 1000  # hashes in the cache; the oldest are removed


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
        return str(self.folder or self.name)


def embedded(name: str) -> Path | None:
    """The folder of an embedded model (tiny24/README.md); None for any other name."""
    return EMBEDDED / name if name in embedded_names() else None


def embedded_names() -> list[str]:
    """The names of the embedded models, in alphabetical order."""
    return sorted(path.name for path in EMBEDDED.iterdir() if (path / CONFIG).is_file())


def locate(model: str, takes_gguf: bool = False) -> Location:
    """Return the location that a model's name means, by the first rule that fits.

    A folder or GGUF file if the name looks like a path ("./x", "~/x", "/x"), an embedded model, a folder or GGUF file
    that exists, the fetched model `smollm2-135m`, or a model on the hub ("org/name"; not looked up here). HarnessError
    for any other name, for a folder without config, weights or tokenizer, and for GGUF unless it `takes_gguf`.
    """
    path = Path(model).expanduser()
    looks_like_path = model.startswith((".", "~")) or os.path.isabs(model)
    if not looks_like_path and (folder := embedded(model)):
        return Location(model, folder)
    if not (looks_like_path or path.exists()):
        if model == smollm2.NAME:
            return Location(model, smollm2.fetched())
        if "/" not in model:
            guess = did_you_mean(model, [*embedded_names(), smollm2.NAME], "embedded")
            raise HarnessError(f"unknown model {model!r} {guess}: else give a folder, or a hub id as org/name")
        return Location(model, None)
    if path.suffix.lower() == ".gguf" and path.is_file() and takes_gguf:
        return Location(path.stem, path.parent, path)
    if not path.exists():
        raise HarnessError(f"model folder {path} does not exist")
    if path.suffix.lower() == ".gguf" and path.is_file():
        raise HarnessError(
            f"model {path} is in GGUF format, which only engine transformers reads: "
            f"`python -m {__package__}.dequantize {path} FOLDER` makes a folder that all engines read"
        )
    if not path.is_dir():
        raise HarnessError(f"model {path} is a file: give its folder")
    if (files := sorted(path.glob("*.gguf"))) and not any(True for weights in WEIGHTS for _ in path.glob(weights)):
        raise HarnessError(f"model folder {path} has only GGUF: give the file, e.g. --model {files[0]}")
    if (path / ADAPTER_CONFIG).is_file():
        base = read_json(path / ADAPTER_CONFIG, "adapter").get("base_model_name_or_path")
        raise HarnessError(
            f"model folder {path} is an adapter of {base if isinstance(base, str) else 'some model'}: give that as "
            f"--model, and the adapter as --engine transformers:adapter={path} (or vllm:adapter=...)"
        )
    for part, patterns in ((CONFIG, [CONFIG]), ("weights", WEIGHTS), ("tokenizer", TOKENIZER)):
        if not any(file.is_file() for pattern in patterns for file in path.glob(pattern)):
            raise HarnessError(f"model folder {path} has no {part} (looked for {', '.join(patterns)})")
    return Location(path.resolve().name, path)


def read_json(path: Path, what: str) -> dict[str, Any]:
    content = read(path, what, lenient=True)
    return content if isinstance(content, dict) else {}


@contextmanager
def one_line_errors(location: Location) -> Iterator[None]:
    """Turn exceptions of `from_pretrained` into a HarnessError; Lacking if the hub is out of reach."""
    from safetensors import SafetensorError

    broken = (ValueError, LookupError, ArithmeticError, struct.error, SafetensorError)  # what readers make of bytes
    try:
        yield
    except (OSError, ImportError, RuntimeError, *broken) as failure:
        reason, name = str(failure).strip().split("\n")[0], f"model {location.name!r}"
        if location.folder is not None:
            name = f"model {location.gguf}" if location.gguf else f"model folder {location.folder}"
        elif isinstance(failure, OSError) and not re.search("valid model identifier|file named", reason):
            raise Lacking(f"{name} cannot be fetched (offline?): give a local folder") from failure
        raise HarnessError(f"{name} cannot be loaded: {reason}") from failure


def content_hash(model: Path) -> str:
    """Return a hash (16 hex digits) of all files that can change a model's output; its path is not part of it.

    Of a GGUF file it covers the file, of a folder the files directly in it and in the folders of its parts (chat
    templates, a sentence model's modules), except for those named in `IGNORED`.
    """
    what, files, digest = f"model {model.name}", [model], hashlib.sha256()
    try:
        if not model.is_file():
            modules: list[Path] = []
            with suppress(HarnessError, KeyError, TypeError):  # most models have none
                named = read(model / "modules.json", "model", lenient=True)
                modules = [model / module["path"] for module in named if module["path"]]
            parts = dict.fromkeys([model, model / "additional_chat_templates", *modules])
            inside = [path for part in parts if part.is_dir() for path in part.iterdir()]
            files = sorted(path for path in inside if path.is_file() and not IGNORED.fullmatch(path.name))
            what = f"model folder {model.name}"
        for path, hashed in zip(files, file_hashes(files, what), strict=True):
            digest.update(f"{path.relative_to(model).as_posix()} {path.stat().st_size}\n".encode())
            digest.update(bytes.fromhex(hashed))
    except OSError as failure:
        raise HarnessError(f"model folder {model} cannot be read: {failure.strerror or failure}") from failure
    return digest.hexdigest()[:16]


def file_hashes(paths: Sequence[Path], name: str) -> list[str]:
    """Return the SHA-256 (64 hex digits) of each file's content; a line on stderr says if much is read.

    Each large file is read once: its hash is kept in the user's cache folder (`file-hashes.json`) by device, inode,
    size, and the times of the last change of content and of anything (ctime), which a program cannot set back. Two
    processes that write at the same time may lose an entry, but never the cache file.

    name   what the line says is read, such as "model folder SmolLM2"
    """
    cache, known = user_cache() / "file-hashes.json", {}
    with suppress(HarnessError, AttributeError):  # it is missing or broken
        pairs = read(cache, "hashes").items()
        known = {key: value for key, value in pairs if isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value)}
    unread = sum(path.stat().st_size for path in paths if _file_key(path) not in known)
    if unread >= NOTICE_FROM:
        print(f"{name}: reading {unread / 1e9:.1f} GB once, to know it again by its content", file=sys.stderr)
    fresh, hashes = {}, []
    for path in paths:
        key, status = _file_key(path), path.stat()
        hashed = known.get(key) or _digest(path)
        settled = time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > SETTLED_NS
        if key not in known and status.st_size > WHOLE_UP_TO and settled and key == _file_key(path):
            fresh[key] = hashed
        hashes.append(hashed)
    if fresh:
        with suppress(OSError, HarnessError):  # it cannot be written
            write_atomically(cache, json.dumps(dict([*known.items(), *fresh.items()][-KEPT:]), indent=0).encode())
    return hashes


def _file_key(path: Path) -> str:
    stat = path.stat()
    return f"{stat.st_dev}:{stat.st_ino}:{stat.st_size}:{stat.st_mtime_ns}:{stat.st_ctime_ns}"


def _digest(path: Path) -> str:
    with path.open("rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hub_file(model: str, name: str, revision: str, local: bool) -> Path:
    """The file of a hub's model, in the hub's cache, fetched unless `local`; OSError if it is not to be had."""
    from huggingface_hub import hf_hub_download

    return Path(hf_hub_download(model, name, revision=revision, local_files_only=local))


def dtype_name(engine: str, written: str) -> str:
    """The name of a type as torch and keys have it, from that or a short form; HarnessError, begun with `engine`."""
    if written not in DTYPES:
        raise HarnessError(f"{engine}: dtype must be one of {', '.join(DTYPES)}, got {written!r}")
    return DTYPES[written]


def device_kind(name: str) -> str:
    """The kind of a device, such as "cpu" or "cuda"; of "auto" the one that torch would use. Imports no torch."""
    return name.partition(":")[0] if name != "auto" else "cuda" if _has_gpu() else "cpu"


def _has_gpu() -> bool:
    """Whether the NVIDIA driver shows a GPU, and the torch that is installed can use one; ROCm's torch is asked."""
    try:
        build = version("torch").partition("+")[2]
    except PackageNotFoundError:
        return False
    if build.startswith("rocm"):
        import torch

        return torch.cuda.is_available()
    if build == "cpu":
        return False
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int(0)
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0
