"""Seconds a training step of verl with RepExp's bonus, beside plain GRPO with the reference running, on a CPU.

    python tests/bench/rl_overhead.py [--steps 12] [--batch 16] [--rollouts 8] [--rounds 1] [--model tiny24-weak]

Each row is a run of verl's own trainer, in its environment (HARNESS_VERL_PYTHON or .venv-verl; without one nothing is
measured). All runs have the same seed, settings and problems; they are repeated in turn, `rounds` times.

plain     bonus none: the reference's forward pass runs, as in the paper's plain GRPO
states    bonus repexp: the mean hidden states are taken from that pass

Printed are medians over steps but the first two, whole and by phase: `ref` is the reference's pass with the pooling in
it, `adv` holds the bonus and the queue's extra columns. Whole steps on a shared machine
differ by more than the bonus costs; the phases differ less, so that the last column is made of them: what ref and adv
take beyond the plain run's, over the plain run's step.

Before it stands what a quiet machine is not needed for: the reference's pass itself with and without the pooling, in
verl's engine, without Ray, in turn in one process, in CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from harness import HarnessError
from harness.plugin_system.component import build
from harness.plugin_system.registry import load_registry
from harness.system.children import run_child
from harness_plugins.rl.training import Settings, TrainingRun, write_problems, write_run
from harness_plugins.rl.verl_trainer import Verl, find_python

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.bench_sizes import parsed

RUNS = {"plain": ("none", "verl"), "states": ("repexp", "verl")}
PHASES = ("gen", "old_log_prob", "ref", "adv", "update_actor", "update_weights")
WARM_UP = 2  # steps


def run_of(folder: Path, name: str, arguments: argparse.Namespace) -> TrainingRun:
    """One row's run, its problems written."""
    bonus, trainer = RUNS[name]
    folder.mkdir(parents=True)
    task = build(load_registry(()), "task", "game24", data=None)
    problems = folder / "train.jsonl"
    write_problems(problems, [(each, task.messages(each)) for each in task.problems("train")])
    settings = Settings(
        batch=arguments.batch,
        mini_batch=arguments.batch,
        micro_batch=64,
        rollouts=arguments.rollouts,
        max_prompt=64,
        max_response=64,
        steps=arguments.steps,
        save_every=10**6,
        learning_rate=1e-5,
    )
    ref = ("actor_rollout_ref.actor.use_kl_loss=True",)  # the reference runs in all of them
    run = TrainingRun(
        folder, "game24", arguments.model, bonus, trainer, 1, settings, {"train": problems}, overrides=ref, cpu=True
    )
    write_run(run)
    return run


def steps_of(run: TrainingRun, trainer: Verl) -> list[dict[str, float]]:
    """The run's steps after the warm-up."""
    launch = trainer.launch(run)
    status = run_child(launch.command, launch.environment, run.folder / "log.txt")
    if status:
        raise SystemExit(f"{run.folder / 'log.txt'}: verl ended with {status}")
    lines = [json.loads(line) for line in run.metrics.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line["step"] > WARM_UP]


def passes(run: TrainingRun, trainer: Verl, arguments: argparse.Namespace) -> None:
    """Print the cost of the pooling in the reference's pass."""
    launch = trainer.launch(run)
    sizes = [str(arguments.batch * arguments.rollouts), str(arguments.repeats)]
    command = [launch.command[0], __file__, "--engine", str(run.folder), *sizes]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    times = {
        "WORLD_SIZE": "1",
        "RANK": "0",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "HARNESS_RL_RUN": str(run.folder),
    }
    done = subprocess.run(
        command, env={**os.environ, **launch.environment, **place, **times}, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    print(done.stdout.strip().splitlines()[-1] + "\n")


def engine(folder: Path, rows: int, repeats: int) -> None:
    """In verl's environment: one pass over `rows` rows, with and without the pooling."""
    import torch
    from tensordict import TensorDict
    from verl.utils import tensordict_utils as tu

    from harness_plugins.rl.training import read_run
    from harness_plugins.rl.verl_child import compose
    from harness_plugins.rl.verl_steps import PlainWorker, RefStates

    def batch() -> TensorDict:
        whole = [torch.full((47 + 38,), 7) for _ in range(rows)]
        columns = {
            "input_ids": whole,
            "position_ids": [torch.arange(85)] * rows,
            "prompts": [row[:47] for row in whole],
        }
        columns |= {"responses": [row[47:] for row in whole], "loss_mask": [torch.ones(38, dtype=torch.int64)] * rows}
        jagged = {name: torch.nested.as_nested_tensor(each, layout=torch.jagged) for name, each in columns.items()}
        made = TensorDict(jagged, batch_size=rows)
        tu.assign_non_tensor(made, temperature=1.0, calculate_entropy=False, compute_loss=False)
        return made

    seconds: dict[str, list[float]] = {"without": [], "with": []}
    models = []
    for worker in (PlainWorker, RefStates):
        made = worker(config=compose(read_run(folder)).actor_rollout_ref, role="ref")
        made.init_model()
        models.append(made.ref)
    for _ in range(repeats):
        for name, model in zip(seconds, models, strict=True):
            data = batch()
            begun = time.process_time()
            model.infer_batch(data)
            seconds[name].append(time.process_time() - begun)
    plain, pooled = median(seconds["without"]), median(seconds["with"])
    print(
        f"reference's pass over {rows} rows: {plain:.3f} CPU s, with pooling {pooled:.3f} ({pooled / plain - 1:+.1%})"
    )


def mid(steps: Sequence[dict[str, float]], name: str) -> float:
    """The median over steps."""
    return median(step.get(name, 0.0) for step in steps)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser()
    for name, value in (("steps", 12), ("batch", 16), ("rollouts", 8), ("rounds", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--repeats", type=int, default=9, help="of the pass alone")
    parser.add_argument("--model", default="tiny24-weak")
    arguments = parsed(parser, steps=3, batch=8, repeats=1)
    try:
        python = find_python(None)
    except HarnessError as absent:
        print(f"not measured: {absent}")
        return
    measured: dict[str, list[dict[str, float]]] = {name: [] for name in RUNS}
    with tempfile.TemporaryDirectory(prefix="overhead-") as folder:
        passes(run_of(Path(folder) / "pass", "states", arguments), Verl(python=str(python)), arguments)
        for number in range(arguments.rounds):
            for name in RUNS:
                run = run_of(Path(folder) / f"{number}-{name}", name, arguments)
                measured[name] += steps_of(run, Verl(python=str(python)))
    show(measured)


def show(measured: dict[str, list[dict[str, float]]]) -> None:
    """A Markdown table."""
    plain = measured["plain"]
    whole = mid(plain, "step_s")
    print("| run | step s | " + " | ".join(PHASES) + " | (ref + adv beyond plain) / step |")
    print("|---|---|" + "---|" * (len(PHASES) + 1))
    for name, steps in measured.items():
        phases = {phase: mid(steps, f"timing_s/{phase}") for phase in PHASES}
        beyond = sum(phases[phase] - mid(plain, f"timing_s/{phase}") for phase in ("ref", "adv"))
        cells = " | ".join(f"{seconds:.3f}" for seconds in phases.values())
        print(f"| {name} | {mid(steps, 'step_s'):.3f} | {cells} | {beyond / whole:+.1%} |")
    print(f"\n{len(plain)} steps a run; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; {sys.platform}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--engine"]:
        engine(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
