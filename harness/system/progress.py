"""Show on stderr what a command does and how long it still takes: one line on a terminal, else one every few seconds.

A *stage* is work with a count. What cannot be counted (loading a model, timing a probe) is named by `doing`. Each stage
ends in one closing line.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TextIO

from rich.console import Console
from rich.text import Text

from .console import put

PLAIN_EVERY_S = 8.0
SHOW_AFTER_S = WAITED_S = 2.0  # before the first line of a stage, or of work without a count
LOOK_EVERY_S = 1.0  # how often it is looked what is being done

_running: list[tuple[str, float]] = []  # what `doing` names and when it began, the innermost last


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Name the work inside, for the user who waits for it: `doing("loading model tiny24")`. Engines may use it too."""
    entry = (what, time.monotonic())
    _running.append(entry)
    try:
        yield
    finally:
        _running.remove(entry)


def _innermost(since: float = -math.inf) -> tuple[str, float]:
    """What `doing` named last, and when; an empty name if that began before `since`: a stage then is a part of it."""
    return next((entry for entry in _running[-1:] if entry[1] >= since), ("", 0.0))


def clock(seconds: float) -> str:
    """A duration as h:mm:ss, rounded to seconds: `0:01:20`."""
    whole = max(0, round(seconds))
    return f"{whole // 3600:,}:{whole // 60 % 60:02}:{whole % 60:02}"


def rate(per_s: float) -> str:
    """A number in a second, or in a minute or an hour if that is less than one: `143/s`, `4.2/min`."""
    size, name = next((each for each in ((1, "s"), (60, "min")) if per_s * each[0] >= 1), (3600, "h"))
    value = per_s * size
    return f"{value:,.0f}/{name}" if value >= 10 else f"{value:.1f}/{name}"


class Stage:
    """One stage in progress: `advance(units)` as they are done, and `tokens(count)` as they are sampled.

    done  units that are done; set at the start to those that were done before
    note  what else is shown

    A stage is itself a report, as engines and steps call it (`harness.contracts.Report`).
    """

    def __init__(self, name: str, total: int, unit: str, most_tokens: int = 0) -> None:
        self.name, self.total, self.unit, self.most_tokens = name, total, unit, most_tokens
        self.started, self._sampling_since = time.monotonic(), math.inf
        self.done = self._advanced = self.sampled = 0  # units, units since the start, tokens
        self.note: Callable[[], str] = lambda: ""

    def advance(self, units: int = 1) -> None:
        """Count units as done."""
        self.done += units
        self._advanced += units

    __call__ = advance

    def tokens(self, count: int) -> None:
        """Count tokens of units that are done or not; 0 says that the model is loaded, and sampling begins."""
        if math.isinf(self._sampling_since):
            self._sampling_since = self.started if count else time.monotonic()
        self.sampled += count

    @property
    def elapsed_s(self) -> float:
        """Seconds since the stage began."""
        return time.monotonic() - self.started

    def state(self) -> list[str]:
        """What is known: ["12/100 responses", "loading model m", "5,120 tokens", "143 tokens/s", "about 0:01:20 left"].

        The time left comes from tokens where they are counted: a unit that is not done counts as long as those that
        are, of which tokens of unfinished units are a part; so the estimate begins as a bound and comes down.
        """
        parts, left_s, bound = [f"{self.done:,}/{self.total:,} {self.unit}"], math.inf, "about"
        parts += filter(None, [_innermost(self.started)[0]])
        if self._advanced > 0:
            left_s = (self.total - self.done) * self.elapsed_s / self._advanced
        if self.sampled:
            speed = self.sampled / max(time.monotonic() - self._sampling_since, 1e-9)
            per, _, unit = rate(speed).partition("/")
            parts += [f"{self.sampled:,} tokens", f"{per} tokens/{unit}"]
            if self.most_tokens:
                mean = min(self.most_tokens, self.sampled / self.done if self.done else math.inf)
                bound = "at most" if mean == self.most_tokens else "about"
                left_s = max(0.0, self.total * mean - self.sampled) / speed
        elif self._advanced > 0:
            parts.append(rate(self._advanced / max(self.elapsed_s, 1e-9)))
        known = self.done < self.total and not math.isinf(left_s)
        time_line = f"{bound} {clock(left_s)} left" if known else f"{clock(self.elapsed_s)} so far"
        return [*parts, *filter(None, [self.note()]), time_line]

    def __rich__(self) -> Text:
        """One line for a terminal; what a narrow one cuts off comes last."""
        done, *parts = self.state()
        return Text(f"{self.name}: {', '.join([done, *reversed(parts)])}", no_wrap=True, overflow="ellipsis")


