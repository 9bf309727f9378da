"""Show progress on stderr: a bar on a terminal, else plain lines, and one closing line for each stage."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.progress import Progress as Bars
from rich.text import Text

from . import activity
from .console import printable, word_wrapped
from .pace import Pace, clock, rate

PLAIN_EVERY_S = 10.0
SHOW_AFTER_S = 2.0
WAITED_S = 2.0  # after which work without a count is named
LOOK_EVERY_S = 1.0  # how often the display looks for what is being done
BAR = 20  # characters


class Stage:
    """One stage in progress: `advance(units)` as they are done, and `tokens(count)` as they are sampled.

    A stage is itself a report, as engines and steps call it (`harness.contracts.Report`). `note()` is shown too.
    """

    def __init__(self, name: str, total: int, unit: str, most_tokens: int = 0) -> None:
        self.name, self.total, self.unit = name, total, unit
        self.started = time.monotonic()
        self.pace = Pace(total, self.started, most_tokens)
        self.note: Callable[[], str] = lambda: ""

    def __call__(self, units: int) -> None:
        """Count units as done."""
        self.advance(units)

    def advance(self, units: int = 1) -> None:
        """Count units as done, and show the progress."""
        self.pace.done += units
        self.show()

    def tokens(self, count: int) -> None:
        """Count tokens of units that are done or not; 0 says that the model is loaded, and sampling begins."""
        self.pace.count_tokens(count, time.monotonic())

    def show(self) -> None:
        """Show the progress; here and for plain lines nothing, since a clock prints them."""

    @property
    def done(self) -> int:
        """Units that are done; set at the start to those that were done before."""
        return self.pace.done

    @done.setter
    def done(self, units: int) -> None:
        self.pace.done = self.pace.done_before = units

    @property
    def elapsed_s(self) -> float:
        """Seconds since the stage began."""
        return time.monotonic() - self.started

    def state(self) -> list[str]:
        """What is known of speed and time, the most telling last: 5,120 tokens, 143 tokens/s, about 0:01:20 left."""
        pace, now = self.pace, time.monotonic()
        left = pace.left_s(now) if pace.done < pace.total else None
        parts = []
        if pace.tokens:
            per, _, unit = rate(pace.tokens_a_s(now)).partition("/")
            parts += [f"{pace.tokens:,} tokens", f"{per} tokens/{unit}"]
        elif pace.done > pace.done_before:
            parts.append(rate((pace.done - pace.done_before) / max(self.elapsed_s, 1e-9)))
        bound = "at most" if pace.is_bound else "about"
        parts += filter(None, [self.note()])
        return [*parts, f"{clock(self.elapsed_s)} so far" if left is None else f"{bound} {clock(left)} left"]


class BarStage(Stage):
    """A rich progress bar; behind it as much of the state as fits the console."""

    def __init__(self, name: str, total: int, unit: str, most_tokens: int, console: Console) -> None:
        super().__init__(name, total, unit, most_tokens)
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(BAR),
            State(self, console),
        )
        self.bars = Bars(*columns, console=console, transient=True, refresh_per_second=4)
        self.task = self.bars.add_task(name, total=total)

    def show(self) -> None:
        """Move the bar."""
        self.bars.update(self.task, completed=self.done)


class State(ProgressColumn):
    """The column of a bar with the units that are done, and the state of its stage."""

    def __init__(self, stage: Stage, console: Console) -> None:
        super().__init__()
        self.stage, self.console = stage, console

    def render(self, task: Task) -> Text:
        """The parts of the state that fit."""
        done = f"{self.stage.done:,}/{self.stage.total:,} {self.stage.unit}"
        parts, room = self.stage.state(), self.console.width - len(self.stage.name) - BAR - 5
        while parts and len(", ".join([done, *parts])) > room:
            parts.pop(0)
        return Text(", ".join([done, *parts]))


class Progress:
    """The messages of a run. `quiet` prints nothing; `asks`: whether the user is asked before long work."""

    def __init__(self, out: TextIO | None = None, quiet: bool = False, asks: bool = False) -> None:
        self.asks = asks
        self.console = Console(file=out or sys.stderr, quiet=quiet, highlight=False, soft_wrap=True)
        self.quiet = quiet
        self._shown = 0  # stages, waits and questions that are displayed now

    def say(self, line: str) -> None:
        """Print one line for the user; on a terminal wrapped between words."""
        self.console.print(word_wrapped(printable(line), self.console), markup=False)

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
        bar = self.console.is_terminal and not self.quiet
        stage = BarStage(name, total, unit, most_tokens, self.console) if bar else Stage(name, total, unit, most_tokens)
        self._shown += 1
        try:
            with self._repeated(_Lines(self, stage).look), stage.bars if isinstance(stage, BarStage) else nullcontext():
                yield stage
        finally:
            self._shown -= 1
        if closing or stage.elapsed_s > SHOW_AFTER_S:
            tokens = f" of {stage.pace.tokens:,} tokens" if stage.pace.tokens else ""
            self.say(f"{name}: {stage.done:,} {unit}{tokens} in {clock(stage.elapsed_s)}")

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Name work without a count (`activity.doing`), in a line once it takes two seconds, then every ten.

        Work that is named inside is shown in its place; a stage inside shows itself.
        """
        with activity.doing(what):
            if self._shown:
                yield
                return
            self._shown += 1
            try:
                with self._repeated(_Lines(self).look):
                    yield
            finally:
                self._shown -= 1

    @contextmanager
    def _repeated(self, look: Callable[[], None]) -> Iterator[None]:
        """Call `look` again and again while the code inside runs; not if nothing is to be printed."""
        ended = threading.Event()

        def repeat() -> None:
            while not ended.wait(LOOK_EVERY_S):
                with suppress(OSError, ValueError):  # a stream that is closed
                    look()

        thread = threading.Thread(target=repeat, daemon=True)
        if not self.quiet:
            thread.start()
        try:
            yield
        finally:
            ended.set()
            if thread.ident is not None:
                thread.join()


class _Lines:
    """The lines of a stage, or of work without a count: the first after two seconds, then one every ten.

    Work that is named is told as soon as it has taken two seconds. Beside a bar that is the only line.
    """

    def __init__(self, progress: Progress, stage: Stage | None = None) -> None:
        self.progress, self.stage, self.what, self.depth = progress, stage, "", progress._shown
        self.due = time.monotonic() + (SHOW_AFTER_S if stage else WAITED_S)

    def look(self) -> None:
        """Print a line, if one is due and no stage inside shows itself."""
        now, doing = time.monotonic(), activity.current()
        if self.progress._shown > self.depth:
            return
        if self.stage and doing and doing[1] < self.stage.started:
            doing = None  # the stage is a part of that work
        if doing and doing[0] != self.what and now >= doing[1] + WAITED_S:
            self.what = doing[0]
            self._say(f"{self.what} ...", now)
        elif now >= self.due:
            if self.stage is None and doing:
                self._say(f"{doing[0]} ... {clock(now - doing[1])} so far", now)
            elif self.stage and not isinstance(self.stage, BarStage) and self.stage.done < self.stage.total:
                done = f"{self.stage.name}: {self.stage.done:,}/{self.stage.total:,} {self.stage.unit}"
                self.what = doing[0] if doing else ""
                named = [self.what] if doing else []
                self._say(", ".join([done, *named, *self.stage.state()]), now)

    def _say(self, line: str, now: float) -> None:
        self.due = now + PLAIN_EVERY_S
        self.progress.say(line)
