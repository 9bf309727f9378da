"""What the `transformers` engine's sampling begins with, is asked for and brings, as plain records."""

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
    """Left-padded prompts (prompts, tokens), and the shared cache of all their tokens but the last, if there is one."""

    ids: torch.Tensor
    mask: torch.Tensor
    cache: Any | None

    def past(self, which: torch.Tensor) -> dict[str, Any]:
        """The cache copied to rows, row r going on from prompt which[r], as an argument of the model."""
        if self.cache is None:
            return {}
        from .transformers.roomy_cache import with_room

        return {"past_key_values": with_room(self.cache, which)}


@dataclass(frozen=True)
class Drawn:
    """Columns of drawn rows."""

    token_ids: list[list[int]]
    ended: list[bool]
    logprobs: np.ndarray[Any, np.dtype[np.float64]]
    states: dict[str, Floats]

    @property
    def finish(self) -> list[str]:
        """How each response ended, as `Responses.finish` has it."""
        return ["stop" if ended else "length" for ended in self.ended]

    def rows(self, some: slice) -> Drawn:
        """Some of the rows."""
        states = {kind: values[some] for kind, values in self.states.items()}
        return Drawn(self.token_ids[some], self.ended[some], self.logprobs[some], states)


def joined(parts: Sequence[Drawn]) -> Drawn:
    """The rows of all parts, in order."""
    return Drawn(
        token_ids=[ids for part in parts for ids in part.token_ids],
        ended=[ended for part in parts for ended in part.ended],
        logprobs=np.concatenate([part.logprobs for part in parts]),
        states={kind: np.concatenate([part.states[kind] for part in parts]) for kind in parts[0].states},
    )


def require_known(engine: str, states: Sequence[str], known: Sequence[str]) -> None:
    """Raise HarnessError unless the engine gives all of the states."""
    for state in states:
        if state not in known:
            raise HarnessError(f"{engine}: no state {state!r}, only {', '.join(known)}")
