"""The Python door: `harness.run`, `select`, `verify`, `search` and `read_results` (docs/python.md).

    results = harness.run(pool="answers.jsonl", selectors=["repexp", "uniform"])
    results.to_pandas()

They call the functions that the command line calls, take its options as keywords, and write to the same store. A
mistake is a `HarnessError` of one line, in the command line's words: `--max-tokens` is the keyword `max_tokens`, and
`--selector` of `run` is `selectors`. Messages on the way go to stderr; `quiet=True` leaves them out, and `yes=True`
begins work of an hour or more without asking.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from harness.errors import HarnessError
from harness.jobs import grid
from harness.jobs import run as jobs
from harness.jobs.options import RunConfig, SelectConfig, checked, completed
from harness.jobs.selection import Held
from harness.jobs.selection import select as chosen_by
from harness.plugin_system.component import registered
from harness.plugin_system.registry import is_own
from harness.pools.given import is_table
from harness.results import leaderboard, published
from harness.results.rows import Row
from harness.system.console import LEAST_WIDTH, captured, console
from harness.system.progress import Progress
from harness.verifying import loop
from harness.verifying.config import VerifyConfig
from harness.verifying.session import Session
from harness.verifying.verifiers import Function, called

if TYPE_CHECKING:
    from pandas import DataFrame

Indices: TypeAlias = np.ndarray[tuple[int], np.dtype[np.intp]]
CELLS = (Path("results"), Path("runs/cells"))  # where cells are looked for by key


@dataclass(frozen=True, repr=False)
class Results(Sequence[Row]):
    """The rows of a run or of leaderboards: iterate over them, index them, or take them as a table.

    rows      a `Row` for each selector (and embedder, model, ...): its fields are those of `harness run --json`
    failures  what has no row -> the reason, one line
    store     the folder in which a run kept all that it made
    controls  a `Row` for each control that a run ranked beside selectors by vectors; what they say is in `rows`, too
    boards    the leaderboards that were read, and `faults`, why files that were read are not counted, one line each
    """

    rows: Sequence[Row]
    failures: Mapping[str, str] = field(default_factory=dict)
    store: Path | None = None
    boards: Sequence[leaderboard.Board] = ()
    faults: Sequence[str] = ()
    controls: Sequence[Row] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: Any) -> Any:
        return self.rows[place]

    def to_pandas(self) -> DataFrame:
        """One flat frame: a line for each row, columns as in leaderboard.csv (`improvement_ci_low`, `pass_at_k_16`).

        Values are not rounded; what does not exist is NaN or None. HarnessError if pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise HarnessError("to_pandas needs pandas, which is not installed: pip install pandas") from None
        labelled = [(board.about, row) for board in self.boards for row in board.rows]
        labelled = labelled or [({}, row) for row in self.rows]
        return pandas.DataFrame([leaderboard.flat({**about, **row.to_json()}) for about, row in labelled])

    def table(self) -> str:
        """The tables that the command line prints, as text; on a narrow terminal with fewer columns."""
        from harness.cli import result_tables

        with captured(min(console().width, LEAST_WIDTH)) as text:
            if self.boards:
                result_tables.leaderboard(self.boards, ())
            else:
                result_tables.results([*self.rows, *self.controls], self.store or Path("runs"))
        return text.getvalue() + "".join(f"{line}\n" for line in self._remarks())

    def __repr__(self) -> str:
        return self.table()

    def _remarks(self) -> list[str]:
        failed = [] if self.boards else [f"failed: {line}" for line in self.failures.values()]
        return [*failed, *(f"not counted: {fault}" for fault in self.faults)]


