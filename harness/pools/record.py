"""One problem's responses as a pool file holds them, and what the readers of layouts share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from harness.errors import HarnessError
from harness.records import Responses

Say: TypeAlias = Callable[[str], None]


@dataclass(frozen=True)
class PoolRecord:
    """A problem's responses from a pool file.

    `reference`: the answer to the problem, if the file has one; from a plugin's layout it is stored as
    `as_reference` returns it. `logprobs`: one number a response; `logprob_kind` says in words which.
    `measurements`: those of each response, for a task that judges by them. `names`: what the file calls each.
    `finish`: how each ended, "stop" or "length"; None: not known, so each counts as complete.
    `scores`: by name one number a response, None or NaN where unknown; of reward models or judges, never verdicts.
    `more_ids` and `more_prompts` are further names under which it may join to a task's problem, best first.
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


def grouped(parts: Iterable[tuple[Hashable, PoolRecord]]) -> Iterator[PoolRecord]:
    """Yield one record for each key, with the responses of all records that have it, in order of first appearance.

    Everything except the responses, their scores and how they ended is that of the key's first record. A score that
    only some of the records have is unknown for the others' responses. All texts stay in memory until the last part is
    read.

    parts  pairs of a key and a record
    """
    records: dict[Hashable, list[PoolRecord]] = {}
    for key, part in parts:
        records.setdefault(key, []).append(part)
    while records:
        yield _joined(records.pop(next(iter(records))))


def _joined(parts: Sequence[PoolRecord]) -> PoolRecord:
    scores: dict[str, list[float | None]] = {name: [] for part in parts for name in part.scores}
    for part in parts:
        for name, column in scores.items():
            column.extend(part.scores.get(name, [None] * len(part.responses)))
    finish: list[str] | None = None
    if any(part.finish is not None for part in parts):
        finish = [end for part in parts for end in part.finish or ["stop"] * len(part.responses)]
    responses = [text for part in parts for text in part.responses]
    return replace(parts[0], responses=responses, scores=scores, finish=finish)


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
    if _is_plain(value) or (isinstance(value, list) and all(map(_is_plain, value))):
        return value
    try:
        return str(value)
    except (ValueError, RecursionError):  # it holds a number of more digits than Python writes
        return None


def _is_plain(value: Any) -> bool:
    if isinstance(value, int):
        return value.bit_length() < 4_096
    return isinstance(value, (str, type(None)))
