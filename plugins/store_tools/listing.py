"""`harness store list`: the sizes of a store by task, model and stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.system.json_text import read

from . import contents, usage
from .contents import Stage
from .usage import AGAIN, COSTLY, Needs

UNKNOWN, ALL = "-", "all"


@dataclass(frozen=True)
class Part:
    """A part of a store: a stage's folder, a cell, a sequence or an RL run; `state` as in `usage`, "" if not known."""

    task: str
    model: str
    stage: str
    files: int
    size: int
    last_used: float
    state: str = ""


def listing(root: Path) -> dict[str, Any]:
    """Return what a store holds.

    store    its folder
    rows     a dict of each task, model and stage: the number of "folders" (or files of one), files, bytes, and when it
             was "last_used"; of the bytes those that can be "made_again" and the "costly" ones that no cell uses
    others   path and bytes of what is not the store's own
    fault    why it is not known what cells use; "" if it is known
    """
    contents.require_store(root)
    stages, needs = list(contents.stages(root)), usage.needs_of(root)
    states = {} if needs.faults else usage.states_of(root, stages, needs)
    labels = labels_of(stages, needs)
    parts = [
        Part(*labels[each.folder], each.kind, each.files, each.size, each.last_used, states.get(each.folder, ""))
        for each in stages
    ]
    parts += [*_records(root, needs), *_rl_runs(root)]
    others = [
        {"path": str(path), "bytes": contents.size_below(path)[1]}
        for path in contents.others(root, {each.folder for each in stages})
    ]
    return {"store": str(root), "rows": _rows(parts), "others": others, "fault": next(iter(needs.faults), "")}


def _rows(parts: Sequence[Part]) -> list[dict[str, Any]]:
    groups: dict[tuple[str, str, str], list[Part]] = {}
    for part in parts:
        groups.setdefault((part.task, part.model, part.stage), []).append(part)
    return [
        {
            "task": task,
            "model": model,
            "stage": stage,
            "folders": len(group),
            "files": sum(part.files for part in group),
            "bytes": sum(part.size for part in group),
            "made_again": sum(part.size for part in group if part.state == AGAIN),
            "costly": sum(part.size for part in group if part.state == COSTLY),
            "last_used": moment(max(part.last_used for part in group)),
        }
        for (task, model, stage), group in sorted(groups.items(), key=lambda group: group[0][:2])
    ]


def moment(seconds: float) -> str:
    """Seconds since 1970 as a moment in ISO 8601, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


# Labels.


def labels_of(stages: Sequence[Stage], needs: Needs) -> dict[Path, tuple[str, str]]:
    """Return the task and the model of each stage's folder, "-" where the store does not say it."""
    pools = {each.key: _pool_labels(each.key, each.inputs, needs) for each in stages if each.kind == "pool"}
    return {each.folder: _labels(each, pools, needs) for each in stages}


def _labels(stage: Stage, pools: Mapping[str, tuple[str, str]], needs: Needs) -> tuple[str, str]:
    if stage.kind in ("pool", "sequence", "stopped"):
        return _pool_labels(stage.key, stage.inputs, needs)
    if stage.kind in ("graded", "answer", "measure"):
        return str(stage.inputs.get("task") or ALL), ALL
    pool = str(stage.inputs.get("pool"))
    return pools.get(pool) or needs.pools.get(pool, (UNKNOWN, UNKNOWN))


def _pool_labels(key: str, inputs: Mapping[str, Any], needs: Needs) -> tuple[str, str]:
    task, engine = inputs.get("task"), inputs.get("engine")
    task = task.get("name") if isinstance(task, dict) else task
    model = engine.get("model") if isinstance(engine, dict) else None
    from_cell = needs.pools.get(key, (UNKNOWN, UNKNOWN))
    return str(task or from_cell[0]), str(model or from_cell[1])


# What is no stage.


def _records(root: Path, needs: Needs) -> Iterator[Part]:
    for kind in contents.RECORDS:
        for entry in contents.entries(root / kind):
            if contents.is_record(entry):
                about, labels = entry.stat(follow_symlinks=False), needs.records.get(Path(entry.path))
                yield Part(*(labels or (UNKNOWN, UNKNOWN)), kind, 1, about.st_size, about.st_mtime)


def _rl_runs(root: Path) -> Iterator[Part]:
    for entry in contents.entries(root / "rl"):
        task, model = UNKNOWN, UNKNOWN
        with suppress(HarnessError, KeyError, TypeError):
            run = read(Path(entry.path) / "run.json", "rl")
            task, model = str(run["task"]), str(run["model"])
        yield Part(task, model, "rl", *contents.size_below(Path(entry.path)))
