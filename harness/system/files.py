"""Write files completely or not at all; read those of users, plain or gzip, within limits; say faults in one line.

The limits hold for what a user gives: how far a file may expand, relative to its size, and what vectors may take.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
import platform
import stat
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import platformdirs

from harness.errors import HarnessError

READ_ONLY = (errno.EACCES, errno.EROFS, errno.EPERM)
FREE = 2**26  # bytes that any compressed file may expand to
RATIO = 100  # ... larger files may expand to this multiple of their size: responses shrink 3 to 20 times, a bomb 1,000
MAX_VECTORS_GB = 4.0  # memory for one problem's vectors: 250,000 responses of 4,096 features
_KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO"}


class NotRegular(OSError):
    """What was opened is a FIFO, a folder or a device, of which a read may wait or never end."""


def open_regular(path: Path) -> io.BufferedReader:
    """Open a file for reading; NotRegular, without waiting, for what is no file, and OSError as `open` raises it."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise NotRegular(errno.EINVAL, f"is {_KINDS.get(stat.S_IFMT(mode), 'a device')} and not a file", str(path))
    return os.fdopen(descriptor, "rb")


def read_regular(path: Path) -> bytes:
    """The content of a file; OSError (`open_regular`) if there is none."""
    return beginning(path, -1)


def beginning(path: Path, size: int = 4096) -> bytes:
    """The first bytes of a file."""
    with open_regular(path) as file:
        return file.read(size)


@contextmanager
def opened(path: Path, what: str) -> Iterator[IO[str]]:
    """Open a file as text; its content, not its name, tells whether it is gzip. HarnessError if it is none."""
    try:
        if not path.exists():
            raise HarnessError(f"{what} {path}: no such file")
        with open_regular(path) as raw:
            zipped = raw.peek(2)[:2] == b"\x1f\x8b"
            binary: Any = _Unzipped(raw, f"{what} {path}") if zipped else raw
            with io.TextIOWrapper(binary, encoding="utf-8-sig", newline="") as text:
                yield text
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error) as failure:
        raise HarnessError(f"{what} {path}: not UTF-8 text, plain or gzipped ({failure})") from failure
    except OSError as failure:
        raise HarnessError(f"{what} {path}: cannot be read ({failure.strerror or failure})") from failure


def most_expanded(size: int) -> int:
    """The number of bytes to which a compressed file of this size may expand."""
    return max(FREE, RATIO * size)


class _Unzipped(gzip.GzipFile):
    """A gzip file for reading as text; HarnessError, which begins with `where`, beyond `most_expanded`."""

    def __init__(self, raw: io.BufferedReader, where: str) -> None:
        super().__init__(fileobj=raw, mode="rb")
        self.where, self.most = where, most_expanded(os.fstat(raw.fileno()).st_size)

    def read1(self, size: int = -1) -> bytes:
        content = super().read1(size)
        if self.tell() > self.most:
            raise HarnessError(
                f"{self.where}: expands to more than {self.most:,} bytes, over {RATIO} times its size: unpack it first "
                "if that is right"
            )
        return content

    def read(self, size: int | None = -1) -> bytes:
        return b"".join(iter(lambda: self.read1(2**20), b""))  # all: io.TextIOWrapper reads parts by `read1`


def user_cache() -> Path:
    """The user's cache folder for this program; a path that cannot be written if the user has no home folder."""
    try:
        return platformdirs.user_cache_path("diversity-harness", appauthor=False)
    except RuntimeError:
        return Path(os.devnull)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file completely or not at all."""
    write_parts(path, [content])


def write_parts(path: Path, parts: Iterable[bytes | memoryview], durable: bool = False) -> None:
    """Write a file from parts, completely or not at all; `durable` waits for the disk (for expensive content)."""
    temporary = temporary_name(path, os.getpid())
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(temporary, "wb") as file:
                file.writelines(parts)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def temporary_name(path: Path, pid: int) -> Path:
    """The path of the temporary file beside `path`; it names machine and process, since machines may share a store."""
    return path.with_name(f".{platform.node()}-{pid}.{path.name}.tmp")


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn an OSError inside (disk full, read-only, no such folder) into a HarnessError of one line."""
    try:
        yield
    except OSError as failure:
        fault = f"cannot write {path}: {failure.strerror}; choose another --store"
        if failure.errno in (errno.ENOSPC, errno.EDQUOT):
            fault = (
                f"no space left on the disk of {path.parent}: make room and run the same command again; finished "
                "problems are kept"
            )
        raise HarnessError(f"store: {fault}") from failure
