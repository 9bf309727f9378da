"""Take over pools that an older version of the harness made under another key, so that nothing is sampled twice.

If the store lacks a run's pool, but an older pool agrees in task, sampler, n, max_tokens, seed, engine and model, the
run stops and says so. What differs is then a hash that is computed in another way by now, or an input that was not part
of the key before. Only the user knows whether the model is the same: `--adopt KEY` says that it is. A problem of which
only the reference has changed keeps its responses without a question, and so does an unchanged problem of a task with
`revised_by_problem`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, did_you_mean
from harness.records import Problem
from harness.stages.work import Work
from harness.store import missing_rows
from harness.store import shards as store
from harness.store.json_files import read_manifest
from harness.store.keys import named_shard, storable
from harness.store.shard_files import OLDER, is_unsealed
from harness.store.stage import Stage
from harness.system.progress import Progress

HASHES = ("revision", "weights", "commit")  # hashes of a model's content, which are computed in another way by now
REVISED = frozenset({"prompt", "task.revision"})  # may differ between revisions; "prompt" is the first problem's
FIXED = ("sampler", "n", "max_tokens", "seed")  # inputs of a pool: another value means another pool


@dataclass(frozen=True)
class Older:
    """A pool with responses that a run lacks.

    shards   problem id -> the path of its responses
    differs  the names of the inputs that differ from those of the run's own pool

    If `differs` is empty, it is the run's own pool, and the references of these problems have changed.
    """

    folder: Path
    differs: Sequence[str]
    shards: Mapping[str, Path]

    @property
    def is_same(self) -> bool:
        """Whether the responses answer the same prompts, so that only the model needs the user's word."""
        return "prompt" not in self.differs


def pools(pool: Stage, problems: Sequence[Problem], adopt: Sequence[str], by_problem: bool = False) -> list[Older]:
    """Return the pools from which the run takes responses; HarnessError if the user must decide and has not.

    adopt       keys of pools, or their beginnings (HarnessError if no pool has one); "none" to sample again
    by_problem  whether the task has `revised_by_problem`
    """
    missing = pool.missing(problems)
    if not missing:
        return []
    names = [folder.name for folder in pool.folder.parent.glob("*")]
    for key in adopt:
        if key != "none" and not any(name.startswith(key) for name in names):
            known = did_you_mean(key, names).replace("installed", "there")
            raise HarnessError(f"--adopt {key}: no such pool in {pool.folder.parents[1]} {known}")
    chosen = list(_revisions(pool, missing)) if by_problem and "none" not in adopt else []
    missing = [problem for problem in missing if not any(problem.id in older.shards for older in chosen)]
    for older in _candidates(pool, missing):
        if older.differs and "none" in adopt:
            continue
        if older.differs and not (older.is_same and any(older.folder.name.startswith(key) for key in adopt)):
            raise HarnessError(_question(older, len(problems)))
        chosen.append(older)
    return chosen


def require_no_sequences(sampled: Stage, problems: Sequence[Problem], adopt: Sequence[str]) -> None:
    """Raise HarnessError if an older run --until-correct holds sequences that this run would sample again.

    sampled  the stage with the sequences of this run
    adopt    if it has "none", nothing is raised
    """
    for older in _candidates(sampled, sampled.missing(problems)) if "none" not in adopt else ():
        differs = ", ".join(older.differs) or "references"
        raise HarnessError(
            f"sequences {older.folder.name} of an older version hold responses to {len(older.shards)} of "
            f"{len(problems)} problems and differ in {differs}; where they stopped depends on the grader, so they are "
            "not taken over: --adopt none samples anew"
        )


def _revisions(pool: Stage, missing: Sequence[Problem]) -> Iterator[Older]:
    """Pools of other revisions of the task, with the problems whose ids and prompts are the same; each problem once."""
    for folder in sorted(pool.folder.parent.glob("*")):
        differs = _differing(folder, pool.inputs) or ()
        if folder != pool.folder and differs and REVISED.issuperset(differs):
            shards = dict(_matching(folder, missing, prompts=True))
            missing = [problem for problem in missing if problem.id not in shards]
            if shards:
                yield Older(folder, differs, shards)


def _candidates(pool: Stage, missing: Sequence[Problem]) -> Iterator[Older]:
    for folder in sorted(pool.folder.parent.glob("*")):
        differs = [] if folder == pool.folder else _differing(folder, pool.inputs)
        if differs is None or not (folder == pool.folder or is_older(folder)):
            continue
        shards = dict(_matching(folder, missing, prompts="prompt" not in differs))
        if shards:
            yield Older(folder, differs, shards)


