"""Which stages of a store its cells need, which the next run can make again, and which are costly.

A cell names the pool, vectors, verdicts and ranking that it was made from. Its next run also reads audits and counts of
the chance level of these verdicts, and it may make vectors that no selector read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.columns.stored import key_of
from harness.errors import HarnessError
from harness.results import cells, stopping_times
from harness.store.json_files import read_json
from harness.system.hashing import canonical_json

from .contents import Stage

NEEDED, AGAIN, COSTLY = "needed", "can be made again", "costly to make again, or from a file"
GRADING = ("pool", "task", "grader", "code")  # what verdicts, audits and counts of the chance level have in common


@dataclass(frozen=True)
class Needs:
    """What cells, sequences and RL evaluations need.

    keys        (kind, key) of each stage that a cell names
    gradings    of the verdicts that cells name: their `GRADING`
    bare        pools whose vectors a run may make without naming them: its selector reads none
    evaluated   pools of `harness rl eval`
    sequences   the inputs of each run --until-correct
    pools       pool -> task and model, as its cells name them
    records     path of a cell or sequence -> task and model
    faults      a line on each file that cannot be read: what it needs is not known
    """

    keys: set[tuple[str, str]] = field(default_factory=set)
    gradings: set[str] = field(default_factory=set)
    bare: set[str] = field(default_factory=set)
    evaluated: set[str] = field(default_factory=set)
    sequences: set[str] = field(default_factory=set)
    pools: dict[str, tuple[str, str]] = field(default_factory=dict)
    records: dict[Path, tuple[str, str]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


def needs_of(root: Path) -> Needs:
    """Read every cell, sequence and RL evaluation of a store."""
    needs = Needs()
    sequences, evaluations = root / stopping_times.FOLDER, root / "rl"
    for folder, paths, add in (
        (root / "cells", cells.files([root / "cells"]), _add_cell),
        (root / "cells", sorted((root / "cells").rglob("*.json.damaged*")), _refuse),
        (sequences, sorted(sequences.glob("*.json")), _add_sequence),
        (evaluations, sorted(evaluations.rglob("rl-eval.json")), _add_evaluation),
    ):
        for path, add_ in ((folder, _require_readable), *((path, add) for path in paths)):
            try:
                add_(needs, path)
            except HarnessError as failure:
                needs.faults.append(str(failure))
    return needs


def _require_readable(needs: Needs, folder: Path) -> None:
    """HarnessError for a folder that is there and cannot be listed."""
    try:
        if os.path.lexists(folder):
            os.listdir(folder)
    except OSError as failure:
        raise HarnessError(f"store: {folder} cannot be read ({failure.strerror})") from None


def _refuse(needs: Needs, path: Path) -> None:
    raise HarnessError(f"store: {path} is damaged, and nobody knows what it needs: run it again, then delete it")


def _add_cell(needs: Needs, path: Path) -> None:
    cell = cells.read(path)
    labels, pool = (str(cell["labels"]["task"]), str(cell["labels"]["model"])), str(key_of(cell, "pool"))
    needs.records[path] = needs.pools[pool] = labels
    for kind in ("pool", "embedding", "score", "verdict", "ranking"):
        if key := key_of(cell, kind):
            needs.keys.add((kind, key))
    needs.gradings.add(_grading({"pool": pool, **cell["inputs"]["verdict"]}))
    if not key_of(cell, "embedding"):
        needs.bare.add(pool)


def _add_sequence(needs: Needs, path: Path) -> None:
    record = stopping_times.read(path)
    needs.records[path] = str(record["labels"]["task"]), str(record["labels"]["model"])
    needs.sequences.add(_fixed(record["inputs"]))


def _add_evaluation(needs: Needs, path: Path) -> None:
    try:
        needs.evaluated.update(str(policy["pool"]) for policy in read_json(path)["policies"])
    except (KeyError, TypeError):
        raise HarnessError(f"store: {path} is no evaluation of `harness rl eval`: move it elsewhere") from None


def _grading(inputs: Mapping[str, Any]) -> str:
    return canonical_json([inputs.get(name) for name in GRADING])


def _fixed(inputs: Mapping[str, Any]) -> str:
    """The inputs of a sequence, which its responses and its verdicts share but for the version of the code."""
    return canonical_json({name: value for name, value in inputs.items() if name != "stage_version"})


# Stages by what is needed.


def states_of(root: Path, stages: Sequence[Stage], needs: Needs) -> dict[Path, str]:
    """Return for each stage's folder NEEDED, or AGAIN if the next run can make it again, or COSTLY."""
    newest = _newest(stages, needs)
    states = {each.folder: _state(each, needs, newest) for each in stages}
    pools = {key for kind, key in needs.keys if kind == "pool"} | needs.evaluated
    problems = _stems(root / "pool" / key for key in pools)
    for each in stages:
        if each.kind == "measure" and problems & _stems([each.folder]):
            states[each.folder] = NEEDED
        elif states[each.folder] == AGAIN and _is_costly(root, each, needs):
            states[each.folder] = COSTLY
    return states


