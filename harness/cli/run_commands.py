"""The commands that work: `run` and `rerun` (sample, embed, verify, rank, score), `select` and `verify`."""

from __future__ import annotations

import json
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.errors import one_line
from harness.jobs.options import RunConfig, SelectConfig
from harness.plugin_system.command_options import Explain, Json, Yes, reserve_stdout, resumable, show, takes
from harness.system import console
from harness.verifying.config import VerifyConfig

from .app import app

if TYPE_CHECKING:
    from harness.results.rows import Row

DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be made and what exists; make nothing.")]
# What may be elsewhere, or must be allowed anew, where a cell is made again.
OF_A_MACHINE = (
    *("model", "engine", "pool", "embeddings", "data", "ids", "only", "store", "plugin_files", "unsafe_exec"),
    *("max_cost", "max_tokens_total", "executor"),
)


@app.command()
@takes(RunConfig)
def run(
    given: dict[str, Any],
    context: typer.Context,
    study: Annotated[
        Path | None, typer.Argument(help="A TOML file of options; those that you give replace its own.")
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="Options that the task names, e.g. quick; options that you give stay.")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    explain: Explain = False,
    as_json: Json = False,
) -> None:
    """Sample, embed, verify, rank, score: which selector needs fewer verifier calls?"""
    from harness.jobs.options import merged, of_study
    from harness.plugin_system.component import filled

    options = filled(merged(study, {**given, "preset": preset}, lambda name: _given(context, name)))
    _run(of_study(study, options), dry_run, yes, explain, as_json)


@app.command()
@takes(RunConfig, *OF_A_MACHINE)
def rerun(
    given: dict[str, Any],
    context: typer.Context,
    cell: Annotated[str, typer.Argument(help="A cell: its file, or the beginning of its key.")],
    folder: Annotated[
        list[Path] | None,
        typer.Option("--in", help="Where cells are; default results/, runs/cells and STORE/cells; repeatable."),
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    explain: Explain = False,
    as_json: Json = False,
) -> None:
    """Make a cell again by the options that it records, and say whether it came out the same."""
    from harness.jobs import study as studies
    from harness.results import cells, published

    place = published.named(cell, folder or [Path("results"), Path("runs/cells"), given["store"] / "cells"], "rerun")
    before = published.read(place)
    said = {name: value for name, value in given.items() if name == "store" or _given(context, name)}
    config = studies.config_of(place, before, said)
    for row in _run(config, dry_run, yes, explain, as_json):
        now = cells.read(config.store / "cells" / f"{row.cell}.json")
        print(one_line(f"rerun: {studies.difference(before, now)}"), file=sys.stderr)
    if not dry_run and place.path.resolve().is_relative_to(config.store.resolve()):
        print("rerun: what its store holds was reused; --store NEW makes all of it anew", file=sys.stderr)


def _given(context: typer.Context, name: str) -> bool:
    """Whether the user gave the option on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _run(config: RunConfig, dry_run: bool, yes: bool, explain: bool, as_json: bool) -> list[Row]:
    """Carry out a config, print its table and failures, and return its rows; exit code 1 if something failed."""
    from harness.jobs import grid, until_correct
    from harness.jobs import run as jobs
    from harness.results import cells
    from harness.system.progress import Progress

    from . import result_tables

    progress = Progress(asks=not yes)
    if dry_run:
        job = until_correct if config.until_correct else grid if config.grid else jobs
        show(job.dry_run(config, progress), as_json, result_tables.preview)
        return []
    with resumable():
        if config.until_correct:
            show([until_correct.run(config, progress)], as_json, result_tables.sequences)
            return []
        lines, failures = (grid if config.grid else jobs).run(config, progress)
        rows: list[Row] = [row for row in lines if not row.control]
        show([row.to_json() for row in rows], as_json, lambda _: result_tables.results(lines, config.store, explain))
    if rows and not as_json:
        store = "" if config.store == Path("runs") else f" --store {shlex.quote(str(config.store))}"
        pool = cells.read(config.store / "cells" / f"{rows[0].cell}.json")["inputs"]["pool"]["key"]
        progress.say(
            f"next: `harness pool show {pool[:8]}{store}` shows responses and verdicts, "
            f"`harness report{store}` makes a page: every problem, every pick"
        )
    for failure in failures.values():
        print(f"failed: {failure}", file=sys.stderr)
    if failures:
        raise typer.Exit(1)
    return rows


@app.command()
@takes(SelectConfig)
def select(
    given: dict[str, Any],
    yes: Yes = False,
    as_json: Json = False,
    as_jsonl: Annotated[
        bool, typer.Option("--jsonl", help="Print JSON, one line a problem.", callback=reserve_stdout, is_eager=True)
    ] = False,
) -> None:
    """Choose which responses to verify next: k of each problem, without looking at any verdict."""
    from harness.jobs import selection
    from harness.system.progress import Progress

    from . import tables

    progress = Progress(asks=not yes)
    with progress.waiting("selecting"):
        chosen = selection.select(SelectConfig(**given), progress)
    if as_jsonl:
        for picks in chosen:
            console.write(json.dumps(picks.row(), ensure_ascii=False) + "\n")
    else:
        show([picks.row() for picks in chosen], as_json, lambda _: tables.selection(chosen))


@app.command()
@takes(VerifyConfig, without=("verified",))
def verify(given: dict[str, Any], yes: Yes = False, as_json: Json = False) -> None:
    """Pick, verify, write the outcome down, pick again: until each problem is solved or the budget is used up."""
    from harness.system.progress import Progress
    from harness.verifying import loop
    from harness.verifying.verifiers import CommandVerifier

    from . import tables

    config, progress = VerifyConfig(**given), Progress(asks=not yes)
    with resumable(f"every outcome is in {config.journal}; run the same command again to go on"):
        if config.ask:
            is_asked = not (as_json or config.answers or config.sheet)
            read = partial(tables.answer, takes_values=config.takes_values) if is_asked else None
            show(loop.ask(config, progress, tables.to_verify, read), as_json, tables.asked)
        else:
            ended = loop.verify(config, progress, CommandVerifier(config))
            show(loop.summary(ended), as_json, lambda value: tables.ended(ended, value))