class Progress:
    """The messages of a run. `quiet` prints nothing; `asks`: whether the user is asked before long work."""

    def __init__(self, out: TextIO | None = None, quiet: bool = False, asks: bool = False) -> None:
        self.asks, self.quiet = asks, quiet
        self.console = Console(file=out or sys.stderr, quiet=quiet, highlight=False)
        self._shown = 0  # stages, waits and questions that are displayed now

    def say(self, line: str) -> None:
        """Print one line for the user; on a terminal wrapped between words."""
        put(line, out=self.console)

    def allows(self, question: str) -> bool:
        """Ask the user, and return whether the answer is yes; False without a terminal, True if `asks` is off.

        A yes holds for the rest of the command.
        """
        if not self.asks:
            return True
        if not (self.console.is_terminal and sys.stdin.isatty()):
            return False
        self._shown += 1  # no line comes between question and answer
        try:
            self.asks = self.console.input(f"{question} [y/N] ", markup=False).strip().lower() not in ("y", "yes")
        finally:
            self._shown -= 1
        return not self.asks

    @contextmanager
    def stage(self, name: str, total: int, unit: str, closing: bool = True, most_tokens: int = 0) -> Iterator[Stage]:
        """Show a stage of `total` units and yield its `Stage`; on success print the units done and the time.

        Without `closing` that line is printed only if the stage took more than `SHOW_AFTER_S`. `most_tokens`: of one
        unit; with it the time left is estimated from tokens, as they are counted.
        """
        stage = Stage(name, total, unit, most_tokens)
        with self._showing(stage):
            yield stage
        if closing or stage.elapsed_s > SHOW_AFTER_S:
            tokens = f" of {stage.sampled:,} tokens" if stage.sampled else ""
            self.say(f"{name}: {stage.done:,} {unit}{tokens} in {clock(stage.elapsed_s)}")

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Name work without a count (`doing`), in a line once it takes two seconds, then every ten.

        Work that is named inside is shown in its place; a stage inside shows itself.
        """
        with doing(what), nullcontext() if self._shown else self._showing(None):
            yield

    @contextmanager
    def _showing(self, stage: Stage | None) -> Iterator[None]:
        """Show a stage, or work without a count, while it goes on."""
        self._shown += 1
        ended = threading.Event()
        teller = threading.Thread(target=self._tell, args=(stage, ended, self._shown), daemon=True)
        try:
            if stage and self.console.is_terminal:
                with self.console.status(stage):
                    yield
            else:
                teller.start()
                yield
        finally:
            self._shown -= 1
            ended.set()
            if teller.ident:
                teller.join()

    def _tell(self, stage: Stage | None, ended: threading.Event, depth: int) -> None:
        """Print lines of a stage, or of work without a count, by the clock; none while a stage inside shows itself."""
        due, told = time.monotonic() + (SHOW_AFTER_S if stage else math.inf), ""
        while not ended.wait(LOOK_EVERY_S):
            what, began = _innermost(stage.started if stage else -math.inf)
            now = time.monotonic()
            if what not in ("", told):
                due = min(due, began + WAITED_S)
            if now < due or self._shown > depth:
                continue
            due, told = now + PLAIN_EVERY_S, what
            with suppress(OSError, ValueError):  # a stream that is closed
                self.say(
                    f"{stage.name}: {', '.join(stage.state())}" if stage else f"{what} ... {clock(now - began)} so far"
                )
