"""Our own layout of pool files: one JSON line a problem, `{"problem_id": ..., "responses": [...]}`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from harness.errors import HarnessError
from harness.system.json_text import Line

from .record import PoolRecord, column_in, scores_in, text_in, texts_in


class OwnLayout:
    """The layout that `harness pool export` writes; docs/pools.md lists its optional columns."""

    name, keys, one_line_a_problem = "own", "problem_id, responses", True

    def fits(self, value: Mapping[str, Any]) -> bool:
        """Whether a line has "problem_id" or "responses"; if the other one is missing, `read` says so."""
        return "problem_id" in value or "responses" in value

    def read(self, lines: Iterator[Line]) -> Iterator[PoolRecord]:
        """Yield a record for each line; HarnessError for a malformed line, or a problem's second line."""
        places: dict[str, str] = {}
        for line in lines:
            record = _record(line)
            if record.problem_id in places:
                raise HarnessError(
                    f"{line.where}: problem_id {record.problem_id!r} stands on {places[record.problem_id]} already: "
                    "one line a problem"
                )
            places[record.problem_id] = line.place
            yield record


OWN = OwnLayout()


def _record(line: Line) -> PoolRecord:
    value = line.value
    if "problem_id" not in value or "responses" not in value:
        got = json.dumps(value, ensure_ascii=False)
        raise HarnessError(f'{line.where}: expected {{"problem_id": ..., "responses": [...]}}, got {got[:60]!r}')
    problem_id = text_in(value, "problem_id", line.where)
    if not problem_id:
        raise HarnessError(f"{line.where}: problem_id must be a text, got {problem_id!r}")
    where = f"{line.where} ({problem_id})"
    responses = texts_in(value, "responses", where)
    return PoolRecord(
        problem_id=problem_id,
        responses=responses,
        prompt=None if value.get("prompt") is None else text_in(value, "prompt", where),
        reference=_storable(value.get("reference"), where),
        logprobs=_column(value, "logprobs", len(responses), where),
        logprob_kind=None if value.get("logprob_kind") is None else text_in(value, "logprob_kind", where),
        correct=_column(value, "correct", len(responses), where),
        finish=_column(value, "finish", len(responses), where),
        scores=scores_in(value.get("scores"), len(responses), where),
    )


def _storable(reference: Any, where: str) -> Any:
    try:
        json.dumps(reference, allow_nan=False)
    except (ValueError, RecursionError) as failure:
        raise HarnessError(f"{where}: reference must hold plain values, no NaN, none infinite") from failure
    return reference


def _column(value: Mapping[str, Any], name: str, n: int, where: str) -> Any:
    """The column of that name, an entry a response; None where the line has none."""
    column = value.get(name)
    if column is None:
        return None
    column = column_in(column, name, n, where)
    if name == "correct":
        good = all(isinstance(entry, bool) or (type(entry) in (int, float) and entry in (0, 1)) for entry in column)
        if not good:
            raise HarnessError(f"{where}: correct must hold true and false only")
        return [bool(entry) for entry in column]
    if name == "finish":
        if not all(entry in ("stop", "length") for entry in column):
            raise HarnessError(f'{where}: finish must hold "stop" and "length" only')
        return column
    if not all(type(entry) in (int, float) and -math.inf < entry < math.inf for entry in column):
        raise HarnessError(f"{where}: {name} must hold numbers only")
    try:
        return [float(entry) for entry in column]
    except OverflowError as failure:
        raise HarnessError(f"{where}: {name} must hold numbers only, got one of over 300 digits") from failure
