"""`harness rl train`: write a run's folder, start its trainer as a child process, and follow its progress.

A run's folder holds all its files: run.json, the problems of each split, the trainer's configuration, log.txt,
metrics.jsonl and checkpoints/. Repeating the command resumes from the last complete checkpoint.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import platform
import shlex
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_type_hints

import psutil

from harness.errors import HarnessError
from harness.jobs.price import Outlook, require_consent
from harness.plugin_system.component import Spec, build, graded_as_the_paper, parse_spec
from harness.plugin_system.registry import load_registry
from harness.system.children import run_child
from harness.system.json_text import digest
from harness.system.progress import Progress, Stage

from . import preflight
from .checkpoints import best_step
from .commands import TrainRequest
from .training import (
    SPLITS,
    Chats,
    Launch,
    Settings,
    Trainer,
    TrainingRun,
    converted,
    hours_spent,
    read_metrics,
    read_run,
    write_problems,
    write_run,
)

EPOCHS = 1000  # the authors' limit, which no run reaches: theirs end after a day
SAY_EVERY_S = 10.0
ENDING_S = 60.0  # time for the children of a killed process to end
DEFAULT_MODEL = "Qwen/Qwen2.5-7B-Instruct"  # the paper's

# What the preset `exploring` sets where the user does not: this project's choice of what lets RepExp's bonus act
# (docs/rl.md), chosen on dev puzzles of game24 (docs/log.md). The preset `paper` adds nothing.
EXPLORING: Mapping[str, Mapping[str, Any]] = {"repexp": {"dim": 4, "spread": 0.5}}

REWARDED = {  # a run's reward -> the line that says so
    "strict": "reward: strict, the second grader of {}; --reward lenient takes its verifier",
    "lenient": "reward: lenient, the verifier of {}; --reward strict takes its second grader",
    "verifier": "reward: the verifier of {}, its only grader",
}


class Failed(HarnessError):
    """The training of one seed failed; others are not concerned."""


@dataclass(frozen=True)
class Prepared:
    """A run in its folder and the command to start; `fault` says why this machine cannot run it, if so."""

    run: TrainingRun
    launch: Launch
    remarks: Sequence[str]
    fault: HarnessError | None = None


def prepare(request: TrainRequest, seed: int) -> Prepared:
    """Write the run's folder and make all cheap checks, without starting the trainer; return the prepared run.

    HarnessError, one line, for a wrong request. If the trainer's own check fails on this machine, nothing is raised:
    the error is the result's `fault`.
    """
    return _written(*_planned(request, seed))


def _written(run: TrainingRun, chats: Mapping[str, Chats], trainer: Trainer) -> Prepared:
    given = run.settings
    steps = given.steps or EPOCHS * (len(chats["train"]) // given.batch)
    problems = {split: run.folder / f"{split}.jsonl" for split in chats}
    run = replace(run, problems=problems, settings=replace(given, steps=steps))
    run.folder.mkdir(parents=True, exist_ok=True)
    for split, path in run.problems.items():
        write_problems(path, chats[split])
    write_run(run)
    remarks, fault = [REWARDED[run.reward].format(run.task)], None
    a_step = given.batch * given.rollouts
    size = f"{steps:,} steps of {a_step:,} responses ({steps * a_step:,} in all)"
    remarks.append(f"length: at most {size}" + (f", and {given.hours:g} hours" if given.hours else ""))
    try:
        remarks += trainer.check(run)
        if given.steps is None and given.hours is None:
            raise HarnessError(
                f"rl train: neither hours nor steps are given, and {EPOCHS:,} epochs are {size}: "
                "--set hours=24 ends after a day, as the paper does, --set steps=N after N steps"
            )
    except HarnessError as failure:
        fault = failure
    return Prepared(run, trainer.launch(run), remarks, fault)


def rehearse(request: TrainRequest, seed: int, runs: int = 1) -> None:
    """Print the configuration, remarks and the command (`--dry-run`); HarnessError if this machine cannot run it.

    The run is prepared in a temporary folder; the texts name the real one.

    runs  as of `train`
    """
    run, chats, trainer = _planned(request, seed)
    with tempfile.TemporaryDirectory(prefix="harness-rl-") as scratch:
        rehearsed = Path(scratch) / run.folder.name
        prepared = _written(replace(run, folder=rehearsed), chats, trainer)

    def placed(text: object) -> str:
        return str(text).replace(str(rehearsed), str(run.folder))

    launch, fault = prepared.launch, prepared.fault
    real = replace(prepared.run, folder=run.folder)
    remarks = [*map(placed, prepared.remarks)]
    try:
        remarks += _disk(real, trainer, runs)
    except HarnessError as failure:
        remarks.append(str(failure))
        fault = fault or failure
    work = str(outlook(real, _last_step(real.metrics), hours_spent(real.folder))) or "none"
    words = [f"{name}={shlex.quote(placed(value))}" for name, value in launch.environment.items()]
    words += [shlex.quote(placed(word)) for word in launch.command]
    remarks += [f"time: {work}", f"folder: {run.folder}", " ".join(words)]
    print("\n".join([placed(launch.config).rstrip(), *(f"# {remark}" for remark in remarks)]))
    if fault:
        raise HarnessError(placed(fault))


def train(request: TrainRequest, seed: int, progress: Progress, runs: int = 1) -> dict[str, Any]:
    """Train or resume a run, and return a dict with its result; the run's folder is locked meanwhile.

    A new run that is refused leaves no folder.

    The dict has the run's options, steps (done), checkpoints (their number), best_step, dev_pass_at_1 (of that step),
    hours (of this call) and folder.

    runs  the number of trainings that the command still has to do, this one included: the user consents to all at once
    """
    run, chats, trainer = _planned(request, seed, runs)
    with locked(run.folder) as lock:
        is_new = [path.name for path in run.folder.iterdir()] == ["lock"]
        try:
            prepared = _written(run, chats, trainer)
            run, launch = prepared.run, prepared.launch
            if prepared.fault:
                raise prepared.fault
            for remark in prepared.remarks:
                progress.say(remark)
            done, spent, most = _last_step(run.metrics), hours_spent(run.folder), run.settings.hours
            if run.settings.steps is not None and done >= run.settings.steps:
                progress.say(f"seed {seed}: all {done} steps are done; --set steps=N goes on")
                return _row(run, trainer, 0.0)
            if most is not None and spent >= most:
                progress.say(f"seed {seed}: its {most:g} hours were over after step {done}; --set hours=H goes on")
                return _row(run, trainer, 0.0)
            for remark in _disk(run, trainer, runs):
                progress.say(remark)
            remaining = sum([outlook(run, 0)] * (runs - 1), outlook(run, done, spent))
            shorter = "--set hours=H, --set steps=N and --set batch=N make it shorter"
            require_consent("rl train", remaining, progress, shorter)
        except BaseException:
            if is_new:
                shutil.rmtree(run.folder)
            raise
        progress.say(f"seed {seed}: {run.folder}" + (f", going on after step {done}" if done else ""))
        began, log = time.monotonic(), run.folder / "log.txt"
        with progress.stage("train", expected_steps(run) or run.settings.steps or 0, "steps") as stage:
            follower = Follower(run.metrics, stage, progress, lambda: expected_steps(run))
            try:
                status = run_child(launch.command, launch.environment, log, follower, passed=[lock])
            except OSError as failure:
                raise HarnessError(f"rl train: {launch.command[0]} cannot be started: {failure}") from failure
        if status:
            # The last line of the log that names an error, else its last line.
            lines = [*filter(None, map(str.strip, log.read_text(encoding="utf-8", errors="replace").splitlines()))]
            errors = [line for line in lines[-400:] if "Error" in line or "error:" in line or "Exception" in line]
            reason = (errors or lines or ["it said nothing"])[-1][:300]
            saved = trainer.saved(run)
            end = f"was killed by signal {-status}" if status < 0 else f"ended with exit status {status}"
            again = f"the same command goes on from step {saved[-1].step}" if saved else "no checkpoint was saved yet"
            raise Failed(f"rl train: the trainer {end} after step {follower.step}: {reason} ({log}); {again}")
        if remark := no_signal(read_metrics(run.metrics)):
            progress.say(f"seed {seed}: {remark}")
        return _row(run, trainer, time.monotonic() - began)


def no_signal(steps: Sequence[Mapping[str, float]]) -> str:
    """Return a remark if no group of any logged step had a correct rollout, so that GRPO learned nothing; else ""."""
    wrong = [step["all_wrong"] for step in steps if "all_wrong" in step]
    if not wrong or min(wrong) < 1:
        return ""
    return (
        f"no rollout of its {len(wrong)} steps was correct, so nothing was learned: a stronger --model, an easier "
        "task, --reward lenient or a larger max_response gives rewards (log.txt and `harness rl eval` show more)"
    )


@contextmanager
def locked(folder: Path) -> Iterator[int]:
    """Lock the folder, creating it if needed; yield the lock's file descriptor, so that a child can hold it too.

    HarnessError names the process that holds the lock. If that process is dead and only its children still hold it,
    they get `ENDING_S` seconds to end.
    """
    folder.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + ENDING_S
    with (folder / "lock").open("a+", encoding="utf-8") as file:
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            file.seek(0)
            holder = file.read().strip()
            pid, _, host = holder.partition(" on ")
            dead = host == platform.node() and pid.isdigit() and not psutil.pid_exists(int(pid))
            if (holder and not dead) or time.monotonic() > deadline:
                raise Failed(
                    f"rl train: {folder} is in use by process {holder or '?'}: wait for it, end it, "
                    "or give another --out"
                )
            time.sleep(0.1)
        file.truncate(0)
        file.write(f"{os.getpid()} on {platform.node()}\n")
        file.flush()
        yield file.fileno()


def outlook(run: TrainingRun, done: int, spent: float = 0.0) -> Outlook:
    """Estimate the time of the steps after `done` from the logged steps; without any, count responses and tokens.

    It is at most what is left of the run's hours, of which `spent` are over.
    """
    settings = run.settings
    assert settings.steps is not None
    steps, left_s = settings.steps - done, math.inf
    if settings.hours is not None:
        left_s = max(0.0, 3600 * (settings.hours - spent))
    if step_s := _step_s(run):
        return Outlook(min(steps * step_s, left_s))
    if left_s < math.inf:
        return Outlook(left_s)
    responses = steps * settings.batch * settings.rollouts
    return Outlook(0, responses, responses * settings.max_response)


def expected_steps(run: TrainingRun) -> int | None:
    """Estimate the number of steps after which the run ends; None if its hours end it and no step is logged yet."""
    settings, step_s = run.settings, _step_s(run)
    if settings.hours is None or not step_s or settings.steps is None:
        return settings.steps if settings.hours is None else None
    more = math.ceil(max(0.0, 3600 * (settings.hours - hours_spent(run.folder))) / step_s)
    return min(settings.steps, _last_step(run.metrics) + more)


def _step_s(run: TrainingRun) -> float:
    """The median of the logged steps' seconds; 0.0 without any."""
    times = [line["step_s"] for line in read_metrics(run.metrics) if line.get("step_s")]
    return statistics.median(times) if times else 0.0


