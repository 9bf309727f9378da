"""Mean hidden states of responses, from a forward pass over whole rows; torch alone."""

from __future__ import annotations

import torch


def response_means(states: torch.Tensor, offsets: torch.Tensor, prompt_lengths: torch.Tensor) -> torch.Tensor:
    """(rows, d) float32: the mean over each row's response tokens, its end-of-sequence token included.

    states (rows, longest, d) padded on the right, or (1, tokens, d) with the rows packed one after the other, whatever
    stands behind the last. Row i has the tokens from offsets[i] to offsets[i + 1], its prompt first. A row without a
    response has its prompt's last state, as the harness' own engine gives it.
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
