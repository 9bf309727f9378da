"""`harness rl train` and `harness rl eval`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from harness import hookimpl
from harness.errors import HarnessError
from harness.hookspecs import Register
from harness.plugin_system.command_options import Json, Yes, resumable, takes

from .requests import EvalRequest, TrainRequest

app = typer.Typer(
    help="RL with a bonus: train a model in an environment of the trainer's own, and measure its pass@k.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Data = Annotated[
    list[str] | None,
    typer.Option("--data", help="A local file with the task's problems, or SPLIT=FILE (train, dev, test); repeatable."),
]


@hookimpl
def register_commands(register: Register) -> None:
    """Register `harness rl`."""
    register("rl", "harness_plugins.rl.commands:app")


@app.command()
@takes(TrainRequest)
def train(
    given: dict[str, Any],
    trainer_options: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="The trainer's own options, as it writes them.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Fixes data order, responses and projections.")] = 0,
    seeds: Annotated[str | None, typer.Option(help="Several runs, one after the other: --seeds 1 2 3.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="One of the run's settings, e.g. steps=100; repeatable.")
    ] = None,
    data: Data = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check all, print what would start; leave nothing.")
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Train a model by GRPO with a bonus on its rewards; the same command again goes on where it stopped."""
    from harness.system.progress import Progress

    from . import tables, training_run

    every, overrides = _seeds(seed, seeds, trainer_options or [])
    if given["out"] and len(every) > 1:
        raise HarnessError("rl train: --out is one run's folder: leave it out with several seeds")
    given |= {"data": _pairs("--data", data or [], bare=""), "settings": _pairs("--set", settings or [])}
    request = TrainRequest(**given, overrides=overrides)
    if dry_run:
        for each_seed in every:
            prepared = training_run.rehearse(request, each_seed)
            tables.launch(prepared)
            if prepared.fault:
                raise prepared.fault
        return
    progress = Progress(asks=not yes)
    with resumable("the trainer was stopped; the same command goes on from its last checkpoint"):
        rows = [
            training_run.train(request, each_seed, progress, len(every) - place)
            for place, each_seed in enumerate(every)
        ]
    tables.trained(rows, as_json)


@app.command("eval")
@takes(EvalRequest)
def evaluate(
    given: dict[str, Any],
    folders: Annotated[list[Path], typer.Argument(help="The folders of one or more runs of one task and model.")],
    data: Data = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Measure pass@k of trained models, each run's checkpoint chosen by dev pass@1, and of the initial one."""
    from harness.system.progress import Progress

    from . import evaluation, tables

    request = EvalRequest(folders=folders, **given, data=_pairs("--data", data or [], bare=""))
    progress = Progress(asks=not yes)
    with resumable(), progress.waiting("evaluating"):
        result = evaluation.evaluate(request, progress)
    tables.evaluated(evaluation.rows(result), as_json)


def _seeds(seed: int, seeds: str | None, arguments: list[str]) -> tuple[list[int], list[str]]:
    """Return the seeds and the trainer's arguments: `--seeds 1 2 3` leaves 2 and 3 among the arguments."""
    if seeds is None:
        return [seed], arguments
    texts = [*seeds.replace(",", " ").split(), *(argument for argument in arguments if argument.isdecimal())]
    try:
        numbers = [int(text) for text in texts]
    except ValueError:
        raise HarnessError(f"rl train: --seeds takes whole numbers, got {seeds!r}") from None
    if len(set(numbers)) < len(numbers):
        raise HarnessError(f"rl train: a seed is given twice: {' '.join(texts)}")
    return numbers, [argument for argument in arguments if not argument.isdecimal()]


def _pairs(option: str, given: list[str], bare: str | None = None) -> dict[str, str]:
    """Return KEY=VALUE texts as a dict; a text without "=" gets the key `bare`, or is an error if `bare` is None."""
    pairs: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals and bare is None:
            raise HarnessError(f"rl: {option} is written KEY=VALUE, got {text!r}")
        key, value = (key, value) if equals else (bare or "", text)
        if key in pairs:
            raise HarnessError(f"rl: {option} {key or text} is given twice")
        pairs[key] = value
    return pairs
