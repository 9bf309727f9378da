"""Register `harness doctor`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness import hookimpl
from harness.errors import HarnessError
from harness.hookspecs import Register
from harness.plugin_system.command_options import Json, Plugin, show


@hookimpl
def register_commands(register: Register) -> None:
    """Register `harness doctor`."""
    register("doctor", "harness_plugins.doctor.commands:doctor")


def doctor(
    plugin: Plugin = None,
    store: Annotated[Path | None, typer.Option(help="Check every byte of this store's files, not the plugins.")] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="With --store: delete damaged files that a run makes again, rename others.")
    ] = False,
    rekey: Annotated[
        bool, typer.Option("--rekey", help="With --store: check files of an older version, and give them checksums.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Say what is wrong with the installed plugins, or with the files of a store; exit code 1 if anything is."""
    from harness.plugin_system import catalogue

    from .tables import diagnosis

    if store is not None:
        return _check_store(store, repair, rekey, as_json)
    if repair or rekey:
        raise HarnessError(f"doctor: --{'repair' if repair else 'rekey'} goes with --store DIR")
    report = catalogue.diagnosis(plugin or ())
    show(report, as_json, diagnosis)
    raise typer.Exit(1 if report["faults"] else 0)


def _check_store(store: Path, repair: bool, rekey: bool, as_json: bool) -> None:
    from harness.results import cells, stopping_times
    from harness.system.console import put
    from harness.system.progress import Progress

    from . import damage, rekeying

    records = {"cells": cells.read, stopping_times.FOLDER: stopping_times.read}
    damage.require_store(store, records)
    progress = Progress()
    adopted = rekeying.rekey(store, progress) if rekey else 0
    report = {**damage.diagnosis(store, records, progress, repair), "adopted": adopted}
    show(report, as_json, lambda report: put(damage.shown(report)))
    raise typer.Exit(1 if any(fault["left"] for fault in report["faults"]) else 0)
