"""What a model's name means, and all that is read of it without torch and transformers, which load for seconds.

A run whose responses are all stored needs nothing else of its model: name, content hash or commit, stored type, whether
it has a chat template, about how large it is.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import math
import os
import re
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, BinaryIO

from harness import HarnessError
from harness.errors import Lacking, did_you_mean
from harness.records import Weights
from harness.system.files import user_cache, write_atomically
from harness.system.json_text import read

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

# The types of numbers in a GGUF file, as `struct` has them, and its other types.
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, ARRAY = 8, 9
LONGEST = 2**26  # bytes of a text; a longer one is a broken file


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

    @property
    def weights(self) -> list[Weights]:
        """What a run shows of the owner and licence of a fetched model; empty for any other."""
        from . import smollm2

        return [smollm2.WEIGHTS] if self.name == smollm2.NAME and self.folder == smollm2.folder() else []


def embedded(name: str) -> Path | None:
    """The Hugging Face folder of an embedded model (tiny24/README.md); None for any other name."""
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
    from . import smollm2

    path = Path(model).expanduser()
    looks_like_path = model.startswith((".", "~")) or os.path.isabs(model)
    if not looks_like_path and (folder := embedded(model)):
        return Location(model, folder)
    if not (looks_like_path or path.exists()):
        if model == smollm2.NAME:
            return Location(model, smollm2.fetched())
        if "/" not in model:
            guess = did_you_mean(model, [*embedded_names(), smollm2.NAME]).replace("installed", "embedded")
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
    if (files := sorted(folder.glob("*.gguf"))) and not any(True for weights in WEIGHTS for _ in folder.glob(weights)):
        raise HarnessError(f"model folder {folder} has only GGUF: give the file, e.g. --model {files[0]}")
    if (folder / ADAPTER_CONFIG).is_file():
        base = read_json(folder / ADAPTER_CONFIG, "adapter").get("base_model_name_or_path")
        raise HarnessError(
            f"model folder {folder} is an adapter of {base if isinstance(base, str) else 'some model'}: give that as "
            f"--model, and the adapter as --engine transformers:adapter={folder} (or vllm:adapter=...)"
        )
    for part, patterns in ((CONFIG, [CONFIG]), ("weights", WEIGHTS), ("tokenizer", TOKENIZER)):
        if not any(path.is_file() for pattern in patterns for path in folder.glob(pattern)):
            raise HarnessError(f"model folder {folder} has no {part} (looked for {', '.join(patterns)})")


def read_json(path: Path, what: str) -> dict[str, Any]:
    content = read(path, what, lenient=True)
    return content if isinstance(content, dict) else {}


@contextmanager
def one_line_errors(location: Location) -> Iterator[None]:
    """Turn exceptions of `from_pretrained` into a HarnessError; Lacking if the hub is out of reach."""
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, ValueError, ImportError, RuntimeError, KeyError, SafetensorError) as failure:
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
    what, digest = f"model {model.name}" if model.is_file() else f"model folder {model.name}", hashlib.sha256()
    try:
        files = [model] if model.is_file() else _content(model)
        for path, hashed in zip(files, file_hashes(files, what), strict=True):
            digest.update(f"{path.relative_to(model).as_posix()} {path.stat().st_size}\n".encode())
            digest.update(bytes.fromhex(hashed))
    except OSError as failure:
        raise HarnessError(f"model folder {model} cannot be read: {failure.strerror or failure}") from failure
    return digest.hexdigest()[:16]


def _content(folder: Path) -> list[Path]:
    modules: list[Path] = []
    with suppress(HarnessError, KeyError, TypeError):  # most models have none
        named = read(folder / "modules.json", "model", lenient=True)
        modules = [folder / module["path"] for module in named if module["path"]]
    parts = dict.fromkeys([folder, folder / "additional_chat_templates", *modules])
    files = [path for part in parts if part.is_dir() for path in part.iterdir()]
    return sorted(path for path in files if path.is_file() and not IGNORED.fullmatch(path.name))


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


class ModelFiles:
    """The small files of a model in a folder, or on the hub, from which those that are not cached are fetched.

    revision  of a hub model: branch, tag or commit
    local     whether only files on this disk can be used
    """

    def __init__(self, location: Location, revision: str, local: bool) -> None:
        self._location, self._revision, self._local = location, revision, local

    @cached_property
    def commit(self) -> str | None:
        """The hub's commit; None for a folder. OSError if there is no config."""
        return None if self._location.folder else self._fetched(CONFIG, self._revision).parent.name

    @cached_property
    def dtype(self) -> str | None:
        """The type in which the weights are stored, such as "bfloat16"; None if the config names none."""
        whole = self._json(CONFIG)
        config = next((whole[name] for name in ("text_config", "llm_config") if whole.get(name)), whole)
        stored = config.get("dtype") or config.get("torch_dtype") or whole.get("torch_dtype")
        return str(stored).removeprefix("torch.") if stored else None

    @property
    def is_here(self) -> bool:
        """Whether a hub model's config is in the hub's cache, where its other files mostly are too."""
        from huggingface_hub import try_to_load_from_cache

        return isinstance(try_to_load_from_cache(self._location.name, CONFIG, revision=self._revision), str)

    @cached_property
    def has_template(self) -> bool:
        """Whether the tokenizer has a chat template; those of base models have none."""
        return bool(self._json(TOKENIZER_CONFIG).get("chat_template")) or any(map(self._path, TEMPLATES))

    def _json(self, name: str) -> dict[str, Any]:
        path = self._path(name)
        return read_json(path, f"model {self._location.name!r}:") if path else {}

    def _path(self, name: str) -> Path | None:
        """The file of that name; None if the model has none."""
        if self._location.folder:
            path = self._location.folder / name
            return path if path.is_file() else None
        try:
            return self._fetched(name, self.commit or self._revision)
        except OSError:
            return None

    def _fetched(self, name: str, revision: str) -> Path:
        from huggingface_hub import hf_hub_download

        return Path(hf_hub_download(self._location.name, name, revision=revision, local_files_only=self._local))