def run(
    *, selectors: Any = (), preset: str | None = None, yes: bool = False, quiet: bool = False, **options: Any
) -> Results:
    """Sample, embed, verify, rank, score: which selector needs fewer verifier calls? What `harness run` does.

    selectors  specs ("repexp:lam=0.1") and objects of your own with `rank(pool, rng)` or `select(pool, k, rng)`, which
               rank in this process; the class's file is in their keys, and a class of a notebook is ranked in each call
    preset     options that the task names, e.g. "quick"; options that you give stay
    options    any field of `RunConfig` (an option of `harness run`, with underscores): task, model, pool, n, limit, ...

    Return a `Results` with a row for each selector that did not fail. What is in the store is not made again.
    HarnessError if the run cannot be carried out, or is long and there is no terminal to ask at.
    """
    specs = [selectors] if isinstance(selectors, (str, type)) or not isinstance(selectors, Sequence) else selectors
    with registered(specs) as names, _guarded_main():
        given = {**options, "selectors": names} if names else options
        config = completed({**checked(RunConfig, given, "run"), "preset": preset})
        if config.until_correct:
            raise HarnessError("run: --until-correct makes no rows: use `harness run` in a shell")
        if config.rank_timeout is not None and any(map(is_own, names)):
            raise HarnessError("run: --rank-timeout goes with specs: objects of this session rank in this process")
        job = grid if config.grid else jobs
        progress = Progress(quiet=quiet, asks=not yes)
        lines, failures = job.run(config, progress)
    rows, controls = ([row for row in lines if bool(row.control) == wanted] for wanted in (False, True))
    if failures and not rows:
        raise HarnessError("; ".join(failures.values()))
    for line in failures.values():
        print(f"failed: {line}", file=sys.stderr)
    return Results(rows, failures, config.store, controls=controls)


def select(
    source: Any,
    selector: Any = "repexp",
    k: int = 16,
    *,
    verified: Any = None,
    scores: Any = None,
    names: Any = None,
    yes: bool = False,
    quiet: bool = False,
    **options: Any,
) -> Any:
    """Choose k of the responses to verify next, without looking at any verdict. What `harness select` does.

    source    vectors (n, d), one row a response, scipy's sparse matrices too; or n texts (vectors by TF-IDF); or a
              mapping of problem ids to either; or the path of a pool file (docs/pools.md) or of a file of vectors
              (.npz, .npy, .safetensors, or a .csv or .parquet of numbers)
    selector  a spec ("repexp:lam=0.1"), or an object of your own with `rank(pool, rng)` or `select(pool, k, rng)`
    verified  indices of responses that are not offered again, or a list of such batches; for several problems a
              mapping of ids to them
    scores    a number for each response, or several by name, for selectors by score; for several problems a mapping of
              ids to them
    names     what the responses are called, a text for each; for several problems a mapping of ids to them. Then
              `verified` may hold names
    options   any other field of `SelectConfig` (an option of `harness select`, with underscores): embedder, seed, ...

    Return k indices (k,) from 0, best first (in no order from a subset method), with `names` a list of k names; for a
    mapping or a path a dict of the problems' ids to them. HarnessError if a problem has fewer than k responses left, or
    a value is not finite.
    """
    with registered([selector]) as (spec,):
        ids, held, place = _held(source, verified, names)
        if scores is not None:
            by_id = scores if isinstance(source, (Mapping, str, Path)) else {"problem": scores}
            if not isinstance(by_id, Mapping):
                raise HarnessError("select: scores must be a mapping of problem ids to numbers here")
            held = replace(held, scores={str(name): values for name, values in by_id.items()})
        given = {**options, **place, "selector": spec, "k": k}
        request = SelectConfig(**checked(SelectConfig, given, "select"))
        if held.texts is not None and (request.task or request.model or request.scorer):
            raise HarnessError(
                "select: --task, --model and --scorer go with a pool file (docs/pools.md), not with texts in memory"
            )
        chosen = chosen_by(request, Progress(quiet=quiet, asks=not yes), held)
    picks: dict[Any, Any] = {}
    for each in chosen:
        order = np.array(each.order, np.intp) if names is None else [each.names[index] for index in each.order]
        picks[ids.get(each.problem_id, each.problem_id)] = order
    return picks if isinstance(source, (Mapping, str, Path)) else picks.popitem()[1]