def _disk(run: TrainingRun, trainer: Trainer, runs: int) -> list[str]:
    """Remarks on the disk that `runs` such runs take; HarnessError if they cannot fit."""
    saves = getattr(trainer, "saves", None)
    return [preflight.disk(run, saves, expected_steps(run), runs)] if saves else []


class Follower:
    """Reads metrics.jsonl as it grows, shows each step, and prints metrics every `SAY_EVERY_S` s and at dev pass@1.

    expected  the number of steps, as far as it is known after each
    """

    def __init__(
        self, path: Path, stage: Stage, progress: Progress, expected: Callable[[], int | None] = lambda: None
    ) -> None:
        self.path, self.stage, self.progress, self.expected = path, stage, progress, expected
        self.stage.done = self.step = _last_step(path)
        self._seen, self._printed_at = (0, 0), time.monotonic()

    def __call__(self) -> None:
        if not self.path.is_file():
            return
        about = self.path.stat()
        seen, self._seen = self._seen, (about.st_size, about.st_mtime_ns)
        for metrics in read_metrics(self.path) if seen != self._seen else ():
            if metrics["step"] <= self.step:
                continue
            self.stage.advance(metrics["step"] - self.step)
            self.step = metrics["step"]
            self.stage.total = self.expected() or self.stage.total
            if time.monotonic() - self._printed_at > SAY_EVERY_S or "dev_pass_at_1" in metrics:
                self._printed_at = time.monotonic()
                self.progress.say(metrics_line(metrics))


