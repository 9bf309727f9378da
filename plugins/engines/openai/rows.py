"""The rows of one call of the `openai` engine: asked for in runs, each a Choice or the reason why it did not come."""

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

BYTES_A_TOKEN = 4  # of text, where a server counts no tokens


class RowDraw:
    """One call of `sample`: what came of each row of each prompt, a Choice or the reason why nothing did."""

    def __init__(self, engine: OpenAI, request: SampleRequest) -> None:
        self.engine, self.request = engine, request
        self.bases = [seed_base(seed, engine._seeds) for seed in request.seeds]
        self.found: list[dict[int, Choice | str]] = [{} for _ in request.prompts]

    async def all(self, wanted: Sequence[Sequence[int]]) -> None:
        """Ask for the wanted rows of each prompt, as many requests at once as the session lets through."""
        size = (self.engine._form or self.engine._first_form).rows

        async def ask(session: Session, j: int, run: Sequence[int]) -> None:
            await self.run(session, j, run)
            if len(self.found[j]) == len(wanted[j]):  # the last of its requests
                self.request.done(j, self.responses(j, wanted[j]))

        try:
            async with Session(self.engine._server) as session, asyncio.TaskGroup() as group:
                for j, rows in enumerate(wanted):
                    for run in runs(rows, size):
                        group.create_task(ask(session, j, run))
        except ExceptionGroup as failures:  # several requests may have met the same refusal
            raise failures.exceptions[0] from None

    async def run(self, session: Session, j: int, rows: Sequence[int]) -> None:
        """Ask for rows that follow one another; those that the answer does not hold are asked for one by one."""
        came: Mapping[int, Choice | str]
        try:
            asked = self.request
            answered = await self.engine._asked(
                session, asked.prompts[j], asked.sampler, asked.max_tokens, self.bases[j] + rows[0], len(rows)
            )
            came = {rows[at]: choice for at, choice in answered.choices.items()}
        except (Unanswered, Refused) as failure:
            came = dict.fromkeys(rows, str(failure))
        self.found[j].update(came)
        self.request.report(len(came))
        for row in rows:
            if row not in came:
                await self.run(session, j, [row])

    def responses(self, j: int, rows: Sequence[int]) -> Responses:
        """One prompt's responses, in the order of their rows."""
        found = self.found[j]
        choices = [choice for row in rows if isinstance(choice := found[row], Choice)]
        token_ids = [choice.token_ids for choice in choices if choice.token_ids is not None]
        return Responses(
            texts=[choice.text for choice in choices],
            finish=[choice.finish for choice in choices],
            lengths=np.array([_length(choice, self.request.max_tokens) for choice in choices], np.int64),
            logprobs=np.array([choice.logprob for choice in choices], np.float64),
            token_ids=token_ids if len(token_ids) == len(choices) else None,
            missing={row: reason for row in rows if isinstance(reason := found[row], str)},
        )


def seed_base(seed: int, below: int) -> int:
    """The first row's seed, from the problem's."""
    return int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]) % below


def runs(rows: Sequence[int], size: int) -> Iterator[list[int]]:
    """The rows in runs of consecutive ones, cut at multiples of `size`: a row is asked for beside the same others."""
    run: list[int] = []
    for row in rows:
        if run and (row != run[-1] + 1 or row % size == 0):
            yield run
            run = []
        run.append(row)
    if run:
        yield run


def _length(choice: Choice, max_tokens: int) -> int:
    """A response's tokens: counted by the server, else guessed from its text."""
    if choice.token_ids is not None:
        return len(choice.token_ids)
    counted = choice.tokens
    if counted is None:
        counted = math.ceil(len(choice.text.encode("utf-8", "surrogatepass")) / BYTES_A_TOKEN)
    return min(max_tokens, counted)
