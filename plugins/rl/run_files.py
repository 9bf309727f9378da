"""Read and write the files in an RL run's folder that harness and trainer share: the run, its problems, its metrics."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.records import Message, Problem
from harness.system.json_lines import read_lines
from harness.training import UNRECORDED, Settings, TrainingRun


def write_run(run: TrainingRun) -> None:
    """Write the run to `run.json` in its folder, for its trainer to read."""
    text = json.dumps(asdict(run), indent=1, default=str)
    (run.folder / "run.json").write_text(text + "\n", encoding="utf-8")


def read_run(folder: Path) -> TrainingRun:
    """Read the run of a folder; HarnessError if its `run.json` is missing or cannot be read."""
    try:
        recorded = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        return TrainingRun(
            **{"reward": UNRECORDED}
            | recorded
            | {
                "folder": folder,
                "settings": Settings(**recorded["settings"]),
                "problems": {split: Path(path) for split, path in recorded["problems"].items()},
                "plugin_files": tuple(map(Path, recorded["plugin_files"])),
            }
        )
    except FileNotFoundError:
        raise HarnessError(f"rl: {folder} holds no run.json: it is not the folder of an RL run") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as failure:
        raise HarnessError(f"rl: {folder / 'run.json'} cannot be read: {failure}") from failure


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

    An incomplete line (of a killed run) is skipped.
    """
    steps = []
    for text in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        with contextlib.suppress(ValueError):
            steps.append(json.loads(text))
    return steps
