"""The command line. Each command parses, builds one config, calls one function, prints one table.

Nothing heavy is imported before a command runs: `harness --help` answers at once.
"""

from __future__ import annotations

import io
import json
import os
import sys
import traceback
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from harness import __version__
from harness.errors import Escaped, HarnessError, one_line, said
from harness.plugin_system import patience
from harness.rl_commands import Json, reserve_stdout, rl_app
from harness.store.overlay import overlay
from harness.system import output

if TYPE_CHECKING:
    from harness.running.config import RunConfig

app = typer.Typer(
    help="Which of many cheap responses to verify first: a benchmark harness for diversity selectors.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
)
pool_app = typer.Typer(
    help="Pools of responses: bring in, look at, take out.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(pool_app, name="pool")
results_app = typer.Typer(
    help="Published cells: copy them out, check them.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(results_app, name="results")
app.add_typer(rl_app, name="rl")

Plugin = Annotated[
    list[Path] | None, typer.Option("--plugin", help="A plugin in a single file, e.g. ./my_selector.py; repeatable.")
]
StoreDir = Annotated[Path, typer.Option("--store", help="Where pools, vectors, verdicts, rankings and cells are kept.")]
Ids = Annotated[
    Path | None, typer.Option("--ids", help="A table (JSONL, CSV) that says which problem a pool's line answers.")
]
MaxVectors = Annotated[float, typer.Option("--max-vectors-gb", help="Memory that one array of --embeddings may take.")]
UnsafeExec = Annotated[
    bool, typer.Option("--unsafe-exec", help="Run responses' code unconfined where nothing here can confine it.")
]
Task = Annotated[str | None, typer.Option(help="The task whose problems it answers.")]
Split = Annotated[str | None, typer.Option(help="Default: the task's test set.")]
PoolKey = Annotated[str, typer.Argument(help="A pool file, or the key of a pool in the store (its beginning will do).")]
StoredKey = Annotated[str, typer.Argument(help="The key of a pool in the store (its beginning will do).")]
Yes = Annotated[bool, typer.Option("--yes", help="Begin what takes an hour or more without asking.")]
Data = Annotated[Path | None, typer.Option("--data", help="A local file with the task's problems.")]


def main() -> None:
    """Run the command line; a HarnessError is one line on stderr and exit code 2."""
    for stream in (sys.stdout, sys.stderr):  # half a surrogate pair in a text is shown, and is no traceback
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except HarnessError as failure:
        print(f"error: {failure}", file=sys.stderr)
        sys.exit(2)
    except OSError as failure:  # a path that cannot be used, wherever it was tried
        if failure.filename is None:
            raise
        print(f"error: {one_line(f'{failure.strerror}: {failure.filename}')}", file=sys.stderr)
        sys.exit(2)
    except Escaped as failure:
        _end_in_one_line(failure)
    except SystemExit as failure:
        if not _is_ours(failure):
            _end_in_one_line(failure)
        raise
    finally:
        output.end()


def _is_ours(stop: SystemExit) -> bool:
    """Whether the command line itself ended the process, and not a plugin: typer does so when a command has returned.

    Where it was raised does not tell: wandb puts a function of its own in the place of `sys.exit`.
    """
    _, *deeper = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(stop.__traceback__)]
    return not any(name.partition(".")[0] == "harness" for name in deeper)


def _end_in_one_line(failure: BaseException) -> NoReturn:
    print(f"error: a plugin ended the command: it {said(failure)}", file=sys.stderr)
    sys.exit(2)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    import_timeout: Annotated[
        float | None,
        typer.Option(
            min=0.0, metavar="SECONDS", help="Leave a plugin out whose import takes longer.", show_default=False
        ),
    ] = None,
) -> None:
    if import_timeout is not None:
        os.environ[patience.IMPORT_LIMIT] = str(import_timeout)
    if version:
        print(f"diversity-harness {__version__}")
        raise typer.Exit


