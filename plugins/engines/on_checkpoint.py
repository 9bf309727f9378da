"""What engines share whose model is a checkpoint: members that follow from it, none of which loads weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness import HarnessError
from harness.records import Weights

if TYPE_CHECKING:
    from harness_plugins.models.checkpoint import Checkpoint


class OnCheckpoint:
    """The base class of engines with a checkpoint and the kind of device ("cpu", "cuda") that the model runs on."""

    _checkpoint: Checkpoint
    _device: str

    @property
    def name(self) -> str:
        return self._checkpoint.name

    @property
    def chats(self) -> bool:
        return self._checkpoint.files.has_template

    def weights(self) -> list[Weights]:
        """What a run shows of the owner and licence of weights that the harness fetched; else empty."""
        return self._checkpoint.location.weights

    def to_fetch(self) -> str:
        """Return what has to be downloaded before sampling, "" if nothing."""
        return f"the weights of {self.name}" if self._checkpoint.to_fetch else ""


def require_known(engine: str, states: Sequence[str], known: Sequence[str]) -> None:
    """Raise HarnessError if one of the requested kinds of states is not in `known`; `engine` starts the message."""
    for state in states:
        if state not in known:
            raise HarnessError(f"{engine}: no state {state!r}, only {', '.join(known)}")
