"""`harness plot`: the figures that plugins bring (`register_plots`), the paper's among them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from harness import hookimpl
from harness.hookspecs import Register
from harness.plugin_system.command_options import Cells, Json, default_cells, show, takes

from .request import Request


@hookimpl
def register_commands(register: Register) -> None:
    """Register `harness plot`."""
    register("plot", "harness_plugins.figures.commands:plot")


@hookimpl
def register_plots(register: Register) -> None:
    """Register the paper's figures on pools; those of RL are registered beside the trainers."""
    register("scatter", "harness_plugins.figures.calls:Scatter")
    register("questions", "harness_plugins.figures.calls:Questions")
    register("models", "harness_plugins.figures.calls:Models")
    register("strength", "harness_plugins.figures.gains:Strength")
    register("hardness", "harness_plugins.figures.calls:Hardness")
    register("gains", "harness_plugins.figures.gains:Gains")
    register("samplers", "harness_plugins.figures.curves:Samplers")
    register("representations", "harness_plugins.figures.curves:Representations")
    register("passk", "harness_plugins.figures.curves:PassK")
    register("likelihoods", "harness_plugins.figures.likelihoods:Likelihoods")
    register("guided", "harness_plugins.figures.guided:Guided")


@takes(Request)
def plot(
    given: dict[str, Any],
    name: Annotated[str | None, typer.Argument(help="Which figure; --list names them.")] = None,
    folder: Cells = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="A folder; default: plots/ in the store.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="Name the figures, and draw none.")] = False,
    as_json: Json = False,
) -> None:
    """One of the paper's figures from any cells, as PDF and PNG, with the data drawn as CSV."""
    from harness.plugin_system.registry import load_registry
    from harness.system.console import put
    from harness.system.progress import Progress

    from .frame import write

    if listed or name is None:
        plots = [each for each in load_registry(given["plugin_files"]).registrations if each.kind == "plot"]
        rows = [{"name": each.name, "what": each.summary()} for each in plots]
        return show(
            rows, as_json, lambda _: put("\n".join(f"{each['name']:<16}{each['what']}" for each in rows), hang=16)
        )
    request = Request(**given, name=name, folders=tuple(folder or default_cells()), say=Progress().say)
    show([str(path) for path in write(request, out)], as_json, lambda paths: put("\n".join(paths)))
