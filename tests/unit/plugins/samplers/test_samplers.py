"""What the samplers draw: plain ones by their exact distribution, `repexp-guided` by the paper's plain scheme."""

from dataclasses import asdict

import numpy as np
import pytest
import torch
from support import paper_scheme
from support.exact_sampling import assert_sampled_from, probabilities
from support.refusals import refusal_of
from support.tiny_checkpoints import LONG, SHORT, assert_same_responses, first_rows, save_checkpoint

from harness import Sampler
from harness.records import SampleRequest
from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.engines.transformers.sampling import RowSampler, inverse_cdf, uniforms
from harness_plugins.samplers.guided import Guide, RepExpGuided, sherman_morrison, woodbury
from harness_plugins.samplers.plain import HighTemp, LowTemp, MinP, Nucleus, Vanilla, register_samplers

ROWS = 6000
LOGITS = np.random.default_rng(0).normal(0, 2, 64)
STATES = ("mean", "last", "penultimate")
LAM, WIDTH = 0.1, 12
SAMPLERS = {"vanilla": Vanilla, "low-temp": LowTemp, "high-temp": HighTemp, "min-p": MinP, "nucleus": Nucleus}

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("name", [*SAMPLERS, "all filters together"])
def test_each_sampler_draws_from_its_exact_distribution(name):
    sampler = SAMPLERS[name]() if name in SAMPLERS else Vanilla(temperature=1.4, top_k=20, top_p=0.85, min_p=0.1)
    streams = np.stack([uniforms(0, row, 1) for row in range(ROWS)])
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


def test_each_sampler_is_registered_with_its_documented_parameters_and_wrong_ones_name_it():
    registered = {}
    register_samplers(registered.__setitem__)
    assert registered == SAMPLERS
    documented = {"vanilla": {}, "low-temp": {"temperature": 0.6}, "high-temp": {"temperature": 1.5}}
    documented |= {"min-p": {"temperature": 1.5, "min_p": 0.05}, "nucleus": {"top_p": 0.9}}
    for name, options in documented.items():
        assert asdict(SAMPLERS[name]()) == asdict(Sampler(**options))
    guided = RepExpGuided()
    assert (guided.beta, guided.lam, guided.top_p, guided.top_k) == (0.5, 0.1, 0.95, 128)  # the paper's
    assert not RepExpGuided(beta=0, top_k=0).steers
    for sampler, parameters, message in (
        (LowTemp, {"temperature": 0}, "low-temp: temperature must be > 0 and finite, got 0"),
        (HighTemp, {"temperature": "hot"}, "high-temp: temperature must be a finite number, got 'hot'"),
        (MinP, {"p": 1.5}, "min-p: min_p must be in [0, 1), got 1.5"),
        (MinP, {"p": 0.1, "min_p": 0.2}, "min-p: p is short for min_p: give one of them, got 0.1 and 0.2"),
        (Nucleus, {"p": 0}, "nucleus: top_p must be in (0, 1], got 0"),
        (Vanilla, {"top_k": 1.5}, "vanilla: top_k must be a whole number, got 1.5"),
        (Vanilla, {"top_k": -1}, "vanilla: top_k must be >= 0"),
        (RepExpGuided, {"beta": -1}, "repexp-guided: beta must be >= 0, got -1"),
        (RepExpGuided, {"lam": 0}, "repexp-guided: lam must be > 0, got 0"),
        (RepExpGuided, {"top_k": 0}, "repexp-guided: top_k must be >= 1"),
    ):
        assert refusal_of(sampler, **parameters).startswith(message)


# Guided sampling; candidates of all classes: engines/transformers/test_engine.py.


@pytest.fixture(scope="module")
def engines(tmp_path_factory):
    """An engine for each kind of model; `sliding` has a window of 8."""
    root = tmp_path_factory.mktemp("checkpoints")
    return {
        kind: Transformers(str(save_checkpoint(root / kind, kind)), device="cpu")
        for kind in ("qwen2", "gpt2", "sliding")
    }