@app.command()
def run(
    selector: Annotated[list[str] | None, typer.Option(help="name or name:key=value,...; repeatable.")] = None,
    task: Annotated[str | None, typer.Option(help="What is solved, e.g. game24.")] = None,
    model: Annotated[str | None, typer.Option(help="Hub id, folder or embedded model; default: the task's.")] = None,
    engine: Annotated[
        str | None, typer.Option(help="What draws the responses; default: the task's, transformers.")
    ] = None,
    sampler: Annotated[str | None, typer.Option(help="Decoding, e.g. min-p:p=0.1; default vanilla.")] = None,
    embedder: Annotated[str | None, typer.Option(help="Default hidden-mean; tfidf for a pool without model.")] = None,
    pool: Annotated[Path | None, typer.Option(help="Responses made elsewhere, instead of sampling.")] = None,
    embeddings: Annotated[
        Path | None, typer.Option(help="With --pool: vectors of one's own (.npz, .safetensors).")
    ] = None,
    max_vectors_gb: MaxVectors = 4.0,
    data: Data = None,
    split: Split = None,
    grid: Annotated[
        str | None, typer.Option(help="Cross what is compared, e.g. selector=*,embedder=hidden-mean+tfidf.")
    ] = None,
    n: Annotated[int | None, typer.Option("--n", help="Responses a problem.")] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first so many problems.")] = None,
    only: Annotated[
        Path | None, typer.Option(help="Only the problems that this file names; `pool hardest` writes such files.")
    ] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Longest response, in tokens.")] = None,
    trials: Annotated[int, typer.Option(help="Rankings a problem and selector, averaged.")] = 5,
    seed: Annotated[int, typer.Option(help="Fixes responses, projection and rankings.")] = 0,
    dim: Annotated[int, typer.Option(help="Wider vectors are projected to so many features.")] = 512,
    preset: Annotated[
        str | None, typer.Option(help="A task's named settings, e.g. quick; what is given stays.")
    ] = None,
    paper: Annotated[bool, typer.Option("--paper", help="The paper's pool settings (large).")] = False,
    ids: Ids = None,
    regrade: Annotated[bool, typer.Option("--regrade", help="Grade a pool that carries verdicts anew.")] = False,
    adopt: Annotated[
        list[str] | None, typer.Option(help="An older version's pool to take over, by key; none: sample anew.")
    ] = None,
    audit: Annotated[bool, typer.Option("--audit", help="Ask the task's second, stricter grader too.")] = False,
    until_correct: Annotated[
        bool, typer.Option("--until-correct", help="No pool: verify as drawn, stop a problem at its first correct one.")
    ] = False,
    unsafe_exec: UnsafeExec = False,
    executor: Annotated[str, typer.Option(help="Where the work is done: local, ray:address=HOST:PORT.")] = "local",
    rank_timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Fail a selector that ranks a problem's pool longer; default: none."),
    ] = None,
    store: StoreDir = Path("runs"),
    plugin: Plugin = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be made, and what is there; make nothing.")
    ] = False,
    gpu: Annotated[
        str, typer.Option(help="With --paper --dry-run: what is priced where no model is here to be timed.")
    ] = "h100",
    yes: Yes = False,
    track: Annotated[
        list[str] | None, typer.Option("--track", help="trackio, wandb:project=x,mode=offline, ...; repeatable.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Sample, embed, verify, rank, score: who needs fewer verifier calls?"""
    from harness.plugin_system import presets
    from harness.running import grid as grids
    from harness.running import pipeline
    from harness.system.progress import Progress

    from . import tables, tracked

    options = presets.filled(locals(), plugin or ())
    if until_correct:
        if track:
            raise HarnessError("run: --until-correct takes no --track: trackers follow pools")
        return _until_correct(_config(options, selectors=tuple(selector or ())), dry_run, yes, as_json)
    if paper and dry_run and not (options["selector"] or grid or pool):
        return _paper_costs(options)
    config = _config(options, selectors=tuple(options["selector"] or ()))
    job, progress = grids if grid else pipeline, Progress(asks=not yes)
    if dry_run:
        with overlay(config.store) as scratch:
            return _print(job.dry_run(replace(config, store=scratch), progress), as_json, tables.preview)
    try:
        with tracked.tracking(track or (), config, progress) as tracking:
            rows, failures = job.run(config, progress, tracking.row)
            _print(rows, as_json, lambda rows: tables.results(rows, store))
            tracking.scored(rows)
    except KeyboardInterrupt:
        print("interrupted: what is finished is kept; run the same command again to go on", file=sys.stderr)
        raise typer.Exit(130) from None
    for failure in failures.values():
        print(f"failed: {failure}", file=sys.stderr)
    raise typer.Exit(1 if failures or tracking.faults else 0)


def _until_correct(config: RunConfig, dry_run: bool, yes: bool, as_json: bool) -> None:
    from harness.running import until_correct as sequential
    from harness.system.progress import Progress

    from . import tables

    progress = Progress(asks=not yes)
    if dry_run:
        with overlay(config.store) as scratch:
            return _print(sequential.dry_run(replace(config, store=scratch), progress), as_json, tables.preview)
    try:
        _print([sequential.run(config, progress)], as_json, tables.sequences)
    except KeyboardInterrupt:
        print("interrupted: what is finished is kept; run the same command again to go on", file=sys.stderr)
        raise typer.Exit(130) from None


@app.command()
def select(
    selector: Annotated[str, typer.Option(help="name or name:key=value,...")],
    k: Annotated[int, typer.Option("-k", help="How many responses to choose of each problem.")],
    pool: Annotated[Path | None, typer.Option(help="Your responses; any layout that `run --pool` takes.")] = None,
    embeddings: Annotated[
        Path | None, typer.Option(help="Your vectors (.npz, .safetensors); alone, their rows are the responses.")
    ] = None,
    embedder: Annotated[str | None, typer.Option(help="Default tfidf; hidden-mean with --model.")] = None,
    model: Annotated[str | None, typer.Option(help="Whose hidden states are the vectors: hub id or folder.")] = None,
    engine: Annotated[str, typer.Option(help="What runs the model.")] = "transformers",
    verified: Annotated[
        Path | None, typer.Option(help='What is verified already, JSONL: {"problem_id": ..., "indices": [...]}.')
    ] = None,
    task: Task = None,
    data: Data = None,
    split: Split = None,
    ids: Ids = None,
    seed: Annotated[int, typer.Option(help="Fixes the projection and what a selector draws.")] = 0,
    dim: Annotated[int, typer.Option(help="Wider vectors are projected to so many features.")] = 512,
    max_vectors_gb: MaxVectors = 4.0,
    no_centre: Annotated[bool, typer.Option("--no-centre", help="Keep each problem's mean vector.")] = False,
    store: StoreDir = Path("runs"),
    plugin: Plugin = None,
    yes: Yes = False,
    as_json: Json = False,
    as_jsonl: Annotated[
        bool, typer.Option("--jsonl", help="Print JSON, one line a problem.", callback=reserve_stdout, is_eager=True)
    ] = False,
) -> None:
    """Which responses to verify next: k of each problem, without looking at any verdict."""
    from harness.running import selection
    from harness.system.progress import Progress

    from . import tables

    given = {name: value for name, value in locals().items() if name in selection.Request.__dataclass_fields__}
    request = selection.Request(**given, centre=not no_centre, plugin_files=tuple(plugin or ()))
    chosen = selection.select(request, Progress(asks=not yes))
    if as_jsonl:
        for one in chosen:
            output.write(json.dumps(one.row(), ensure_ascii=False) + "\n")
    elif as_json:
        _print([one.row() for one in chosen], as_json, None)
    else:
        tables.selection(chosen)


@app.command()
def report(
    store: StoreDir = Path("runs"),
    cell: Annotated[
        list[str] | None, typer.Option(help="A cell's key, or its beginning; repeatable. Default: the last run's.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Default: report.html in the store.")] = None,
    plugin: Plugin = None,
) -> None:
    """One HTML file that shows a run: table, pass@k curves, and what each selector picks, response by response."""
    from harness.report import write_report
    from harness.system.progress import Progress

    print(write_report(store, cell or (), out, plugin or (), Progress()))


@app.command("list")
def list_plugins(
    kind: Annotated[str | None, typer.Argument(help="tasks, samplers, engines, embedders, selectors, ...")] = None,
    plugin: Plugin = None,
    as_json: Json = False,
) -> None:
    """What is installed, one line each, and where it came from."""
    from harness.plugin_system import catalogue

    from . import tables

    _print(catalogue.listing(kind, plugin or ()), as_json, tables.listing)


@app.command()
def show(
    kind: Annotated[str, typer.Argument(help="task, sampler, engine, embedder, selector or executor")],
    name: Annotated[str, typer.Argument(help="its name, or dist/name")],
    example: Annotated[bool, typer.Option("--example", help="A task's exact first prompt.")] = False,
    data: Data = None,
    plugin: Plugin = None,
    as_json: Json = False,
) -> None:
    """One component: what it does, its parameters, its origin."""
    from harness.plugin_system import catalogue

    from . import tables

    if example:
        return _print(catalogue.example(kind, name, data, plugin or ()), as_json, tables.example)
    _print(catalogue.details(kind, name, plugin or ()), as_json, tables.details)


@app.command()
def doctor(
    plugin: Plugin = None,
    store: Annotated[Path | None, typer.Option(help="Check this store's files instead, every byte of them.")] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="With --store: delete what is made again, set aside what cost money.")
    ] = False,
    rekey: Annotated[
        bool, typer.Option("--rekey", help="With --store: check and adopt what an older version wrote.")
    ] = False,
    as_json: Json = False,
) -> None:
    """What is wrong with the installed plugins, or with a store, if anything; exit code 1 if so."""
    from harness.plugin_system import catalogue

    from . import tables

    if store is not None:
        return _check_store(store, repair, rekey, as_json)
    if repair or rekey:
        raise HarnessError(f"doctor: --{'repair' if repair else 'rekey'} goes with --store DIR")
    report = catalogue.diagnosis(plugin or ())
    _print(report, as_json, tables.diagnosis)
    raise typer.Exit(1 if report["faults"] else 0)


