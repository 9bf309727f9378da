"""Read the lines that the process of one program writes (`child.py`), on the trusted side, and return its run."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable

from .suites import Run

JUDGED = 200  # characters kept of a result that a judge has seen: 6400 programs may return 4 MB each

_END_STATUSES = {"syntax", "raised", "missing", "memory", "output"}  # in addition to "ok" and "stopped"
_RESULT = re.compile(rb"([0-9]{1,18}) ([ -~]+)")
_FINAL = re.compile(rb"=([a-z]+) ([ -~]*)")
_TIMEOUTS = {27: "timeout", 24: "timeout", 14: "stalled"}  # SIGPROF, SIGXCPU, SIGALRM


class WorkerLost(Exception):
    """The worker died, hangs, or sent bytes that are no frame."""


class Transcript:
    """What a program's process has written so far: `+`, lines of results, a final line; all but the `+` is hostile.

    tests   the number of tests
    judge   called as `judge(test, text)` with each result; the run is decided when it returns False
    """

    def __init__(self, tests: int, judge: Callable[[int, str], bool] | None):
        self.tests, self.judge = tests, judge
        self.results: list[str] = []
        self.cpu_s: list[float] = []
        self.final: tuple[str, str] | None = None
        self._confined = False
        self._refusal = ""
        self._parts: list[bytes] = []

    @property
    def over(self) -> bool:
        """Whether the run is decided, so that further lines do not count."""
        return self.final is not None

    def read(self, part: bytes) -> None:
        """Interpret the complete lines of what has arrived, and store the rest until the next call.

        part   the next bytes of the process, whose total the fork server limits
        """
        *lines, rest = part.split(b"\n")
        if lines:
            lines[0] = b"".join(self._parts) + lines[0]
            self._parts = []
        self._parts.append(rest)
        for line in lines:
            if not self.over:
                self._line(line)

    def _line(self, line: bytes) -> None:
        """Read one line: whether the process is confined, a result, or the final line."""
        if not self._confined:
            self._confined = line == b"+"
            self._refusal = line[1:].decode("utf-8", "replace")
            return
        match = _RESULT.fullmatch(line)
        if match is None or len(self.results) >= self.tests:
            self.final = self._ending(line)
            return
        text = match[2].decode("ascii")
        self.results.append(text if self.judge is None else text[:JUDGED])
        self.cpu_s.append(int(match[1]) / 1e9)
        if self.judge is not None and not self.judge(len(self.results) - 1, text):
            self.final = ("stopped", "by the judge")

    def _ending(self, line: bytes) -> tuple[str, str]:
        """Return status and detail of a final line; "killed" if the line does not fit the results before it."""
        match = _FINAL.fullmatch(line)
        status, detail = (match[1].decode(), match[2].decode()[:200]) if match else ("", "")
        if status == "ok":
            fits = len(self.results) == self.tests
        elif status == "stopped":
            fits = bool(self.results) and self.results[-1].startswith("E")
        else:
            fits = status in _END_STATUSES
        return (status, detail) if fits else ("killed", "it wrote what is no result")

    def run(self, ending: str, code: int, process_cpu_s: float) -> Run:
        """Return the run. Raises WorkerLost if the process ended before it was confined, a fault of the sandbox.

        ending, code, process_cpu_s   how the process ended, as `inside._Relay.relay` returns it
        """
        if not self._confined:
            raise WorkerLost(f"a program's process could not be set up: {self._refusal or f'{ending} {code}'}")
        status, detail = self.final or _without_final(ending, code)
        return Run(status, self.results, self.cpu_s, detail, process_cpu_s)


def _without_final(ending: str, code: int) -> tuple[str, str]:
    """Return status and detail of a run whose process wrote no final line."""
    if ending == "signal":
        names = {int(number): number.name for number in signal.Signals}
        return _TIMEOUTS.get(code, "killed"), names.get(code, str(code))
    if ending in ("stalled", "output", "timeout"):
        return ending, "its timers disarmed" if ending == "timeout" else ""
    reasons = {"exit": f"exited with {code}", "closed": "closed its output", "threads": "too many threads"}
    return "killed", reasons.get(ending, ending)
