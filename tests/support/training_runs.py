"""Small training runs, as the harness writes them before a trainer starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.training import TrainingRun
from harness_plugins.rl.run_files import write_problems, write_run
from harness_tasks.game24 import Game24


def game24_run(folder: Path, train: int, dev: int, **fields: Any) -> TrainingRun:
    """A run of Game of 24 on the CPU with the first problems of each split, written to its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    task, problems = Game24(), {}
    for split, count in (("train", train), ("dev", dev)):
        problems[split] = folder / f"{split}.jsonl"
        write_problems(problems[split], [(problem, task.messages(problem)) for problem in task.problems(split)[:count]])
    run = TrainingRun(**{"folder": folder, "task": "game24", "seed": 5, "problems": problems, "cpu": True} | fields)
    write_run(run)
    return run
