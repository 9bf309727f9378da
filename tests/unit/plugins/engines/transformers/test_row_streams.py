"""A row's stream of random numbers, and the tokens that it chooses."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.exact_sampling import SAMPLERS, assert_sampled_from, probabilities

from harness import Sampler
from harness_plugins.engines.transformers.row_streams import RowSampler, RowsEnded, inverse_cdf, uniforms

CPU = torch.device("cpu")


def test_streams_come_from_seed_and_row_alone():
    assert uniforms(5, 3, 4).tolist() == uniforms(5, 3, 9)[:4].tolist()
    assert len({uniforms(seed, row, 1)[0] for seed in range(20) for row in range(20)}) == 400


@pytest.mark.parametrize("name", [*SAMPLERS, "top-k"])
def test_tokens_follow_the_exact_distribution_of_each_sampler(name):
    sampler = Sampler(top_k=3) if name == "top-k" else SAMPLERS[name]()
    logits = torch.from_numpy(np.random.default_rng(1).normal(size=200) * 2).float()
    streams = np.stack([uniforms(7, row, 1) for row in range(4000)])
    sampling = RowSampler(sampler, streams, [199], 0, CPU)
    sampling(None, logits.expand(4000, -1))
    assert_sampled_from(sampling.tokens[:, 0].numpy(), probabilities(sampler, logits.double().numpy()))
    expected = logits.double().log_softmax(0)[sampling.tokens[:, 0]]
    assert torch.allclose(sampling.logprobs, expected, atol=1e-4)  # temperature 1, nothing filtered


def test_a_token_of_probability_zero_is_never_chosen():
    logits = torch.tensor([[-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf]]).expand(4, -1)
    chosen = inverse_cdf(logits, torch.tensor([0.0, 0.4999, 0.5, 1 - 1e-16], dtype=torch.float64))
    assert chosen.tolist() == [1, 1, 3, 3]


def test_a_row_is_filled_up_after_its_end_and_leaves_once_half_of_the_rows_have_ended():
    sampling = RowSampler(Sampler(), np.zeros((3, 3)), [1], 9, CPU)
    ending, going = torch.tensor([-99.0, 99.0]), torch.tensor([99.0, -99.0])

    def stopped(feed_last, narrowing):
        return RowsEnded(sampling, feed_last, narrowing)(None, None).tolist()

    sampling.next(None, torch.stack([ending, going, going]))
    assert (stopped(False, False), stopped(True, False)) == ([True, False, False], [False, False, False])
    assert stopped(False, True) == [True, False, False]
    sampling.next(None, torch.stack([going, ending, going]))
    assert (stopped(False, True), stopped(True, False)) == ([True] * 3, [True, False, False])
    sampling.narrow(torch.tensor([2]))
    sampling.next(None, going[None])
    sampling.next(None, going[None])  # one step beyond: only to take the last token's state
    assert sampling.tokens.tolist() == [[1, 9, 9], [0, 1, 9], [0, 0, 0]]
    assert sampling.lengths.tolist() == [1, 2, 3]
    assert sampling.ended.tolist() == [True, True, False]
    assert not sampling.live.any()
