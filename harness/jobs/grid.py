"""A grid of runs: selectors crossed with embedders, samplers, models, ... over the pools and verdicts of one store.

`selector=*,embedder=hidden-mean+tfidf`: commas separate axes, `+` separates the values of an axis, and `*` is all that
is installed. A selector that reads no vectors runs once, not once per embedder. A selector that only `*` names and that
cannot run (an extra is not installed, the pool lacks log-probabilities) is left out with a line. One that is given by
name and fails is a failure; the rest of the grid is still scored.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from harness.columns.column import Column, forget
from harness.errors import HarnessError, NotBegun, did_you_mean
from harness.plugin_system.calls import needs
from harness.plugin_system.command_options import fields_of
from harness.plugin_system.component import ENGINE, build, filled, names_in, parse_spec
from harness.plugin_system.registry import load_registry
from harness.results.rows import Row
from harness.system.progress import Progress

from . import run as jobs
from .options import RunConfig
from .plan import Plan, make_plan
from .price import SHORTER, Outlook, Space, preflight, require_consent, space

AXES = ("task", "model", "engine", "sampler", "embedder", "selector")
ALL = "*"


def run(config: RunConfig, progress: Progress) -> tuple[list[Row], dict[str, str]]:
    """Run the config's grid; return all rows, and one line for each run or selector that failed (it has no row).

    The lines stand under the run's name, or the run's name and the selector. A selector that is left out because only
    `*` names it has no such line.
    """
    rows: list[Row] = []
    failures: dict[str, str] = {}
    runs = _shown(config, progress)
    with progress.waiting("estimating the time of all runs"):
        outlook = _outlook(runs)
    require_consent("run", outlook, progress, SHORTER)
    for point in runs:
        try:
            made, failed = jobs.run(point.config, progress, point.embedders)
        except NotBegun:
            raise
        except HarnessError as failure:
            failures[point.name] = f"{point.name}: {failure}" if point.name else str(failure)
            continue
        known = {row.cell for row in rows}  # a control that reads no vectors is the same for all embedders
        rows += [row for row in made if not (row.control and row.cell in known)]
        for spec, line in failed.items():
            if spec in point.optional:
                progress.say(f"left out: {line}")
            else:
                failures[f"{point.name} {spec}"] = line
    return rows, failures


def _shown(config: RunConfig, progress: Progress) -> list[Point]:
    """The runs of the config's grid, after a line that says how many cells they make together."""
    runs = list(points(config, progress))
    if len(runs) > 1:
        cells = [len(point.config.selectors) for point in runs]
        each = ", ".join(f"{count} for {point.name}" for count, point in zip(cells, runs, strict=True))
        progress.say(f"grid: {sum(cells)} cells in {len(runs)} runs, which share what they can: {each}")
    return runs


def _outlook(runs: Sequence[Point]) -> Outlook:
    """The time of several runs, where a pool that they share counts once. A single run asks for itself.

    HarnessError if their pools do not fit on the disk together.
    """
    plans: dict[str, Plan] = {}  # of each pool the first
    needed, counted = Space(), set[Column]()
    for point in runs if len(runs) > 1 else ():
        with suppress(HarnessError):  # shown when it is this run's turn
            plan = make_plan(point.config, Progress(quiet=True))
            needed += space(plan, counted=counted)
            plans.setdefault(plan.responses.key, plan)
    for plan in plans.values():
        needed.require_room(plan.store.root)
    total = Outlook()
    for plan in plans.values():
        total += preflight(plan).outlook
        forget()  # the model that a probe has loaded
    return total


def dry_run(config: RunConfig, progress: Progress) -> list[dict[str, Any]]:
    """Return the rows of `run.dry_run` for all runs of the grid, each with its run's name as "run".

    A stage that runs share is listed once, and counts once in the line about all runs.
    """
    shown, rows, outlook, needed = set[Any](), list[dict[str, Any]](), Outlook(), Space()
    for point in (runs := _shown(config, progress)):
        if point.name:
            progress.say(f"{point.name}:")
        its_rows, costs = jobs.priced(point.config, progress, shown)
        rows += [{"run": point.name, **row} for row in its_rows]
        outlook, needed = outlook + costs.outlook, needed + costs.space
    if len(runs) > 1:
        progress.say(", ".join(filter(None, [f"all runs: {outlook or 'no time'}", needed.told(config.store)])))
    return rows


