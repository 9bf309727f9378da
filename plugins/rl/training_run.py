"""`harness rl train`: write a run's folder, start its trainer as a child process, and follow its progress.

A run's folder holds all its files: run.json, the problems of each split, the trainer's configuration, log.txt,
metrics.jsonl and checkpoints/. Repeating the command resumes from the last complete checkpoint.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.jobs.price import Outlook, require_consent
from harness.plugin_system.component import build, graded_as_the_paper, parse_spec
from harness.plugin_system.registry import Registry, load_registry
from harness.records import Message, Problem
from harness.system.children import run_child
from harness.system.json_text import digest
from harness.system.progress import Progress, Stage
from harness_plugins.rl.run_files import read_metrics, read_run, step_in, write_problems, write_run

from . import presets
from .folder_lock import locked
from .requests import TrainRequest
from .training import SPLITS, Launch, Trainer, TrainingRun

Chats = dict[str, list[tuple[Problem, list[Message]]]]  # by split: its problems with their chat messages
EPOCHS = 1000  # the authors' default limit: a run is stopped by hand
SAY_EVERY_S = 10.0
DEFAULT_MODEL = "Qwen/Qwen2.5-7B-Instruct"  # the paper's


@dataclass(frozen=True)
class Prepared:
    """A run in its folder, its trainer and the command to start; `fault` says why this machine cannot run it, if so."""

    run: TrainingRun
    trainer: Trainer
    launch: Launch
    remarks: Sequence[str]
    fault: HarnessError | None = None


def prepare(request: TrainRequest, seed: int, hold: Callable[[Path], object] = lambda folder: None) -> Prepared:
    """Write the run's folder and make all cheap checks, without starting the trainer; return the prepared run.

    `hold(folder)` is called before anything is written to the folder.
    HarnessError, one line, for a wrong request. If the trainer's own check fails on this machine, nothing is raised:
    the error is the result's `fault`.
    """
    registry = load_registry(request.plugin_files)
    trainer: Trainer = build(registry, "trainer", request.trainer)
    run = _run(request, registry, seed)
    build(registry, "bonus", run.bonus)
    _refuse_another(run)
    run, chats = _with_problems(request, registry, run)
    hold(run.folder)
    run.folder.mkdir(parents=True, exist_ok=True)
    for split, path in run.problems.items():
        write_problems(path, chats[split])
    write_run(run)
    remarks, fault = [reward_line(run)], None
    try:
        remarks += trainer.check(run)
    except HarnessError as failure:
        fault = failure
    return Prepared(run, trainer, trainer.launch(run), remarks, fault)


def rehearse(request: TrainRequest, seed: int) -> Prepared:
    """Prepare a run as `prepare` does, but write only to a temporary folder; the result names the real one."""
    run = _run(request, load_registry(request.plugin_files), seed)
    _refuse_another(run)
    with tempfile.TemporaryDirectory(prefix="harness-rl-") as scratch:
        prepared = prepare(replace(request, out=Path(scratch)), seed)

    def placed(text: str) -> str:
        return text.replace(scratch, str(run.folder))

    launch = Launch(
        command=[placed(part) for part in prepared.launch.command],
        environment={name: placed(value) for name, value in prepared.launch.environment.items()},
        config=placed(prepared.launch.config),
    )
    fault = HarnessError(placed(str(prepared.fault))) if prepared.fault else None
    return Prepared(
        replace(prepared.run, folder=run.folder), prepared.trainer, launch, [*map(placed, prepared.remarks)], fault
    )


def train(request: TrainRequest, seed: int, progress: Progress, runs: int = 1) -> dict[str, Any]:
    """Train or resume a run, and return a dict with its result; the run's folder is locked meanwhile.

    The dict has the run's options, steps (done), checkpoints (their number), best_step, dev_pass_at_1 (of that step),
    hours (of this call) and folder.

    runs  the number of trainings that the command still has to do, this one included: the user consents to all at once
    """
    with ExitStack() as locks:
        descriptors: list[int] = []
        prepared = prepare(
            request, seed, lambda folder: descriptors.append(locks.enter_context(locked(folder, "rl train")))
        )
        return _train(prepared, seed, descriptors, progress, runs)


def _train(prepared: Prepared, seed: int, descriptors: Sequence[int], progress: Progress, runs: int) -> dict[str, Any]:
    run = prepared.run
    if prepared.fault:
        raise prepared.fault
    for remark in prepared.remarks:
        progress.say(remark)
    done = _last_step(run.metrics)
    if run.settings.steps is not None and done >= run.settings.steps:
        progress.say(f"seed {seed}: all {done} steps are done; --set steps=N goes on")
        return _row(prepared, 0.0)
    remaining = outlook(run, done)
    for _ in range(runs - 1):
        remaining += outlook(run, 0)
    require_consent("rl train", remaining, progress, "--set steps=N and --set batch=N make it shorter")
    progress.say(f"seed {seed}: {run.folder}" + (f", going on after step {done}" if done else ""))
    began = time.monotonic()
    with progress.stage("train", run.settings.steps or 0, "steps") as stage:
        follower = Follower(run.metrics, stage, progress)
        status = _started(prepared, follower, descriptors)
    if status:
        raise HarnessError(_ended(prepared, status, follower.step))
    return _row(prepared, time.monotonic() - began)


def outlook(run: TrainingRun, done: int) -> Outlook:
    """Estimate the time of the steps after `done` from the logged steps; without any, count responses and tokens."""
    settings = run.settings
    assert settings.steps is not None
    steps = settings.steps - done
    step_times = [line["step_s"] for line in read_metrics(run.metrics) if line.get("step_s")]
    if step_times:
        return Outlook(steps * statistics.median(step_times))
    responses = steps * settings.batch * settings.rollouts
    return Outlook(0, responses, responses * settings.max_response)


def _started(prepared: Prepared, follower: Follower, descriptors: Sequence[int]) -> int:
    launch, log = prepared.launch, prepared.run.folder / "log.txt"
    try:
        return run_child(launch.command, launch.environment, log, follower, passed=descriptors)
    except OSError as failure:
        raise HarnessError(f"rl train: {launch.command[0]} cannot be started: {failure}") from failure


class Follower:
    """Reads metrics.jsonl as it grows, shows each step, and prints metrics every `SAY_EVERY_S` s and at dev pass@1."""

    def __init__(self, path: Path, stage: Stage, progress: Progress) -> None:
        self.path, self.stage, self.progress = path, stage, progress
        self.step = _last_step(path)
        self.stage.done = self.step
        self._read = (0, 0)  # inode, bytes read: a resumed run replaces the log by a new file
        self._printed_at = time.monotonic()

    def __call__(self) -> None:
        """Read the new lines and show their steps."""
        for metrics in self._new():
            if metrics["step"] <= self.step:
                continue
            self.stage.advance(metrics["step"] - self.step)
            self.step = metrics["step"]
            if time.monotonic() - self._printed_at > SAY_EVERY_S or "dev_pass_at_1" in metrics:
                self._printed_at = time.monotonic()
                self.progress.say(metrics_line(metrics))

    def _new(self) -> list[dict[str, Any]]:
        try:
            about = self.path.stat()
        except OSError:
            return []
        inode, begin = self._read
        begin = begin if inode == about.st_ino and begin <= about.st_size else 0
        with self.path.open("rb") as file:
            file.seek(begin)
            whole = file.read().rpartition(b"\n")[0]
        self._read = (about.st_ino, begin + len(whole) + bool(whole))
        return [step for line in whole.splitlines() if (step := step_in(line))]


def metrics_line(metrics: Mapping[str, float]) -> str:
    """Return the line of text that shows one step's metrics to the user; unknown ones are left out."""
    parts = [f"step {metrics['step']}: reward {metrics['reward']:.3f}"] if "reward" in metrics else []
    if metrics.get("bonus_spread"):
        parts.append(f"bonus {metrics['bonus']:.2g} (spread {metrics['bonus_spread']:.2g})")
    for name, text in (("gated", "gated"), ("all_correct", "all correct"), ("dev_pass_at_1", "dev pass@1")):
        if name in metrics:
            parts.append(f"{text} {100 * metrics[name]:.0f} %")
    if "entropy" in metrics:
        parts.append(f"entropy {metrics['entropy']:.2f}")
    if metrics.get("step_s"):
        parts.append(f"{3600 / metrics['step_s']:,.0f} steps/h")
    return ", ".join(parts)


