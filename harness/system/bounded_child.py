"""A child process that carries out requests one after another, and is killed if one of them takes too long.

Only a process can be stopped whatever it does: a loop in C handles no signal.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize
from typing import Any

from .children import descendants


class BoundedChild:
    """A process that calls `serve(link, *arguments)`, which answers each object that it receives from `link` by one.

    serve       importable; it begins with `end_with_owner()` and ends when the link is closed (EOFError)
    arguments   picklable
    """

    def __init__(self, serve: Callable[..., None], *arguments: Any) -> None:
        context = multiprocessing.get_context("forkserver")
        self._link, other = context.Pipe()
        self._process = context.Process(target=serve, args=(other, *arguments))
        self._process.start()
        other.close()
        self._end = Finalize(self, _end, (self._process, self._link), exitpriority=10)  # exit waits for processes

    def ask(self, request: object, limit_s: float) -> Any:
        """Send a request, and return what `answer` returns."""
        with suppress(OSError):
            self._link.send(request)
        return self.answer(limit_s)

    def answer(self, limit_s: float) -> Any:
        """The next answer. TimeoutError if it does not come in time, EOFError if the process died; it is then ended."""
        try:
            if self._link.poll(limit_s):
                return self._link.recv()
        except (EOFError, OSError):
            self.end()
            raise EOFError from None
        self.end()
        raise TimeoutError

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.is_alive()

    def end(self) -> None:
        """Kill it, and all processes that it has started."""
        self._end()


def _end(process: BaseProcess, link: Connection) -> None:
    for pid in descendants(process.pid) if process.pid else ():
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    process.kill()
    process.join()
    link.close()
