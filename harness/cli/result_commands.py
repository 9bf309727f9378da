"""`harness leaderboard`, `compare` and `results publish|validate`: commands that read cells."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from harness.errors import HarnessError
from harness.plugin_system.command_options import Cells, Json, Plugin, StoreDir, default_cells, show
from harness.system import output

from .app import app, results_app


@app.command()
def leaderboard(
    folder: Cells = None,
    out: Annotated[
        Path | None, typer.Option(help="Where the tables go; default: the first folder, of STORE/cells STORE.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the paths of the tables, not the tables.")] = False,
    over_pools: Annotated[
        bool, typer.Option("--across", help="Only one table: each selector's mean improvement over all pools.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Print tables of all cells in some folders, and write them as leaderboard.md, .csv and .json."""
    from harness.results import leaderboard as boards
    from harness.system.progress import Progress

    from . import result_tables

    folders = folder or default_cells()
    with Progress().waiting("reading cells"):
        gathered = boards.gather(folders)
    for fault in gathered.faults:
        print(f"not counted: {fault}", file=sys.stderr)
    with Progress().waiting("making tables"):
        tables = boards.boards(gathered)
    if over_pools and not tables:
        places = ", ".join(map(str, folders))
        raise HarnessError(f"leaderboard: no cells in {places}: run something first, or name a folder")
    if over_pools:
        return show([line.to_json() for line in boards.across(tables)], as_json, result_tables.across)
    written = boards.write(out or (folders[0].parent if folders[0].name == "cells" else folders[0]), gathered, tables)
    if as_json:
        output.write(boards.as_json(tables))
    else:
        result_tables.leaderboard([] if quiet else tables, written)


@app.command()
def compare(
    first: Annotated[str, typer.Argument(help="A cell: its file, or the beginning of its key.")],
    second: Annotated[str, typer.Argument(help="Another cell.")],
    folder: Annotated[
        list[Path] | None, typer.Option("--in", help="Where cells are; default results/ and STORE/cells; repeatable.")
    ] = None,
    store: StoreDir = Path("runs"),
    as_json: Json = False,
) -> None:
    """Compare two cells on the same problems: paired difference, interval, test, and the problems that differ."""
    from harness.results import comparison

    from . import result_tables

    folders = folder or [Path("results"), store / "cells"]
    show(comparison.compare((first, second), folders), as_json, result_tables.comparison)


@results_app.command()
def publish(
    keys: Annotated[
        list[str] | None, typer.Argument(help="Cells by key (its beginning will do); default: all.")
    ] = None,
    to: Annotated[Path, typer.Option("--to", help="Where published cells are.")] = Path("results"),
    store: StoreDir = Path("runs"),
    plugin: Plugin = None,
    as_json: Json = False,
) -> None:
    """Copy cells from the store to results/, and check their selectors with the conformance kit."""
    from harness.results import publishing

    from . import result_tables

    show(publishing.publish(keys or (), store, to, plugin or ()), as_json, result_tables.published)


@results_app.command()
def validate(folder: Cells = None, as_json: Json = False) -> None:
    """Name every file that is no cell, or whose cell cannot be trusted; exit code 1 if there is one."""
    from harness.results import publishing
    from harness.system.console import put

    faults = publishing.validate(folder or [Path("results")])
    show(faults, as_json, lambda faults: put("\n".join(faults) or "all cells can be counted"))
    raise typer.Exit(1 if faults else 0)
