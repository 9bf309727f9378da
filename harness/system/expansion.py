"""Limits on a file from a user: how far it may expand, relative to its size, and how deep its values may nest."""

from __future__ import annotations

import gzip
import io
import os

from harness.errors import HarnessError

FREE = 2**26  # bytes that any compressed file may expand to
RATIO = 100  # ... larger files may expand to this multiple of their size: responses shrink 3 to 20 times, a bomb 1,000
MAX_VECTORS_GB = 4.0  # memory for one problem's vectors: 250,000 responses of 4,096 features
DEEPEST = 100  # levels of nested lists and objects; deeper values break recursive code


def most_expanded(size: int) -> int:
    """The number of bytes to which a compressed file of this size may expand."""
    return max(FREE, RATIO * size)


class BoundedGzip(gzip.GzipFile):
    """A gzip file for reading; HarnessError, which begins with `where`, if it expands beyond `most_expanded`."""

    def __init__(self, raw: io.BufferedReader, where: str) -> None:
        super().__init__(fileobj=raw, mode="rb")
        self.where, self.most = where, most_expanded(os.fstat(raw.fileno()).st_size)

    def read1(self, size: int = -1) -> bytes:
        """Read up to `size` bytes in one step; HarnessError if the file has expanded too far."""
        content = super().read1(size)
        if self.tell() > self.most:
            raise HarnessError(
                f"{self.where}: expands to more than {self.most:,} bytes, over {RATIO} times its size: unpack it first "
                "if that is right"
            )
        return content

    def read(self, size: int | None = -1) -> bytes:
        """Read `size` bytes, or all if it is -1 or None."""
        parts, left = [], -1 if size is None else size
        while left and (part := self.read1(min(left, 2**20) if left > 0 else 2**20)):
            parts.append(part)
            left -= len(part) if left > 0 else 0
        return b"".join(parts)