@dataclass(frozen=True)
class Point:
    """One run of a grid.

    name       its values of the axes other than selector, e.g. "model=a, embedder=tfidf"; may be ""
    optional   the selectors that `*` names: where one cannot run, it is left out with a line
    embedders  those of the other runs over the same pool
    """

    config: RunConfig
    name: str
    optional: frozenset[str]
    embedders: Sequence[str] = ()


def points(config: RunConfig, progress: Progress) -> Iterator[Point]:
    """Yield the runs of a grid, in the order of its values.

    The runs of one combination of the other axes differ in the embedder. Selectors that read no vectors are only in the
    first of them.
    """
    axes = parse_grid(config.grid or "")
    registry, optional = load_registry(config.plugin_files), frozenset[str]()
    for axis, values in axes.items():
        if values == [ALL]:
            if axis == "model":
                raise HarnessError("--grid: model=*: models are named, not installed")
            axes[axis] = [registration.name for registration in registry.of_kind(axis)]
            if axis == "selector":
                optional = frozenset(axes[axis]) - frozenset(config.selectors)
    selectors: dict[str, bool] = {}  # spec -> whether it reads vectors
    for spec in dict.fromkeys([*config.selectors, *axes.pop("selector", [])]):
        try:
            selectors[spec] = "embeddings" in needs(build(registry, "selector", parse_spec(spec)))
        except HarnessError as failure:
            if spec not in optional:
                raise
            progress.say(f"left out: {failure}")
    if not selectors:
        raise HarnessError("--grid: no selector is named: add selector=repexp+uniform to it, or --selector NAME")
    with_vectors = [spec for spec, reads in selectors.items() if reads]
    embedders: list[Any] = axes.pop("embedder", [None])
    for combination in itertools.product(*axes.values()):
        options = dict(zip(axes, combination, strict=True))
        for place, embedder in enumerate(embedders):
            chosen = list(selectors) if place == 0 else with_vectors
            if chosen:
                changes: dict[str, Any] = options | ({"embedder": embedder} if embedder else {})
                run = replace(config, grid=None, selectors=tuple(chosen), **changes)
                if not config.task and "task" in options:  # its defaults, where no option and no axis says more
                    engine = run.engine if "engine" in options or run.engine != ENGINE else None
                    run = RunConfig(**fields_of(RunConfig, filled(vars(run) | {"engine": engine, "preset": None})))
                name = ", ".join(f"{axis}={value}" for axis, value in changes.items())
                others = [spec for spec in embedders if spec and spec != embedder and with_vectors]
                yield Point(run, name, optional, others)


def parse_grid(text: str) -> dict[str, list[str]]:
    """Return axis -> its values, as written; HarnessError if an axis is unknown or a value empty or given twice.

    A comma separates axes only if an axis follows, since specs hold commas too.
    """
    axes: dict[str, list[str]] = {}
    for part in re.split(rf",\s*(?=(?:{'|'.join(AXES)})=)", text):
        axis, equals, values = part.partition("=")
        axis = axis.strip()
        if not equals or axis not in AXES:
            raise HarnessError(f"--grid: no axis {axis!r} {did_you_mean(axis, AXES, 'axes')}")
        if axis in axes:
            raise HarnessError(f"--grid: axis {axis!r} is given twice")
        axes[axis] = [value.strip() for value in values.split("+")]
        if len(specs := [spec for value in axes[axis] for spec in names_in(value)]) > len(axes[axis]):
            raise HarnessError(f"--grid: a + separates the values of an axis: write {axis}={'+'.join(specs)}")
        if not all(axes[axis]) or len(set(axes[axis])) < len(axes[axis]):
            raise HarnessError(f"--grid: {axis}: a value is empty or given twice in {values!r}")
        if ALL in axes[axis] and len(axes[axis]) > 1:
            raise HarnessError(f"--grid: {axis}: {ALL!r} is all of them: give it alone")
    return axes
