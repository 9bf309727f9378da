"""`harness pool push` and `harness pool pull`: write and read pools as datasets on the hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from harness import hookimpl
from harness.hookspecs import Register
from harness.plugin_system.command_options import Json, StoreDir, StoredKey, show


@hookimpl
def register_commands(register: Register) -> None:
    """Add both commands to the group `pool`."""
    register("pool push", "harness_plugins.hub.commands:push")
    register("pool pull", "harness_plugins.hub.commands:pull")


def push(
    key: StoredKey,
    repo: Annotated[
        str, typer.Argument(help="A dataset repository of the hub, OWNER/NAME, or a folder, ./NAME; made if not there.")
    ],
    private: Annotated[bool, typer.Option("--private", help="Make it private; refused where it is public.")] = False,
    licence: Annotated[str | None, typer.Option(help="Of the responses, as the hub writes it, e.g. cc-by-4.0.")] = None,
    prompts: Annotated[
        str | None, typer.Option(help="The licence of the problems' texts, which are then pushed too.")
    ] = None,
    vectors: Annotated[bool, typer.Option("--vectors", help="The vectors that the store has of them, too.")] = False,
    verdicts: Annotated[bool, typer.Option("--verdicts", help="The verdicts on them, too.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the pool and list the files; write nothing, ask no hub.")
    ] = False,
    store: StoreDir = Path("runs"),
    as_json: Json = False,
) -> None:
    """Write a pool of the store to the hub or a folder as a dataset, with a card and a hash of every file."""
    from harness.system.console import put

    from .transfer import is_folder, push_pool

    def line(made: dict[str, Any]) -> None:
        size = f"{made['bytes'] / 1e6:,.1f} MB in {', '.join(made['stages'])}"
        numbers = f"{made['responses']:,} responses to {made['problems']:,} problems, {size}"
        where = "a folder" if is_folder(repo) else "private" if made["private"] else "public"
        put(f"{repo} ({'dry run, nothing is written: ' * dry_run}{where}): pool {made['pool']}, {numbers}")

    kinds = ["responses"] + ["vectors"] * vectors + ["verdicts"] * verdicts
    show(push_pool(key, repo, store, kinds, licence, prompts, private, dry_run), as_json, line)


def pull(
    repo: Annotated[str, typer.Argument(help="A dataset repository of the hub that `pool push` wrote, OWNER/NAME.")],
    revision: Annotated[str | None, typer.Option(help="A branch, tag or commit; default: the newest.")] = None,
    no_verdicts: Annotated[
        bool, typer.Option("--no-verdicts", help="Do not pull its verdicts; the next run grades.")
    ] = False,
    store: StoreDir = Path("runs"),
    as_json: Json = False,
) -> None:
    """Bring a pool from the hub into the store under its key, every hash checked; `run` then samples nothing."""
    from harness.system.console import put

    from .transfer import pull_pool

    def line(made: dict[str, Any]) -> None:
        numbers = f"{made['responses']:,} responses to {made['problems']:,} problems, {made['new']:,} of them new here"
        put(f"pool {made['pool']}: {numbers}; {', '.join(made['stages'])} from {repo} at {made['commit'][:12]}")

    show(pull_pool(repo, store, revision, verdicts=not no_verdicts), as_json, line)
