"""A row's stream of random numbers and the tokens that it chooses; which caches the rows of a prompt share."""

import numpy as np
import pytest
import torch
from support.exact_sampling import SAMPLERS, assert_sampled_from, probabilities
from support.tiny_checkpoints import CONFIGS, LONG, SHORT, assert_same_responses

from harness import Sampler
from harness.records import SampleRequest
from harness_plugins.engines.transformers import sampling as sampling_module
from harness_plugins.engines.transformers.sampling import RowSampler, inverse_cdf, uniforms

CPU = torch.device("cpu")
KINDS = ("mean", "last", "penultimate")

pytestmark = pytest.mark.usefixtures("one_thread")


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


def test_a_row_is_filled_up_after_its_end():
    sampling = RowSampler(Sampler(), np.zeros((3, 3)), [1], 9, CPU)
    ending, going = torch.tensor([-99.0, 99.0]), torch.tensor([99.0, -99.0])
    sampling.next(None, torch.stack([ending, going, going]))
    assert sampling.finished(feed_last=False).tolist() == [True, False, False]
    assert sampling.finished(feed_last=True).tolist() == [False, False, False]
    sampling.next(None, torch.stack([going, ending, going]))
    assert sampling.finished(feed_last=False).tolist() == [True, True, False]
    assert sampling.finished(feed_last=True).tolist() == [True, False, False]
    sampling.narrow(torch.tensor([2]))
    sampling.next(None, going[None])
    sampling.next(None, going[None])  # one step beyond: only to take the last token's state
    assert sampling.tokens.tolist() == [[1, 9, 9], [0, 1, 9], [0, 0, 0]]
    assert sampling.lengths.tolist() == [1, 2, 3]
    assert sampling.ended.tolist() == [True, True, False]
    assert not sampling.live.any()


# Which caches the rows of a prompt share.


def test_only_plain_caches_are_shared(engines):
    def cache(kind):
        with torch.inference_mode():
            return sampling_module.left_padded(engines[kind]._checkpoint, [[5, 6, 7]]).cache

    assert {kind for kind in CONFIGS if cache(kind) is not None} == {"qwen2", "llama", "gpt2"}


def test_without_a_shared_cache_the_same_rows_are_drawn(engines, monkeypatch):
    def full(**_):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    engine = engines["qwen2"]
    request = SampleRequest([SHORT, LONG], n=10, sampler=Sampler(), max_tokens=12, seeds=[3, 4], states=("mean",))
    shared = engine.sample(request)
    for place, name, value in (
        (sampling_module, "DynamicLayer", type("Other", (), {})),
        (engine._checkpoint.model, "get_decoder", lambda: full),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(place, name, value)
            for with_cache, without in zip(shared, engine.sample(request), strict=True):
                assert_same_responses(with_cache, without)
