"""Write files completely or not at all, and report a full or read-only disk in one line."""

from __future__ import annotations

import errno
import os
import platform
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

import platformdirs

from harness.errors import HarnessError

READ_ONLY = (errno.EACCES, errno.EROFS, errno.EPERM)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket"}


class NotRegular(OSError):
    """What was opened is a FIFO, a folder or a device, of which a read may wait or never end."""


def open_regular(path: Path) -> BufferedReader:
    """Open a file for reading; NotRegular, without waiting, for what is no file, and OSError as `open` raises it."""
    descriptor = os.open(path, os.O_RDONLY | _NO_WAIT)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        kind = _KINDS.get(stat.S_IFMT(mode), "a device")
        raise NotRegular(errno.EINVAL, f"is {kind} and not a file", str(path))
    return os.fdopen(descriptor, "rb")


def read_regular(path: Path) -> bytes:
    """The content of a file; OSError (`open_regular`) if there is none."""
    with open_regular(path) as file:
        return file.read()


def user_cache() -> Path:
    """The user's cache folder for this program; a path that cannot be written if the user has no home folder."""
    try:
        return platformdirs.user_cache_path("diversity-harness", appauthor=False)
    except RuntimeError:
        return Path(os.devnull)


def write_atomically(path: Path, content: bytes, durable: bool = False) -> None:
    """Write a file completely or not at all; `durable` waits for the disk (for expensive content)."""
    write_parts(path, [content], durable)


def write_parts(path: Path, parts: Iterable[bytes | memoryview | Path], durable: bool = False) -> None:
    """Write a file from parts, completely or not at all; a part may be the path of a file to copy."""
    temporary = temporary_name(path, os.getpid())
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(temporary, "wb") as file:
                for part in parts:
                    if isinstance(part, Path):
                        with open(part, "rb") as source:
                            shutil.copyfileobj(source, file)
                    else:
                        file.write(part)
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
        if failure.errno in (errno.ENOSPC, errno.EDQUOT):
            raise HarnessError(
                f"store: no space left on the disk of {path.parent}: make room and run the same command again; "
                "finished problems are kept"
            ) from failure
        raise HarnessError(f"store: cannot write {path}: {failure.strerror}; choose another --store") from failure
