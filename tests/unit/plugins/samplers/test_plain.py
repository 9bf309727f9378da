"""The samplers' parameters, and what each really draws, against the exact distribution."""

from dataclasses import fields

import numpy as np
import pytest
import torch
from support.exact_sampling import SAMPLERS, assert_sampled_from, probabilities

from harness import HarnessError, Sampler
from harness_plugins.engines.transformers.row_streams import RowSampler, uniforms
from harness_plugins.samplers.plain import HighTemp, LowTemp, MinP, Nucleus, Vanilla, register_samplers

VOCABULARY, ROWS = 64, 6000
LOGITS = np.random.default_rng(0).normal(0, 2, VOCABULARY)


def first_tokens(sampler: Sampler, seed: int = 0) -> np.ndarray:
    """(ROWS,) first tokens."""
    streams = np.stack([uniforms(seed, row, 1) for row in range(ROWS)])
    sampling = RowSampler(sampler, streams, eos=[], filler=0, device=torch.device("cpu"))
    logits = torch.tensor(LOGITS, dtype=torch.float32).repeat(ROWS, 1)
    left = sampling(torch.zeros(ROWS, 1, dtype=torch.long), logits)
    assert torch.equal(left.argmax(-1), sampling.tokens[:, 0])
    assert left.isfinite().sum() == ROWS
    return sampling.tokens[:, 0].numpy()


@pytest.mark.parametrize("name", SAMPLERS)
def test_each_sampler_draws_from_its_exact_distribution(name):
    sampler = SAMPLERS[name]()
    assert_sampled_from(first_tokens(sampler), probabilities(sampler, LOGITS))


def test_all_filters_together_draw_from_the_exact_distribution():
    sampler = Vanilla(temperature=1.4, top_k=20, top_p=0.85, min_p=0.1)
    assert_sampled_from(first_tokens(sampler), probabilities(sampler, LOGITS))


def test_the_five_distributions_differ():
    supports = {name: int((probabilities(sampler(), LOGITS) > 0).sum()) for name, sampler in SAMPLERS.items()}
    assert supports["vanilla"] == supports["low-temp"] == supports["high-temp"] == VOCABULARY
    assert max(supports["min-p"], supports["nucleus"]) < VOCABULARY
    low, plain, high = (probabilities(sampler(), LOGITS).max() for sampler in (LowTemp, Vanilla, HighTemp))
    assert low > plain > high


def test_the_filters_are_those_that_generate_builds():
    from transformers import AutoModelForCausalLM, GenerationConfig, GPT2Config

    from harness_plugins.engines.transformers.row_streams import filters

    model = AutoModelForCausalLM.from_config(GPT2Config(n_embd=8, n_layer=1, n_head=1, vocab_size=8))
    config = GenerationConfig(do_sample=True, temperature=1.5, top_k=5, top_p=0.9, min_p=0.1)
    theirs = model._get_logits_processor(config)
    ours = filters(Sampler(temperature=1.5, top_k=5, top_p=0.9, min_p=0.1))
    assert [type(warper) for warper in ours] == [type(warper) for warper in theirs]
    scores = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
    expected = theirs(None, scores.clone())
    for warper in ours:
        scores = warper(None, scores)
    assert torch.equal(scores, expected)


def test_logprobs_are_the_models_own_whatever_the_sampler():
    for sampler in (Vanilla(), MinP(), Nucleus(temperature=0.5)):
        sampling = RowSampler(sampler, np.array([[0.3], [0.9]]), eos=[], filler=0, device=torch.device("cpu"))
        sampling(torch.zeros(2, 1, dtype=torch.long), torch.tensor(LOGITS, dtype=torch.float32).repeat(2, 1))
        own = LOGITS - np.log(np.exp(LOGITS).sum())
        np.testing.assert_allclose(sampling.logprobs, own[sampling.tokens[:, 0]], atol=1e-5)


def test_a_token_of_no_probability_is_never_drawn_even_at_the_ends_of_the_stream():
    from harness_plugins.engines.transformers.row_streams import inverse_cdf

    logits = torch.tensor([[-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf]]).repeat(4, 1)
    uniform = torch.tensor([0.0, 0.5 - 2**-54, 0.5, 1 - 2**-53], dtype=torch.float64)
    assert inverse_cdf(logits, uniform).tolist() == [1, 1, 3, 3]


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("vanilla", Sampler()),
        ("low-temp", Sampler(temperature=0.6)),
        ("high-temp", Sampler(temperature=1.5)),
        ("min-p", Sampler(temperature=1.5, min_p=0.05)),
        ("nucleus", Sampler(top_p=0.9)),
    ],
)
def test_each_sampler_has_its_documented_parameters(name, parameters):
    sampler = SAMPLERS[name]()
    assert isinstance(sampler, Sampler)
    assert as_parameters(sampler) == as_parameters(parameters)


def as_parameters(sampler: Sampler) -> dict[str, float]:
    """The fields, as a run records them."""
    return {field.name: getattr(sampler, field.name) for field in fields(sampler)}


def test_p_is_short_for_the_filter_of_its_sampler():
    assert as_parameters(MinP(p=0.1)) == as_parameters(MinP(min_p=0.1))
    assert as_parameters(Nucleus(p=0.5, temperature=0.7)) == as_parameters(Sampler(top_p=0.5, temperature=0.7))


@pytest.mark.parametrize("name", SAMPLERS)
def test_recorded_parameters_build_the_same_sampler(name):
    sampler = SAMPLERS[name](temperature=2.0, top_k=7)
    assert SAMPLERS[name](**as_parameters(sampler)) == sampler


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: LowTemp(temperature=0), "low-temp: temperature must be > 0 and finite, got 0"),
        (lambda: Vanilla(temperature=float("inf")), "vanilla: temperature must be a finite number, got inf"),
        (lambda: HighTemp(temperature="hot"), "high-temp: temperature must be a finite number, got 'hot'"),
        (lambda: MinP(p=1.5), r"min-p: min_p must be in \[0, 1\), got 1.5"),
        (lambda: MinP(p=0.1, min_p=0.2), "min-p: p is short for min_p: give one of them, got 0.1 and 0.2"),
        (lambda: Nucleus(p=0), r"nucleus: top_p must be in \(0, 1\], got 0"),
        (lambda: Vanilla(top_k=1.5), "vanilla: top_k must be a whole number, got 1.5"),
        (lambda: Vanilla(top_k=-1), "vanilla: top_k must be >= 0"),
    ],
)
def test_wrong_values_are_errors_that_name_the_sampler(build, message):
    with pytest.raises(HarnessError, match=message):
        build()


def test_all_five_are_registered():
    registered = {}
    register_samplers(registered.__setitem__)
    assert registered == SAMPLERS