def _check_store(store: Path, repair: bool, rekey: bool, as_json: bool) -> None:
    from harness.system.progress import Progress
    from harness.upkeep import damage, rekeying

    damage.require_store(store)
    progress = Progress()
    adopted = rekeying.rekey(store, progress) if rekey else 0
    report = {**damage.diagnosis(store, progress, repair), "adopted": adopted}
    _print(report, as_json, lambda report: print(damage.shown(report)))
    raise typer.Exit(1 if any(fault["left"] for fault in report["faults"]) else 0)


@app.command()
def new(
    kind: Annotated[str, typer.Argument(help="selector, task, embedder or sampler")],
    name: Annotated[str, typer.Argument(help="lower-case words joined by '-', e.g. my-novelty")],
    into: Annotated[Path, typer.Option(help="The folder in which harness-NAME/ is made.")] = Path(),
    as_json: Json = False,
) -> None:
    """Start a plugin of your own: a small package that installs, runs and passes its own tests."""
    from harness.plugin_system import scaffold

    _print(scaffold.new_package(kind, name, into), as_json, lambda made: print(scaffold.shown(made)))


@app.command()
def check(
    kind: Annotated[str, typer.Argument(help="selector, task, sampler, embedder or engine")],
    name: Annotated[str, typer.Argument(help="name or name:key=value,...; '*' for all of the kind")],
    data: Data = None,
    model: Annotated[str | None, typer.Option(help="What an engine is tried on; default: an embedded model.")] = None,
    plugin: Plugin = None,
    as_json: Json = False,
) -> None:
    """Whether a component does all that the harness expects of its kind; exit code 1 if not."""
    from harness import testing

    from . import tables

    found = testing.check_registered(kind, name, data=data, model=model, plugin_files=plugin or ())
    _print(found, as_json, tables.findings)
    raise typer.Exit(1 if any(row["outcome"] == "failed" for row in found) else 0)


