"""Seconds a training step of verl with RepExp's bonus, beside plain GRPO with the reference running, on a CPU.

    python tests/bench/rl_overhead.py [--steps 12] [--batch 16] [--rollouts 8] [--rounds 1]

Each row is a run of verl's own trainer, in its environment (HARNESS_VERL_PYTHON or .venv-verl; without one nothing is
measured). All have the same seed, settings and problems, and are repeated in turn, `rounds` times. `plain` has no
bonus: the reference's forward pass runs, as in the paper's plain GRPO; `states` takes RepExp's hidden states from it.

Printed are medians over steps but the first two, whole and by phase: `ref` is the reference's pass with the pooling in
it, `adv` holds the bonus and the queue's extra columns. Whole steps on a shared machine differ by more than the bonus
costs, so the last column is made of phases: what ref and adv take beyond the plain run's, over the plain run's step.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from harness import HarnessError
from harness.system.children import run_child
from harness_plugins.rl.training import Settings, read_metrics
from harness_plugins.rl.verl_trainer import Verl, find_python

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.benches import sizes
from support.training_runs import game24_run

RUNS = {"plain": "none", "states": "repexp"}
PHASES = ("gen", "old_log_prob", "ref", "adv", "update_actor", "update_weights")
REF = ("actor_rollout_ref.actor.use_kl_loss=True",)  # the reference runs in all of them
WARM_UP = 2  # steps


def steps_of(folder: Path, bonus: str, trainer: Verl, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """One run's steps after the warm-up."""
    counts = {"batch": arguments.batch, "mini_batch": arguments.batch, "micro_batch": 64, "max_prompt": 64}
    counts |= {"rollouts": arguments.rollouts, "max_response": 64, "steps": arguments.steps, "save_every": 10**6}
    fields = {"model": "tiny24-weak", "bonus": bonus, "trainer": "verl", "seed": 1, "overrides": REF}
    run = game24_run(folder, 10**6, 0, settings=Settings(**counts, learning_rate=1e-5), **fields)
    launch = trainer.launch(run)
    if status := run_child(launch.command, launch.environment, folder / "log.txt"):
        raise SystemExit(f"{folder / 'log.txt'}: verl ended with {status}")
    return [line for line in read_metrics(run.metrics) if line["step"] > WARM_UP]


def main() -> None:
    """Measure and print a Markdown table."""
    arguments = sizes(__doc__, steps=(12, 3), batch=(16, 8), rollouts=(8, 8), rounds=(1, 1))
    try:
        trainer = Verl(python=str(find_python(None)))
    except HarnessError as absent:
        return print(f"not measured: {absent}")
    measured: dict[str, list[dict[str, Any]]] = {name: [] for name in RUNS}
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
