"""The members of an engine that follow from its model's checkpoint; none of them loads weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.records import Weights

if TYPE_CHECKING:
    from harness_plugins.models.checkpoint import Checkpoint


class OnCheckpoint:
    """The base class of engines with a checkpoint and the kind of device ("cpu", "cuda") that the model runs on."""

    _checkpoint: Checkpoint
    _device: str

    @property
    def name(self) -> str:
        """The model's name as tables show it: hub id, folder's name, or embedded name."""
        return self._checkpoint.name

    @property
    def chats(self) -> bool:
        """Whether the tokenizer has a chat template; those of base models have none."""
        return self._checkpoint.chats

    def size(self) -> tuple[float | None, bool]:
        """Return about how many parameters the model has (None: unknown), and whether it runs on a GPU."""
        return self._checkpoint.parameter_count, self._device != "cpu"

    def weights(self) -> list[Weights]:
        """What a run shows of the owner and licence of weights that the harness fetched; else empty."""
        return self._checkpoint.location.weights

    def to_fetch(self) -> str:
        """Return what has to be downloaded before sampling, "" if nothing."""
        return self._checkpoint.to_fetch()