def sample(engine, prompts=(SHORT,), n=3, max_tokens=20, seeds=(3, 4), **more):
    sampler, seeds = RepExpGuided(beta=1.0), seeds[: len(prompts)]
    return engine.sample(
        SampleRequest(prompts, n=n, sampler=sampler, max_tokens=max_tokens, seeds=seeds, states=STATES, **more)
    )


@pytest.mark.parametrize("kind", ["qwen2", "gpt2"])
def test_tokens_and_states_are_those_of_the_papers_scheme(engines, kind):
    part = engines[kind]._checkpoint
    options = {"n": 3, "max_tokens": 20, "seed": 3, "eos": part.eos}
    tokens, states = paper_scheme.responses(part.model, part.prompt_ids(SHORT), RepExpGuided(beta=1.0), **options)
    [responses] = sample(engines[kind])
    assert [list(ids) for ids in responses.token_ids] == tokens
    assert {len(ids) for ids in tokens} != {20}  # some end by themselves
    for i, own in enumerate(states):
        np.testing.assert_allclose(responses.states["mean"][i], own.mean(0), atol=1e-4)
        np.testing.assert_allclose(responses.states["last"][i], own[-1], atol=1e-4)
        if len(own) > 1:
            np.testing.assert_allclose(responses.states["penultimate"][i], own[-2], atol=1e-4)


def test_rows_depend_on_earlier_ones_of_their_prompt_alone_and_end_where_until_says_so(engines):
    reported, questions = [], []
    together = sample(engines["qwen2"], [SHORT, LONG], report=reported.append)
    assert reported == [2] * 3  # as they end
    in_turn = sample(Transformers(engines["qwen2"].model, device="cpu", batch=16), [SHORT, LONG])
    for both, other in zip(together, in_turn, strict=True):
        assert_same_responses(both, other)

    def until(prompt, text, finish):
        questions.append((prompt, text, finish))
        return prompt == 0 and text == together[0].texts[1]

    stopped, other = sample(engines["qwen2"], [SHORT, LONG], until=until)
    assert_same_responses(stopped, first_rows(together[0], 2))
    assert_same_responses(other, together[1])
    pools = enumerate((stopped, other))
    assert sorted(questions) == sorted((j, *each) for j, p in pools for each in zip(p.texts, p.finish, strict=True))


def test_a_sliding_window_shorter_than_the_response_is_refused_with_one_line(engines):
    line = refusal_of(sample, engines["sliding"])
    assert line.startswith("sliding: prompt and --max-tokens make ")
    assert "window of 8" in line


# The covariance, against numpy's inverse of the matrix as it is defined.


def responses(seed=0, offset=3.0, lengths=(7, 1, 30)):
    """Token states of a few responses, float32 as models give them, with a common part."""
    rng = np.random.default_rng(seed)
    common = rng.normal(0, offset, WIDTH)
    return [torch.tensor(common + rng.normal(0, 1, (t, WIDTH)), dtype=torch.float32) for t in lengths]


@pytest.mark.parametrize(("offset", "rtol"), [(3.0, 1e-9), (3000.0, 1e-8)])
def test_the_bonus_is_that_of_the_definition_after_every_response_also_for_states_far_from_nothing(offset, rtol):
    guide, earlier = Guide(2.0, LAM), responses(offset=offset)
    candidates = earlier[2] + 1
    for i, states in enumerate(earlier):
        guide.learn(states)
        before = [response.double().numpy() for response in earlier[: i + 1]]
        b = paper_scheme.bonus(before, candidates.double().numpy(), LAM)
        np.testing.assert_allclose(guide.added(candidates).numpy(), 2.0 * b, rtol=rtol)


def test_a_blocked_update_is_the_papers():
    h, start = torch.cat(responses(lengths=(7, 1, 200))).double(), torch.eye(WIDTH, dtype=torch.float64) / LAM
    np.testing.assert_allclose(woodbury(start, h).numpy(), sherman_morrison(start, h).numpy(), rtol=1e-8, atol=1e-8)
