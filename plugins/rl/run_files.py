"""Read and write the files in an RL run's folder that harness and trainer share: the run, its problems, its metrics."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.records import Message, Problem
from harness.system import json_text
from harness.system.json_text import read_lines

from .training import UNRECORDED, TrainingRun


def write_run(run: TrainingRun) -> None:
    """Write the run to `run.json` in its folder, for its trainer to read; paths in the folder are relative to it."""
    problems = {split: os.path.relpath(path, run.folder) for split, path in run.problems.items()}
    text = json.dumps(asdict(run) | {"folder": ".", "problems": problems}, indent=1, default=str)
    (run.folder / "run.json").write_text(text + "\n", encoding="utf-8")


def read_run(folder: Path) -> TrainingRun:
    """Read the run of a folder; HarnessError if its `run.json` is missing or cannot be read."""
    file = folder / "run.json"
    if not file.exists():
        raise HarnessError(f"rl: {folder} holds no run.json: it is not the folder of an RL run")
    recorded = json_text.shaped(json_text.read(file, "rl:"), dict[str, Any], f"rl: {file}")
    run = json_text.shaped({"reward": UNRECORDED} | recorded | {"folder": str(folder)}, TrainingRun, f"rl: {file}")
    return replace(run, problems={split: folder / path for split, path in run.problems.items()})


def write_problems(path: Path, chats: Sequence[tuple[Problem, Sequence[Message]]]) -> None:
    """Write problems with their chat messages, one JSON object per line."""
    with path.open("w", encoding="utf-8") as out:
        for problem, messages in chats:
            out.write(json.dumps(asdict(problem) | {"messages": list(messages)}) + "\n")


def read_problems(path: Path) -> list[tuple[Problem, list[Message]]]:
    """Read problems with their chat messages, as `write_problems` wrote them."""
    entries = [dict(line.value) for line in read_lines(path, "rl problems")]
    return [
        (Problem(**{key: entry[key] for key in ("id", "prompt", "reference", "meta")}), entry["messages"])
        for entry in entries
    ]


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Read the steps that a run has logged in its `metrics.jsonl` so far; [] if there is no such file.

    An incomplete line (of a killed run) is skipped, and so is what is no step.
    """
    return [step for line in path.read_bytes().splitlines() if (step := step_in(line))] if path.is_file() else []


def step_in(line: bytes) -> dict[str, Any] | None:
    """The numbers that a line of `metrics.jsonl` says of a step; None if it names no step."""
    try:
        step = json_text.parsed(line, "metrics", lenient=True)
    except json_text.BadJSON:
        return None
    if not isinstance(step, dict) or type(step.get("step")) is not int:
        return None
    return {name: value for name, value in step.items() if type(value) in (int, float)}