def metrics_line(metrics: Mapping[str, float]) -> str:
    """Return the line of text that shows one step's metrics to the user; unknown ones are left out."""
    parts = [f"step {metrics['step']}: reward {metrics['reward']:.3f}"] if "reward" in metrics else []
    if metrics.get("bonus_spread"):
        parts.append(f"bonus {metrics['bonus']:.2g} (spread {metrics['bonus_spread']:.2g})")
    shares = {"gated": "gated", "all_correct": "all correct", "dev_pass_at_1": "dev pass@1"}
    parts += [f"{text} {100 * metrics[name]:.0f} %" for name, text in shares.items() if name in metrics]
    if "entropy" in metrics:
        parts.append(f"entropy {metrics['entropy']:.2f}")
    if metrics.get("step_s"):
        parts.append(f"{3600 / metrics['step_s']:,.0f} steps/h")
    return ", ".join(parts)


# From a request to a run.


def _planned(request: TrainRequest, seed: int, runs: int = 0) -> tuple[TrainingRun, dict[str, Chats], Trainer]:
    """The run with its folder's path, the problems of its splits, its trainer; nothing is written.

    HarnessError for a wrong request, if the folder holds another run, and, before any problem is fetched, if this
    machine has no room for so many `runs`; with 0 that is not looked at.
    """
    registry, name = load_registry(request.plugin_files), request.task
    trainer: Trainer = build(registry, "trainer", request.trainer)
    tasks: dict[str, Any] = {
        split: build(registry, "task", name, data=request.data.get(split, request.data.get(""))) for split in SPLITS[:2]
    }
    task, reward = tasks["train"], "verifier"
    of_task = getattr(task, "rl", {})
    for split in tasks:
        if split not in of_task:
            able = "its class has no rl = {'train': ..., 'dev': ..., 'test': ...}"
            raise HarnessError(f"rl: task {name!r} says no {split} split to train with: {able}")
    if hasattr(task, "audit"):
        reward = request.reward or of_task.get("reward", "lenient")
    elif request.reward == "strict":
        raise HarnessError(f"rl: task {name!r} has one grader, and no stricter one: leave --reward strict out")
    run = TrainingRun(
        folder=Path(),
        task=graded_as_the_paper(registry, name),
        model=request.model or of_task.get("model") or DEFAULT_MODEL,
        bonus=str(bonus(request, of_task.get("bonus", {}))),
        trainer=request.trainer,
        seed=seed,
        settings=settings(request, of_task.get("settings", {})),
        problems={},
        data=dict(request.data),
        overrides=tuple(request.overrides),
        cpu=request.cpu,
        plugin_files=tuple(Path(path).absolute() for path in request.plugin_files),
        reward=reward,
    )
    specs = [parse_spec(spec).name for spec in (name, run.bonus, run.trainer)]
    named = "-".join([specs[0], Path(run.model).name, *specs[1:]])
    now = _fixed(run)
    key = digest({**now, "limit": request.limit, "revision": task.revision})
    folder = (request.out or request.store / "rl" / f"{named}-s{seed}-{key[:8]}").absolute()
    before = _fixed(read_run(folder)) if (folder / "run.json").exists() else now
    for field, value in now.items():
        if value != before.get(field):
            other = f"another {field} ({before.get(field)!r}, now {value!r})"
            raise HarnessError(f"rl train: {folder} holds a run with {other}: give another --out")
    build(registry, "bonus", run.bonus)
    if runs:
        getattr(trainer, "fits", lambda run: ())(run)
        _disk(replace(run, folder=folder), trainer, runs)
    chats: dict[str, Chats] = {}
    for split, of_split in tasks.items():
        with naming_data_options(SPLITS[:2], "rl train"):
            problems = list(of_split.problems(of_split.rl[split]))[: request.limit]
        if not problems:
            raise HarnessError(f"rl: task {name!r} has no problems in its split {of_split.rl[split]!r}")
        chats[split] = [(problem, of_split.messages(problem)) for problem in problems]
    batch, to_train_on = run.settings.batch, len(chats["train"])
    if to_train_on < batch:
        raise HarnessError(f"rl: {to_train_on:,} problems to train on, fewer than a batch of {batch:,}: --set batch=N")
    return replace(run, folder=folder), chats, trainer


