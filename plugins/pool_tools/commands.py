"""`harness pool import|inspect|show|audit|hardest|export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from harness import hookimpl
from harness.hookspecs import Register
from harness.jobs.options import RunConfig
from harness.plugin_system.command_options import Json, Plugin, StoreDir, StoredKey, Yes, show, takes

PoolKey = Annotated[str, typer.Argument(help="A pool file, or the key of a pool in the store (its beginning will do).")]
Listed = Annotated[int, typer.Option(min=0, help="How many responses are printed.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="The JSONL file to write.")]
JOINED = ("task", "data", "split", "ids", "outcomes", "threshold", "skip_unreadable", "store", "plugin_files")

pool_app = typer.Typer(
    help="Pools of responses: bring in, look at, take out.", no_args_is_help=True, rich_markup_mode=None
)


@hookimpl
def register_commands(register: Register) -> None:
    """Register the group `harness pool`."""
    register("pool", "harness_plugins.pool_tools.commands:pool_app")


def _config(given: dict[str, Any], **fixed: Any) -> RunConfig:
    return RunConfig(selectors=("uniform",), **given, **fixed)


@pool_app.command("import")
@takes(RunConfig, *JOINED)
def import_pool(
    given: dict[str, Any],
    pool: Annotated[Path, typer.Argument(help="A pool file; docs/pools.md shows the layouts.")],
    as_json: Json = False,
) -> None:
    """Check a pool made elsewhere, join it to a task's problems and keep it in the store."""
    from . import pools

    show(pools.import_file(_config(given, pool=pool)), as_json, pools.put_summary)


@pool_app.command()
def inspect(pool: PoolKey, store: StoreDir = Path("runs"), plugin: Plugin = None, as_json: Json = False) -> None:
    """Show a pool's size: problems, responses, how many are distinct, lengths, and verdicts if it has any."""
    from . import pools

    show(pools.inspect(pool, store, plugin or ()), as_json, pools.put_inspected)


@pool_app.command("show")
def show_responses(
    pool: StoredKey,
    problem: Annotated[str | None, typer.Option(help="Only the problem with this id.")] = None,
    wrong: Annotated[bool, typer.Option("--wrong", help="Only wrong responses; joins with the next two.")] = False,
    correct: Annotated[bool, typer.Option("--correct", help="Only correct responses.")] = False,
    errors: Annotated[bool, typer.Option("--errors", help="Only responses that could not be graded.")] = False,
    listed: Listed = 20,
    full: Annotated[bool, typer.Option("--full", help="Print whole responses, not four lines.")] = False,
    store: StoreDir = Path("runs"),
    as_json: Json = False,
) -> None:
    """Show responses with their verdicts and the answers that the grader read."""
    from . import pools

    chosen = [name for name, is_chosen in (("wrong", wrong), ("correct", correct), ("error", errors)) if is_chosen]
    show(pools.show(pool, store, problem, chosen), as_json, lambda value: pools.put_responses(value, listed, full))


@pool_app.command()
@takes(RunConfig, *JOINED, "unsafe_exec")
def audit(given: dict[str, Any], pool: PoolKey, listed: Listed = 20, yes: Yes = False, as_json: Json = False) -> None:
    """Where the task's two graders disagree, what ran into a limit, what could not be parsed."""
    from harness.system.progress import Progress

    from . import pools

    config = _config(given, pool=Path(pool), regrade=True, audit=True)
    show(pools.audit(config, Progress(asks=not yes)), as_json, lambda value: pools.put_audit(value, listed))


@pool_app.command()
@takes(RunConfig, *JOINED, "unsafe_exec")
def hardest(
    given: dict[str, Any],
    pool: PoolKey,
    out: Out,
    count: Annotated[int, typer.Option(min=1, help="How many problems; the paper takes 200.")] = 200,
    as_json: Json = False,
) -> None:
    """Write which problems a reference model's pool solves least often, but not never; `run --only` takes the file."""
    from . import pools

    show(pools.hardest(_config(given, pool=Path(pool)), count, out), as_json, pools.put_summary)


@pool_app.command()
def export(key: StoredKey, out: Out, store: StoreDir = Path("runs")) -> None:
    """Write a pool of the store as JSONL, with its verdicts where it has been graded; `run --pool` takes it."""
    from . import pools

    print(pools.export(key, out, store))
