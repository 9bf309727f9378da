"""Read from a store what a cell was made from: pool, vectors, verdicts, orders; rebuild its selector.

Neither the task nor its data set is needed: a pool's folder says which problems it has, with the hashes by which files
are named. A stored order ends at the correct response that its run counts to. To continue it, `rebuilt` builds the
selector again, and `picks` ranks with the trial's own random stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from harness.contracts import LearnsFromOutcomes
from harness.errors import HarnessError, contained, did_you_mean
from harness.plugin_system.calls import picked
from harness.plugin_system.component import build, described, parse_spec
from harness.plugin_system.registry import Registry
from harness.records import Pool, Problem, Responses
from harness.system.json_text import digest, readable, storable
from harness.system.json_text import read as read_json

from .column import DEPENDS, READS, Column, Question
from .orders import one_thread, pool_of, ranking_rng, waiting_named
from .responses import responses_of
from .store import Memo, Store, about, read, sum_of

STAGES = {"pool": "responses", "embedding": "vectors", "score": "scores", "verdict": "verdicts", "ranking": "orders"}


def pool_keys(root: Path) -> dict[str, Path]:
    """Key -> folder of each pool in a store, in the order of the folders' names."""
    return {path.parent.name.rpartition(".")[2]: path.parent for path in sorted(root.glob("*/pool.json"))}


def stored_pool(root: Path, key: str) -> StoredPool:
    """The pool whose key begins with `key`; HarnessError if there is none or more than one."""
    known = pool_keys(root)
    matches = [folder for name, folder in known.items() if name.startswith(key)]
    if len(matches) == 1:
        return StoredPool(matches[0])
    if matches:
        raise HarnessError(f"pool {key!r}: {len(matches)} pools of {root} begin so: write more of the key")
    there = did_you_mean(key, known, "there")
    raise HarnessError(f"pool {key!r}: no such file, and no such key in {root} {there}")


class StoredPool:
    """A pool in a store, from its folder alone.

    about  what made its responses: the fields of the column
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.store = folder, Store(folder.parent)
        self.key = folder.name.rpartition(".")[2]

    @cached_property
    def about(self) -> dict[str, Any]:
        return dict(read_json(self.folder / "pool.json", "pool"))

    def columns(self, kind: str) -> list[Path]:
        """The folders of the columns of a kind, the newest last."""
        marks = list(self.folder.glob(f"{kind}.*/column.json"))
        return [path.parent for path in sorted(marks, key=lambda path: (path.stat().st_mtime_ns, path))]

    def column(self, kind: str, key: str | None = None) -> Path | None:
        """The folder of the column of a kind with that key (None: of the newest); None if there is none."""
        folders = [path for path in self.columns(kind) if key is None or path.name.endswith(f".{key}")]
        return folders[-1] if folders else None

    @cached_property
    def questions(self) -> dict[str, Question]:
        """Problem id -> the problem, for those with responses; of two versions of a problem the later counts."""
        responses, found = self.column("responses"), {}
        for problem_id, prompt, asked, graded in Memo(self.folder / "problems.jsonl").values:
            question = Question(Problem(problem_id, prompt))
            vars(question).update(asked=asked, graded=graded)
            if responses and self.path(responses, question):
                found[problem_id] = question
        return found

    def path(self, folder: Path, question: Question, read_from: Sequence[Path] = ()) -> Path | None:
        """The file of a problem in a column's folder, made from these files; None if there is none."""
        name, depends = question.problem.id, DEPENDS.get(folder.name.partition(".")[0], "")
        hashed = digest([name, getattr(question, depends, None), [sum_of(path) for path in read_from]], 12)
        return self.store.files(folder).get(f"{readable(name)}.{hashed}")

    def rows(self, kind: str, question: Question, keys: Mapping[str, str | None]) -> Any:
        """The rows of a column for a problem, checked; None if they are not there.

        keys  kind -> key of each column on the way; a kind that is not in it was not read
        """
        path = self.path_of(kind, question, keys)
        return None if path is None else read(path)

    def path_of(self, kind: str, question: Question, keys: Mapping[str, str | None]) -> Path | None:
        """The file that `rows` reads."""
        folder = self.column(kind, keys.get(kind))
        read_from = [self.path_of(each, question, keys) for each in READS.get(kind, ()) if each in keys]
        if folder is None or None in read_from:
            return None
        return self.path(folder, question, [path for path in read_from if path])


def list_problems(folder: Path, questions: Iterable[Question], with_prompts: bool = True) -> None:
    """Write beside a pool which problems it has (`StoredPool.questions`), those that are not listed yet."""
    every = {}
    for question in questions:
        problem, asked, graded = question.problem, question.asked, question.graded
        text = problem.prompt if with_prompts else ""
        every[f"{problem.id}\0{asked}\0{graded}"] = [problem.id, text, asked, graded]
    Memo(folder / "problems.jsonl").filled(list(every), lambda names: [every[name] for name in names])


@dataclass(frozen=True)
class StoredResponses(Column):
    """The responses of a pool in a store, whatever made them: what grades or scores them reads this column."""

    kind: ClassVar[str] = "responses"
    verb: ClassVar[str] = "sample"
    is_costly: ClassVar[bool] = True

    at: Path  # their folder

    @cached_property
    def key(self) -> str:
        return self.pool_name.rpartition(".")[2]

    @cached_property
    def folder(self) -> str:
        return self.at.name

    @cached_property
    def pool_name(self) -> str:
        return self.at.parent.name


