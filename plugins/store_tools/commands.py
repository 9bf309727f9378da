"""`harness store list|prune`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness import hookimpl
from harness.hookspecs import Register
from harness.plugin_system.command_options import Json, StoreDir, resumable, show

store_app = typer.Typer(
    help="The store: what it holds, and what no cell uses.", no_args_is_help=True, rich_markup_mode=None
)


@hookimpl
def register_commands(register: Register) -> None:
    """Register the group `harness store`."""
    register("store", "harness_plugins.store_tools.commands:store_app")


@store_app.command("list")
def list_(store: StoreDir = Path("runs"), as_json: Json = False) -> None:
    """Sizes by task, model and kind of column, what of it no cell uses, and when it was last used."""
    from .store import listing, put_listing

    show(listing(store), as_json, put_listing)


@store_app.command()
def prune(
    store: StoreDir = Path("runs"),
    pools: Annotated[
        bool,
        typer.Option("--pools", help="Also what is costly to make again, or from a file: pools that no cell uses."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Delete it; without this it is only listed.")] = False,
    as_json: Json = False,
) -> None:
    """List what no cell uses and the next run can make again; with --yes delete it."""
    from harness.system.progress import Progress

    from . import store as stores

    with resumable("what is deleted is deleted; the same command deletes the rest"):
        show(stores.prune(store, pools, yes, Progress()), as_json, stores.put_pruned)
