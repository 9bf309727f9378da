"""`harness pool push` and `harness pool pull`: write and read pools as datasets on the hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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
    repo: Annotated[str, typer.Argument(help="A dataset repository of the hub, OWNER/NAME; made if it is not there.")],
    private: Annotated[bool, typer.Option("--private", help="Make it private; refused where it is public.")] = False,
    licence: Annotated[str | None, typer.Option(help="Of the responses, as the hub writes it, e.g. cc-by-4.0.")] = None,
    prompts: Annotated[
        str | None, typer.Option(help="The licence of the problems' texts, which are then pushed too.")
    ] = None,
    vectors: Annotated[bool, typer.Option("--vectors", help="The vectors that the store has of them, too.")] = False,
    verdicts: Annotated[bool, typer.Option("--verdicts", help="The verdicts on them, too.")] = False,
    store: StoreDir = Path("runs"),
    as_json: Json = False,
) -> None:
    """Write a pool of the store to the hub as a dataset, with a card and a hash of every file."""
    from harness.system.console import put
    from harness.system.progress import Progress

    from .transfer import Push, push_pool, pushed

    request = Push(key, repo, store, private, licence, prompts, vectors, verdicts)
    show(push_pool(request, Progress()), as_json, lambda made: put(pushed(made)))


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
    from harness.system.progress import Progress

    from .transfer import pull_pool, pulled

    made = pull_pool(repo, store, Progress(), revision, verdicts=not no_verdicts)
    show(made, as_json, lambda made: put(pulled(made)))
