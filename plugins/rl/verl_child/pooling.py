"""Average hidden states over each response, given a forward pass over prompts and responses; needs only torch."""

from __future__ import annotations

import torch


def response_means(states: torch.Tensor, offsets: torch.Tensor, prompt_lengths: torch.Tensor) -> torch.Tensor:
    """Return the mean over each row's response tokens, end-of-sequence token included, (rows, d) float32.

    states (rows, longest, d) padded on the right, or (1, tokens, d) with the rows packed one after another; positions
    after the last row are ignored. Row i has the tokens from offsets[i] to offsets[i + 1], first those of its prompt. A
    row without a response gets its prompt's last state, as in the harness' own engine.
    """
    lengths = offsets.diff().tolist()
    packed = states.shape[0] == 1 and states.shape[1] >= int(offsets[-1])
    if not packed and (states.shape[0] != len(lengths) or states.shape[1] < max(lengths)):
        raise ValueError(f"states of shape {tuple(states.shape)} do not hold rows of {lengths} tokens")
    means = []
    for row, (length, prompt) in enumerate(zip(lengths, prompt_lengths.tolist(), strict=True)):
        start = int(offsets[row]) if packed else 0
        whole = states[0 if packed else row, start : start + length]
        means.append(whole[min(prompt, length - 1) :].float().mean(0))
    return torch.stack(means)
