"""End a worker process when the process that started it ends, even by SIGKILL or inside a loop in C."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import select
import signal
import threading


def end_with_owner() -> None:
    """End this process when its owner, the process that started it, ends; no effect outside multiprocessing.

    The owner holds one end of a pipe, which closes when the whole owner has ended, not one thread of it. On Linux the
    kernel then sends SIGKILL; on other systems a thread waits for the pipe.
    """
    owner = multiprocessing.parent_process()
    if owner is None:
        return
    pipe = owner.sentinel
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(pipe, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)
        if _has_closed(pipe, 0):  # it closed before the signal was set up
            os.kill(os.getpid(), signal.SIGKILL)
    else:
        threading.Thread(target=_wait, args=(pipe,), daemon=True).start()


def _wait(pipe: int) -> None:
    while not _has_closed(pipe, None):
        pass
    os.kill(os.getpid(), signal.SIGKILL)


def _has_closed(pipe: int, timeout_ms: int | None) -> bool:
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    return bool(poll.poll(timeout_ms))
