"""Read from a checkpoint's small files what a run's keys need, without torch and transformers: these load for seconds.

A run whose responses are all stored needs nothing else of its model.
"""

from __future__ import annotations

import ctypes
import re
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from harness import HarnessError
from harness.system.json_text import read

from .model_location import WEIGHTS, Location

# What people write -> the name of the type.
DTYPES = {name: name for name in ("auto", "float32", "bfloat16", "float16")}
DTYPES |= {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}

CONFIG, TOKENIZER_CONFIG = "config.json", "tokenizer_config.json"
TEMPLATES = ("chat_template.jinja", "chat_template.json", "additional_chat_templates/default.jinja")


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
        config = self._json(CONFIG)
        config = next((config[name] for name in ("text_config", "llm_config") if config.get(name)), config)
        stored = config.get("dtype") or config.get("torch_dtype") or self._json(CONFIG).get("torch_dtype")
        return str(stored).removeprefix("torch.") if stored else None

    @property
    def is_here(self) -> bool:
        """Whether the model is in a folder, or its config in the hub's cache, where its other files mostly are too."""
        if self._location.folder:
            return True
        from huggingface_hub import try_to_load_from_cache

        return isinstance(try_to_load_from_cache(self._location.name, CONFIG, revision=self._revision), str)

    @property
    def parameter_count(self) -> float | None:
        """About how many parameters the model has: by the size of its weights, or by a name such as Qwen2.5-0.5B."""
        folder = self._location.folder
        if folder:
            weights = sum(path.stat().st_size for pattern in WEIGHTS for path in folder.glob(pattern))
            return weights / (4 if self.dtype == "float32" else 2)
        named = re.findall(r"(?<![0-9.])([0-9]+(?:\.[0-9]+)?)([MB])(?![A-Za-z])", self._location.name, re.IGNORECASE)
        return float(named[-1][0]) * {"m": 1e6, "b": 1e9}[named[-1][1].lower()] if named else None

    @cached_property
    def has_template(self) -> bool:
        """Whether the tokenizer has a chat template; those of base models have none."""
        return bool(self._json(TOKENIZER_CONFIG).get("chat_template")) or any(map(self._path, TEMPLATES))

    def _json(self, name: str) -> dict[str, Any]:
        path = self._path(name)
        content = read(path, f"model {self._location.name!r}:", lenient=True) if path else {}
        return content if isinstance(content, dict) else {}

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


def dtype_name(engine: str, written: str) -> str:
    """The name of a type as torch and keys have it, from that or a short form; HarnessError, begun with `engine`."""
    if written not in DTYPES:
        raise HarnessError(f"{engine}: dtype must be one of {', '.join(DTYPES)}, got {written!r}")
    return DTYPES[written]


def device_kind(name: str) -> str:
    """The kind of a device, such as "cpu" or "cuda"; of "auto" the one that torch would use. Imports no torch."""
    return name.partition(":")[0] if name != "auto" else "cuda" if _has_gpu() else "cpu"


def _has_gpu() -> bool:
    """Whether the NVIDIA driver shows a GPU, and the torch that is installed can use one.

    Where neither the driver nor the name of torch's build tells, torch is asked.
    """
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
