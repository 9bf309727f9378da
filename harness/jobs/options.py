"""The options of `harness run` and `harness select`, as records that the command line or a caller makes.

Every field is an option of `harness run` or `harness select`; its help stands beside it. None: the default. `checked`
and `completed` make such records from plain values: from Python, a study file or a cell.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from harness.errors import HarnessError, did_you_mean
from harness.plugin_system.command_options import Help, fields_of, option_names
from harness.plugin_system.component import ENGINE, filled, names_in
from harness.scoring import MOST_CORRECT
from harness.system.files import MAX_VECTORS_GB
from harness.system.json_text import storable


def refuse(faults: Mapping[str, Any], who: str = "") -> None:
    """HarnessError for the first fault that holds. `who`: how it begins."""
    for fault, holds in faults.items():
        if holds:
            raise HarnessError(f"{who}{fault}")


def _is_amount(value: float | None) -> bool:
    """Whether it is above 0 and finite, or not given."""
    return value is None or 0 < value < float("inf")


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Where problems, responses and vectors come from. Components are specs: `name` or `name:key=value,...`."""

    task: Annotated[str | None, Help("The task to solve, e.g. game24.")] = None
    model: Annotated[str | None, Help("Hub id, folder, GGUF file or embedded model; default: the task's.")] = None
    engine: Annotated[
        str, Help("The engine that runs the model; default: the task's, else transformers.", filled=True)
    ] = ENGINE
    embedder: Annotated[str | None, Help("Default hidden-mean; tfidf for a pool without model.")] = None
    scorer: Annotated[str | None, Help("Gives each response a score for selectors: reward-model:model=FOLDER.")] = None
    pool: Annotated[Path | None, Help("A file of responses, in any layout of docs/pools.md.")] = None
    embeddings: Annotated[Path | None, Help("Your own vectors of --pool's responses (.npz, .npy, .csv, ...).")] = None
    max_vectors_gb: Annotated[float, Help("Memory that one array of --embeddings may take.")] = MAX_VECTORS_GB
    data: Annotated[Path | None, Help("A local file with the task's problems.")] = None
    split: Annotated[str | None, Help("Default: the task's test set.")] = None
    outcomes: Annotated[
        Sequence[str],
        Help("Of a --pool of molecules: a column that says which are active; repeatable.", ("--outcome",)),
    ] = ()
    threshold: Annotated[float | None, Help("With --outcome: a value of at least this is correct.")] = None
    skip_unreadable: Annotated[bool, Help("Leave out molecules of --pool that RDKit cannot read.")] = False
    ids: Annotated[Path | None, Help("A table (JSONL, CSV) that says which problem a pool's line answers.")] = None
    seed: Annotated[int, Help("Fixes responses, projection and rankings.")] = 0
    dim: Annotated[int, Help("Wider vectors are projected to this number of features.")] = 512
    unit: Annotated[bool, Help("Divide each vector by its length before centring: directions count, not sizes.")] = (
        False
    )
    store: Annotated[Path, Help("Where pools, vectors, verdicts, rankings and cells are kept.")] = Path("runs")
    plugin_files: Annotated[
        Sequence[Path], Help("A plugin in a single file, e.g. ./my_selector.py; repeatable.", ("--plugin",))
    ] = ()

    def __post_init__(self) -> None:
        gb = self.max_vectors_gb
        refuse({f"--max-vectors-gb must be above 0 and finite, got {gb:g}": not _is_amount(gb)})


