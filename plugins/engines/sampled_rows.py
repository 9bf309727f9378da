"""Plain records of the engines: the padded prompts that sampling starts from, and the rows that it returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.errors import HarnessError
from harness.records import Floats

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Start:
    """Left-padded prompts, and the key-value cache of all their tokens but the last, if their rows can share it.

    ids    (prompts, tokens)
    mask   (prompts, tokens): 1 for a token of the prompt, 0 for padding
    """

    ids: torch.Tensor
    mask: torch.Tensor
    cache: Any | None

    def past(self, which: torch.Tensor) -> dict[str, Any]:
        """Return {the model's name for it: cache}, a keyword argument of the model; {} without a cache.

        The cache is a copy with one row per entry of `which`: row r continues prompt which[r].
        """
        if self.cache is None:
            return {}
        from .transformers.roomy_cache import CACHE, with_room

        return {CACHE: with_room(self.cache, which)}


@dataclass(frozen=True)
class SampledRows:
    """Sampled responses as columns, one entry per row.

    ended      whether the response has its end-of-sequence token
    logprobs   (rows,): the sum over a response's tokens
    states     one (rows, d) array per kind of hidden state
    """

    token_ids: list[list[int]]
    ended: list[bool]
    logprobs: np.ndarray[Any, np.dtype[np.float64]]
    states: dict[str, Floats]

    @property
    def finish(self) -> list[str]:
        """How each response ended, in the values of `Responses.finish`: "stop" or "length"."""
        return ["stop" if ended else "length" for ended in self.ended]

    def rows(self, selected: slice) -> SampledRows:
        """Return the rows of a slice."""
        states = {kind: values[selected] for kind, values in self.states.items()}
        return SampledRows(self.token_ids[selected], self.ended[selected], self.logprobs[selected], states)


def joined(parts: Sequence[SampledRows]) -> SampledRows:
    """Concatenate the rows of all parts, in order."""
    return SampledRows(
        token_ids=[ids for part in parts for ids in part.token_ids],
        ended=[ended for part in parts for ended in part.ended],
        logprobs=np.concatenate([part.logprobs for part in parts]),
        states={kind: np.concatenate([part.states[kind] for part in parts]) for kind in parts[0].states},
    )


def require_known(engine: str, states: Sequence[str], known: Sequence[str]) -> None:
    """Raise HarnessError if one of the requested kinds of states is not in `known`; `engine` starts the message."""
    for state in states:
        if state not in known:
            raise HarnessError(f"{engine}: no state {state!r}, only {', '.join(known)}")
