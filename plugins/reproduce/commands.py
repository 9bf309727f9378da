"""`harness reproduce NAME`: one command for each figure and table of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness import hookimpl
from harness.hookspecs import Register
from harness.plugin_system.command_options import StoreDir, resumable


@hookimpl
def register_commands(register: Register) -> None:
    """Register `harness reproduce`."""
    register("reproduce", "harness_plugins.reproduce.commands:reproduce")


def reproduce(
    name: Annotated[str | None, typer.Argument(help="Which figure or table; without a name all are listed.")] = None,
    scale: Annotated[str, typer.Option(help="paper, or tiny: embedded models on a CPU, in minutes.")] = "paper",
    engine: Annotated[str | None, typer.Option(help="What samples the pools, e.g. vllm; default: each part's.")] = None,
    executor: Annotated[str | None, typer.Option(help="Where they are sampled, e.g. ray:engines=8.")] = None,
    max_cost: Annotated[
        float | None, typer.Option(metavar="MONEY", min=0, help="What GPT-4o mini may cost, which judges what is hard.")
    ] = None,
    store: StoreDir = Path("runs"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan: parts, prices, what to fetch.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Begin without asking.")] = False,
) -> None:
    """Make a figure or table of the paper: all its runs, the figure, and the paper's numbers beside yours."""
    from harness.columns.column import registry
    from harness.errors import NotBegun
    from harness.plugin_system.component import parse_spec
    from harness.system.console import put
    from harness.system.progress import Progress

    from . import paper_numbers, parts

    if name is None:
        return put("\n".join(f"{each:<17}{parts.plan()[each]['what']}" for each in parts.names()), hang=17)
    options = {"engine": engine, "executor": executor}
    for kind, value in options.items():
        if value:  # one line now, rather than one for each part
            registry(()).find(kind, parse_spec(value).name)
    given = {each: [f"--{each}", value] if value else [] for each, value in options.items()}
    work = parts.named(name, scale, store, given | ({} if max_cost is None else {"max-cost": [f"{max_cost:g}"]}))
    if dry_run:
        put(f"{work.name} at scale {scale}: {work.entry['what']}; {len(work.parts)} parts; results in {work.out}")
        for line in filter(None, (work.entry.get(each) for each in ("note", f"{scale}-hours"))):
            put(line)
        wanted = [f"  {source}{': here' * is_here}" for source, is_here in parts.to_fetch(work).items()]
        put("\n".join(["fetched where not here yet:", *(wanted or ["  nothing"])]))
        if line := parts.out_of_reach(work):
            put(line)
        before: set[str] = set()
        for command, lines in parts.previews(work):
            told = [f"{line[:40]}... (as above)" if line in before and len(line) > 80 else line for line in lines]
            put("\n".join([command, *(f"    {line}" for line in told)]), hang=4)
            before |= set(lines)
        return None
    progress, what = Progress(asks=not yes), f"reproduce {work.name} at scale {scale}"
    if not progress.allows(f"{what}: {len(work.parts)} parts (--dry-run lists them): begin?"):
        raise NotBegun(f"{what}: not begun: look at it with --dry-run, and add --yes to begin it unasked")
    if line := parts.out_of_reach(work):
        progress.say(line)
    with resumable():
        parts.carry_out(work, progress.say)
        undrawn = parts.draw(work, progress.say)
    put(paper_numbers.table(work))
    failures = [*(part for part in work.parts if part.status != 0), *undrawn]
    for part in failures:
        why = part.status if isinstance(part.status, str) else f"exit code {part.status}"
        progress.say(f"failed: {parts.part_text(work, part)}: {why}")
    if failures:
        raise typer.Exit(1)
    return None
