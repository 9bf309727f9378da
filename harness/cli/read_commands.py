"""The commands that read: plugins (`list`, `show`, `check`), and cells (`leaderboard`, `compare`, `results`)."""

from __future__ import annotations

import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from harness.errors import HarnessError
from harness.plugin_system.command_options import Cells, Data, Explain, Json, Plugin, StoreDir, default_cells, show
from harness.system import console

from .app import app, results_app


@app.command("list")
def list_plugins(
    kind: Annotated[str | None, typer.Argument(help="tasks, samplers, engines, embedders, selectors, ...")] = None,
    plugin: Plugin = None,
    as_json: Json = False,
) -> None:
    """List what is installed, one line each, and the distribution that it comes from."""
    from harness.plugin_system import catalogue

    from . import tables

    show(catalogue.listing(kind, plugin or ()), as_json, tables.listing)


@app.command("show")
def show_component(
    kind: Annotated[str, typer.Argument(help="task, sampler, engine, ...; may be left out")],
    name: Annotated[str | None, typer.Argument(help="its name, or dist/name")] = None,
    example: Annotated[bool, typer.Option("--example", help="A task's exact first prompt.")] = False,
    data: Data = None,
    plugin: Plugin = None,
    as_json: Json = False,
) -> None:
    """Show one component: what it does, its parameters, its origin."""
    from harness.plugin_system import catalogue

    from . import tables

    if name is None:
        kind, name = catalogue.kind_of(kind, plugin or ()), kind
    if example:
        return show(catalogue.example(kind, name, data, plugin or ()), as_json, tables.example)
    show(catalogue.details(kind, name, plugin or ()), as_json, tables.details)


@app.command()
def check(
    kind: Annotated[str, typer.Argument(help="selector, task, sampler, embedder or engine")],
    name: Annotated[str, typer.Argument(help="name or name:key=value,...; '*' for all of the kind")],
    data: Data = None,
    model: Annotated[
        str | None, typer.Option(help="The model with which an engine is checked; default: an embedded one.")
    ] = None,
    check_timeout: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="A check that takes longer is ended and has failed.")
    ] = 120.0,
    plugin: Plugin = None,
    as_json: Json = False,
) -> None:
    """Check that a component does all that the harness expects of its kind; exit code 1 if not."""
    from harness.system.progress import Progress
    from harness.testing import check_registered

    from . import tables

    findings: list[dict[str, str]] = []
    with Progress().waiting(f"checking {kind} {name}"):
        results = check_registered(kind, name, data=data, model=model, plugin_files=plugin or (), limit_s=check_timeout)
        for finding in results:
            if not as_json:
                tables.finding(finding, is_first=not findings or findings[-1]["name"] != finding["name"])
            findings.append(finding)
    show(findings, as_json, tables.outcomes)
    raise typer.Exit(1 if any(finding["outcome"] == "failed" for finding in findings) else 0)


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
    explain: Explain = False,
    as_json: Json = False,
) -> None:
    """Print tables of all cells in some folders, and write them as leaderboard.md and .csv."""
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
    if not tables:
        places = ", ".join(map(str, folders))
        raise HarnessError(f"leaderboard: no cells in {places}: run something first, or name a folder")
    if over_pools:
        return show(
            [asdict(line) for line in boards.across(tables)], as_json, partial(result_tables.across, explain=explain)
        )
    written = boards.write(out or (folders[0].parent if folders[0].name == "cells" else folders[0]), gathered, tables)
    if as_json:
        console.write(boards.as_json(tables))
    else:
        result_tables.leaderboard([] if quiet else tables, written, explain)


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
    from harness.results import leaderboard

    rows = leaderboard.publish(keys or (), store, to, plugin or ())
    lines = [f"{row['file']}, {row['cell']}: conformance {row['conformance']}" for row in rows]
    show(rows, as_json, lambda _: console.put("\n".join(lines)))


@results_app.command("show")
def show_cell(
    cell: Annotated[str, typer.Argument(help="A cell: the beginning of its key, or its file.")],
    folder: Annotated[list[Path] | None, typer.Option("--in", help="Where cells are; default results/.")] = None,
) -> None:
    """Print a cell as JSON, a problem a line, as a store keeps it."""
    from harness.results import cells, published

    _, parts = cells.rendered(published.read(published.named(cell, folder or [Path("results")], "results show")))
    console.write(b"".join(parts).decode())


@results_app.command()
def delete(
    keys: Annotated[list[str], typer.Argument(help="Cells by key; its beginning will do.")],
    folder: Annotated[Path, typer.Option("--from", help="Where published cells are.")] = Path("results"),
) -> None:
    """Delete published cells, for example those that another version of a selector made."""
    from harness.results import published

    for place in published.delete(keys, folder):
        console.put(f"deleted: {place}")


@results_app.command()
def validate(folder: Cells = None, as_json: Json = False) -> None:
    """Name every file that is no cell, or whose cell cannot be trusted; exit code 1 if there is one."""
    from harness.results import leaderboard

    faults = leaderboard.validate(folder or [Path("results")])
    show(faults, as_json, lambda faults: console.put("\n".join(faults) or "all cells can be counted"))
    raise typer.Exit(1 if faults else 0)
