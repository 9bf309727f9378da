"""`harness doctor`: what is wrong with the installed plugins, or with the files of a store."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from harness import hookimpl
from harness.hookspecs import Register
from harness.plugin_system.command_options import Json, Plugin, show
from harness.plugin_system.registry import plural


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
    from harness.system.console import put
    from harness.system.progress import Progress

    from . import damage

    report = catalogue.diagnosis(plugin or ()) if store is None else damage.diagnosis(store, Progress())
    show(report, as_json, lambda report: put((of_plugins if store is None else of_files)(report)))
    raise typer.Exit(1 if report["faults"] else 0)


def of_plugins(report: Mapping[str, Any]) -> str:
    """Return a report of `catalogue.diagnosis` as text: what is installed, what can be graded here, what is wrong."""
    counts = [f"{count} {kind if count == 1 else plural(kind)}" for kind, count in report["registered"].items()]
    tasks: dict[str, list[str]] = {}
    for task, remark in report["graders"].items():
        tasks.setdefault(remark, []).append(task)
    lines = ["installed: " + ", ".join(counts)]
    for title, entries in (("grading on this machine:", tasks), ("lacking on this machine:", report["lacking"])):
        lines += ["", title] if entries else []
        lines += [f"  {', '.join(names)}: {remark}" for remark, names in entries.items()]
    for fault in report["faults"]:
        lines += ["", fault["fault"], *filter(None, [fault["trace"].rstrip()])]
    faults = len(report["faults"])
    return "\n".join([*lines, "", f"faults of plugins: {faults}" if faults else "no plugin has a fault"])


def of_files(report: Mapping[str, Any]) -> str:
    """Return a report of `damage.diagnosis` as text: one line for each fault, then the counts."""
    lines = [f"{fault['path']} {fault['fault']}: {fault['cure']}" for fault in report["faults"]]
    return "\n".join([*lines, f"{report['files']:,} files of {report['store']}: {len(lines):,} faults"])
