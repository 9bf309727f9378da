"""The mean state of each response, out of a forward pass over prompts and responses."""

import pytest
import torch

from harness_plugins.rl.verl_child.pooling import response_means


def rows_of(lengths: list[int], d: int = 5) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(length, d, generator=generator, dtype=torch.float64) for length in lengths]


def test_packed_and_padded_rows_have_the_same_means():
    lengths, prompts = [6, 3, 9], [2, 2, 5]
    rows = rows_of(lengths)
    expected = torch.stack([row[prompt:].float().mean(0) for row, prompt in zip(rows, prompts, strict=True)])
    offsets = torch.tensor([0, *lengths]).cumsum(0)
    padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=float("nan"))
    behind = torch.full((7, 5), float("nan"), dtype=torch.float64)
    for states in (padded, torch.cat(rows)[None], torch.cat([*rows, behind])[None]):
        assert torch.equal(response_means(states, offsets, torch.tensor(prompts)), expected)


def test_a_single_row_is_padded_and_packed_at_once():
    (row,) = rows_of([6])
    means = response_means(row[None], torch.tensor([0, 6]), torch.tensor([2]))
    assert torch.equal(means[0], row[2:].float().mean(0))


def test_a_row_without_response_has_its_prompts_last_state():
    (row,) = rows_of([4])
    assert torch.equal(response_means(row[None], torch.tensor([0, 4]), torch.tensor([4]))[0], row[3].float())


def test_states_cut_apart_are_refused():
    for shape in ((1, 5, 2), (2, 3, 2)):
        with pytest.raises(ValueError, match="do not hold rows"):
            response_means(torch.zeros(shape), torch.tensor([0, 4, 8]), torch.tensor([1, 1]))
