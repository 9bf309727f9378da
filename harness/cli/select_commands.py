"""`harness select`: choose which of your responses to verify next."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from harness.jobs.options import SelectConfig
from harness.plugin_system.command_options import Json, Yes, reserve_stdout, show, takes
from harness.system import output

from .app import app


@app.command()
@takes(SelectConfig)
def select(
    given: dict[str, Any],
    yes: Yes = False,
    as_json: Json = False,
    as_jsonl: Annotated[
        bool, typer.Option("--jsonl", help="Print JSON, one line a problem.", callback=reserve_stdout, is_eager=True)
    ] = False,
) -> None:
    """Choose which responses to verify next: k of each problem, without looking at any verdict."""
    from harness.jobs import selection
    from harness.system.progress import Progress

    from . import select_tables

    progress = Progress(asks=not yes)
    with progress.waiting("selecting"):
        chosen = selection.select(SelectConfig(**given), progress)
    if as_jsonl:
        for picks in chosen:
            output.write(json.dumps(picks.row(), ensure_ascii=False) + "\n")
    elif as_json:
        show([picks.row() for picks in chosen], as_json, print)
    else:
        select_tables.selection(chosen)