def is_older(folder: Path) -> bool:
    """Whether an older version made the pool: it is marked so, or its first shard has no checksum."""
    first = next(iter(sorted(folder.glob("*.parquet"))), None)
    return (folder / OLDER).exists() or (first is not None and is_unsealed(first))


def _differing(folder: Path, wanted: Mapping[str, Any]) -> list[str] | None:
    """The inputs that differ, of those whose meaning may have changed; None if it is simply another pool."""
    try:
        inputs = read_manifest(folder)
        task, engine = inputs["task"], inputs["engine"]
        kept = task["name"] == wanted["task"]["name"] and all(inputs[name] == wanted[name] for name in FIXED)
    except (HarnessError, KeyError, TypeError):
        return None
    changed = _changed(engine, wanted["engine"])
    if not kept or changed is None:
        return None
    differs = [name for name in ("prompt",) if inputs.get(name) != wanted[name]]
    differs += ["verified"] if inputs.get("verified") != wanted.get("verified") else []  # of a run --until-correct
    differs += ["task.revision"] if task.get("revision") != wanted["task"]["revision"] else []
    return differs + [f"engine.{name}" for name in changed] or None


def _changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str] | None:
    """The entries that differ if each is a hash or stands on one side only; None if any other entry differs."""
    differing = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    others = [name for name in differing if name in before and name in now and name not in HASHES]
    return None if others else differing


def _matching(folder: Path, problems: Sequence[Problem], prompts: bool) -> Iterator[tuple[str, Path]]:
    """Pairs of problem id and shard, for shards of the same id and, if `prompts`, the same prompt."""
    by_id: dict[str, list[Path]] = {}
    for path in sorted(folder.glob("*.parquet")):
        by_id.setdefault(path.stem.rpartition(".")[0], []).append(path)
    for problem in problems:
        for path in by_id.get(named_shard(problem.id, "")[:-1], ()):
            about = {} if is_unsealed(path) else store.read_about(path)
            wanted = {"problem_id": storable(problem.id), "prompt": storable(problem.prompt)}
            if not about or not prompts or about == wanted:
                yield problem.id, path
                break


def _question(older: Older, total: int) -> str:
    key = older.folder.name
    holds = f"pool {key} of an older version holds responses to {len(older.shards)} of {total} problems"
    if is_unsealed(next(iter(older.shards.values()))):
        return f"{holds}, without the checksums of this one: --adopt none samples anew"
    differs = ", ".join(older.differs)
    if older.is_same:
        return (
            f"{holds} and differs in {differs} alone: --adopt {key} takes them over, where you know that the model is "
            "the same; --adopt none samples anew"
        )
    return (
        f"{holds}, to other prompts ({differs}): `harness pool export {key}` and --pool go on with them; --adopt none "
        "samples anew"
    )


def take_over(work: Work, problems: Sequence[Problem], chosen: Sequence[Older], progress: Progress) -> None:
    """Copy the responses of older pools, and vectors that fit, to the keys of this work."""
    pool, by_id = work.pool, {problem.id: problem for problem in problems}
    for older in chosen:
        vectors = _vectors_of(older, work.embeddings)
        for name, path in older.shards.items():
            problem, responses = by_id[name], store.read_responses(path)
            beside = vectors / f"{path.stem}.safetensors" if vectors else None
            if work.embeddings and beside and beside.exists():
                kept = store.read_vectors(beside)
                store.require_rows(beside, len(kept), len(responses))
                store.write_vectors(work.embeddings.path(problem), kept)
            missing_rows.mark(pool, problem, responses.missing)
            store.write_responses(pool.path(problem), problem, responses)
        progress.say(f"pool: {len(older.shards)} problems' responses taken over from {older.folder.name}{_why(older)}")


def _why(older: Older) -> str:
    return "" if older.differs else ": their references have changed, not their prompts"


def _vectors_of(older: Older, wanted: Stage | None) -> Path | None:
    """The folder of the older pool's vectors by the same embedder; None if there is none."""
    if wanted is None:
        return None
    if not older.differs:
        return wanted.folder
    for folder in sorted(wanted.folder.parent.glob("*")):
        with suppress(HarnessError, KeyError, TypeError):
            inputs = read_manifest(folder)
            same = all(inputs[name] == wanted.inputs[name] for name in ("dim", "projection_seed"))
            same = same and all(
                inputs["embedder"][name] == wanted.inputs["embedder"][name] for name in ("name", "params")
            )
            models = [_changed(inputs.get(name, {}), wanted.inputs.get(name, {})) for name in ("engine", "model")]
            if same and inputs["pool"] == older.folder.name and None not in models:
                return folder
    return None
