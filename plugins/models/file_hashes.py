"""The SHA-256 of large files, each byte read once: kept beside what the file system says of the file.

Known hashes stand in `diversity-harness/file-hashes.json` in the user's cache folder (XDG_CACHE_HOME, else ~/.cache)
under device, inode, size, and both times in nanoseconds: of the last change of content and of the last change of
anything. The second cannot be set back by a program, so an edit in place is seen even where its author restores the
first; only where the clock is set back, or by writing to the disk past the file system, is a stale hash believed.
Delete the file to have everything read again. Two processes that write at once may lose an entry, never the file.
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

WHOLE_UP_TO = 8 * 2**20  # bytes; smaller files are read each time, in a few milliseconds
CHUNK = 8 * 2**20
SAID_AFTER_S = 1.5
SETTLED_NS = 2 * 10**9  # a file that changed so recently may change again within one tick of its clock
KEPT = 1000  # entries; the oldest go
HEX = re.compile("[0-9a-f]{64}")


def file_hashes(paths: Sequence[Path], what: str) -> list[str]:
    """The SHA-256 (64 hex digits) of each file's content; one line on stderr where reading takes long.

    `what` is being read, in that line: "model folder SmolLM2".
    """
    known = _read(cache_file())
    total = sum(path.stat().st_size for path in paths)
    line = f"{what}: reading {total / 1e9:.1f} GB once, to know it again by its content"
    reader = _Reader(line)
    fresh: dict[str, str] = {}
    hashes = []
    for path in paths:
        key = _key(path)
        digest = known.get(key) or reader.digest(path)
        if key not in known and path.stat().st_size > WHOLE_UP_TO and key == _key(path) and _settled(path):
            fresh[key] = digest
        hashes.append(digest)
    if fresh:
        _keep(cache_file(), fresh)
    return hashes


def cache_file() -> Path:
    """Where hashes are kept."""
    return user_cache() / "file-hashes.json"


class _Reader:
    """Reads files, and says once that it does where that takes long."""

    def __init__(self, line: str) -> None:
        self._line, self._due = line, time.monotonic() + SAID_AFTER_S

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
    """What is known; nothing where the cache is missing, broken or not readable."""
    try:
        entries = json.loads(cache.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(entries, dict):
        return {}
    return {key: value for key, value in entries.items() if isinstance(value, str) and HEX.fullmatch(value)}


def _keep(cache: Path, fresh: dict[str, str]) -> None:
    """Add to what is known by now; a cache that cannot be written is done without."""
    entries = {**_read(cache), **fresh}
    text = json.dumps(dict(list(entries.items())[-KEPT:]), indent=0)
    with suppress(OSError, HarnessError):
        write_atomically(cache, text.encode())
