"""`harness list`, `show` and `check`: the installed plugins."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.plugin_system.command_options import Data, Json, Plugin, kinds, names_after_kind, show

from .app import app


@app.command("list")
def list_plugins(
    kind: Annotated[
        str | None,
        typer.Argument(help="tasks, samplers, engines, embedders, selectors, ...", autocompletion=kinds),
    ] = None,
    plugin: Plugin = None,
    as_json: Json = False,
) -> None:
    """List what is installed, one line each, and the distribution that it comes from."""
    from harness.plugin_system import catalogue

    from . import plugin_tables

    show(catalogue.listing(kind, plugin or ()), as_json, plugin_tables.listing)


@app.command("show")
def show_component(
    kind: Annotated[
        str,
        typer.Argument(help="task, sampler, engine, ...; may be left out", autocompletion=kinds),
    ],
    name: Annotated[str | None, typer.Argument(help="its name, or dist/name", autocompletion=names_after_kind)] = None,
    example: Annotated[bool, typer.Option("--example", help="A task's exact first prompt.")] = False,
    data: Data = None,
    plugin: Plugin = None,
    as_json: Json = False,
) -> None:
    """Show one component: what it does, its parameters, its origin."""
    from harness.plugin_system import catalogue

    from . import plugin_tables

    if name is None:
        kind, name = catalogue.kind_of(kind, plugin or ()), kind
    if example:
        return show(catalogue.example(kind, name, data, plugin or ()), as_json, plugin_tables.example)
    show(catalogue.details(kind, name, plugin or ()), as_json, plugin_tables.details)


@app.command()
def check(
    kind: Annotated[str, typer.Argument(help="selector, task, sampler, embedder or engine", autocompletion=kinds)],
    name: Annotated[
        str,
        typer.Argument(help="name or name:key=value,...; '*' for all of the kind", autocompletion=names_after_kind),
    ],
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

    from . import plugin_tables

    findings: list[dict[str, str]] = []
    with Progress().waiting(f"checking {kind} {name}"):
        results = check_registered(kind, name, data=data, model=model, plugin_files=plugin or (), limit_s=check_timeout)
        for finding in results:
            if not as_json:
                plugin_tables.finding(finding, is_first=not findings or findings[-1]["name"] != finding["name"])
            findings.append(finding)
    show(findings, as_json, plugin_tables.outcomes)
    raise typer.Exit(1 if any(finding["outcome"] == "failed" for finding in findings) else 0)
