"""`harness run`: sample, embed, verify, rank, score."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from harness.errors import HarnessError
from harness.plugin_system.command_options import Json, Yes, fields_of, resumable, show, takes
from harness.running.config import RunConfig

from .app import app


@app.command()
@takes(RunConfig)
def run(
    given: dict[str, Any],
    preset: Annotated[
        str | None, typer.Option(help="Options that the task names, e.g. quick; options that you give stay.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be made and what exists; make nothing.")
    ] = False,
    gpu: Annotated[
        str,
        typer.Option(help="With --paper --dry-run: the GPU to assume for models that cannot be timed on this machine."),
    ] = "h100",
    yes: Yes = False,
    track: Annotated[
        list[str] | None, typer.Option("--track", help="trackio, wandb:project=x,mode=offline, ...; repeatable.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Sample, embed, verify, rank, score: which selector needs fewer verifier calls?"""
    from harness.plugin_system.presets import filled
    from harness.running import grid, pipeline
    from harness.system.progress import Progress

    from . import result_tables, tracked

    options = filled({**given, "preset": preset})
    if given["until_correct"]:
        if track:
            raise HarnessError("run: --until-correct takes no --track: trackers follow pools")
        return _until_correct(RunConfig(**fields_of(RunConfig, options)), dry_run, yes, as_json)
    if given["paper"] and dry_run and not (options["selectors"] or given["grid"] or given["pool"]):
        return _price_the_paper({**options, "gpu": gpu}, as_json)
    config = RunConfig(**fields_of(RunConfig, options))
    job, progress = grid if config.grid else pipeline, Progress(asks=not yes)
    if dry_run:
        return show(job.dry_run(config, progress), as_json, result_tables.preview)
    with resumable(), tracked.tracking(track or (), config, progress) as tracking:
        rows, failures = job.run(config, progress, tracking.row)
        show([row.to_json() for row in rows], as_json, lambda _: result_tables.results(rows, config.store))
        tracking.scored(rows)
    for failure in failures.values():
        print(f"failed: {failure}", file=sys.stderr)
    raise typer.Exit(1 if failures or tracking.faults else 0)


def _until_correct(config: RunConfig, dry_run: bool, yes: bool, as_json: bool) -> None:
    from harness.running import until_correct
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