def settings(request: TrainRequest, of_task: Mapping[str, Any]) -> Settings:
    """Return the user's settings, else the task's, else the paper's; HarnessError for what does not fit.

    Hours that the user gives take the place of the task's steps.
    """
    of_task = {**of_task, "steps": None} if "hours" in request.settings else of_task
    return Settings(**converted({**of_task, **request.settings}, get_type_hints(Settings), "rl", "setting"))


def bonus(request: TrainRequest, of_task: Mapping[str, Mapping[str, Any]]) -> Spec:
    """Return the requested bonus; parameters that the request does not give are the preset's, else the task's."""
    requested = parse_spec(request.bonus)
    of_preset = EXPLORING if request.preset == "exploring" else {}
    given = {**of_task.get(requested.name, {}), **of_preset.get(requested.name, {})}
    return Spec(requested.name, {**{key: str(value) for key, value in given.items()}, **requested.params})


def _fixed(run: TrainingRun) -> dict[str, Any]:
    """The fields that must be equal when a run is resumed: all but when it ends, `keep`, and the paths."""
    fixed = asdict(run)
    del fixed["folder"], fixed["problems"]
    for free in ("steps", "hours", "keep"):
        del fixed["settings"][free]
    if run.reward == "verifier":  # it follows from the task
        del fixed["reward"]
    plain: dict[str, Any] = json.loads(json.dumps(fixed, default=str))
    return plain


@contextmanager
def naming_data_options(splits: Sequence[str], command: str) -> Iterator[None]:
    """Inside the `with`, add to a HarnessError that mentions --data how `command` takes a file for each of `splits`."""
    try:
        yield
    except HarnessError as failure:
        if "--data" not in str(failure):
            raise
        options = " ".join(f"--data {split}=FILE" for split in splits)
        raise HarnessError(f"{failure}; {command} takes a file for each split: {options}") from failure


# The result of a run.


def _row(run: TrainingRun, trainer: Trainer, seconds: float) -> dict[str, Any]:
    saved = trainer.saved(run)
    step, dev = best_step(run, [checkpoint.step for checkpoint in saved]) or (None, None)
    return {
        **{name: getattr(run, name) for name in ("task", "bonus", "trainer", "model", "reward", "seed")},
        "steps": _last_step(run.metrics),
        "checkpoints": len(saved),
        "best_step": step,
        "dev_pass_at_1": dev,
        "hours": round(seconds / 3600, 3),
        "folder": str(run.folder),
    }


def _last_step(path: Path) -> int:
    return max((line["step"] for line in read_metrics(path)), default=0)
