"""`harness run --track NAME`: send a run's scalars, table and report to trackers, each as soon as it is made.

What can fail early (an unknown name, a library that is not installed) fails before the run begins. Whatever a tracker
raises later becomes one line on stderr: that tracker gets nothing more, the run goes on, and its exit status is 1.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any

from harness.contracts import Tracker
from harness.errors import HarnessError
from harness.jobs.options import RunConfig
from harness.plugin_system.component import build
from harness.plugin_system.registry import load_registry
from harness.results.rows import Row
from harness.system.progress import Progress


class Tracking:
    """The trackers of one run, by their specs; `faults` has one line for each failure."""

    def __init__(self, trackers: Mapping[str, Tracker], config: RunConfig, progress: Progress) -> None:
        self.trackers, self.config, self.progress = dict(trackers), config, progress
        self.faults: list[str] = []

    def start(self) -> None:
        """Send the run's options."""
        settings = _plain(self.config)
        self._each("start", lambda tracker: tracker.start(settings))

    def row(self, row: Row) -> None:
        """Send one row, as soon as it is scored."""
        self._each("row", lambda tracker: tracker.row(row_name(row), scalars(row.to_json())))

    def scored(self, rows: Sequence[Row]) -> None:
        """Send the table and the report, once all rows are scored."""
        if not self.trackers or not rows:
            return
        self._each("table", lambda tracker: tracker.table(flat([row.to_json() for row in rows])))
        path = self._report()
        if path:
            self._each("report", lambda tracker: tracker.report(path))

    def finish(self, failed: bool) -> None:
        """Tell the trackers that the run is over, and whether it failed."""
        self._each("finish", lambda tracker: tracker.finish(failed))

    def _report(self) -> Path | None:
        try:
            write = load_registry(self.config.plugin_files).find("report", "html").load()
            path: Path = write(self.config.store, (), None, self.config.plugin_files, self.progress)
            return path
        except HarnessError as failure:
            self._note(f"tracking: no report: {failure}")
        except Exception as failure:
            self._note(f"tracking: no report: {_line(failure)}")
        return None

    def _each(self, what: str, call: Callable[[Tracker], None]) -> None:
        """Call every tracker; what it prints goes to stderr, since stdout is for the table."""
        for spec, tracker in list(self.trackers.items()):
            try:
                with redirect_stdout(sys.stderr):
                    call(tracker)
            except (Exception, SystemExit) as failure:
                self._note(f"tracker {spec!r}: {what} failed: {_line(failure)}; it is asked no more")
                del self.trackers[spec]
                if what != "finish":
                    with suppress(Exception, SystemExit), redirect_stdout(sys.stderr):
                        tracker.finish(True)

    def _note(self, line: str) -> None:
        self.faults.append(line)
        self.progress.say(line)


@contextmanager
def tracking(specs: Sequence[str], config: RunConfig, progress: Progress) -> Iterator[Tracking]:
    """Build and start the trackers of these specs, and finish them however the run ends."""
    registry = load_registry(config.plugin_files) if specs else None
    if len(set(specs)) < len(specs):
        raise HarnessError(f"--track: a tracker is given twice: {', '.join(specs)}")
    built = {spec: build(registry, "tracker", spec) for spec in specs} if registry else {}
    trackers = Tracking(built, config, progress)
    trackers.start()
    try:
        yield trackers
    except BaseException:
        trackers.finish(True)
        raise
    trackers.finish(False)


def row_name(row: Row) -> str:
    """The name of a row for trackers, of all that a grid may vary: `TASK/MODEL/ENGINE/SAMPLER/EMBEDDER/SELECTOR`."""
    return "/".join((row.task, row.model, row.engine, row.sampler, row.embedder, row.selector))


def scalars(row: Mapping[str, Any]) -> dict[str, float]:
    """Return a row's numbers under flat names: `pass_at_k/16`, `improvement_ci/low`. True counts as 1.

    Texts, nulls and lists other than intervals (`..._ci`) are left out.
    """
    numbers: dict[str, float] = {}
    for name, value in row.items():
        numbers |= _numbers(name, value)
    return numbers


def _numbers(name: str, value: Any) -> dict[str, float]:
    if isinstance(value, (bool, int, float)):
        return {name: float(value)}
    if isinstance(value, Mapping):
        parts = [_numbers(f"{name}/{key}", item) for key, item in value.items()]
    elif isinstance(value, (list, tuple)) and name.split("/")[0].endswith("_ci"):
        parts = [_numbers(f"{name}/{end}", item) for end, item in zip(("low", "high"), value, strict=False)]
    else:
        parts = []
    return {key: number for part in parts for key, number in part.items()}


def flat(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows, all with the same columns: labels as text, values as numbers, None for what a row lacks."""
    flattened = [_texts(row) | scalars(row) for row in rows]
    columns = list(dict.fromkeys(name for row in flattened for name in row))
    return [{name: row.get(name) for name in columns} for row in flattened]


def _texts(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if isinstance(value, str)}


def _plain(config: RunConfig) -> dict[str, Any]:
    """The run's options as JSON values; paths become text."""
    return {field.name: _json(getattr(config, field.name)) for field in dataclasses.fields(config)}


def _json(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_json(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _line(failure: BaseException) -> str:
    return f"{type(failure).__name__}: {failure}".split("\n")[0][:300]
