"""Register `harness gpu-check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from harness import hookimpl
from harness.errors import HarnessError
from harness.hookspecs import Register
from harness.plugin_system.command_options import Json, resumable, show


@hookimpl
def register_commands(register: Register) -> None:
    """Register `harness gpu-check`."""
    register("gpu-check", "harness_plugins.gpu_check.commands:gpu_check")


def gpu_check(
    model: Annotated[str, typer.Option(help="What is sampled from: a name, folder or hub id.")] = "smollm2-135m",
    device: Annotated[Literal["cuda", "cpu"], typer.Option(help="cpu: all that can be tried without a GPU.")] = "cuda",
    out: Annotated[Path, typer.Option(help="The file to send in; one that is there is gone on with.")] = Path(
        "gpu-check.json"
    ),
    again: Annotated[bool, typer.Option("--again", help="Make failed checks again, too.")] = False,
    as_json: Json = False,
) -> None:
    """Try on a GPU what was only run on CPUs so far, and write one file to send in; exit code 1 if a check fails."""
    from harness.system.progress import Progress
    from harness_plugins.models.location import device_kind

    from . import report as reports
    from .checklist import CHECKS, limit_s, made

    if device == "cuda" and device_kind("auto") != "cuda":
        raise HarnessError("gpu-check: torch finds no CUDA GPU here; --device cpu tries what a CPU can do")
    report = reports.going_on(out, reports.begun(device, model), again)
    progress, files = Progress(), reports.folder_beside(out)
    left = [check for check in CHECKS if check.name not in report["checks"]]
    minutes = sum(limit_s(check, device) for check in left) / 60
    if left:
        usual = "made for ten minutes on a GPU, " if device == "cuda" else ""
        progress.say(f"gpu-check: {len(left)} of {len(CHECKS)} checks to make, {usual}{minutes:.0f} minutes at most")
    with resumable(f"finished checks are in {out}; the same command goes on"):
        for check in left:
            progress.say(f"{check.name} ... (at most {limit_s(check, device):.0f} s)")
            entry = made(check, report, model, files)
            done = report["checks"] | {check.name: entry}
            report["checks"] = {each.name: done[each.name] for each in CHECKS if each.name in done}
            reports.write(out, report)
            progress.say(f"{check.name}: {entry['outcome']} after {entry['seconds']:.0f} s")
    show(report, as_json, reports.shown)
    counts = reports.counts(report)
    progress.say(", ".join(f"{number} {outcome}" for outcome, number in counts.items()) + f"; logs are in {files}")
    progress.say(f"please attach {out} to an issue at {reports.address()}: it holds what is printed here, no more")
    raise typer.Exit(1 if counts["failed"] else 0)