def verify(
    source: Any,
    verifier: Function,
    selector: Any = "repexp",
    *,
    budget: int,
    journal: str | Path = "verify.jsonl",
    names: Any = None,
    yes: bool = False,
    quiet: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """Verify the selector's picks until each problem is solved or the budget is used up. What `harness verify` does.

    source    what `select` takes: vectors, texts, a mapping of problem ids to either, or the path of a file
    verifier  `verifier(problem_id, index, text)` returns True (correct) or False, a measured number, or None if it
              cannot tell (the response is skipped); what it raises is an error, and costs a call. With workers=N it is
              called in N threads
    selector  a spec, or an object of your own
    budget    the most calls in all, those in the journal included
    journal   the file in which every outcome is written down; the same call goes on from it
    names     what the responses are called, as in `select`: the journal and what is found show it
    options   any other field of `VerifyConfig` (an option of `harness verify`, with underscores): until, workers, ...

    Return what `harness verify --json` prints: problems, solved, calls, errors, found (problem_id, index, call, value),
    ... HarnessError if it cannot be carried out, or if five calls in a row raise.
    """
    with registered([selector]) as (spec,):
        _, held, place = _held(source, None, names)
        name = str(getattr(verifier, "__qualname__", type(verifier).__qualname__))  # as the journal has it
        given = {**options, **place, "selector": spec, "budget": budget, "journal": Path(journal)}
        config = VerifyConfig(**checked(VerifyConfig, {**given, "verifier": name}, "verify"))
        ended = loop.verify(config, Progress(quiet=quiet, asks=not yes), called(verifier, config), held)
        return loop.summary(ended)


def search(
    source: Any,
    selector: Any = "repexp",
    *,
    journal: str | Path = "verify.jsonl",
    names: Any = None,
    yes: bool = False,
    quiet: bool = False,
    **options: Any,
) -> Session:
    """Ask for candidates, and tell their outcomes when they come: `harness verify --ask`, on the same journal.

    source    what `select` takes: vectors, texts, a mapping of problem ids to either, or the path of a file
    selector  a spec, or an object of your own
    journal   the file in which every pick and outcome is written down; the same call, or the command, goes on from it
    names     what the candidates are called, as in `select`, each name once; then they are asked for and told by name
    options   any other field of `VerifyConfig` (an option of `harness verify`, with underscores): threshold, top, ...
              Without `until` no problem is done before all its candidates have an outcome

    Return a `Session`: `search.ask(8)` gives eight names, `search.tell(name, True)` takes an outcome, `search.open`,
    `search.found` and `search.calls` say what is out, what was found, and at how many calls. HarnessError if it cannot
    be carried out, or the journal is of other candidates or of another selector.
    """
    with registered([selector]) as (spec,):
        ids, held, place = _held(source, None, names)
        given = {"ask": True, "until": 1 if options.get("top") else sys.maxsize, **options, **place}
        given |= {"selector": spec, "journal": Path(journal)}
        config = VerifyConfig(**checked(VerifyConfig, given, "search"))
        return Session(config, Progress(quiet=quiet, asks=not yes), held, ids)


def read_results(*folders_or_cells: str | Path) -> Results:
    """Read cells: a leaderboard's rows, from folders (with all below them), stores, files of cells, or cells' keys.

    A key may be cut to its beginning; it is looked up in results/ and runs/cells. Without arguments these two are read.
    Cells that differ only in their seeds are one row. HarnessError if there is nothing to read.
    """
    names = folders_or_cells or [folder for folder in CELLS if folder.is_dir()]
    folders = [Path(name) for name in names if Path(name).is_dir()]
    content = leaderboard.gather(folders)
    for name in names:
        if not Path(name).is_dir():
            leaderboard.add(content, published.named(str(name), CELLS, "read_results"))
    boards = leaderboard.boards(content)
    if not boards:
        reason = content.faults[0] if content.faults else f"no cells in {', '.join(map(str, names or CELLS))}"
        raise HarnessError(f"read_results: {reason}")
    failures = {key: str(cell["failed"]) for key, cell in leaderboard.unresolved(content).items()}
    return Results([row for board in boards for row in board.rows], failures, None, boards, tuple(content.faults))


def _held(source: Any, verified: Any, called: Any = None) -> tuple[dict[str, Any], Held, dict[str, Any]]:
    """The caller's problem ids by their texts, what is in memory, and the options that name what is not."""
    ids, held, place = _in_memory(source, verified if called is None else _indices(verified, called))
    if called is not None:
        by_id = called if isinstance(called, Mapping) else {"": called}
        held = replace(held, names={str(name): list(each) for name, each in by_id.items()})
    return ids, held, place


def _in_memory(source: Any, verified: Any) -> tuple[dict[str, Any], Held, dict[str, Any]]:
    if isinstance(source, (str, Path)):
        path = Path(source)
        holds_vectors = path.suffix in (".npz", ".npy", ".safetensors") or is_table(path)
        place = {"embeddings" if holds_vectors else "pool": source}
        if isinstance(verified, (str, Path)):
            return {}, Held(), {**place, "verified": verified}
        return {}, Held(verified=_by_id(verified)), place
    if verified is not None and not isinstance(source, Mapping):
        verified = {"problem": verified}
    problems = source if isinstance(source, Mapping) else {"problem": source}
    names, before = {str(name): name for name in problems}, _by_id(verified)
    if len(names) < len(problems) or not problems:
        raise HarnessError("select: no problems are given" if not problems else "select: two problems have one id")
    values = {name: problems[names[name]] for name in names}
    if all(map(_are_texts, values.values())):
        texts = {name: list(each) for name, each in values.items()}
        return names, Held(texts=texts, verified=before), {"pool": "texts"}
    return names, Held(vectors=values, verified=before), {"embeddings": "vectors"}


def _indices(verified: Any, called: Any) -> Any:
    """`verified` with the index of a response in place of its name."""
    if isinstance(verified, Mapping):
        each = called if isinstance(called, Mapping) else dict.fromkeys(verified, called)
        return {name: _indices(given, each.get(name, ())) for name, given in verified.items()}
    if isinstance(verified, str):
        if (times := list(called).count(verified)) != 1:
            raise HarnessError(f"select: verified: {verified!r:.60} is the name of {times} responses")
        return list(called).index(verified)
    if isinstance(verified, (list, tuple, set)):
        return [_indices(each, called) for each in verified]
    return verified


def _are_texts(values: Any) -> bool:
    is_list = getattr(values, "ndim", 1) == 1 and hasattr(values, "__len__") and not hasattr(values, "toarray")
    return is_list and len(values) > 0 and all(isinstance(value, str) for value in values)


def _by_id(verified: Any) -> dict[str, list[Any]] | None:
    """Problem id -> indices, of one batch or of a list of batches."""
    if verified is None:
        return None
    if not isinstance(verified, Mapping):
        raise HarnessError("select: verified must be a mapping of problem ids to indices, or a file of them, here")
    batches = {name: indices if isinstance(indices, Iterable) else [indices] for name, indices in verified.items()}
    return {
        str(name): [index for batch in each for index in np.ravel(batch).tolist()] for name, each in batches.items()
    }


@contextmanager
def _guarded_main() -> Iterator[None]:
    """Keep worker processes from running the user's script again: one without `if __name__ == "__main__"` would."""
    main = sys.modules["__main__"]
    if hasattr(main, "__file__"):
        sys.modules["__main__"] = without_file = ModuleType("__main__")
        vars(without_file).update({**vars(main), "__spec__": None})
        del without_file.__file__
    try:
        yield
    finally:
        sys.modules["__main__"] = main
