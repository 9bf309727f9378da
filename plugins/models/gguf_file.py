"""Read from a GGUF file's header what a run's keys and estimates need, without any library: those take seconds for it.

The file begins with the bytes "GGUF", a version, the numbers of tensors and of entries, then the entries (name, type,
value) and for each tensor its name, shape, type and offset (docs/gguf.md of ggml). Read are versions 2 and 3,
little-endian.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

from harness import HarnessError

NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, ARRAY = 8, 9
LONGEST = 2**26  # bytes of a text; a longer one is a broken file


@dataclass(frozen=True)
class Header:
    """The entries of a GGUF file that are numbers or texts (arrays are skipped), and how many weights it has."""

    entries: dict[str, Any]
    parameter_count: int


class GgufFiles:
    """What `model_files.ModelFiles` tells of a folder, for a GGUF file."""

    commit = None
    dtype = "bfloat16"  # for a GPU: quantized weights are dequantized to it, and it has the range of float32
    is_here = True

    def __init__(self, path: Path) -> None:
        self._path = path

    @cached_property
    def header(self) -> Header:
        """The file's header; HarnessError if it cannot be read."""
        return read_header(self._path)

    @property
    def parameter_count(self) -> float:
        """How many parameters the model has."""
        return float(self.header.parameter_count)

    @property
    def has_template(self) -> bool:
        """Whether the tokenizer has a chat template; those of base models have none."""
        return bool(self.header.entries.get("tokenizer.chat_template"))


def read_header(path: Path) -> Header:
    """Return a GGUF file's header; HarnessError for any other file, and for one part of several."""
    try:
        with path.open("rb") as file:
            header = _header(file)
    except (OSError, ValueError, KeyError, struct.error, OverflowError, MemoryError, RecursionError) as failure:
        reason = getattr(failure, "strerror", None) or failure
        raise HarnessError(f"model {path} is no GGUF file that can be read: {reason}") from failure
    parts = header.entries.get("split.count", 0)
    if parts > 1:
        raise HarnessError(
            f"model {path} is one of {parts} parts, which are not read: join them (llama-gguf-split --merge)"
        )
    return header


def _header(file: BinaryIO) -> Header:
    if file.read(4) != b"GGUF":
        raise ValueError("it does not begin with GGUF")
    version = _number(file, "I")
    if version not in (2, 3):
        raise ValueError(f"version {version}, and not 2 or 3, little-endian")
    tensors, entries = _number(file, "Q"), _number(file, "Q")
    named = ((_text(file), _value(file, _number(file, "I"))) for _ in range(entries))
    kept = {name: value for name, value in named if value is not None}
    return Header(kept, sum(_tensor_size(file) for _ in range(tensors)))


def _tensor_size(file: BinaryIO) -> int:
    """The number of weights of the next tensor."""
    _text(file)
    shape = [_number(file, "Q") for _ in range(_number(file, "I"))]
    file.seek(12, 1)  # its type and its place
    return math.prod(shape)


def _value(file: BinaryIO, kind: int) -> Any:
    """The next value; None for an array, which is skipped."""
    if kind == TEXT:
        return _text(file)
    if kind != ARRAY:
        return _number(file, NUMBERS[kind])
    kind, count = _number(file, "I"), _number(file, "Q")
    if kind in NUMBERS:
        file.seek(count * struct.calcsize(NUMBERS[kind]), 1)
    else:
        for _ in range(count):
            _value(file, kind)
    return None


def _number(file: BinaryIO, form: str) -> Any:
    return struct.unpack(f"<{form}", file.read(struct.calcsize(f"<{form}")))[0]


def _text(file: BinaryIO) -> str:
    length = _number(file, "Q")
    if length > LONGEST:
        raise ValueError(f"a text of {length:,} bytes")
    return file.read(length).decode("utf-8", "replace")