@dataclass(frozen=True)
class StoredProblem:
    """One problem of a stored pool, and readers of what a cell was made from."""

    pool_: StoredPool
    question: Question

    @property
    def problem(self) -> Problem:
        """Its id and prompt; the store does not keep the reference."""
        return self.question.problem

    def _rows(self, cell: Mapping[str, Any], stage: str) -> Any:
        rows = self.pool_.rows(STAGES[stage], self.question, keys_of(cell))
        if rows is None:
            raise HarnessError(f"store: {self.pool_.folder} has no {STAGES[stage]} of problem {self.problem.id!r}")
        return rows

    def has(self, cell: Mapping[str, Any], stage: str) -> bool:
        """Whether the store still has this problem's file of the cell's "pool", "embedding", "ranking", ..."""
        return self.pool_.path_of(STAGES[stage], self.question, keys_of(cell)) is not None

    def responses(self, cell: Mapping[str, Any]) -> Responses:
        """All responses to the problem, without states."""
        return responses_of(self._rows(cell, "pool"))

    def verdicts(self, cell: Mapping[str, Any], n: int) -> list[str]:
        """The first n verdicts: "correct", "wrong" or "error"."""
        statuses: list[str] = self._rows(cell, "verdict")["status"].to_pylist()[:n]
        return statuses

    def ranking(self, cell: Mapping[str, Any]) -> dict[str, Any]:
        """This problem's orders by the cell's selector: their kind (order or subset), n, and trials.

        A trial is an order up to a correct response, or a subset for each budget; [] where too few are correct.
        """
        rows = self._rows(cell, "ranking")
        made, picks = about(rows), rows.to_pylist() if rows.num_columns else []
        if made["kind"] == "order":
            return {**made, "trials": [pick["picks"] for pick in picks]}
        trials: dict[int, dict[str, list[int]]] = {}
        for pick in picks:
            trials.setdefault(pick["trial"], {})[str(pick["k"])] = pick["picks"]
        return {**made, "trials": [trials[trial] for trial in sorted(trials)]}

    def pool(self, cell: Mapping[str, Any], n: int) -> Pool:
        """The first n responses as the cell's selector saw them."""
        stages = [stage for stage in ("pool", "embedding", "score", "verdict") if cell["inputs"].get(stage)]
        given = {STAGES[stage]: self._rows(cell, stage) for stage in stages}
        where = f"store {self.pool_.folder.parent}, problem {self.problem.id!r}"
        return pool_of(given, n, where, cell["inputs"]["ranking"].get("unit", False))


def key_of(cell: Mapping[str, Any], stage: str) -> str | None:
    """The key of the cell's "pool", "ranking", ...; None for "embedding" if its selector reads none."""
    inputs = cell["inputs"].get(stage)
    return inputs and str(inputs["key"])


def keys_of(cell: Mapping[str, Any]) -> dict[str, str | None]:
    """Kind of column -> key, for the columns that a cell was made from."""
    keys = {kind: key_of(cell, stage) for stage, kind in STAGES.items() if cell["inputs"].get(stage)}
    return keys | {"responses": None}  # a pool has one


def stored_problems(root: Path, cell: Mapping[str, Any]) -> dict[str, StoredProblem]:
    """The cell's problems whose responses are in the store, by id, in the cell's order."""
    if (folder := pool_keys(root).get(str(key_of(cell, "pool")))) is None:
        return {}
    pool = StoredPool(folder)
    by_id = {storable(name): question for name, question in pool.questions.items()}
    ids = [entry["id"] for entry in cell["problems"] if storable(entry["id"]) in by_id]
    return {name: StoredProblem(pool, by_id[storable(name)]) for name in ids}


def first_reason(root: Path, cell: Mapping[str, Any]) -> str:
    """The reason of the first verdict on the cell's problems that has one; "" if there is none, or no such store."""
    for problem in stored_problems(root, cell).values():
        rows = problem.pool_.rows("verdicts", problem.question, keys_of(cell))
        for reason in rows["reason"].to_pylist() if rows is not None else ():
            if reason:
                return str(reason)
    return ""


def rebuilt(registry: Registry, cell: Mapping[str, Any]) -> Any:
    """Build the selector that made the cell; None if another version of it is installed.

    HarnessError if it is not installed.
    """
    spec = cell["labels"]["selector"]
    selector = build(registry, "selector", spec)
    now = described(registry.find("selector", parse_spec(spec).name), selector)
    return selector if now == cell["inputs"]["ranking"]["selector"] else None


def picks(selector: Any, cell: Mapping[str, Any], pool: Pool, problem: Problem, trial: int, most: int) -> list[int]:
    """The first `most` picks of one of the cell's trials (fewer if the ranking ends), each index checked.

    A selector is third-party code: any exception it raises passes through. HarnessError for one that learns: its picks
    depend on outcomes.
    """
    labels = cell["labels"]
    if isinstance(selector, LearnsFromOutcomes):
        raise HarnessError(f"selector {labels['selector']!r} learns from outcomes: it has no order without them")
    with contained(), one_thread(labels["selector"]), waiting_named(labels["selector"], problem):
        ranking = selector.rank(pool, ranking_rng(labels["seed"], problem, trial))
        return list(islice(picked(ranking, len(pool)), most))
