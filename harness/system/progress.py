"""Show progress on stderr: a bar on a terminal, else plain lines, and one closing line for each stage."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars
from rich.text import Text

PLAIN_EVERY_S = 10.0
SHOW_AFTER_S = 2.0


class Stage:
    """One stage in progress: `advance(units)` as they are done."""

    def __init__(self, name: str, total: int, unit: str) -> None:
        self.name, self.total, self.unit, self.done = name, total, unit, 0
        self.started = time.monotonic()

    def advance(self, units: int = 1) -> None:
        """Count units as done, and show the progress."""
        self.done += units
        self.show()

    def show(self) -> None:
        """Show the progress; here nothing, classes for a terminal or for plain lines override it."""

    @property
    def elapsed_s(self) -> float:
        """Seconds since the stage began."""
        return time.monotonic() - self.started


class PlainStage(Stage):
    """Progress as lines of text: the first after two seconds, then one every ten seconds."""

    def __init__(self, name: str, total: int, unit: str, out: TextIO) -> None:
        super().__init__(name, total, unit)
        self.out, self.due = out, self.started + SHOW_AFTER_S

    def show(self) -> None:
        """Print one line, if one is due and the stage is not done: done, total, rate and seconds left."""
        now = time.monotonic()
        if now < self.due or self.done >= self.total:
            return
        self.due = now + PLAIN_EVERY_S
        rate = self.done / max(self.elapsed_s, 1e-9)
        left = f", {(self.total - self.done) / rate:.0f} s left" if rate else ""
        print(f"{self.name}: {self.done:,}/{self.total:,} {self.unit}, {rate:,.0f}/s{left}", file=self.out, flush=True)


class BarStage(Stage):
    """A rich progress bar."""

    def __init__(self, name: str, total: int, unit: str, console: Console) -> None:
        super().__init__(name, total, unit)
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(unit),
            Rate(),
            TimeRemainingColumn(),
        )
        self.bars = Bars(*columns, console=console, transient=True)
        self.task = self.bars.add_task(name, total=total)

    def show(self) -> None:
        """Move the bar."""
        self.bars.update(self.task, completed=self.done)


class Rate(ProgressColumn):
    """The column with the units a second."""

    def render(self, task: Task) -> Text:
        """The rate as text; "" until it is known."""
        return Text("" if task.speed is None else f"{task.speed:,.0f}/s")


class Progress:
    """The messages of a run. `quiet` prints nothing; `asks`: whether the user is asked before long work."""

    def __init__(self, out: TextIO | None = None, quiet: bool = False, asks: bool = False) -> None:
        self.asks = asks
        self.console = Console(file=out or sys.stderr, quiet=quiet, highlight=False, soft_wrap=True)
        self.quiet = quiet

    def say(self, line: str) -> None:
        """Print one line for the user."""
        self.console.print(line, markup=False)

    def allows(self, question: str) -> bool:
        """Ask the user, and return whether the answer is yes; False without a terminal, True if `asks` is off.

        A yes holds for the rest of the command.
        """
        if not self.asks:
            return True
        if not (self.console.is_terminal and sys.stdin.isatty()):
            return False
        self.asks = self.console.input(f"{question} [y/N] ", markup=False).strip().lower() not in ("y", "yes")
        return not self.asks

    @contextmanager
    def stage(self, name: str, total: int, unit: str, closing: bool = True) -> Iterator[Stage]:
        """Show a stage of `total` units and yield its `Stage`; on success print the units done and the time.

        Without `closing` that line is printed only if the stage took more than `SHOW_AFTER_S`.
        """
        stage = self._begin(name, total, unit)
        if isinstance(stage, BarStage):
            with stage.bars:
                yield stage
        else:
            yield stage
        if closing or stage.elapsed_s > SHOW_AFTER_S:
            self.say(f"{name}: {stage.done:,} {unit} in {stage.elapsed_s:.1f} s")

    def _begin(self, name: str, total: int, unit: str) -> Stage:
        if self.quiet:
            return Stage(name, total, unit)
        if self.console.is_terminal:
            return BarStage(name, total, unit, self.console)
        return PlainStage(name, total, unit, self.console.file)  # type: ignore[arg-type]
