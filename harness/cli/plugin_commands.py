"""`harness list`, `show`, `check`, `new` and `doctor`: plugins, and what is wrong with them or with a store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.errors import HarnessError
from harness.plugin_system.options import Data, Json, Plugin, show

from .app import app


@app.command("list")
def list_plugins(
    kind: Annotated[str | None, typer.Argument(help="tasks, samplers, engines, embedders, selectors, ...")] = None,
    plugin: Plugin = None,
    as_json: Json = False,
) -> None:
    """What is installed, one line each, and where it came from."""
    from harness.plugin_system import catalogue

    from . import plugin_tables

    show(catalogue.listing(kind, plugin or ()), as_json, plugin_tables.listing)


@app.command("show")
def show_component(
    kind: Annotated[str, typer.Argument(help="task, sampler, engine, embedder, selector or executor")],
    name: Annotated[str, typer.Argument(help="its name, or dist/name")],
    example: Annotated[bool, typer.Option("--example", help="A task's exact first prompt.")] = False,
    data: Data = None,
    plugin: Plugin = None,
    as_json: Json = False,
) -> None:
    """One component: what it does, its parameters, its origin."""
    from harness.plugin_system import catalogue

    from . import plugin_tables

    if example:
        return show(catalogue.example(kind, name, data, plugin or ()), as_json, plugin_tables.example)
    show(catalogue.details(kind, name, plugin or ()), as_json, plugin_tables.details)


@app.command()
def doctor(
    plugin: Plugin = None,
    store: Annotated[Path | None, typer.Option(help="Check this store's files instead, every byte of them.")] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="With --store: delete what is made again, set aside what cost money.")
    ] = False,
    rekey: Annotated[
        bool, typer.Option("--rekey", help="With --store: check and adopt what an older version wrote.")
    ] = False,
    as_json: Json = False,
) -> None:
    """What is wrong with the installed plugins, or with a store, if anything; exit code 1 if so."""
    from harness.plugin_system import catalogue

    from . import plugin_tables

    if store is not None:
        return _check_store(store, repair, rekey, as_json)
    if repair or rekey:
        raise HarnessError(f"doctor: --{'repair' if repair else 'rekey'} goes with --store DIR")
    report = catalogue.diagnosis(plugin or ())
    show(report, as_json, plugin_tables.diagnosis)
    raise typer.Exit(1 if report["faults"] else 0)


def _check_store(store: Path, repair: bool, rekey: bool, as_json: bool) -> None:
    from harness.results import cells
    from harness.running import until_correct
    from harness.system.progress import Progress
    from harness.upkeep import damage, rekeying

    records = {"cells": cells.read, until_correct.FOLDER: until_correct.read}
    damage.require_store(store, records)
    progress = Progress()
    adopted = rekeying.rekey(store, progress) if rekey else 0
    report = {**damage.diagnosis(store, records, progress, repair), "adopted": adopted}
    show(report, as_json, lambda report: print(damage.shown(report)))
    raise typer.Exit(1 if any(fault["left"] for fault in report["faults"]) else 0)


@app.command()
def new(
    kind: Annotated[str, typer.Argument(help="selector, task, embedder or sampler")],
    name: Annotated[str, typer.Argument(help="lower-case words joined by '-', e.g. my-novelty")],
    into: Annotated[Path, typer.Option(help="The folder in which harness-NAME/ is made.")] = Path(),
    as_json: Json = False,
) -> None:
    """Start a plugin of your own: a small package that installs, runs and passes its own tests."""
    from harness.plugin_system import scaffold

    show(scaffold.new_package(kind, name, into), as_json, lambda made: print(scaffold.shown(made)))


@app.command()
def check(
    kind: Annotated[str, typer.Argument(help="selector, task, sampler, embedder or engine")],
    name: Annotated[str, typer.Argument(help="name or name:key=value,...; '*' for all of the kind")],
    data: Data = None,
    model: Annotated[str | None, typer.Option(help="What an engine is tried on; default: an embedded model.")] = None,
    plugin: Plugin = None,
    as_json: Json = False,
) -> None:
    """Whether a component does all that the harness expects of its kind; exit code 1 if not."""
    from harness import testing

    from . import plugin_tables

    found = testing.check_registered(kind, name, data=data, model=model, plugin_files=plugin or ())
    show(found, as_json, plugin_tables.findings)
    raise typer.Exit(1 if any(row["outcome"] == "failed" for row in found) else 0)
