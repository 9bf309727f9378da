"""Request the rows of a call of the `openai` engine: each becomes a Choice, or the reason why it is missing."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from harness import Responses, SampleRequest

from .requests import Refused, Session, Unanswered
from .wire import Choice

if TYPE_CHECKING:
    from .engine import OpenAI

BYTES_A_TOKEN = 4  # of text, to estimate lengths if a server counts no tokens


class RowSampling:
    """One call of `sample`: for each row of each prompt its Choice, or the reason why it is missing."""

    def __init__(self, engine: OpenAI, request: SampleRequest) -> None:
        self.engine, self.request = engine, request
        self.bases = [seed_base(seed, engine._seeds) for seed in request.seeds]
        self.results: list[dict[int, Choice | str]] = [{} for _ in request.prompts]

    async def all(self, rows_of: Sequence[Sequence[int]]) -> None:
        """Request rows_of[j] for each prompt j, as many requests at once as the session allows; fill `results`."""
        size = (self.engine._form or self.engine._first_form).rows

        async def ask(session: Session, j: int, run: Sequence[int]) -> None:
            await self.run(session, j, run)
            if len(self.results[j]) == len(rows_of[j]):  # this was its last request
                self.request.done(j, self.responses(j, rows_of[j]))

        try:
            async with Session(self.engine._server) as session, asyncio.TaskGroup() as group:
                for j, rows in enumerate(rows_of):
                    for run in runs(rows, size):
                        group.create_task(ask(session, j, run))
        except ExceptionGroup as failures:  # several requests may have been refused for the same reason
            raise failures.exceptions[0] from None

    async def run(self, session: Session, j: int, rows: Sequence[int]) -> None:
        """Request consecutive rows of prompt j, then those that the answer lacks one by one; store the results."""
        results: Mapping[int, Choice | str]
        request = self.request
        try:
            answered = await self.engine._request_rows(
                session, request.prompts[j], request.sampler, request.max_tokens, self.bases[j] + rows[0], len(rows)
            )
            results = {rows[at]: choice for at, choice in answered.choices.items()}
        except (Unanswered, Refused) as failure:
            results = dict.fromkeys(rows, str(failure))
        self.results[j].update(results)
        lengths = [_length(choice, request.max_tokens) for choice in results.values() if isinstance(choice, Choice)]
        request.tokens(sum(lengths))
        request.report(len(results))
        for row in rows:
            if row not in results:
                await self.run(session, j, [row])

    def responses(self, j: int, rows: Sequence[int]) -> Responses:
        """Return the responses to prompt j in the order of `rows`; those that failed are in `missing`."""
        results = self.results[j]
        choices = [choice for row in rows if isinstance(choice := results[row], Choice)]
        token_ids = [choice.token_ids for choice in choices if choice.token_ids is not None]
        return Responses(
            texts=[choice.text for choice in choices],
            finish=[choice.finish for choice in choices],
            lengths=np.array([_length(choice, self.request.max_tokens) for choice in choices], np.int64),
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


def _length(choice: Choice, max_tokens: int) -> int:
    """Return a response's length in tokens: counted by the server, else estimated from its text."""
    if choice.token_ids is not None:
        return len(choice.token_ids)
    counted = choice.tokens
    if counted is None:
        counted = math.ceil(len(choice.text.encode("utf-8", "surrogatepass")) / BYTES_A_TOKEN)
    return min(max_tokens, counted)
