"""Small training runs, as the harness writes them before a trainer starts, and as the counting trainer leaves them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness_plugins.rl import training_run
from harness_plugins.rl.commands import TrainRequest
from harness_plugins.rl.training import TrainingRun, write_problems, write_run
from harness_tasks.game24 import Game24
from support import counting_trainer

COUNTING = Path(counting_trainer.__file__)


def game24_run(folder: Path, train: int, dev: int, **fields: Any) -> TrainingRun:
    """A run of Game of 24 on the CPU with the first problems of each split, if any, written to its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    task, counts = Game24(), {"train": train, "dev": dev}
    problems = {split: folder / f"{split}.jsonl" for split, count in counts.items() if count}
    for split, path in problems.items():
        write_problems(path, [(problem, task.messages(problem)) for problem in task.problems(split)[: counts[split]]])
    run = TrainingRun(**{"folder": folder, "task": "game24", "seed": 5, "problems": problems, "cpu": True} | fields)
    write_run(run)
    return run


def counting_request(store: Path, **fields: Any) -> TrainRequest:
    """Six steps of the counting trainer on 8 problems."""
    small = {"task": "game24", "trainer": "counting", "model": "tiny24-weak", "limit": 8, "plugin_files": (COUNTING,)}
    settings = {"batch": "4", "mini_batch": "4", "steps": "6"}
    return TrainRequest(**{**small, "settings": settings, "store": store, **fields})


def counted_run(store: Path, seed: int, **fields: Any) -> TrainingRun:
    """Such a run after its last step; it was counted in this process."""
    run = training_run.prepare(counting_request(store, **fields), seed).run
    counting_trainer.count(run.folder)
    return run
