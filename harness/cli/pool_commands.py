"""`harness pool import|inspect|audit|hardest|export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from harness.plugin_system.options import Json, StoreDir, StoredKey, Yes, show, takes
from harness.running.config import RunConfig

from .app import GROUPS

PoolKey = Annotated[str, typer.Argument(help="A pool file, or the key of a pool in the store (its beginning will do).")]
JOINED = ("task", "data", "split", "ids", "store", "plugin_files")

pool_app = GROUPS["pool"]


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
    from harness.running import pool_jobs
    from harness.system.progress import Progress

    from . import pool_tables

    show(pool_jobs.import_file(_config(given, pool=pool), Progress()), as_json, pool_tables.summary)


@pool_app.command()
def inspect(pool: PoolKey, store: StoreDir = Path("runs"), as_json: Json = False) -> None:
    """How many problems and responses, how many distinct, how long, how many correct."""
    from harness.running import pool_jobs

    from . import pool_tables

    show(pool_jobs.inspect(pool, store), as_json, pool_tables.summary)


@pool_app.command()
@takes(RunConfig, *JOINED, "unsafe_exec")
def audit(
    given: dict[str, Any],
    pool: PoolKey,
    listed: Annotated[int, typer.Option(min=0, help="How many of the responses that need a look are printed.")] = 20,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Where the task's two graders disagree, what ran into a limit, what could not be parsed."""
    from harness.running import pool_jobs
    from harness.system.progress import Progress

    from . import pool_tables

    config = _config(given, pool=Path(pool), regrade=True, audit=True)
    found = pool_jobs.audit(config, Progress(asks=not yes))
    show(found, as_json, lambda found: pool_tables.audit(found, listed))


@pool_app.command()
@takes(RunConfig, *JOINED, "unsafe_exec")
def hardest(
    given: dict[str, Any],
    pool: PoolKey,
    out: Annotated[Path, typer.Option("--out", "-o", help="The JSONL file to write; `run --only` takes it.")],
    count: Annotated[int, typer.Option(help="How many problems; the paper takes 200.")] = 200,
    as_json: Json = False,
) -> None:
    """Write which problems a reference model's pool solves least often, those that it never solves left out."""
    from harness.running import pool_jobs
    from harness.system.progress import Progress

    from . import pool_tables

    made = pool_jobs.hardest(_config(given, pool=Path(pool)), count, out, Progress())
    show(made, as_json, pool_tables.summary)


@pool_app.command()
def export(
    key: StoredKey,
    out: Annotated[Path, typer.Option("--out", "-o", help="The JSONL file to write.")],
    store: StoreDir = Path("runs"),
) -> None:
    """Write a pool of the store as JSONL, with its verdicts where it has been graded; `run --pool` takes it."""
    from harness.running import pool_jobs

    print(pool_jobs.export(key, out, store))
