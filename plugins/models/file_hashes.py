"""Compute the SHA-256 of large files, and cache it, so that each file is read only once.

The hashes are stored in `diversity-harness/file-hashes.json` in the user's cache folder (XDG_CACHE_HOME, else ~/.cache)
by device, inode, size, and two times in nanoseconds: the last change of content (mtime) and of anything (ctime). A
program cannot set the ctime back, so a change in place is noticed even if the mtime is restored. A stale hash is used
only if the clock is set back, or if something writes to the disk without the file system. Delete the cache file to read
everything again. Two processes that write at the same time may lose an entry, but never the cache file.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from harness import HarnessError
from harness.system.files import user_cache, write_atomically
from harness.system.json_text import read

WHOLE_UP_TO = 8 * 2**20  # bytes; files up to this size are read each time, in a few milliseconds
CHUNK = 8 * 2**20
NOTICE_AFTER_S = 1.5
SETTLED_NS = 2 * 10**9  # a file changed more recently may change again without a new timestamp
KEPT = 1000  # entries in the cache; the oldest are removed
HEX = re.compile("[0-9a-f]{64}")


def file_hashes(paths: Sequence[Path], name: str) -> list[str]:
    """Return the SHA-256 (64 hex digits) of each file's content; print one line on stderr if reading takes long.

    `name`: what the line says is read, such as "model folder SmolLM2".
    """
    cached = _read(cache_file())
    total = sum(path.stat().st_size for path in paths)
    line = f"{name}: reading {total / 1e9:.1f} GB once, to know it again by its content"
    reader = _Reader(line)
    fresh: dict[str, str] = {}
    hashes = []
    for path in paths:
        key = _key(path)
        digest = cached.get(key) or reader.digest(path)
        if key not in cached and path.stat().st_size > WHOLE_UP_TO and key == _key(path) and _settled(path):
            fresh[key] = digest
        hashes.append(digest)
    if fresh:
        _add(cache_file(), fresh)
    return hashes


def cache_file() -> Path:
    """Return the path of the cache file."""
    return user_cache() / "file-hashes.json"


class _Reader:
    """Reads files, and prints one line if that takes long."""

    def __init__(self, line: str) -> None:
        self._line, self._due = line, time.monotonic() + NOTICE_AFTER_S

    def digest(self, path: Path) -> str:
        digest = hashlib.sha256()
        with path.open("rb", buffering=0) as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
                if self._line and time.monotonic() > self._due:
                    print(self._line, file=sys.stderr, flush=True)
                    self._line = ""
        return digest.hexdigest()


def _key(path: Path) -> str:
    stat = path.stat()
    return f"{stat.st_dev}:{stat.st_ino}:{stat.st_size}:{stat.st_mtime_ns}:{stat.st_ctime_ns}"


def _settled(path: Path) -> bool:
    stat = path.stat()
    return time.time_ns() - max(stat.st_mtime_ns, stat.st_ctime_ns) > SETTLED_NS


def _read(cache: Path) -> dict[str, str]:
    """Return the cached hashes; empty if the cache is missing, broken or not readable."""
    try:
        entries = read(cache, "hashes")
    except HarnessError:
        return {}
    if not isinstance(entries, dict):
        return {}
    return {key: value for key, value in entries.items() if isinstance(value, str) and HEX.fullmatch(value)}


def _add(cache: Path, fresh: dict[str, str]) -> None:
    """Add hashes to the cache file; do nothing if it cannot be written."""
    entries = {**_read(cache), **fresh}
    text = json.dumps(dict(list(entries.items())[-KEPT:]), indent=0)
    with suppress(OSError, HarnessError):
        write_atomically(cache, text.encode())
