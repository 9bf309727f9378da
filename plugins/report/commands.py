"""Register `harness report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness import HarnessError, hookimpl
from harness.hookspecs import Register
from harness.plugin_system.command_options import Plugin, StoreDir


@hookimpl
def register_commands(register: Register) -> None:
    """Register `harness report`."""
    register("report", "harness_plugins.report.commands:report")


def report(
    store: StoreDir = Path("runs"),
    cell: Annotated[
        list[str] | None,
        typer.Option(help="A cell's key, or its beginning; repeatable. Default: the newest, and all on the same pool."),
    ] = None,
    pool: Annotated[
        str | None,
        typer.Option(help="A pool's key, or its beginning: the newest of its cells. With --journal: the file."),
    ] = None,
    journal: Annotated[
        Path | None, typer.Option(help="A page of the search that `harness verify` or `harness.search` wrote there.")
    ] = None,
    embeddings: Annotated[
        Path | None, typer.Option(help="With --journal: the file of the candidates' vectors.")
    ] = None,
    outcome: Annotated[list[str] | None, typer.Option(help="With --journal: as in `harness verify`.")] = None,
    threshold: Annotated[float | None, typer.Option(help="With --journal: values from here on are hits.")] = None,
    rate: Annotated[
        float | None, typer.Option(help="With --journal: the share of hits among all candidates, if you know it.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Default: report.html in the store, or beside the journal.")
    ] = None,
    plugin: Plugin = None,
) -> None:
    """A page that shows a run: table, curves, every problem, what each selector picks. Or a search, by --journal."""
    from harness.system.progress import Progress

    if journal:
        from .searching import write_search

        files = {"pool": Path(pool) if pool else None, "embeddings": embeddings, "plugin_files": plugin or ()}
        given = {**files, "outcomes": outcome or (), "threshold": threshold}
        return print(write_search(journal, out, Progress(), rate, **given))
    if embeddings or outcome or threshold is not None or rate is not None:
        raise HarnessError("report: --embeddings, --outcome, --threshold and --rate go with --journal")
    from .writing import write_report

    print(write_report(store, cell or (), out, plugin or (), Progress(), pool))
