"""The files of an RL run's folder, which join the harness and its trainer: the run, its problems, its metrics."""

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
    """Keep the run as `run.json` in its folder, for its trainer to read."""
    text = json.dumps(asdict(run), indent=1, default=str)
    (run.folder / "run.json").write_text(text + "\n", encoding="utf-8")


def read_run(folder: Path) -> TrainingRun:
    """The run that lives in a folder; HarnessError where there is none."""
    try:
        kept = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        return TrainingRun(
            **{"reward": UNRECORDED}
            | kept
            | {
                "folder": folder,
                "settings": Settings(**kept["settings"]),
                "problems": {split: Path(path) for split, path in kept["problems"].items()},
                "plugin_files": tuple(map(Path, kept["plugin_files"])),
            }
        )
    except FileNotFoundError:
        raise HarnessError(f"rl: {folder} holds no run.json: it is not the folder of an RL run") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as failure:
        raise HarnessError(f"rl: {folder / 'run.json'} cannot be read: {failure}") from failure


def write_problems(path: Path, asked: Sequence[tuple[Problem, Sequence[Message]]]) -> None:
    """Problems and the messages that ask them, one JSON object a line."""
    with path.open("w", encoding="utf-8") as out:
        for problem, messages in asked:
            out.write(json.dumps(asdict(problem) | {"messages": list(messages)}) + "\n")


def read_problems(path: Path) -> list[tuple[Problem, list[Message]]]:
    """The same, from the file."""
    found = [dict(line.value) for line in read_lines(path, "rl problems")]
    return [
        (Problem(**{key: one[key] for key in ("id", "prompt", "reference", "meta")}), one["messages"]) for one in found
    ]


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The steps that a run has logged so far; a line that is not whole (of a run that was killed) is passed over."""
    found = []
    for text in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        with contextlib.suppress(ValueError):
            found.append(json.loads(text))
    return found
