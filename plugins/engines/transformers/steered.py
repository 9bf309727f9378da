"""Responses drawn one after another under a sampler that steers: what it adds depends on the responses before.

Several prompts go through the model together, each with its own steering (`harness.contracts.Steering`); of each prompt
one response is drawn at a time. A step looks at all candidates at once (`candidate_tree`): the tokens that the
sampler's filters leave. Where nothing is added (a first response) the token is drawn first, and alone passes the model.
Nothing here knows what a sampler adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from harness.contracts import Steering
from harness_plugins.models.checkpoint import Checkpoint

from .candidate_tree import CandidateTree, Prefixes, prefixes
from .capture import PooledStates
from .row_streams import RowDraws


class SteeredPrompts:
    """Prompts, left-padded (rows, tokens), and what steers the responses to each."""

    def __init__(self, part: Checkpoint, sampler: Any, ids: torch.Tensor, mask: torch.Tensor) -> None:
        self.part, self.sampler = part, sampler
        self.head = part.model.get_output_embeddings()
        self.prefixes: Prefixes = prefixes(part, ids, mask)
        self.steerings: list[Steering] = [sampler.steering() for _ in ids]
        self.unlearnt: dict[int, torch.Tensor] = {}

    def respond(
        self, which: Sequence[int], streams: np.ndarray[Any, Any], kinds: Sequence[str]
    ) -> tuple[RowDraws, PooledStates]:
        """The next response to each of some prompts; streams (len(which), max_tokens), one random number a token."""
        for prompt in which:  # here, not when a response ends: the last one of a prompt is learnt by nobody
            if prompt in self.unlearnt:
                self.steerings[prompt].learn(self.unlearnt.pop(prompt))
        part = self.part
        start = self.prefixes.part(torch.tensor(list(which), device=part.device))
        step = _Step(CandidateTree(part, start), [self.steerings[prompt] for prompt in which])
        draws = RowDraws(self.sampler, streams, part.eos, part.filler, part.device, steer=step.steer)
        pooled = PooledStates(kinds, draws)
        states = self._run(draws, pooled, step, start.state)
        self.unlearnt |= dict(zip(which, states, strict=True))
        return draws, pooled

    def _run(self, draws: RowDraws, pooled: PooledStates, step: _Step, state: torch.Tensor) -> list[torch.Tensor]:
        """Draw until all rows have ended; each row's token states (T, d)."""
        kept: list[list[torch.Tensor]] = [[] for _ in state]
        pooled(None, None, (state[:, None],))
        while len(draws.running) and draws.step < draws.max_tokens:
            token = draws.next(draws.tokens, self.head(state).float())
            state = step.take(token)
            pooled(None, None, (state[:, None],))
            for row, own in zip(draws.running.tolist(), state, strict=True):
                kept[row].append(own)
            unfinished = (~draws.ended[draws.running]).nonzero()[:, 0]
            if len(unfinished) < len(draws.running):
                draws.narrow(unfinished)
                step.narrow(unfinished)
                state = state[unfinished]
        return [torch.stack(states) for states in kept]


class _Step:
    """One step of the running rows: its candidates, if any row's steering adds something."""

    def __init__(self, tree: CandidateTree, steerings: Sequence[Steering]) -> None:
        self.tree, self.steerings = tree, list(steerings)
        self.candidates: torch.Tensor | None = None
        self.states = torch.empty(0)

    def steer(self, filtered: torch.Tensor) -> torch.Tensor:
        """The filtered logits (rows, vocabulary) with what each row's steering adds to those of its candidates."""
        self.candidates = None
        if not any(steering.adds for steering in self.steerings):
            return filtered
        counts = filtered.isfinite().sum(1).tolist()
        logits, self.candidates = filtered.topk(max(counts))
        self.states = self.tree.look(self.candidates)
        added = torch.zeros_like(logits)
        for row, (steering, count) in enumerate(zip(self.steerings, counts, strict=True)):
            if steering.adds and count > 1:
                added[row, :count] = steering.added(self.states[row, :count]).to(added.dtype)
        return filtered.scatter_add(1, self.candidates, added)

    def take(self, token: torch.Tensor) -> torch.Tensor:
        """Go on from the drawn tokens (rows,); their states (rows, d)."""
        if self.candidates is None:
            state = self.tree.look(token[:, None])[:, 0]
            self.tree.keep(torch.zeros_like(token))
            return state
        chosen = (self.candidates == token[:, None]).int().argmax(1)
        self.tree.keep(chosen)
        return self.states[torch.arange(len(chosen), device=chosen.device), chosen]

    def narrow(self, rows: torch.Tensor) -> None:
        """Go on with some rows only."""
        self.tree.narrow(rows)
        self.steerings = [self.steerings[row] for row in rows.tolist()]
