"""The samplers' parameters, and what each really draws, against the exact distribution."""

from dataclasses import asdict

import numpy as np
import pytest
import torch
from support.exact_sampling import SAMPLERS, assert_sampled_from, probabilities
from support.refusals import refusal_of

from harness import Sampler
from harness_plugins.engines.transformers.sampling import RowSampler, inverse_cdf, uniforms
from harness_plugins.samplers.plain import HighTemp, LowTemp, MinP, Nucleus, Vanilla, register_samplers

VOCABULARY, ROWS = 64, 6000
LOGITS = np.random.default_rng(0).normal(0, 2, VOCABULARY)


@pytest.fixture(scope="module")
def streams():
    """(ROWS, 1) uniforms."""
    return np.stack([uniforms(0, row, 1) for row in range(ROWS)])


@pytest.mark.parametrize("name", [*SAMPLERS, "all filters together"])
def test_each_sampler_draws_from_its_exact_distribution(name, streams):
    sampler = SAMPLERS[name]() if name in SAMPLERS else Vanilla(temperature=1.4, top_k=20, top_p=0.85, min_p=0.1)
    sampling = RowSampler(sampler, streams, eos=[], filler=0, device=torch.device("cpu"))
    left = sampling(torch.zeros(ROWS, 1, dtype=torch.long), torch.tensor(LOGITS, dtype=torch.float32).repeat(ROWS, 1))
    assert torch.equal(left.argmax(-1), sampling.tokens[:, 0])
    assert left.isfinite().sum() == ROWS
    assert_sampled_from(sampling.tokens[:, 0].numpy(), probabilities(sampler, LOGITS))
    own = LOGITS - np.log(np.exp(LOGITS).sum())  # log-probabilities are the model's, whatever the sampler
    np.testing.assert_allclose(sampling.logprobs, own[sampling.tokens[:, 0]], atol=1e-5)


def test_a_token_of_no_probability_is_never_drawn_even_at_the_ends_of_the_stream():
    logits = torch.tensor([[-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf]]).repeat(4, 1)
    uniform = torch.tensor([0.0, 0.5 - 2**-54, 0.5, 1 - 2**-53], dtype=torch.float64)
    assert inverse_cdf(logits, uniform).tolist() == [1, 1, 3, 3]


def test_each_sampler_is_registered_with_its_documented_parameters():
    registered = {}
    register_samplers(registered.__setitem__)
    assert registered == SAMPLERS
    assert {name: Sampler(**asdict(sampler())) for name, sampler in SAMPLERS.items()} == {
        "vanilla": Sampler(),
        "low-temp": Sampler(temperature=0.6),
        "high-temp": Sampler(temperature=1.5),
        "min-p": Sampler(temperature=1.5, min_p=0.05),
        "nucleus": Sampler(top_p=0.9),
    }


def test_p_is_short_for_the_filter_of_its_sampler_and_recorded_parameters_build_the_same_sampler():
    assert asdict(MinP(p=0.1)) == asdict(MinP(min_p=0.1)) == asdict(MinP(p=0.1, min_p=0.1))
    assert asdict(Nucleus(p=0.5, temperature=0.7)) == asdict(Sampler(top_p=0.5, temperature=0.7))
    for factory in SAMPLERS.values():
        sampler = factory(temperature=2.0, top_k=7)
        assert factory(**asdict(sampler)) == sampler


def test_wrong_values_are_errors_that_name_the_sampler():
    for sampler, parameters, message in (
        (LowTemp, {"temperature": 0}, "low-temp: temperature must be > 0 and finite, got 0"),
        (HighTemp, {"temperature": "hot"}, "high-temp: temperature must be a finite number, got 'hot'"),
        (MinP, {"p": 1.5}, "min-p: min_p must be in [0, 1), got 1.5"),
        (MinP, {"p": 0.1, "min_p": 0.2}, "min-p: p is short for min_p: give one of them, got 0.1 and 0.2"),
        (Nucleus, {"p": 0}, "nucleus: top_p must be in (0, 1], got 0"),
        (Vanilla, {"top_k": 1.5}, "vanilla: top_k must be a whole number, got 1.5"),
        (Vanilla, {"top_k": -1}, "vanilla: top_k must be >= 0"),
    ):
        assert refusal_of(sampler, **parameters).startswith(message)
