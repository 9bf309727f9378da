"""`harness rl train` and `harness rl eval`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from .errors import HarnessError
from .system import output

rl_app = typer.Typer(
    help="RL with a bonus: train a model in an environment of the trainer's own, and measure its pass@k.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Data = Annotated[
    list[str] | None,
    typer.Option("--data", help="A local file with the task's problems, or SPLIT=FILE (train, dev, test); repeatable."),
]
StoreDir = Annotated[Path, typer.Option("--store", help="Runs are folders in its rl/.")]
Plugin = Annotated[list[Path] | None, typer.Option("--plugin", help="A plugin in a single file; repeatable.")]
Yes = Annotated[bool, typer.Option("--yes", help="Begin what takes an hour or more without asking.")]


def reserve_stdout(context: typer.Context, value: bool) -> bool:
    """With --json nothing but the JSON reaches stdout, whatever plugins print until the command ends."""
    if value:
        context.with_resource(output.reserved())
    return value


Json = Annotated[
    bool, typer.Option("--json", help="Print JSON instead of a table.", callback=reserve_stdout, is_eager=True)
]


@rl_app.command()
def train(
    task: Annotated[str, typer.Option(help="What is trained on, e.g. math, gsm8k, dapo-aime, game24.")],
    rest: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="The trainer's own options, as it writes them.")
    ] = None,
    bonus: Annotated[str, typer.Option(help="repexp, unlikely or none; name:key=value,...")] = "repexp",
    trainer: Annotated[str, typer.Option(help="verl or trl; name:key=value,...")] = "verl",
    model: Annotated[str | None, typer.Option(help="Hub id or folder; default: the task's, else the paper's.")] = None,
    reward: Annotated[
        str | None,
        typer.Option(help="strict (the answer in the form asked for; default on the paper's tasks) or lenient."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Fixes data order, responses and projections.")] = 0,
    seeds: Annotated[str | None, typer.Option(help="Several runs, one after the other: --seeds 1 2 3.")] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="One of the run's settings, e.g. steps=100; repeatable.")
    ] = None,
    data: Data = None,
    limit: Annotated[int | None, typer.Option(help="Only the first so many problems of each split.")] = None,
    cpu: Annotated[bool, typer.Option("--cpu", help="Train without a GPU (small models).")] = False,
    store: StoreDir = Path("runs"),
    out: Annotated[Path | None, typer.Option(help="The run's folder, instead of one in the store.")] = None,
    plugin: Plugin = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check all, print what would start; leave nothing.")
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Train a model by GRPO with a bonus on its rewards; the same command again goes on where it stopped."""
    from harness.system.progress import Progress

    from . import rl, rl_tables

    all_seeds, overrides = _seeds(seed, seeds, rest or [])
    if out and len(all_seeds) > 1:
        raise HarnessError("rl train: --out is one run's folder: leave it out with several seeds")
    request = rl.Request(
        task=task,
        bonus=bonus,
        trainer=trainer,
        model=model,
        data=_pairs("--data", data or [], bare=""),
        settings=_pairs("--set", setting or []),
        reward=reward,
        limit=limit,
        cpu=cpu,
        overrides=overrides,
        store=store,
        out=out,
        plugin_files=tuple(plugin or ()),
    )
    if dry_run:
        for one in all_seeds:
            prepared = rl.rehearse(request, one)
            rl_tables.launch(prepared)
            if prepared.fault:
                raise prepared.fault
        return
    try:
        progress = Progress(asks=not yes)
        rows = [rl.train(request, one, progress, len(all_seeds) - place) for place, one in enumerate(all_seeds)]
    except KeyboardInterrupt:
        print(
            "interrupted: the trainer was stopped; the same command goes on from its last checkpoint", file=sys.stderr
        )
        raise typer.Exit(130) from None
    rl_tables.trained(rows, as_json)


@rl_app.command("eval")
def evaluate(
    folders: Annotated[list[Path], typer.Argument(help="The folders of one or more runs of one task and model.")],
    split: Annotated[str, typer.Option(help="test or dev.")] = "test",
    n: Annotated[int, typer.Option("--n", help="Responses a problem.")] = 256,
    step: Annotated[int | None, typer.Option(help="Of the checkpoint; default: the best by dev pass@1.")] = None,
    base: Annotated[bool, typer.Option(help="Evaluate the initial model too.")] = True,
    likelihood: Annotated[
        bool, typer.Option(help="Score one response a question under the initial model (anti-sharpening).")
    ] = True,
    limit: Annotated[int | None, typer.Option(help="So many problems, evenly spaced.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Longest response; default: as in training.")] = None,
    engine: Annotated[str, typer.Option(help="What draws the responses.")] = "transformers",
    data: Data = None,
    seed: Annotated[int, typer.Option(help="Of the responses; the same for every policy.")] = 0,
    store: StoreDir = Path("runs"),
    out: Annotated[Path | None, typer.Option(help="Where rl-eval.json goes; default: rl/ in the store.")] = None,
    plugin: Plugin = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Measure pass@k of trained models, each run's checkpoint chosen by dev pass@1, and of the initial one."""
    from harness.system.progress import Progress

    from . import rl_eval, rl_tables

    given = {name: value for name, value in locals().items() if name in rl_eval.Request.__dataclass_fields__}
    given |= {"data": _pairs("--data", data or [], bare=""), "plugin_files": tuple(plugin or ())}
    try:
        found = rl_eval.evaluate(rl_eval.Request(**given), Progress(asks=not yes))
    except KeyboardInterrupt:
        print("interrupted: what is finished is kept; run the same command again to go on", file=sys.stderr)
        raise typer.Exit(130) from None
    rl_tables.evaluated(rl_eval.rows(found), as_json)


def _seeds(seed: int, seeds: str | None, rest: list[str]) -> tuple[list[int], list[str]]:
    """The seeds, and what is left for the trainer: `--seeds 1 2 3` leaves 2 and 3 among the arguments."""
    if seeds is None:
        return [seed], rest
    texts = [*seeds.replace(",", " ").split(), *(word for word in rest if word.isdecimal())]
    try:
        found = [int(text) for text in texts]
    except ValueError:
        raise HarnessError(f"rl train: --seeds takes whole numbers, got {seeds!r}") from None
    if len(set(found)) < len(found):
        raise HarnessError(f"rl train: a seed is given twice: {' '.join(texts)}")
    return found, [word for word in rest if not word.isdecimal()]


def _pairs(option: str, given: list[str], bare: str | None = None) -> dict[str, str]:
    """KEY=VALUE texts as a dict; one without "=" goes under `bare`, where that is allowed."""
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
