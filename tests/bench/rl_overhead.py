"""Seconds a training step of verl with RepExp's bonus, beside plain GRPO with the reference running, on a CPU.

    python tests/bench/rl_overhead.py [--steps 12] [--batch 16] [--rollouts 8] [--rounds 1]

Each row is a run of verl's own trainer, in its environment (HARNESS_VERL_PYTHON or .venv-verl; without one nothing is
measured). All runs have the same seed, settings and problems; they are repeated in turn, `rounds` times.

plain     bonus none: the reference's forward pass runs, as in the paper's plain GRPO
states    bonus repexp: the mean hidden states are taken from that pass

Printed are medians over steps but the first two, whole and by phase: `ref` is the reference's pass with the pooling in
it, `adv` holds the bonus and the queue's extra columns. Whole steps on a shared machine differ by more than the bonus
costs; the phases differ less, so that the last column is made of them: what ref and adv take beyond the plain run's,
over the plain run's step.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from statistics import median

from harness import HarnessError
from harness.plugin_system.component import build
from harness.plugin_system.registry import load_registry
from harness.system.children import run_child
from harness_plugins.rl.training import Settings, TrainingRun, write_problems, write_run
from harness_plugins.rl.verl_trainer import Verl, find_python

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.benches import sizes

RUNS = {"plain": "none", "states": "repexp"}
PHASES = ("gen", "old_log_prob", "ref", "adv", "update_actor", "update_weights")
WARM_UP = 2  # steps


def steps_of(folder: Path, bonus: str, trainer: Verl, arguments: argparse.Namespace) -> list[dict[str, float]]:
    """One run's steps after the warm-up."""
    folder.mkdir(parents=True)
    task = build(load_registry(()), "task", "game24", data=None)
    problems = folder / "train.jsonl"
    write_problems(problems, [(each, task.messages(each)) for each in task.problems("train")])
    sizes = {"batch": arguments.batch, "mini_batch": arguments.batch, "micro_batch": 64, "max_prompt": 64}
    sizes |= {"rollouts": arguments.rollouts, "max_response": 64, "steps": arguments.steps, "save_every": 10**6}
    settings = Settings(**sizes, learning_rate=1e-5)
    ref = ("actor_rollout_ref.actor.use_kl_loss=True",)  # the reference runs in all of them
    model, files = "tiny24-weak", {"train": problems}
    run = TrainingRun(folder, "game24", model, bonus, "verl", 1, settings, files, overrides=ref, cpu=True)
    write_run(run)
    launch = trainer.launch(run)
    if status := run_child(launch.command, launch.environment, folder / "log.txt"):
        raise SystemExit(f"{folder / 'log.txt'}: verl ended with {status}")
    lines = [json.loads(line) for line in run.metrics.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line["step"] > WARM_UP]


def main() -> None:
    """Measure and print a Markdown table."""
    arguments = sizes(__doc__, steps=(12, 3), batch=(16, 8), rollouts=(8, 8), rounds=(1, 1))
    try:
        trainer = Verl(python=str(find_python(None)))
    except HarnessError as absent:
        return print(f"not measured: {absent}")
    measured: dict[str, list[dict[str, float]]] = {name: [] for name in RUNS}
    with tempfile.TemporaryDirectory(prefix="overhead-") as folder:
        for number in range(arguments.rounds):
            for name, bonus in RUNS.items():
                measured[name] += steps_of(Path(folder) / f"{number}-{name}", bonus, trainer, arguments)

    def mid(run: str, name: str) -> float:
        return median(step.get(name, 0.0) for step in measured[run])

    print(f"| run | step s | {' | '.join(PHASES)} | (ref + adv beyond plain) / step |\n|{'---|' * (len(PHASES) + 3)}")
    for run in RUNS:
        phases = [f"{mid(run, f'timing_s/{phase}'):.3f}" for phase in PHASES]
        beyond = sum(mid(run, f"timing_s/{each}") - mid("plain", f"timing_s/{each}") for each in ("ref", "adv"))
        share = beyond / mid("plain", "step_s")
        print(f"| {run} | {mid(run, 'step_s'):.3f} | {' | '.join(phases)} | {share:+.1%} |")
    print(f"\n{len(measured['plain'])} steps a run; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
