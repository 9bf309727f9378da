"""Register `harness report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness import hookimpl
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
    pool: Annotated[str | None, typer.Option(help="A pool's key, or its beginning: the newest of its cells.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Default: report.html in the store.")] = None,
    plugin: Plugin = None,
) -> None:
    """A page that shows a run: table, curves, every problem, and what each selector picks, response by response."""
    from harness.system.progress import Progress

    from .writing import write_report

    print(write_report(store, cell or (), out, plugin or (), Progress(), pool))
