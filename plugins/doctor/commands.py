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

SOURCES = ("responses", "sequences")
READ = ("responses", "vectors", "scores", "verdicts")  # fields of a column that are no part of its key
AGAIN, AWAY = "delete it; the next run makes it again", "move it away"


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

    report = catalogue.diagnosis(plugin or ()) if store is None else damage(store)
    show(report, as_json, lambda report: put((of_plugins if store is None else of_files)(report)))
    raise typer.Exit(1 if report["faults"] else 0)


def damage(root: Path) -> dict[str, Any]:
    """Check every file of a store that a table could be made from: `store`, the number of `files`, and the `faults`.

    A fault is a dict of path, kind (the column's, or "cells", "memo", ...), what the fault is, and the cure: what a run
    makes again from what is sound may be deleted; responses, sequences and cells are better moved away.
    """
    from harness.columns.store import Damaged, Memo, Store, read_bytes
    from harness.errors import HarnessError
    from harness.results import cells, stopping_times
    from harness.system.files import read_regular
    from harness.system.json_text import digest, read
    from harness.system.progress import Progress

    def lines(path: Path) -> None:
        if damaged := Memo(path).damaged:
            raise HarnessError(f"holds {damaged} damaged line{'s' * (damaged > 1)}, which count as missing")

    def settings(path: Path) -> None:
        made = read(path, "store")
        own = {name: value for name, value in made.items() if name not in READ} if isinstance(made, dict) else None
        if digest(own, 12) != path.parent.name.rpartition(".")[2]:
            raise Damaged(path)

    def index(path: Path) -> None:
        try:
            whole = digest(read_regular(path).decode(), 16) == path.name.split(".")[2]
        except (OSError, ValueError):
            whole = False
        if not whole:
            raise Damaged(path)

    if not (root / "store.json").exists():
        raise HarnessError(f"doctor: {root} is no store of `harness run`: no store.json is in it")
    checks = (
        ("cells/*.json", "cells", cells.read, AWAY),
        (f"{stopping_times.FOLDER}/*.json", stopping_times.FOLDER, stopping_times.read, AWAY),
        ("memo/*/*", "memo", lines, AGAIN),
        ("*/problems.jsonl", "problems", lines, AGAIN),
        ("*/pool.json", "pool", settings, AGAIN),
        ("*/*/column.json", "column", settings, AGAIN),
        ("*/weights.json", "weights", lambda path: read(path, "store"), AWAY),
        ("*/index.*", "index", index, AGAIN),
        ("*/*.*/*.*.*.*", "", read_bytes, AGAIN),
    )
    faults = []
    with Store(root).used():
        found = [(path, kind, check, cure) for pattern, kind, check, cure in checks for path in root.glob(pattern)]
        files = [entry for entry in found if entry[0].name[0] != "." and not entry[0].is_relative_to(root / "rl")]
        files.sort(key=lambda entry: entry[0])
        with Progress().stage("check", len(files), "files") as shown:
            for path, kind, check, cure in files:
                kind = kind or path.parent.name.partition(".")[0]
                if kind in SOURCES and cure == AGAIN:
                    imported = any(path.parents[1].glob("index.*.json"))
                    then = "the pool file is then imported" if imported else "its problem is then sampled"
                    cure = f"{AWAY}; {then} again"
                try:
                    check(path)
                except HarnessError as failure:
                    fault = "is damaged" if isinstance(failure, Damaged) else str(failure)
                    faults.append({"path": str(path), "kind": kind, "fault": fault, "cure": cure})
                shown.advance()
    return {"store": str(root), "files": len(files), "faults": faults}


def of_plugins(report: Mapping[str, Any]) -> str:
    """A report of `catalogue.diagnosis` as text: what is installed, what can be graded here, what is wrong."""
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
    """A report of `damage` as text: one line for each fault, then the counts."""
    lines = [f"{fault['path']} {fault['fault']}: {fault['cure']}" for fault in report["faults"]]
    return "\n".join([*lines, f"{report['files']:,} files of {report['store']}: {len(lines):,} faults"])
