"""Register `harness doctor`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness import hookimpl
from harness.hookspecs import Register
from harness.plugin_system.command_options import Json, Plugin, show


@hookimpl
def register_commands(register: Register) -> None:
    """Register `harness doctor`."""
    register("doctor", "harness_plugins.doctor.commands:doctor")


def doctor(
    plugin: Plugin = None,
    store: Annotated[Path | None, typer.Option(help="Check every byte of this store's files, not the plugins.")] = None,
    as_json: Json = False,
) -> None:
    """Say what is wrong with the installed plugins, or with the files of a store; exit code 1 if anything is."""
    from harness.plugin_system import catalogue

    from .tables import diagnosis

    if store is not None:
        return _check_store(store, as_json)
    report = catalogue.diagnosis(plugin or ())
    show(report, as_json, diagnosis)
    raise typer.Exit(1 if report["faults"] else 0)


def _check_store(store: Path, as_json: bool) -> None:
    from harness.system.console import put
    from harness.system.progress import Progress

    from . import damage

    report = damage.diagnosis(store, Progress())
    show(report, as_json, lambda report: put(damage.shown(report)))
    raise typer.Exit(1 if report["faults"] else 0)
