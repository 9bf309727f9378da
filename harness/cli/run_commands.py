"""`harness run` and `harness rerun`: sample, embed, verify, rank, score."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.errors import HarnessError, one_line
from harness.jobs.options import RunConfig
from harness.plugin_system.command_options import Json, Yes, resumable, show, takes

from .app import app

if TYPE_CHECKING:
    from harness.results.rows import Row

DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be made and what exists; make nothing.")]
SaveConfig = Annotated[
    Path | None, typer.Option("--save-config", help="Write the options to a file that `harness run FILE` takes.")
]
Track = Annotated[
    list[str] | None, typer.Option("--track", help="trackio, wandb:project=x,mode=offline, ...; repeatable.")
]
# What may be elsewhere, or must be allowed anew, where a cell is made again.
OF_A_MACHINE = ("model", "engine", "pool", "embeddings", "data", "ids", "only", "store", "plugin_files", "unsafe_exec")
MONEY = ("prices", "max_cost", "max_tokens_total")


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
    gpu: Annotated[
        str,
        typer.Option(help="With --paper --dry-run: the GPU to assume for models that cannot be timed on this machine."),
    ] = "h100",
    yes: Yes = False,
    track: Track = None,
    save_config: SaveConfig = None,
    as_json: Json = False,
) -> None:
    """Sample, embed, verify, rank, score: which selector needs fewer verifier calls?"""
    from harness.jobs import study as studies
    from harness.plugin_system.presets import filled

    every = {**given, "preset": preset, "track": track or ()}
    options = filled(studies.merged(study, every, lambda name: _given(context, name)))
    if options["until_correct"] and options["track"]:
        raise HarnessError("run: --until-correct takes no --track: trackers follow pools")
    if options["paper"] and dry_run and not (options["selectors"] or options["grid"] or options["pool"]):
        return _price_the_paper({**options, "gpu": gpu}, as_json)
    if _given(context, "gpu"):
        raise HarnessError("run: --gpu goes with --paper --dry-run without --selector, which prices the paper's rows")
    config = studies.config(study, options)
    if save_config:
        studies.write_study(save_config, config, options["track"])
    if config.until_correct:
        return _until_correct(config, dry_run, yes, as_json)
    _run(config, options["track"], dry_run, yes, as_json)


@app.command()
@takes(RunConfig, *OF_A_MACHINE, *MONEY, "executor")
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
    save_config: SaveConfig = None,
    as_json: Json = False,
) -> None:
    """Make a cell again by the options that it records, and say whether it came out the same."""
    from harness.jobs import study as studies
    from harness.results import cells

    path = cells.named(cell, folder or [Path("results"), Path("runs/cells"), given["store"] / "cells"], "rerun")
    before = cells.read(path)
    said = {name: value for name, value in given.items() if name == "store" or _given(context, name)}
    config = studies.config_of(path, before, said)
    if save_config:
        studies.write_study(save_config, config)
    for row in _run(config, (), dry_run, yes, as_json):
        now = cells.read(config.store / "cells" / f"{row.cell}.json")
        print(one_line(f"rerun: {studies.difference(before, now)}"), file=sys.stderr)
    if not dry_run and path.resolve().is_relative_to(config.store.resolve()):
        print("rerun: what its store holds was reused; --store NEW makes all of it anew", file=sys.stderr)


def _given(context: typer.Context, name: str) -> bool:
    """Whether the user gave the option on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _run(config: RunConfig, track: Sequence[str], dry_run: bool, yes: bool, as_json: bool) -> list[Row]:
    """Carry out a config, print its table and failures, and return its rows; exit code 1 if something failed."""
    from harness.jobs import grid
    from harness.jobs import run as jobs
    from harness.results import cells
    from harness.system.progress import Progress

    from . import result_tables, tracked

    job, progress = grid if config.grid else jobs, Progress(asks=not yes)
    if dry_run:
        show(job.dry_run(config, progress), as_json, result_tables.preview)
        return []
    with resumable(), tracked.tracking(track, config, progress) as tracking:
        rows: list[Row]
        rows, failures = job.run(config, progress, tracking.row)
        show([row.to_json() for row in rows], as_json, lambda _: result_tables.results(rows, config.store))
        tracking.scored(rows)
    if rows and not as_json:
        store = "" if config.store == Path("runs") else f" --store {shlex.quote(str(config.store))}"
        pool = cells.read(config.store / "cells" / f"{rows[0].cell}.json")["inputs"]["pool"]["key"]
        progress.say(
            f"next: `harness pool show {pool[:8]}{store}` shows responses and verdicts, "
            f"`harness report{store}` makes a page: every problem, every pick"
        )
    for failure in failures.values():
        print(f"failed: {failure}", file=sys.stderr)
    if failures or tracking.faults:
        raise typer.Exit(1)
    return rows


def _until_correct(config: RunConfig, dry_run: bool, yes: bool, as_json: bool) -> None:
    from harness.jobs import until_correct
    from harness.system.progress import Progress

    from . import result_tables

    progress = Progress(asks=not yes)
    if dry_run:
        return show(until_correct.dry_run(config, progress), as_json, result_tables.preview)
    with resumable():
        show([until_correct.run(config, progress)], as_json, result_tables.sequences)


def _price_the_paper(options: dict[str, Any], as_json: bool) -> None:
    """Print the cost of the paper's table, estimated by the plugin for that; `--paper --dry-run` without selectors."""
    from harness.plugin_system.registry import load_registry
    from harness.system.progress import Progress

    unused = [f"--{name}" for name in ("sampler", "embedder", "split", "embeddings", "ids") if options[name]]
    if unused:
        raise HarnessError(
            f"run: --paper --dry-run without --selector prices the paper's own rows, and takes no {unused[0]}"
        )
    pricer = load_registry(options["plugin_files"]).find("pricer", "paper").load()
    pricer(options, Progress(), as_json)