class GgufFile:
    """What `ModelFiles` tells of a folder, from the header of a GGUF file. HarnessError at the first use if it is none.

    Bytes "GGUF", a version, the numbers of tensors and of entries, then the entries (name, type, value) and for each
    tensor its name, shape, type and offset (docs/gguf.md of ggml). Read are versions 2 and 3, little-endian.
    """

    commit, is_here = None, True
    dtype = "bfloat16"  # for a GPU: quantized weights are dequantized to it, and it has the range of float32

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def has_template(self) -> bool:
        return bool(self.header[0].get("tokenizer.chat_template"))

    @cached_property
    def header(self) -> tuple[dict[str, Any], int]:
        """The entries that are numbers or texts (arrays are skipped), and the number of weights."""
        try:
            with self._path.open("rb") as file:
                entries, weights = _gguf_header(file)
        except (OSError, ValueError, KeyError, struct.error, OverflowError, MemoryError, RecursionError) as failure:
            reason = getattr(failure, "strerror", None) or failure
            raise HarnessError(f"model {self._path} is no GGUF file that can be read: {reason}") from failure
        if (parts := entries.get("split.count", 0)) > 1:
            raise HarnessError(
                f"model {self._path} is one of {parts} parts, which are not read: join them (llama-gguf-split --merge)"
            )
        return entries, weights


def _gguf_header(file: BinaryIO) -> tuple[dict[str, Any], int]:
    def number(form: str) -> Any:
        return struct.unpack(f"<{form}", file.read(struct.calcsize(f"<{form}")))[0]

    def text() -> str:
        length = number("Q")
        if length > LONGEST:
            raise ValueError(f"a text of {length:,} bytes")
        return file.read(length).decode("utf-8", "replace")

    def value(kind: int) -> Any:
        if kind == TEXT:
            return text()
        if kind != ARRAY:
            return number(NUMBERS[kind])
        kind, count = number("I"), number("Q")
        if kind in NUMBERS:
            file.seek(count * struct.calcsize(NUMBERS[kind]), 1)
        else:
            for _ in range(count):
                value(kind)
        return None

    if file.read(4) != b"GGUF":
        raise ValueError("it does not begin with GGUF")
    if (edition := number("I")) not in (2, 3):
        raise ValueError(f"version {edition}, and not 2 or 3, little-endian")
    tensors, count = number("Q"), number("Q")
    entries = {text(): value(number("I")) for _ in range(count)}
    weights = 0
    for _ in range(tensors):
        text()
        weights += math.prod([number("Q") for _ in range(number("I"))])
        file.seek(12, 1)  # its type and its place
    return {name: entry for name, entry in entries.items() if entry is not None}, weights


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
