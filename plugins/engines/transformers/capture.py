"""Pool the last hidden states while a model generates, or in one pass over given responses.

The states are those after the final norm: the decoder's `last_hidden_state`, checked to be `output_hidden_states[-1]`.
Of T response tokens (the end-of-sequence token included): "mean" over all T, "last" of token T, "penultimate" of
token T - 1, which for T = 1 is the prompt's last position. With T = 0 all three are the prompt's last position.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from harness import HarnessError

from .row_streams import RowSampler

KINDS = ("mean", "last", "penultimate")


class PooledStates:
    """Pools states during `generate`: keeps a few (rows, width) sums, not the state of every token.

    Called with the decoder's output at each step. The first output is the prompt's last position; each later one is the
    state of the token that `sampling` sampled last, and counts if that token belongs to its row.
    """

    def __init__(self, kinds: Sequence[str], sampling: RowSampler) -> None:
        self.kinds, self.sampling = kinds, sampling
        self.sum = self.last = self.before = torch.empty(0)
        self.started = False

    def __call__(self, module: Any, args: Any, output: Any) -> None:
        """Add the states of one step. Used as a forward hook on the decoder."""
        state = output[0][:, -1].float()
        if not self.started:
            self.sum, self.last, self.before = torch.zeros_like(state), state.clone(), state.clone()
            self.started = True
            return
        rows, live = self.sampling.running, self.sampling.live[:, None]
        if "mean" in self.kinds:
            self.sum[rows] += torch.where(live, state, 0.0)
        if "penultimate" in self.kinds:
            self.before[rows] = torch.where(live, self.last[rows], self.before[rows])
        if "last" in self.kinds or "penultimate" in self.kinds:
            self.last[rows] = torch.where(live, state, self.last[rows])

    def result(self) -> dict[str, torch.Tensor]:
        """Return the requested kinds, each (rows, width) float32."""
        all_kinds = {"mean": self.sum / self.sampling.lengths[:, None], "last": self.last, "penultimate": self.before}
        return {kind: all_kinds[kind] for kind in self.kinds}


@contextmanager
def hooked(module: torch.nn.Module, hook: Any) -> Iterator[None]:
    """Attach a forward hook to the module, and always remove it at the end."""
    handle = module.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def pool(hidden: torch.Tensor, lengths: torch.Tensor, kinds: Sequence[str]) -> dict[str, torch.Tensor]:
    """Pool states (rows, 1 + tokens, width) of right-padded rows; return the kinds, each (rows, width) float32.

    Position 0 is the prompt's last, position t the state of response token t.
    """
    at = torch.arange(hidden.shape[1], device=hidden.device)[None, :, None]
    counts = lengths[:, None, None]
    within = (at <= counts) & ((at > 0) | (counts == 0))
    row = torch.arange(len(hidden), device=hidden.device)
    pooled = {}
    if "mean" in kinds:
        pooled["mean"] = torch.where(within, hidden, 0.0).sum(1, dtype=torch.float32) / lengths.clamp(min=1)[:, None]
    if "last" in kinds:
        pooled["last"] = hidden[row, lengths].float()
    if "penultimate" in kinds:
        pooled["penultimate"] = hidden[row, (lengths - 1).clamp(min=0)].float()
    return pooled


def final_decoder(model: Any, name: str) -> torch.nn.Module:
    """Return the module of a causal language model whose output is the last hidden state after the final norm.

    It is compared with `output_hidden_states[-1]` on a few tokens: a model with another structure raises HarnessError
    instead of giving wrong states.
    """
    few = torch.arange(4, device=model.device)[None]
    for module in (model.get_decoder(), model.base_model):
        outputs: list[torch.Tensor] = []
        with hooked(module, lambda module, args, output, outputs=outputs: outputs.append(output[0])):
            expected = model(few, output_hidden_states=True, use_cache=False).hidden_states[-1]
        if module is not model and len(outputs) == 1 and torch.equal(outputs[0], expected):
            return module
    raise HarnessError(
        f"{name}: cannot find where {type(model).__name__} gives its last hidden state after the final norm"
    )
