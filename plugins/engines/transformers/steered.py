"""Sample one response after another, with a sampler that changes the logits depending on earlier responses.

Several prompts go through the model together, each with its own steering (`harness.contracts.Steering`); of each prompt
one response is sampled at a time. A step computes the states of all candidates at once (`candidate_tree`): the tokens
that the sampler's filters leave. If nothing is added (a first response), the token is sampled first, and only this
token passes the model. The sampler computes the added values; this module only applies them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from harness.contracts import Steering
from harness_plugins.models.checkpoint import Checkpoint

from .candidate_tree import CandidateTree, Prefixes, prefixes
from .capture import PooledStates
from .row_streams import RowSampler


class SteeredPrompts:
    """Left-padded prompts (rows, tokens), with one `Steering` for each prompt."""

    def __init__(self, part: Checkpoint, sampler: Any, ids: torch.Tensor, mask: torch.Tensor) -> None:
        self.part, self.sampler = part, sampler
        self.head = part.model.get_output_embeddings()
        self.prefixes: Prefixes = prefixes(part, ids, mask)
        self.steerings: list[Steering] = [sampler.steering() for _ in ids]
        self.unlearnt: dict[int, torch.Tensor] = {}  # prompt -> token states of its last response

    def respond(
        self,
        which: Sequence[int],
        streams: np.ndarray[Any, Any],
        kinds: Sequence[str],
        watch: Callable[..., None] = lambda counts: None,
    ) -> tuple[RowSampler, PooledStates]:
        """Sample the next response to each prompt in `which`; return the sampled rows and their pooled states.

        which     indices of prompts
        streams   (len(which), max_tokens), one random number in [0, 1) per token
        kinds     the kinds of pooled states
        watch     called after each step, as by `RowSampler`
        """
        for prompt in which:  # now, not when a response ends: learning from a prompt's last response would be wasted
            if prompt in self.unlearnt:
                self.steerings[prompt].learn(self.unlearnt.pop(prompt))
        part = self.part
        start = self.prefixes.part(torch.tensor(list(which), device=part.device))
        step = _Step(CandidateTree(part, start), [self.steerings[prompt] for prompt in which])
        sampling = RowSampler(self.sampler, streams, part.eos, part.filler, part.device, step.steer, watch)
        pooled = PooledStates(kinds, sampling)
        states = self._run(sampling, pooled, step, start.state)
        self.unlearnt |= dict(zip(which, states, strict=True))
        return sampling, pooled

    def _run(self, sampling: RowSampler, pooled: PooledStates, step: _Step, state: torch.Tensor) -> list[torch.Tensor]:
        """Sample until all rows have ended; return the token states (T, d) of each row."""
        states: list[list[torch.Tensor]] = [[] for _ in state]
        pooled(None, None, (state[:, None],))
        while len(sampling.running) and sampling.step < sampling.max_tokens:
            token = sampling.next(sampling.tokens, self.head(state).float())
            state = step.take(token)
            pooled(None, None, (state[:, None],))
            for row, token_state in zip(sampling.running.tolist(), state, strict=True):
                states[row].append(token_state)
            unfinished = (~sampling.ended[sampling.running]).nonzero()[:, 0]
            if len(unfinished) < len(sampling.running):
                sampling.narrow(unfinished)
                step.narrow(unfinished)
                state = state[unfinished]
        return [torch.stack(of_row) for of_row in states]


class _Step:
    """One step of the running rows; has candidates only if the steering of some row adds something."""

    def __init__(self, tree: CandidateTree, steerings: Sequence[Steering]) -> None:
        self.tree, self.steerings = tree, list(steerings)
        self.candidates: torch.Tensor | None = None
        self.states = torch.empty(0)

    def steer(self, filtered: torch.Tensor) -> torch.Tensor:
        """Add to the filtered logits (rows, vocabulary) what each row's steering gives for its candidates."""
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
        """Append the sampled tokens (rows,) to their rows; return the states (rows, d) of these tokens."""
        if self.candidates is None:
            state = self.tree.look(token[:, None])[:, 0]
            self.tree.keep(torch.zeros_like(token))
            return state
        chosen = (self.candidates == token[:, None]).int().argmax(1)
        self.tree.keep(chosen)
        return self.states[torch.arange(len(chosen), device=chosen.device), chosen]

    def narrow(self, rows: torch.Tensor) -> None:
        """Keep only the given rows."""
        self.tree.narrow(rows)
        self.steerings = [self.steerings[row] for row in rows.tolist()]
