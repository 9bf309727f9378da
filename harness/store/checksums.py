"""Compute and check the checksum inside each shard's file: it covers every bit of the file and its place.

Parquet and safetensors allow no bytes after their own content, and a second file per shard could be lost between two
renames. So the checksum is a text of fixed width in the file's metadata (in JSON: an entry). The text also names
the place where the shard belongs:

    shard-sha256=<64 hex digits> of pool/KEY/PROBLEM;

The digits are the SHA-256 of the whole file without these 64 bytes. A flipped bit, a cut file, two shards swapped, a
shard of another stage or problem: reading the file detects each. It guards against accidents, not against forgery.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from harness.errors import HarnessError
from harness.system.files import NotRegular, open_regular

_TAG, _WIDTH = "shard-sha256=", 64
_TEXT = re.compile(rb"shard-sha256=([0-9a-f]{64}) of ([A-Za-z0-9_./-]+);")

DAMAGED = "is damaged (its content does not have its checksum)"
UNSEALED = "has no checksum (an older version wrote it, or it is damaged)"


class BadShard(HarnessError):
    """A shard that cannot be trusted. `fault`: what is wrong with it, as `harness doctor --store` lists it."""

    def __init__(self, path: Path, fault: str) -> None:
        super().__init__(f"store: {path} {fault}: `harness doctor --store {root_of(path)}` says what to do")
        self.path, self.fault = path, fault

    def __reduce__(self) -> tuple[type[BadShard], tuple[Path, str]]:
        """Pickle by the two arguments, so that worker processes can send it."""
        return BadShard, (self.path, self.fault)


def root_of(path: Path) -> Path:
    """The root folder of the store that holds the shard at this path."""
    return path.parents[min(2, len(path.parents) - 1)]


def place_of(path: Path) -> str:
    """Where the file of a shard belongs in any store: `pool/KEY/PROBLEM`."""
    return "/".join(re.sub(r"[^A-Za-z0-9_.-]", "_", part) for part in (*path.parts[-3:-1], path.stem))


def blank(path: Path) -> str:
    """The text that a file's content must contain at the place of its checksum; `sealed` fills in the digits."""
    return f"{_TAG}{'0' * _WIDTH} of {place_of(path)};"


def sealed(path: Path, content: bytes) -> tuple[memoryview, bytes, memoryview]:
    """A finished file in three parts, to be written in turn: what is before its checksum, the checksum, what follows.

    content  the file with the zeros of `blank` where its checksum will stand
    path     of the shard; its suffix says where in the content these zeros are
    """
    start = _digits(path, content)
    assert start is not None
    before, after = _around(content, start)
    return before, _sha256(before, after), after


def check(path: Path, content: bytes) -> None:
    """Raise BadShard unless the content is exactly what was written to this path."""
    start = _digits(path, content)
    if start is None:
        raise BadShard(path, UNSEALED)
    text = _TEXT.match(content, start - len(_TAG))
    if text is None or text[1] != _sha256(*_around(content, start)):
        raise BadShard(path, DAMAGED)
    if (place := text[2].decode()) != place_of(path):
        raise BadShard(path, f"is not what its name says (it was written as {place})")


def _digits(path: Path, content: bytes) -> int | None:
    """The index of the first digit; None if there is no checksum.

    Parquet has its metadata at the end of the file, other formats at the beginning. So the search for the last, or the
    first, tag finds the checksum, also if a response contains the tag.
    """
    tag = _TAG.encode()
    start = content.rfind(tag) if path.suffix == ".parquet" else content.find(tag)
    return None if start < 0 else start + len(tag)


def _around(content: bytes, start: int) -> tuple[memoryview, memoryview]:
    view = memoryview(content)
    return view[:start], view[start + _WIDTH :]


def _sha256(*parts: memoryview) -> bytes:
    sha256 = hashlib.sha256()
    for part in parts:
        sha256.update(part)
    return sha256.hexdigest().encode()


def read_regular(path: Path) -> bytes:
    """The content of a regular file; BadShard for a FIFO, folder or device, without waiting for it.

    OSError if the file cannot be opened: it is missing, or a socket.
    """
    try:
        with open_regular(path) as file:
            return file.read()
    except NotRegular as failure:
        raise BadShard(path, failure.strerror or "is no file") from None
