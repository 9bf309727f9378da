"""What a cell's selector picks first, and how likely each response is: read from the store that the cell was made in.

A cell, and the store's rankings, end at the first correct response; here the same selector is asked again for k picks
of every problem, from the same stream of random numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from .. import store
from ..component import build, described, parse_spec
from ..errors import HarnessError
from ..records import Floats, Ints, Pool, Problem
from ..registry import load_registry
from ..work import centred, checked, one_thread, ranking_rng, said
from .chosen import Chosen
from .request import Request


@dataclass(frozen=True, eq=False)
class Picked:
    """One problem: log-probability per token (n,), verdicts (n,), and each trial's first picks (trials, k)."""

    per_token: Floats
    is_correct: Any
    picks: Ints


@dataclass(frozen=True)
class _Shard(store.Stage):
    """A stage of which one shard is read: its name is hashed from a reference that the store does not keep."""

    name: str = ""

    def path(self, problem: Problem) -> Path:
        """Where the shard is."""
        return self.folder / f"{self.name}{self.suffix}"


def picked(request: Request, one: Chosen, k: int) -> Iterator[Picked]:
    """The cell's problems, in its order; HarnessError where the store or the selector is not what the cell says."""
    smallest = int(one.outcomes.n.min())
    if k > smallest:
        raise request.refused(f"-k {k}: the smallest pool of cell {one.key} has {smallest} responses")
    selector, shards = _selector(request, one), _shards(request, one)
    missing = [problem for problem in one.problems if store.storable(problem) not in shards]
    if missing:
        raise request.refused(
            f"store {request.store} holds {len(one.problems) - len(missing)} of the {len(one.problems)} problems of "
            f"cell {one.key}: name the store in which it was run (--store)"
        )
    changed = 0
    for entry in one.cell["problems"]:
        found = _picked(request, one, selector, entry, shards[store.storable(entry["id"])], k)
        changed += _differs(entry, found.picks)
        yield found
    if changed:
        request.say(
            f"cell {one.key}: on {changed} problems this machine's picks differ from the cell's; its own are drawn"
        )


def _selector(request: Request, one: Chosen) -> Any:
    """The selector that made the cell, built again."""
    spec, registry = one.about["selector"], load_registry(request.plugin_files)
    selector = build(registry, "selector", spec)
    if (
        described(registry.find("selector", parse_spec(spec).name), selector)
        != one.cell["inputs"]["ranking"]["selector"]
    ):
        raise request.refused(f"selector {spec!r} is not the version that made cell {one.key}: run it again")
    if not hasattr(selector, "rank"):
        raise request.refused(f"selector {spec!r} chooses sets, not an order: it has no first picks")
    return selector


def _shards(request: Request, one: Chosen) -> dict[str, str]:
    """Problem id -> the name of its shards."""
    folder = request.store / "pool" / one.cell["inputs"]["pool"]["key"]
    if not folder.is_dir():
        raise request.refused(
            f"store {request.store} does not hold the pool of cell {one.key}: say in which --store it was run"
        )
    return {store.about_shard(path)["problem_id"]: path.stem for path in sorted(folder.glob("*.parquet"))}


def _picked(request: Request, one: Chosen, selector: Any, entry: dict[str, Any], name: str, k: int) -> Picked:
    problem, labels = Problem(entry["id"], ""), one.cell["labels"]
    pool, is_correct = _pool(request, one, problem, name, entry["n"])
    try:
        with one_thread(labels["selector"]):
            trials = range(labels["trials"])
            picks = [_first(selector, pool, ranking_rng(labels["seed"], problem, trial), k) for trial in trials]
    except Exception as failure:  # a selector is foreign code
        raise request.refused(f"selector {labels['selector']!r}, problem {problem.id!r}: {said(failure)}") from failure
    return Picked(pool.logprobs / np.maximum(pool.lengths, 1), is_correct, np.array(picks))


def _first(selector: Any, pool: Pool, rng: np.random.Generator, k: int) -> list[int]:
    seen: set[int] = set()
    picks = [checked(raw, len(pool), seen) for raw in islice(selector.rank(pool, rng), k)]
    if len(picks) < k:
        raise HarnessError(f"the ranking ended after {len(picks)} of {len(pool)} responses")
    return picks


def _pool(request: Request, one: Chosen, problem: Problem, name: str, n: int) -> tuple[Pool, Any]:
    """One problem's pool as the selector saw it, and which responses are correct (n,)."""
    inputs, root = one.cell["inputs"], request.store
    responses = store.responses_in(root / "pool" / inputs["pool"]["key"] / f"{name}.parquet")
    if np.isnan(responses.logprobs).any() or responses.token_ids is None:
        lacks = "token counts" if responses.token_ids is None else "log-probabilities"
        raise request.refused(f"the pool of cell {one.key} carries no {lacks}: sample one with `harness run`")
    verdicts, answers = store.full_verdicts_in(root / "verdict" / inputs["verdict"]["key"] / f"{name}.parquet")
    vectors = np.zeros((n, 0), np.float32)
    if "embedding" in inputs:
        key = inputs["embedding"]["key"]
        vectors = store.read_vectors(_Shard(root / "embedding" / key, key, ".safetensors", {}, name), problem)[:n]
    pool = Pool(responses.texts[:n], centred(vectors), responses.logprobs[:n], responses.lengths[:n], answers[:n])
    return pool, np.array([verdict.status == "correct" for verdict in verdicts[:n]])


def _differs(entry: dict[str, Any], picks: Ints) -> bool:
    """Whether a trial begins otherwise than the cell says."""
    return any(
        list(new[: len(old)]) != list(old[: len(new)])
        for new, old in zip(picks, entry.get("orders") or [], strict=False)
    )