# From a request to a run.


def _run(request: TrainRequest, registry: Registry, seed: int) -> TrainingRun:
    """The requested run with its folder's path; its problems are not set yet."""
    spec = graded_as_the_paper(registry, request.task)
    task = _task(request, registry, "train")
    model = request.model or task.rl.get("model") or DEFAULT_MODEL
    settings = presets.settings(request, task.rl.get("settings", {}))
    run = TrainingRun(
        folder=Path(),
        task=spec,
        model=model,
        bonus=str(presets.bonus(request, task.rl.get("bonus", {}))),
        trainer=request.trainer,
        seed=seed,
        settings=settings,
        problems={},
        data=dict(request.data),
        overrides=tuple(request.overrides),
        cpu=request.cpu,
        plugin_files=tuple(Path(path).absolute() for path in request.plugin_files),
        reward=_reward(request, task),
    )
    named = "-".join(
        [parse_spec(request.task).name, Path(model).name, *(parse_spec(s).name for s in (run.bonus, run.trainer))]
    )
    key = digest({**_fixed(run), "limit": request.limit, "revision": task.revision})
    return replace(run, folder=(request.out or request.store / "rl" / f"{named}-s{seed}-{key[:8]}").absolute())


def has_second_grader(task: Any) -> bool:
    """Return whether the task has a second, stricter grader."""
    return hasattr(task, "audit")


def _reward(request: TrainRequest, task: Any) -> str:
    """The grader of the reward: as requested, else as the task says, else "verifier"."""
    if has_second_grader(task):
        return request.reward or task.rl.get("reward", "lenient")
    if request.reward == "strict":
        raise HarnessError(f"rl: task {request.task!r} has one grader, and no stricter one: leave --reward strict out")
    return "verifier"


