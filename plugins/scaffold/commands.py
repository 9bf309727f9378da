"""Register `harness new`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness import hookimpl
from harness.hookspecs import Register
from harness.plugin_system.command_options import Json, show


@hookimpl
def register_commands(register: Register) -> None:
    """Register `harness new`."""
    register("new", "harness_plugins.scaffold.commands:new")


def new(
    kind: Annotated[str, typer.Argument(help="selector, task, embedder or sampler")],
    name: Annotated[str, typer.Argument(help="lower-case words joined by '-', e.g. my-novelty")],
    into: Annotated[Path, typer.Option(help="The folder in which harness-NAME/ is made.")] = Path(),
    as_json: Json = False,
) -> None:
    """Start a plugin of your own: a small package that installs, runs and passes its own tests."""
    from .new_package import new_package, shown

    show(new_package(kind, name, into), as_json, lambda made: print(shown(made)))
