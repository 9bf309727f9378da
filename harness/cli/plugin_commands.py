"""`harness list`, `show` and `check`: the installed plugins."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.plugin_system.command_options import Data, Json, Plugin, show

from .app import app


@app.command("list")
def list_plugins(
    kind: Annotated[str | None, typer.Argument(help="tasks, samplers, engines, embedders, selectors, ...")] = None,
    plugin: Plugin = None,
    as_json: Json = False,
) -> None:
    """List what is installed, one line each, and the distribution that it comes from."""
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
    """Show one component: what it does, its parameters, its origin."""
    from harness.plugin_system import catalogue

    from . import plugin_tables

    if example:
        return show(catalogue.example(kind, name, data, plugin or ()), as_json, plugin_tables.example)
    show(catalogue.details(kind, name, plugin or ()), as_json, plugin_tables.details)


@app.command()
def check(
    kind: Annotated[str, typer.Argument(help="selector, task, sampler, embedder or engine")],
    name: Annotated[str, typer.Argument(help="name or name:key=value,...; '*' for all of the kind")],
    data: Data = None,
    model: Annotated[
        str | None, typer.Option(help="The model with which an engine is checked; default: an embedded one.")
    ] = None,
    plugin: Plugin = None,
    as_json: Json = False,
) -> None:
    """Check that a component does all that the harness expects of its kind; exit code 1 if not."""
    from harness import testing

    from . import plugin_tables

    findings = testing.check_registered(kind, name, data=data, model=model, plugin_files=plugin or ())
    show(findings, as_json, plugin_tables.findings)
    raise typer.Exit(1 if any(finding["outcome"] == "failed" for finding in findings) else 0)
