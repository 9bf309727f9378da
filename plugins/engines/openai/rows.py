"""Request the rows of a call of the `openai` engine: each becomes a Choice, or the reason why it is missing.

A row is written to its problem's journal, if the call has any, before anything else is done with it. Rows that a
journal has are not requested.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from harness import Responses, SampleRequest

from . import journal
from .account import OverCap
from .prices import length
from .requests import Refused, Session, Unanswered
from .wire import Choice

if TYPE_CHECKING:
    from .engine import OpenAI


class RowSampling:
    """One call of `sample`: for each row of each prompt its Choice, or the reason why it is missing."""

    def __init__(self, engine: OpenAI, request: SampleRequest) -> None:
        self.engine, self.request = engine, request
        self.bases = [seed_base(seed, engine._seeds) for seed in request.seeds]
        whole = [range(request.n)] * len(request.prompts)
        self.rows_of: Sequence[Sequence[int]] = whole if request.rows is None else request.rows
        self.results: list[dict[int, Choice | str]] = [{} for _ in request.prompts]
        self.read_journals()

    def read_journals(self) -> None:
        """Take over the rows that the journals have, and report the new ones."""
        for j, path in enumerate(self.request.journals):
            kept = journal.read(path)
            new = {row: kept[row] for row in self.rows_of[j] if row in kept and row not in self.results[j]}
            self.results[j].update(new)
            self.request.report(len(new))

    def to_do(self) -> Iterator[tuple[int, list[int]]]:
        """Yield what is to be requested: the place of a prompt, and consecutive rows that make one request."""
        size = (self.engine._form or self.engine._first_form).rows
        for j, rows in enumerate(self.rows_of):
            for run in runs([row for row in rows if row not in self.results[j]], size):
                yield j, run

    def all_responses(self) -> list[Responses]:
        """Return the responses to all prompts."""
        return [self.responses(j, rows) for j, rows in enumerate(self.rows_of)]

    async def all(self) -> None:
        """Request all rows, as many requests at once as the session allows; fill `results`."""

        async def ask(session: Session, j: int, run: Sequence[int]) -> None:
            await self.run(session, j, run)
            self.report_done(j)

        to_do = list(self.to_do())
        for j in set(range(len(self.rows_of))) - {j for j, _ in to_do}:
            self.report_done(j)
        try:
            async with Session(self.engine._server) as session, asyncio.TaskGroup() as group:
                for j, run in to_do:
                    group.create_task(ask(session, j, run))
        except ExceptionGroup as failures:  # several requests may have been refused for the same reason
            raise failures.exceptions[0] from None

    def report_done(self, j: int) -> None:
        """Hand over prompt j's responses, if there is a result for each of its rows."""
        if len(self.results[j]) == len(self.rows_of[j]):
            self.request.done(j, self.responses(j, self.rows_of[j]))

    def keep(self, j: int, choices: Mapping[int, Choice]) -> None:
        """Write rows of prompt j to its journal, if it has one."""
        if self.request.journals:
            journal.append(self.request.journals[j], choices, durable=self.engine.is_charged)

    async def run(self, session: Session, j: int, rows: Sequence[int]) -> None:
        """Request consecutive rows of prompt j, then those that the answer lacks one by one; store the results."""
        results: Mapping[int, Choice | str]
        request = self.request

        def keep(choices: Mapping[int, Choice]) -> None:
            self.keep(j, {rows[at]: choice for at, choice in choices.items()})

        try:
            answered = await self.engine._request_rows(
                session, request.prompts[j], request.sampler, request.max_tokens, self.seed(j, rows), len(rows), keep
            )
            results = {rows[at]: choice for at, choice in answered.choices.items()}
        except (Unanswered, Refused, OverCap) as failure:
            results = dict.fromkeys(rows, str(failure))
        self.results[j].update(results)
        lengths = [min(request.max_tokens, length(choice)) for choice in results.values() if isinstance(choice, Choice)]
        request.tokens(sum(lengths))
        request.report(len(results))
        for row in rows:
            if row not in results:
                await self.run(session, j, [row])

    def seed(self, j: int, rows: Sequence[int]) -> int:
        """Return the seed of a request for consecutive rows of prompt j."""
        return self.bases[j] + rows[0]

    def responses(self, j: int, rows: Sequence[int]) -> Responses:
        """Return the responses to prompt j in the order of `rows`; those that failed are in `missing`."""
        results = self.results[j]
        choices = [choice for row in rows if isinstance(choice := results[row], Choice)]
        token_ids = [choice.token_ids for choice in choices if choice.token_ids is not None]
        return Responses(
            texts=[choice.text for choice in choices],
            finish=[choice.finish for choice in choices],
            lengths=np.array([min(self.request.max_tokens, length(choice)) for choice in choices], np.int64),
            logprobs=np.array([choice.logprob for choice in choices], np.float64),
            token_ids=token_ids if len(token_ids) == len(choices) else None,
            missing={row: reason for row in rows if isinstance(reason := results[row], str)},
        )


def seed_base(seed: int, below: int) -> int:
    """Return the seed of a problem's first row, in [0, below), computed from the problem's seed."""
    return int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]) % below


def runs(rows: Sequence[int], size: int) -> Iterator[list[int]]:
    """Yield groups of consecutive rows, cut at each multiple of `size`; `rows` ascend, and may have gaps."""
    run: list[int] = []
    for row in rows:
        if run and (row != run[-1] + 1 or row % size == 0):
            yield run
            run = []
        run.append(row)
    if run:
        yield run