@app.command()
def leaderboard(
    folder: Annotated[list[Path] | None, typer.Argument(help="Where cells are, and below; default results/.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where the tables go; default: the first folder, of STORE/cells STORE.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the paths of the tables, not the tables.")] = False,
    as_json: Json = False,
) -> None:
    """Tables of all cells in some folders: printed, and written as leaderboard.md, .csv and .json."""
    from harness.results import leaderboard as boards

    from . import tables

    folders = folder or [Path("results")]
    found = boards.gather(folders)
    into = boards.place(folders[0], out)
    if into is None:
        print(f"not written: {folders[0]} holds cells: say where the tables go, e.g. --out out", file=sys.stderr)
    for fault in found.faults:
        print(f"not counted: {fault}", file=sys.stderr)
    made = boards.boards(found)
    written = boards.write(into, found, made) if into else []
    if as_json:
        output.write(boards.as_json(made))
    else:
        tables.leaderboard([] if quiet else made, written)


@app.command()
def plot(
    name: Annotated[str | None, typer.Argument(help="Which figure; --list names them.")] = None,
    folder: Annotated[list[Path] | None, typer.Argument(help="Where cells are, and below; default results/.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="A folder; default: plots/ in the store.")] = None,
    selector: Annotated[str | None, typer.Option(help="Default repexp; of passk: all.")] = None,
    embedder: Annotated[str | None, typer.Option(help="Default hidden-mean, where there are several.")] = None,
    task: Annotated[str | None, typer.Option(help="Only its cells.")] = None,
    model: Annotated[str | None, typer.Option(help="Only its cells.")] = None,
    sampler: Annotated[str | None, typer.Option(help="Only its cells.")] = None,
    reference: Annotated[
        Path | None, typer.Option(help="Of hardness, guided: a cell or folder that says what is hard.")
    ] = None,
    k: Annotated[int | None, typer.Option("-k", help="Of likelihoods: how many picks; default n / 8.")] = None,
    store: StoreDir = Path("runs"),
    plugin: Plugin = None,
    listed: Annotated[bool, typer.Option("--list", help="Name the figures, and draw none.")] = False,
    as_json: Json = False,
) -> None:
    """One of the paper's figures from any cells, as PDF and PNG, with the data drawn as CSV."""
    from harness import plots
    from harness.system.progress import Progress

    if listed or name is None:
        return _print(plots.listing(), as_json, lambda rows: print("\n".join(map("{name:<16}{what}".format_map, rows))))
    options = {key: value for key, value in locals().items() if key in plots.Request.__dataclass_fields__}
    folders = tuple(folder or [Path("results")])
    request = plots.Request(**options, folders=folders, plugin_files=tuple(plugin or ()), say=Progress().say)
    _print([str(path) for path in plots.write(request, out)], as_json, lambda paths: print("\n".join(paths)))


@app.command()
def compare(
    first: Annotated[str, typer.Argument(help="A cell: its file, or how its key begins.")],
    second: Annotated[str, typer.Argument(help="Another.")],
    folder: Annotated[
        list[Path] | None, typer.Option("--in", help="Where cells are; default results/ and STORE/cells; repeatable.")
    ] = None,
    store: StoreDir = Path("runs"),
    as_json: Json = False,
) -> None:
    """Two cells on the same problems: the paired difference, its interval and test, and the problems that flipped."""
    from harness.results import comparison

    from . import tables

    folders = folder or [Path("results"), store / "cells"]
    _print(comparison.compare((first, second), folders), as_json, tables.comparison)


@results_app.command("publish")
def results_publish(
    keys: Annotated[
        list[str] | None, typer.Argument(help="Cells by key (its beginning will do); default: all.")
    ] = None,
    to: Annotated[Path, typer.Option("--to", help="Where published cells are.")] = Path("results"),
    store: StoreDir = Path("runs"),
    plugin: Plugin = None,
    as_json: Json = False,
) -> None:
    """Copy cells from the store to results/, and try their selectors by the conformance kit."""
    from harness.results import publishing

    from . import tables

    _print(publishing.publish(keys or (), store, to, plugin or ()), as_json, tables.published)


@results_app.command("validate")
def results_validate(
    folder: Annotated[list[Path] | None, typer.Argument(help="Where cells are, and below; default results/.")] = None,
    as_json: Json = False,
) -> None:
    """Name every file that is no cell, or none that can be trusted; exit code 1 if there is one."""
    from harness.results import publishing

    faults = publishing.validate(folder or [Path("results")])
    _print(faults, as_json, lambda faults: print("\n".join(faults) or "all cells can be counted"))
    raise typer.Exit(1 if faults else 0)


@pool_app.command("import")
def pool_import(
    pool: Annotated[Path, typer.Argument(help="A pool file; docs/pools.md shows the layouts.")],
    task: Task = None,
    data: Data = None,
    split: Split = None,
    ids: Ids = None,
    store: StoreDir = Path("runs"),
    plugin: Plugin = None,
    as_json: Json = False,
) -> None:
    """Check a pool made elsewhere, join it to a task's problems and keep it in the store."""
    from harness.running import pool_jobs
    from harness.system.progress import Progress

    from . import tables

    config = _config(locals())
    _print(pool_jobs.import_file(config, Progress()), as_json, tables.pool_summary)


@pool_app.command("inspect")
def pool_inspect(
    pool: PoolKey,
    store: StoreDir = Path("runs"),
    as_json: Json = False,
) -> None:
    """How many problems and responses, how many distinct, how long, how many correct."""
    from harness.running import pool_jobs

    from . import tables

    _print(pool_jobs.inspect(pool, store), as_json, tables.pool_summary)


@pool_app.command("audit")
def pool_audit(
    pool: PoolKey,
    task: Task = None,
    data: Data = None,
    split: Split = None,
    ids: Ids = None,
    listed: Annotated[int, typer.Option(min=0, help="How many of the responses that need a look are printed.")] = 20,
    unsafe_exec: UnsafeExec = False,
    store: StoreDir = Path("runs"),
    plugin: Plugin = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Where the task's two graders disagree, what ran into a limit, what could not be parsed."""
    from harness.running import pool_jobs
    from harness.system.progress import Progress

    from . import tables

    config = _config(locals(), pool=Path(pool), regrade=True, audit=True)
    found = pool_jobs.audit(config, Progress(asks=not yes))
    _print(found, as_json, lambda found: tables.audit(found, listed))


@pool_app.command("hardest")
def pool_hardest(
    pool: PoolKey,
    out: Annotated[Path, typer.Option("--out", "-o", help="The JSONL file to write; `run --only` takes it.")],
    count: Annotated[int, typer.Option(help="How many problems; the paper takes 200.")] = 200,
    task: Task = None,
    data: Data = None,
    split: Split = None,
    ids: Ids = None,
    unsafe_exec: UnsafeExec = False,
    store: StoreDir = Path("runs"),
    plugin: Plugin = None,
    as_json: Json = False,
) -> None:
    """Write which problems a reference model's pool solves least often, those that it never solves left out."""
    from harness.running import pool_jobs
    from harness.system.progress import Progress

    from . import tables

    config = _config(locals(), pool=Path(pool))
    _print(pool_jobs.hardest(config, count, out, Progress()), as_json, tables.pool_summary)


@pool_app.command("export")
def pool_export(
    key: StoredKey,
    out: Annotated[Path, typer.Option("--out", "-o", help="The JSONL file to write.")],
    store: StoreDir = Path("runs"),
) -> None:
    """Write a pool of the store as JSONL, with its verdicts where it has been graded; `run --pool` takes it."""
    from harness.running import pool_jobs

    print(pool_jobs.export(key, out, store))


@pool_app.command("push")
def pool_push(
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
    from harness import pool_push
    from harness.system.progress import Progress

    asked = pool_push.Push(key, repo, store, private, licence, prompts, vectors, verdicts)
    _print(pool_push.push(asked, Progress()), as_json, lambda made: print(pool_push.pushed(made)))


@pool_app.command("pull")
def pool_pull(
    repo: Annotated[str, typer.Argument(help="A dataset repository of the hub that `pool push` wrote, OWNER/NAME.")],
    revision: Annotated[str | None, typer.Option(help="A branch, tag or commit; default: the newest.")] = None,
    no_verdicts: Annotated[
        bool, typer.Option("--no-verdicts", help="Leave its verdicts there, and grade here.")
    ] = False,
    store: StoreDir = Path("runs"),
    as_json: Json = False,
) -> None:
    """Bring a pool from the hub into the store under its key, every hash checked; `run` then samples nothing."""
    from harness import pool_pull
    from harness.system.progress import Progress

    made = pool_pull.pull(repo, store, Progress(), revision, verdicts=not no_verdicts)
    _print(made, as_json, lambda made: print(pool_pull.pulled(made)))


def _paper_costs(given: dict[str, Any]) -> None:
    """`harness run --paper --dry-run` without selectors: what the paper's table costs."""
    from harness import cost
    from harness.system.progress import Progress

    from . import tables

    unused = [f"--{name}" for name in ("sampler", "embedder", "split", "embeddings", "ids") if given[name]]
    if unused:
        raise HarnessError(
            f"run: --paper --dry-run without --selector prices the paper's own rows, and takes no {unused[0]}"
        )
    options = {name: value for name, value in given.items() if name in cost.Request.__dataclass_fields__}
    request = cost.Request(**options, plugin_files=tuple(given["plugin"] or ()))
    _print(cost.table(request, Progress()), given["as_json"], tables.costs)


def _config(given: dict[str, Any], **fixed: Any) -> RunConfig:
    """The run that a command's options `given` (its `locals()`) describe, with what the command itself lays down."""
    from harness.running.config import RunConfig

    options = {name: value for name, value in given.items() if name in RunConfig.__dataclass_fields__}
    return RunConfig(**{"selectors": ("uniform",)} | options | fixed, plugin_files=tuple(given["plugin"] or ()))


def _print(value: Any, as_json: bool, table: Any) -> None:
    if as_json:
        output.write(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    else:
        table(value)


if __name__ == "__main__":
    main()
