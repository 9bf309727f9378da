"""Find the complete checkpoints: those that were marked after everything was written."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from harness_plugins.rl.run_files import read_metrics

MARK = "complete"
PREFIX = "global_step_"
TRACKER = "latest_checkpointed_iteration.txt"  # verl reads from it the checkpoint to resume from


def complete(checkpoints: Path) -> dict[int, Path]:
    """Return the complete checkpoints in the folder, step -> checkpoint's folder, in the order of their steps."""
    marked = [mark.parent for mark in checkpoints.glob(f"{PREFIX}*/{MARK}")]
    return dict(sorted((int(folder.name.removeprefix(PREFIX)), folder) for folder in marked))


def logged(metrics: Path, step: int) -> bool:
    """Return whether the log has a line of the step; a run may be killed after its checkpoint and before the line."""
    return any(line["step"] == step for line in read_metrics(metrics))


def mark_complete(folder: Path) -> None:
    """Mark the checkpoint as complete."""
    (folder / MARK).touch()


def tidy(checkpoints: Path) -> int:
    """Delete incomplete checkpoints, write the last complete one's step to verl's file, and return it; 0 if none is.

    verl resumes from the step in that file; if no checkpoint is complete, the file is deleted.
    """
    whole = complete(checkpoints)
    for folder in checkpoints.glob(f"{PREFIX}*"):
        if folder not in whole.values():
            shutil.rmtree(folder)
    tracker = checkpoints / TRACKER
    if not whole:
        tracker.unlink(missing_ok=True)
        return 0
    part = tracker.with_suffix(".part")
    part.write_text(str(max(whole)), encoding="ascii")
    os.replace(part, tracker)
    return max(whole)
