"""What whoever writes a layout of pool files needs: the record that it gives, what it offers, and functions to read by.

A layout is a plugin (`register_layouts`), built without parameters. It turns a file of another tool into `PoolRecord`s,
one a problem, and reads JSON lines (`LineLayout`) or whole files (`FileLayout`). It refuses by a HarnessError that
names file and place.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from harness.errors import HarnessError
from harness.records import Responses
from harness.system.json_text import Line

Say: TypeAlias = Callable[[str], None]


@dataclass(frozen=True)
class PoolRecord:
    """A problem's responses from a pool file.

    reference     the answer to the problem; from a plugin's layout it is stored as `as_reference` returns it
    logprobs      one number a response; `logprob_kind` says in words which
    measurements  those of each response, for a task that judges by them
    finish        how each ended, "stop" or "length"; None: not known, so each counts as complete
    names         what the file calls each response
    scores        by name one number a response, None or NaN where unknown; of reward models or judges, never verdicts
    more_ids, more_prompts   further names under which it may join to a task's problem, best first
    """

    problem_id: str
    responses: Sequence[str]
    prompt: str | None = None
    reference: Any = None
    logprobs: Sequence[float] | None = None
    logprob_kind: str | None = None
    correct: Sequence[bool] | None = None
    measurements: Sequence[Mapping[str, float]] | None = None
    finish: Sequence[str] | None = None
    names: Sequence[str] = ()
    more_ids: Sequence[str] = ()
    more_prompts: Sequence[str] = ()
    scores: Mapping[str, Sequence[float | None]] = field(default_factory=dict)

    @property
    def ids(self) -> tuple[str, ...]:
        """All ids that it may join by, best first."""
        return (self.problem_id, *self.more_ids)

    @property
    def prompts(self) -> tuple[str, ...]:
        """All prompts that it may join by, best first."""
        return ((self.prompt,) if self.prompt else ()) + tuple(self.more_prompts)

    def as_responses(self) -> Responses:
        """The record's columns; lengths are in characters, since tokens are not known."""
        n = len(self.responses)
        return Responses(
            texts=self.responses,
            finish=["stop"] * n if self.finish is None else list(self.finish),
            lengths=np.array([len(text) for text in self.responses], np.int64),
            logprobs=np.full(n, np.nan) if self.logprobs is None else np.asarray(self.logprobs, np.float64),
            scores={name: np.array(column, np.float64) for name, column in self.scores.items()},
        )


@runtime_checkable
class LineLayout(Protocol):
    """A layout of JSON lines: files and folders are opened, unpacked and parsed by the harness.

    name      as messages show it
    keys      what each line holds, for messages
    takes     optional: the options that `read` takes by name, of those in `RunConfig.of_layouts`; they are in the key
    remark    optional: what is said of values that are not taken, e.g. "; its metrics are not taken as verdicts"
    verdicts  optional: keys of another grader's verdicts, which are named too where the first line has them
    """

    name: str
    keys: str

    def fits(self, value: Mapping[str, Any]) -> bool:
        """Whether an object is a line of this layout; the first line of a file decides, all others must fit too."""

    def read(self, lines: Iterator[Line]) -> Iterator[PoolRecord]:
        """The records of a file's lines, each problem once (`grouped` joins those of several lines)."""


@runtime_checkable
class FileLayout(Protocol):
    """A layout of whole files, or of folders.

    name   as messages show it
    holds  what it reads, for messages, e.g. "lighteval parquet"
    takes  optional, as for a `LineLayout`
    files  optional: `files(path)`, those of a folder that it reads, so that a change in another one changes no key
    """

    name: str
    holds: str

    def fits(self, path: Path) -> bool:
        """Whether an existing file or folder is of this layout, judged by its content."""

    def read(self, path: Path, say: Say) -> Iterator[PoolRecord]:
        """The records of a file or folder; `say` gets a line on how it is read and what of it is not taken."""


# What readers of layouts share


def grouped(parts: Iterable[tuple[Hashable, PoolRecord]]) -> Iterator[PoolRecord]:
    """Yield one record for each key of pairs (key, record), with the responses of all with it, as they appear.

    What is not of a single response is that of the key's first record. All texts stay in memory until the last is read.
    """
    groups: dict[Hashable, list[PoolRecord]] = {}
    for key, part in parts:
        groups.setdefault(key, []).append(part)
    while groups:
        group = groups.pop(next(iter(groups)))
        scores: dict[str, list[float | None]] = {name: [] for part in group for name in part.scores}
        for part in group:
            for name, column in scores.items():
                column.extend(part.scores.get(name, [None] * len(part.responses)))
        finish = [end for part in group for end in part.finish or ["stop"] * len(part.responses)]
        yield replace(
            group[0],
            responses=[text for part in group for text in part.responses],
            scores=scores,
            finish=finish if any(part.finish is not None for part in group) else None,
        )


def text_in(value: Mapping[str, Any], name: str, where: str) -> str:
    """Return the text under that name; HarnessError, which begins with `where`, if it is not a text."""
    text = value.get(name)
    if not isinstance(text, str):
        raise HarnessError(f"{where}: {name} must be a text, got {text!r:.60}")
    return text


def texts_in(value: Mapping[str, Any], name: str, where: str) -> list[str]:
    """Return the non-empty list of texts under that name; HarnessError, beginning with `where`, if there is none."""
    texts = value.get(name)
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise HarnessError(f"{where}: {name} must be a list of texts")
    if not texts:
        raise HarnessError(f"{where}: no {name}: leave the problem out, or give it some")
    return texts


def column_in(column: Any, name: str, n: int, where: str) -> list[Any]:
    """Return the column; HarnessError, which begins with `where`, unless it is a list of n entries."""
    if not isinstance(column, list) or len(column) != n:
        size = f"{len(column)} entries" if isinstance(column, list) else f"{column!r:.40}"
        raise HarnessError(f"{where}: {name} must be a list as long as responses ({n}), got {size}")
    return column


def scores_in(value: Any, n: int, where: str) -> dict[str, list[float | None]]:
    """Return scores as a file gives them: a list (its name is "score"), lists by name, or None (no scores).

    HarnessError, which begins with `where`, unless each list has n entries: finite numbers, or null where unknown.
    """
    columns = {"score": value} if isinstance(value, list) else {} if value is None else value
    if not isinstance(columns, Mapping) or not all(isinstance(name, str) and name for name in columns):
        raise HarnessError(f"{where}: scores must be a list, or lists by name, got {value!r:.60}")
    for name, column in columns.items():
        for entry in column_in(column, f"scores {name!r}", n, where):
            if entry is not None and not is_number(entry):
                raise HarnessError(f"{where}: scores {name!r} must hold finite numbers or null, got {entry!r:.40}")
    return dict(columns)


def is_number(value: Any) -> bool:
    """Whether a value is a number that a score can be: no boolean, none that a float cannot hold; NaN is unknown."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and not abs(value) > sys.float_info.max


def as_reference(value: Any) -> Any:
    """Return a reference as the store can keep it.

    Texts, whole numbers, booleans, None and flat lists of these stay as they are. Anything else, also a float or a very
    long number, becomes text, or None if Python cannot write it.
    """

    def is_plain(entry: Any) -> bool:
        return entry is None or isinstance(entry, str) or (isinstance(entry, int) and entry.bit_length() < 4_096)

    if all(map(is_plain, value if isinstance(value, list) else [value])):
        return value
    try:
        return str(value)
    except (ValueError, RecursionError):  # it holds a number of more digits than Python writes
        return None
