"""Keep two processes apart of which one writes into a store and one deletes from it: a lock on STORE/.lock.

A process that writes shards shares the lock (`use`) until it ends, or until the function ends that it was called in
(`until_done`); one that deletes holds it alone (`alone`). The kernel keeps the lock (flock), so a killed process leaves
none. Where the lock's file cannot be opened, or the disk
knows no locks, the store is used without one, and nothing is deleted from it.
"""

from __future__ import annotations

import fcntl
import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ParamSpec, TypeVar

from harness.errors import HarnessError

NAME = ".lock"
MOST = 8  # stores that a process shares at once; with one more it leaves the first

P = ParamSpec("P")
R = TypeVar("R")

_held: dict[Path, int] = {}  # root of a store -> the descriptor by which this process shares its lock


def use(root: Path) -> None:
    """Share the store's lock, as this module says; HarnessError while another process deletes from the store."""
    place = root.absolute()
    if _is_held(place):
        return
    _leave(place)
    descriptor = _opened(root)
    if descriptor is None:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise HarnessError(
            f"store: another process deletes from {root} (`harness store prune`): run the same command again after it"
        ) from None
    except OSError:  # the disk knows no locks
        return os.close(descriptor)
    while len(_held) >= MOST:
        _leave(next(iter(_held)))
    _held[place] = descriptor


def until_done(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function: what it shares is released when it ends. A notebook's process may live on for days."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        before = set(_held)
        try:
            return function(*args, **kwargs)
        finally:
            for place in set(_held) - before:
                _leave(place)

    return call


@contextmanager
def alone(root: Path, command: str) -> Iterator[None]:
    """Hold the store's lock alone; HarnessError, one line that starts with `command`, if another process uses it."""
    _leave(root.absolute())
    descriptor = _opened(root)
    if descriptor is None:
        raise HarnessError(f"{command}: {root / NAME} cannot be opened, and without it nothing is deleted")
    try:
        _take(descriptor, root, command)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, root: Path, command: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise HarnessError(
            f"{command}: another process uses {root}: run the same command again when that has ended"
        ) from None
    except OSError as failure:
        raise HarnessError(
            f"{command}: {root / NAME} cannot be locked ({failure.strerror}), so nobody can tell whether a run uses "
            "the store: nothing is deleted"
        ) from None


def _is_held(root: Path) -> bool:
    """Whether this process shares the lock of the file that is there now."""
    with suppress(OSError):
        return root in _held and os.path.samestat(os.fstat(_held[root]), os.lstat(root / NAME))
    return False


def _leave(root: Path) -> None:
    if root in _held:
        os.close(_held.pop(root))


def _opened(root: Path) -> int | None:
    """A descriptor of the lock's file, which is made if need be; None where it can be neither made nor read."""
    for flags in (os.O_RDWR | os.O_CREAT, os.O_RDONLY):
        with suppress(OSError):
            root.mkdir(parents=True, exist_ok=True)
            return os.open(root / NAME, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
    return None