@dataclass(frozen=True, kw_only=True)
class RunConfig(Sources):
    """The options of `harness run`."""

    selectors: Annotated[Sequence[str], Help("name or name:key=value,...; repeatable.", ("--selector",))] = ()
    sampler: Annotated[str | None, Help("Decoding, e.g. min-p:p=0.1; default vanilla.")] = None
    grid: Annotated[str | None, Help("Cross what is compared, e.g. selector=*,embedder=hidden-mean+tfidf.")] = None
    n: Annotated[int | None, Help("Responses per problem.", ("--n",))] = None
    limit: Annotated[int | None, Help("Only the first problems, this many.")] = None
    only: Annotated[Path | None, Help("Only the problems that this file names (`pool hardest` writes such files).")] = (
        None
    )
    max_tokens: Annotated[int | None, Help("Longest response, in tokens.")] = None
    trials: Annotated[int, Help("Rankings per problem and selector, averaged.")] = 5
    correct: Annotated[int, Help("Count the samples to this correct response: 1 the first, 10 the tenth.")] = 1
    enrichment: Annotated[
        bool, Help("Also count the hits among the first k, and the enrichment factor at 1 and 5 % of a pool.")
    ] = False
    paper: Annotated[bool, Help("The paper's pool settings (large).")] = False
    regrade: Annotated[bool, Help("Grade a pool again that already carries verdicts.")] = False
    audit: Annotated[bool, Help("Also ask the task's second, stricter grader.")] = False
    until_correct: Annotated[
        bool, Help("No pool: verify each response when it is sampled; stop a problem at its first correct one.")
    ] = False
    max_cost: Annotated[
        float | None, Help("Stop before a pool costs more, all runs together, by the engine's prices.", metavar="MONEY")
    ] = None
    max_tokens_total: Annotated[
        int | None, Help("Stop before a pool takes more tokens from an API, prompts included.")
    ] = None
    unsafe_exec: Annotated[bool, Help("Run responses' code without a sandbox where this machine offers none.")] = False
    executor: Annotated[str, Help("Where the work runs: local, ray:address=HOST:PORT.")] = "local"
    rank_timeout: Annotated[
        float | None, Help("Fail a selector that takes longer for a problem's pool; default: none.", metavar="SECONDS")
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        names = ("n", "limit", "max_tokens", "max_tokens_total", "trials", "correct", "dim")
        low = next((name for name in names if (value := getattr(self, name)) is not None and value < 1), "")
        timeout, cost = self.rank_timeout, self.max_cost
        refuse(
            {
                f"--{low.replace('_', '-')} must be at least 1, got {getattr(self, low, '')}": low,
                f"--correct must be at most {MOST_CORRECT}, got {self.correct}": self.correct > MOST_CORRECT,
                f"--rank-timeout must be a number of seconds > 0, got {timeout or 0:g}": not _is_amount(timeout),
                f"--max-cost must be an amount > 0, got {cost or 0:g}": not _is_amount(cost),
                f"--seed must not be negative, got {self.seed}": self.seed < 0,
            }
        )
        pooled = {name: getattr(self, name) for name in ("grid", "pool", "embedder", "scorer", "audit", "enrichment")}
        pooled = {"selector": self.selectors, **pooled, "correct": self.correct > 1}
        clash = next((name for name, given in pooled.items() if self.until_correct and given), "")
        asks = self.selectors or self.grid or self.until_correct
        sources = self.task or self.pool or re.search(r"(^|,)\s*task=", self.grid or "")
        several = next((names for names in map(names_in, self.selectors) if len(names) > 1), [])
        of_pools = self.of_layouts
        faults = {
            f"--until-correct takes no --{clash}: responses are verified in the order they are sampled": clash,
            f"a comma separates a selector's parameters: write --selector {' --selector '.join(several)}": several,
            "say which selectors to compare, e.g. --selector repexp --selector uniform": not asks,
            f"a selector is given twice: {', '.join(self.selectors)}": len({*self.selectors}) < len(self.selectors),
            "say what to run, e.g. --task game24, or --pool FILE with verdicts of its own": not sources,
            "--embeddings goes with --pool: vectors of responses that exist already": self.embeddings and not self.pool,
            "--ids goes with --pool: it maps a pool's lines to the task's problems": self.ids and not self.pool,
            "give --embeddings or --embedder, not both": self.embeddings and self.embedder,
            f"--{next(iter(of_pools), '')} goes with --pool: it says how molecules are read": of_pools
            and not self.pool,
            "--threshold goes with --outcome NAME: whose values?": "threshold" in of_pools and not self.outcomes,
            f"--threshold must be finite, got {self.threshold}": not math.isfinite(self.threshold or 0),
            f"{self.charges} goes with sampling, and --pool brings its responses": self.charges and self.pool,
        }
        refuse(faults, "run: ")

    @property
    def of_layouts(self) -> dict[str, Any]:
        """By name, those of the options that only some layouts of pool files take that are given."""
        every = {"outcome": self.outcomes, "threshold": self.threshold, "skip_unreadable": self.skip_unreadable}
        return {name: value for name, value in every.items() if value not in ((), None, False)}

    @property
    def charges(self) -> str:
        """The first of the given options that concern money and caps; "" if none is given."""
        given = {"--max-cost": self.max_cost, "--max-tokens-total": self.max_tokens_total}
        return next((option for option, value in given.items() if value), "")


@dataclass(frozen=True, kw_only=True)
class SelectConfig(Sources):
    """The options of `harness select`; those that `harness run` also has mean the same.

    command  the name with which messages begin
    """

    command: ClassVar[str] = "select"

    selector: Annotated[str, Help("name or name:key=value,...")]
    k: Annotated[int, Help("How many responses to choose for each problem.", ("-k",))]
    engine: Annotated[str, Help("The engine that runs the model.")] = ENGINE
    verified: Annotated[
        Path | None, Help('Responses verified before, JSONL: {"problem_id": ..., "indices": [...]}.')
    ] = None
    centre: Annotated[bool, Help("Subtract each problem's mean vector.", ("--centre/--no-centre",))] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        names, vectors = names_in(self.selector), self.embeddings
        other = "--embedder" if self.embedder else "--model"
        of_texts = ("embedder", "scorer", "model", "task", "ids", "outcomes", "skip_unreadable")
        alone = next((name for name in of_texts if getattr(self, name) and not self.pool), "")
        is_vague = self.command == "select" and self.threshold is not None and not self.outcomes
        faults = {
            f"one selector chooses, got {len(names)}: --selector {' or --selector '.join(names)}": len(names) > 1,
            f"-k must be at least 1, got {self.k}": self.k < 1,
            "say what to select from: --pool FILE, or --embeddings FILE alone": not self.pool and not vectors,
            f"give --embeddings or {other}, not both": vectors and (self.embedder or self.model),
            f"--{OPTION.get(alone, '').replace('_', '-')} goes with --pool: vectors alone have no texts": alone,
            "--threshold goes with --outcome NAME: whose values?": is_vague,
        }
        refuse(faults, f"{self.command}: ")

    @property
    def at_least(self) -> int:
        """How many responses each problem must have left."""
        return self.k

    @property
    def run_config(self) -> RunConfig:
        """The `RunConfig` with this selector and all shared options; without --pool, --embeddings is its pool.

        Outcomes are not read: without --outcome all of a file's molecules are candidates, tested or not.
        """
        shared = {name: getattr(self, name) for name in Sources.__dataclass_fields__}
        shared |= {"outcomes": self.outcomes or ("",), "threshold": self.threshold if self.outcomes else None}
        return RunConfig(**shared | {"selectors": (self.selector,), "pool": self.pool or self.embeddings})


BESIDE = {"preset": str | None}  # the option of `harness run` that is no field of its config


def checked(record: type, given: Mapping[str, Any], who: str, names: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return field -> value, of the type that the field declares; a text will do for a path, and for a list of one.

    record  a dataclass of options
    given   name -> value
    who     how messages begin
    names   name -> field; None: the names are the fields'

    HarnessError, in one line, for a name that is no option, and for a value of another type.
    """
    hints = BESIDE | typing.get_type_hints(record)
    names = names or {field.name: field.name for field in dataclasses.fields(record)}
    unknown = next((name for name in given if name not in names), None)
    if unknown is not None:
        raise HarnessError(f"{who}: no option {unknown!r} {did_you_mean(unknown, names, 'options')}")
    return {names[name]: _checked(f"{who}: {name}", value, hints[names[name]]) for name, value in given.items()}


NAMED: dict[Any, str] = {
    int: "a valid integer",
    float: "a valid number",
    bool: "a valid boolean",
    str: "a valid string",
}
NAMED[Path] = "the path of a file"


def _checked(who: str, value: Any, hint: Any) -> Any:
    """The value as the hint says, X, X | None or Sequence[X]; HarnessError for another type."""
    choices, is_list = typing.get_args(hint) or (hint,), typing.get_origin(hint) is Sequence
    if value is None and type(None) in choices:
        return None
    given = value if is_list and isinstance(value, (list, tuple)) else [value]
    made = [_of_type(each, choices[0]) for each in given]
    if None in made:
        raise HarnessError(f"{who} must be {NAMED[choices[0]]}, got {value!r:.60}")
    return tuple(made) if is_list else made[0]


def _of_type(value: Any, kind: Any) -> Any:
    """A value, of numpy or not, as one of this type; None if it is of another."""
    if getattr(value, "ndim", None) == 0:  # of numpy, which is not imported here: it takes half of what `--help` has
        value = value.item()
    takes = {float: (float, int), str: (str, os.PathLike), Path: (str, os.PathLike)}.get(kind, kind)
    if not isinstance(value, takes) or (kind is not bool and isinstance(value, bool)):
        return None
    with suppress(OverflowError):  # an integer that no float can hold
        return kind(os.fspath(value) if isinstance(value, os.PathLike) else value)


def completed(options: Mapping[str, Any]) -> RunConfig:
    """The config of checked options, with those that are absent from the preset, the task's defaults, and `RunConfig`.

    HarnessError if the config cannot be carried out.
    """
    return RunConfig(**fields_of(RunConfig, filled({**DEFAULTS, "preset": None, **options})))


DEFAULTS = {field.name: field.default for field in dataclasses.fields(RunConfig)} | {"engine": None}  # the task's
OPTION = option_names(RunConfig)  # field -> option, with underscores
FIELD = {option: name for name, option in OPTION.items()} | {name: name for name in (*BESIDE, "selectors")}
UNRECORDED = ("store", "executor", "max_cost", "max_tokens_total")


def merged(path: Path | None, given: Mapping[str, Any], is_given: Callable[[str], bool]) -> dict[str, Any]:
    """The options of the study at `path` (None: no study), replaced by those of `given` that `is_given` names."""
    from .study import read_study

    options = read_study(path) if path else {}
    return {**given, **{name: value for name, value in options.items() if not is_given(name)}}


def of_study(path: Path | None, options: Mapping[str, Any]) -> RunConfig:
    """The config of complete options; if it cannot be carried out, the error names the study that they come from."""
    try:
        return RunConfig(**fields_of(RunConfig, options))
    except HarnessError as failure:
        raise HarnessError(f"study {path}: {failure}" if path else str(failure)) from None


def recorded(config: RunConfig, selector: str) -> dict[str, Any]:
    """The options by which a cell's run can be repeated, as JSON values; those that are as the default are left out.

    Not `store`, which holds the cell, nor `executor`, nor what may be spent: a cell is the same bytes wherever and with
    whatever means it was made.
    """
    values = {name: getattr(config, name) for name in OPTION if name not in UNRECORDED} | {"selectors": (selector,)}
    changed = {OPTION[name]: value for name, value in values.items() if value != DEFAULTS[name]}
    plain: dict[str, Any] = json.loads(storable(json.dumps(changed, ensure_ascii=False, default=str)))
    return plain
