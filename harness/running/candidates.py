"""What `harness select` chooses from: the responses of each problem, and which of them were verified before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.errors import HarnessError
from harness.pools.given import GivenVectors
from harness.pools.record import PoolRecord
from harness.pools.verified import check_verified, read_verified
from harness.records import Problem, Responses

from .config import SelectConfig
from .context import Context
from .importing import responses_in_file


@dataclass(frozen=True)
class Candidates:
    """One problem's responses, and the indices of those verified before, in the order in which they were verified."""

    problem: Problem
    responses: Responses
    verified: Sequence[int] = ()


@dataclass(frozen=True)
class Held:
    """What the caller has in memory, in place of the request's files, which then are only names for messages.

    Problem id -> vectors (n, d), texts, the indices of responses verified before, or scores: n numbers, or n by name.
    """

    vectors: Mapping[str, Any] | None = None
    texts: Mapping[str, Sequence[str]] | None = None
    verified: Mapping[str, Sequence[int]] | None = None
    scores: Mapping[str, Any] | None = None


def problems_of(
    request: SelectConfig, context: Context, given: GivenVectors | None, held: Held
) -> Iterable[tuple[Problem, Responses]]:
    """The problems with their responses: those in memory, else those of the pool file, else the rows of `given`."""
    if held.texts is not None:
        records = [PoolRecord(name, list(texts)) for name, texts in held.texts.items()]
        return [(Problem(record.problem_id, ""), record.as_responses()) for record in records]
    return responses_in_file(context) if request.pool or given is None else _rows_of(given)


def _rows_of(given: GivenVectors) -> Iterable[tuple[Problem, Responses]]:
    """The arrays of a file as problems, in the order of the file; each row is a response without a text."""
    if not given.names:
        raise HarnessError(f"embeddings {given.path}: holds no arrays, one (n, d) array per problem id")
    for name in given.names:
        n = given.get(name).shape[0]
        meta = {"names": given.row_names(name)}
        yield Problem(name, "", meta=meta), Responses([""] * n, ["stop"] * n, np.zeros(n, np.int64), np.full(n, np.nan))


def with_verified(request: SelectConfig, problems: Sequence[tuple[Problem, Responses]], held: Held) -> list[Candidates]:
    """The candidates with the indices that `--verified` or `held` names; a problem that is not named has none."""
    sizes = {problem.id: len(responses) for problem, responses in problems}
    verified = (
        read_verified(request.verified, sizes) if request.verified else check_verified(held.verified or {}, sizes)
    )
    return [Candidates(problem, responses, verified.get(problem.id, ())) for problem, responses in problems]
