"""`harness run --track NAME`: send a run's scalars, table and report to trackers, each as soon as it is made.

What can fail early (an unknown name, a library that is not installed) fails before the run begins. Whatever a tracker
raises later becomes one line on stderr: that tracker gets nothing more, the run goes on, and its exit status is 1.
"""

from __future__ import annotations

import dataclasses
import json
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
from harness.system.json_text import parsed
from harness.system.progress import Progress


class Tracking:
    """The trackers of one run, by their specs; `faults` has one line for each failure."""

    def __init__(self, trackers: Mapping[str, Tracker], config: RunConfig, progress: Progress) -> None:
        self.trackers, self.config, self.progress = dict(trackers), config, progress
        self.faults: list[str] = []

    def row(self, row: Row) -> None:
        """Send one row, as soon as it is scored, under a name of all that a grid may vary."""
        name = "/".join((row.task, row.model, row.engine, row.sampler, row.embedder, row.selector))
        self.each("row", lambda tracker: tracker.row(name, scalars(row.to_json())))

    def scored(self, rows: Sequence[Row]) -> None:
        """Send the table and the report, once all rows are scored."""
        if not self.trackers or not rows:
            return
        table = flat([row.to_json() for row in rows])
        self.each("table", lambda tracker: tracker.table(table))
        try:
            write = load_registry(self.config.plugin_files).find("report", "html").load()
            path: Path = write(self.config.store, (), None, self.config.plugin_files, self.progress)
        except Exception as failure:
            self._note(f"tracking: no report: {failure if isinstance(failure, HarnessError) else _line(failure)}")
        else:
            self.each("report", lambda tracker: tracker.report(path))

    def each(self, what: str, call: Callable[[Tracker], None]) -> None:
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
    """Build the trackers of these specs, send them the run's options, and finish them however the run ends."""
    registry = load_registry(config.plugin_files)
    if len(set(specs)) < len(specs):
        raise HarnessError(f"--track: a tracker is given twice: {', '.join(specs)}")
    trackers = Tracking({spec: build(registry, "tracker", spec) for spec in specs}, config, progress)
    settings = parsed(json.dumps(dataclasses.asdict(config), default=str), "options", lenient=True)
    trackers.each("start", lambda tracker: tracker.start(settings))
    has_failed = True
    try:
        yield trackers
        has_failed = False
    finally:
        trackers.each("finish", lambda tracker: tracker.finish(has_failed))


def scalars(value: Any, name: str = "") -> dict[str, float]:
    """Return a row's numbers under flat names: `pass_at_k/16`, `improvement_ci/low`. True counts as 1.

    Texts, nulls and lists other than intervals (`..._ci`) are left out.
    """
    if isinstance(value, (bool, int, float)):
        return {name: float(value)}
    if isinstance(value, (list, tuple)) and name.split("/")[0].endswith("_ci"):
        value = dict(zip(("low", "high"), value, strict=False))
    if not isinstance(value, Mapping):
        return {}
    parts = [scalars(item, f"{name}/{key}" if name else key) for key, item in value.items()]
    return {key: number for part in parts for key, number in part.items()}


def flat(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows, all with the same columns: labels as text, values as numbers, None for what a row lacks."""
    texts = [{name: value for name, value in row.items() if isinstance(value, str)} for row in rows]
    flattened = [{**labels, **scalars(row)} for labels, row in zip(texts, rows, strict=True)]
    columns = list(dict.fromkeys(name for row in flattened for name in row))
    return [{name: row.get(name) for name in columns} for row in flattened]


def _line(failure: BaseException) -> str:
    return f"{type(failure).__name__}: {failure}".split("\n")[0][:300]