def reward_line(run: TrainingRun) -> str:
    """Return a line that says which grader a run's rewards come from."""
    if run.reward == "strict":
        return f"reward: strict, the second grader of {run.task}; --reward lenient takes its verifier"
    if run.reward == "lenient":
        return f"reward: lenient, the verifier of {run.task}; --reward strict takes its second grader"
    return f"reward: the verifier of {run.task}, its only grader"


def _fixed(run: TrainingRun) -> dict[str, Any]:
    """The fields that must be equal when a run is resumed: all but the number of steps and the paths."""
    fixed = asdict(run)
    del fixed["folder"], fixed["problems"], fixed["settings"]["steps"]
    if run.reward == "verifier":  # the task's only grader, so a run that does not record it is the same run
        del fixed["reward"]
    plain: dict[str, Any] = json.loads(json.dumps(fixed, default=str))
    return plain


def _refuse_another(run: TrainingRun) -> None:
    """Raise HarnessError if the folder holds another run."""
    if not (run.folder / "run.json").exists():
        return
    before, now = _fixed(read_run(run.folder)), _fixed(run)
    differing = [name for name in now if now[name] != before.get(name)]
    if differing:
        name = differing[0]
        raise HarnessError(
            f"rl train: {run.folder} holds a run with another {name} ({before.get(name)!r}, now {now[name]!r}): "
            "give another --out"
        )


def _task(request: TrainRequest, registry: Registry, split: str) -> Any:
    task: Any = build(registry, "task", request.task, data=request.data.get(split, request.data.get("")))
    splits = getattr(task, "rl", {})
    missing = [name for name in ("train", "dev") if name not in splits]
    if missing:
        able = "its class has no rl = {'train': ..., 'dev': ..., 'test': ...}"
        raise HarnessError(f"rl: task {request.task!r} says no {missing[0]} split to train with: {able}")
    return task


def _with_problems(request: TrainRequest, registry: Registry, run: TrainingRun) -> tuple[TrainingRun, Chats]:
    """The run with its number of steps and the paths of its splits' problems, and the content of these files."""
    chats: Chats = {}
    for split in SPLITS[:2]:
        task = _task(request, registry, split)
        with naming_data_options(SPLITS[:2], "rl train"):
            problems = list(task.problems(task.rl[split]))[: request.limit]
        if not problems:
            raise HarnessError(f"rl: task {request.task!r} has no problems in its split {task.rl[split]!r}")
        chats[split] = [(problem, task.messages(problem)) for problem in problems]
    batch, to_train_on = run.settings.batch, len(chats["train"])
    if to_train_on < batch:
        raise HarnessError(f"rl: {to_train_on:,} problems to train on, fewer than a batch of {batch:,}: --set batch=N")
    paths = {split: run.folder / f"{split}.jsonl" for split in chats}
    steps = run.settings.steps or EPOCHS * (to_train_on // batch)
    return replace(run, problems=paths, settings=replace(run.settings, steps=steps)), chats


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


def _row(prepared: Prepared, seconds: float) -> dict[str, Any]:
    run = prepared.run
    saved = prepared.trainer.saved(run)
    best = best_step(run, [checkpoint.step for checkpoint in saved])
    return {
        "task": run.task,
        "bonus": run.bonus,
        "trainer": run.trainer,
        "model": run.model,
        "reward": run.reward,
        "seed": run.seed,
        "steps": _last_step(run.metrics),
        "checkpoints": len(saved),
        "best_step": best[0] if best else None,
        "dev_pass_at_1": best[1] if best else None,
        "hours": round(seconds / 3600, 3),
        "folder": str(run.folder),
    }


def best_step(run: TrainingRun, steps: Sequence[int]) -> tuple[int, float] | None:
    """Return which of `steps` has the highest dev pass@1 (on a tie the earlier) and the value; None if none has it."""
    by_step = {line["step"]: line["dev_pass_at_1"] for line in read_metrics(run.metrics) if "dev_pass_at_1" in line}
    return max(
        ((step, by_step[step]) for step in steps if step in by_step),
        key=lambda candidate: (candidate[1], -candidate[0]),
        default=None,
    )


def _last_step(path: Path) -> int:
    return max((line["step"] for line in read_metrics(path)), default=0)


def _ended(prepared: Prepared, status: int, step: int) -> str:
    saved = prepared.trainer.saved(prepared.run)
    log = prepared.run.folder / "log.txt"
    end = f"was killed by signal {-status}" if status < 0 else f"ended with exit status {status}"
    again = f"the same command goes on from step {saved[-1].step}" if saved else "no checkpoint was saved yet"
    return f"rl train: the trainer {end} after step {step}: {_last_error(log)} ({log}); {again}"


def _last_error(log: Path) -> str:
    """The last line of the log that names an error, else its last line."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines[-400:] if "Error" in line or "error:" in line or "Exception" in line]
    return (errors or lines or ["it said nothing"])[-1][:300]
