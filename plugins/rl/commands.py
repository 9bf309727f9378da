"""`harness rl train` and `harness rl eval`, and their options: every field with a `Help` is one."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from harness import hookimpl
from harness.errors import HarnessError
from harness.hookspecs import Register
from harness.plugin_system.command_options import Help, Json, Yes, resumable, show, takes

from .training import SPLITS

PLUGIN = Help("A plugin in a single file; repeatable.", ("--plugin",))
TRAINED = ("task", "bonus", "trainer", "seed", "steps", "best_step", "dev_pass_at_1", "hours", "folder")
REHEARSED = ("bonus", "seed", "step", "dev_pass_at_1", "there", "to_make", "model")


@dataclass(frozen=True, kw_only=True)
class TrainRequest:
    """The options of `harness rl train` except the seed: each seed makes one run.

    data       split ("train", "dev", "test") -> file; "" -> one file for all splits
    settings   fields of `training.Settings`, as text
    overrides  options of the trainer itself, key=value
    """

    task: Annotated[str, Help("What is trained on, e.g. math, gsm8k, dapo-aime, game24.")]
    bonus: Annotated[str, Help("repexp, unlikely or none; name:key=value,...")] = "repexp"
    preset: Annotated[str, Help("paper, or exploring: a bonus that acts in small groups (docs/rl.md).")] = "paper"
    trainer: Annotated[str, Help("verl or trl; name:key=value,...")] = "verl"
    model: Annotated[str | None, Help("Hub id or folder; default: the task's, else the paper's.")] = None
    data: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    limit: Annotated[int | None, Help("Only the first so many problems of each split.")] = None
    reward: Annotated[
        str | None, Help("strict (the answer in the form asked for; default on the paper's tasks) or lenient.")
    ] = None
    cpu: Annotated[bool, Help("Train without a GPU (small models).")] = False
    overrides: Sequence[str] = ()
    store: Annotated[Path, Help("Runs are folders in its rl/.")] = Path("runs")
    out: Annotated[Path | None, Help("The run's folder, instead of one in the store.")] = None
    plugin_files: Annotated[Sequence[Path], PLUGIN] = ()

    def __post_init__(self) -> None:
        unknown = set(self.data) - {"", *SPLITS}
        if unknown:
            raise HarnessError(f"rl: --data is FILE or SPLIT=FILE with a split of {', '.join(SPLITS)}, got {unknown}")
        if self.limit is not None and self.limit < 1:
            raise HarnessError(f"rl: --limit must be at least 1, got {self.limit}")
        if self.preset not in ("paper", "exploring"):
            raise HarnessError(f"rl: --preset must be paper or exploring, got {self.preset!r}")
        if self.reward not in (None, "strict", "lenient"):
            raise HarnessError(f"rl: --reward must be strict or lenient, got {self.reward!r}")
        for override in self.overrides:
            if "=" not in override:
                raise HarnessError(f"rl: the trainer's own options are written key=value, got {override!r}")


@dataclass(frozen=True, kw_only=True)
class EvalRequest:
    """The options of `harness rl eval`; `data` as in `TrainRequest`, empty: the runs' data."""

    folders: Sequence[Path]
    split: Annotated[str, Help("test or dev, as the task's `rl` names them.")] = "test"
    n: Annotated[int, Help("Responses a problem.", ("--n",))] = 256
    step: Annotated[int | None, Help("Of the checkpoint; default: the best by dev pass@1.")] = None
    base: Annotated[bool, Help("Evaluate the initial model too.")] = True
    likelihood: Annotated[bool, Help("Score one response a question under the initial model (anti-sharpening).")] = True
    limit: Annotated[int | None, Help("So many problems, evenly spaced over the split.")] = None
    max_tokens: Annotated[int | None, Help("Longest response; default: as in training.")] = None
    engine: Annotated[
        str | None, Help("What samples the responses; default: vllm where it and a GPU are, else transformers.")
    ] = None
    executor: Annotated[str, Help("Where engines and graders run: local, or ray, which uses all GPUs.")] = "local"
    trainer: Annotated[str | None, Help("The runs' trainer, where it had parameters; default: as run.json says.")] = (
        None
    )
    data: Mapping[str, str] = field(default_factory=dict)
    seed: Annotated[int, Help("Of the responses; the same for every policy.")] = 0
    store: Annotated[Path, Help("Runs are folders in its rl/.")] = Path("runs")
    out: Annotated[Path | None, Help("Where rl-eval.json goes; default: rl/ in the store.")] = None
    plugin_files: Annotated[Sequence[Path], PLUGIN] = ()

    def __post_init__(self) -> None:
        if self.split not in ("test", "dev"):
            raise HarnessError(f"rl eval: --split must be test or dev, got {self.split!r}")
        for name in ("n", "limit", "max_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise HarnessError(f"rl eval: --{name.replace('_', '-')} must be at least 1, got {value}")


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

    from . import training_run

    every, overrides = _seeds(seed, seeds, trainer_options or [])
    if given["out"] and len(every) > 1:
        raise HarnessError("rl train: --out is one run's folder: leave it out with several seeds")
    given |= {"data": _pairs("--data", data or [], bare=""), "settings": _pairs("--set", settings or [])}
    request = TrainRequest(**given, overrides=overrides)
    if dry_run:
        for place, one in enumerate(every):
            training_run.rehearse(request, one, len(every) - place)
        return
    progress, left = Progress(asks=not yes), len(every)
    rows, failures = [], dict[int, str]()
    with resumable("the trainer was stopped; the same command goes on from its last checkpoint"):
        for place, one in enumerate(every):
            try:
                rows.append(training_run.train(request, one, progress, left - place))
            except training_run.Failed as failure:  # of this seed alone
                if left == 1:
                    raise
                failures[one] = str(failure)
                progress.say(f"failed: seed {one}: {failure}")
    if rows or not failures:
        show(rows, as_json, _print_trained)
    for one, line in failures.items():
        print(f"failed: seed {one}: {line}", file=sys.stderr)
    if failures:
        raise typer.Exit(1)


@app.command("eval")
@takes(EvalRequest)
def evaluate(
    given: dict[str, Any],
    folders: Annotated[list[Path], typer.Argument(help="The folders of one or more runs of one task and model.")],
    data: Data = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print checkpoints, responses, disk and time; make nothing.")
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Measure pass@k of trained models, each run's checkpoint chosen by dev pass@1, and of the initial one."""
    from harness.system.progress import Progress

    from . import evaluation, figures

    request = EvalRequest(folders=folders, **given, data=_pairs("--data", data or [], bare=""))
    progress = Progress(asks=not yes)
    if dry_run:
        show(evaluation.rehearse(request, progress), as_json, _print_rehearsed)
        return
    with resumable(), progress.waiting("evaluating"):
        result = evaluation.evaluate(request, progress)
    show(evaluation.rows(result), as_json, figures.print_table)


def _print_trained(rows: Sequence[Mapping[str, Any]]) -> None:
    _print(rows, TRAINED)


def _print_rehearsed(rows: Sequence[Mapping[str, Any]]) -> None:
    _print(rows, REHEARSED)


def _print(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Print a table; the last column, a folder, is what a narrow terminal leaves out first."""
    from harness.system.console import Heading, console, put, word_table

    heads = [name.replace("_", " ").replace("pass at ", "pass@") for name in columns]
    headings = [Heading(head, kept=1 if head == heads[-1] else 9 - at) for at, head in enumerate(heads)]
    texts = {float: "{:.3f}".format, int: "{:,}".format, type(None): lambda _: "-"}
    cells = [[texts.get(type(row[name]), str)(row[name]) for name in columns] for row in rows]
    put(word_table(headings, cells, console().width)[0])


def _seeds(seed: int, seeds: str | None, arguments: list[str]) -> tuple[list[int], list[str]]:
    """Return the seeds and the trainer's arguments: `--seeds 1 2 3` leaves 2 and 3 among the arguments."""
    if seeds is None:
        return [seed], arguments
    texts = [*seeds.replace(",", " ").split(), *filter(str.isdecimal, arguments)]
    if not all(map(str.isdecimal, texts)):
        raise HarnessError(f"rl train: --seeds takes whole numbers, got {seeds!r}")
    numbers = [int(text) for text in texts]
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