def _state(stage: Stage, needs: Needs, newest: set[Path]) -> str:
    if (stage.kind, stage.key) in needs.keys or stage.folder in newest or _is_read(stage, needs):
        return NEEDED
    return COSTLY if stage.kind in ("pool", "sequence", "stopped", "measure") else AGAIN


def _is_read(stage: Stage, needs: Needs) -> bool:
    """Whether a rerun reads the stage although no cell names it."""
    if stage.kind == "pool":
        return stage.key in needs.evaluated
    if stage.kind in ("sequence", "stopped"):
        return _fixed(stage.inputs) in needs.sequences
    if stage.kind in ("verdict", "audit", "chance"):
        evaluated = stage.inputs.get("pool") in needs.evaluated
        return evaluated or (stage.kind != "verdict" and _grading(stage.inputs) in needs.gradings)
    return False


def _newest(stages: Iterable[Stage], needs: Needs) -> set[Path]:
    """Stages that no cell names, but that a run of today would use: the newest of each group of alike ones.

    These are the caches of verdicts and answers of each task's data, and the vectors by each embedder of pools in
    `needs.bare`.
    """

    def vectors_of(stage: Stage) -> Hashable:
        embedder = stage.inputs.get("embedder") or {}
        names = ("pool", "dim", "projection_seed")
        return canonical_json(
            [*(stage.inputs.get(name) for name in names), embedder.get("name"), embedder.get("params")]
        )

    caches = [stage for stage in stages if stage.kind in ("graded", "answer")]
    pools = needs.bare | needs.evaluated
    vectors = [stage for stage in stages if stage.kind == "embedding" and stage.inputs.get("pool") in pools]
    return {
        *_last_made(caches, lambda stage: canonical_json([stage.kind, *map(stage.inputs.get, ("task", "revision"))])),
        *_last_made(vectors, vectors_of),
    }


def _last_made(stages: Iterable[Stage], group: Callable[[Stage], Hashable]) -> Iterator[Path]:
    latest: dict[Hashable, Stage] = {}
    for stage in stages:
        other = latest.setdefault(group(stage), stage)
        if stage.made > other.made:
            latest[group(stage)] = stage
    return (stage.folder for stage in latest.values())


def _is_costly(root: Path, stage: Stage, needs: Needs) -> bool:
    """Whether vectors or verdicts came from a file, or with the responses of a pool that no cell uses yet."""
    pool = str(stage.inputs.get("pool"))
    hidden = stage.kind == "embedding" and "engine" in stage.inputs
    is_used_or_gone = ("pool", pool) in needs.keys or not (root / "pool" / pool).is_dir()
    return bool(stage.inputs.get("given")) or (hidden and not is_used_or_gone)


def _stems(folders: Iterable[Path]) -> set[str]:
    """The names of the problems with a shard in one of these folders."""
    return {path.stem for folder in folders for path in folder.glob("*.parquet")}
