"""Sampler `repexp-guided` in the transformers engine against the paper's plain scheme, on models of real classes."""

import numpy as np
import pytest
import torch
from support import paper_scheme
from support.refusals import refusal_of
from support.tiny_checkpoints import LONG, MORE_CONFIGS, SHORT, assert_same_responses, first_rows, save_checkpoint

from harness import Sampler
from harness.plugin_system.component import Spec
from harness.records import SampleRequest
from harness.running.config import RunConfig
from harness.running.plan import Sampling
from harness.running.planning import make_plan
from harness.system.progress import Progress
from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.samplers.guided import RepExpGuided
from harness_tasks.game24 import Game24

STATES = ("mean", "last", "penultimate")
KINDS = ("qwen2", "llama", "gpt2", *MORE_CONFIGS)

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def engines(tmp_path_factory):
    """An engine for each kind of model, one with a sliding window of 8 among them."""
    root = tmp_path_factory.mktemp("checkpoints")
    return {kind: Transformers(str(save_checkpoint(root / kind, kind)), device="cpu") for kind in (*KINDS, "sliding")}


def sample(engine, prompts=(SHORT,), n=3, max_tokens=20, seeds=(3, 4), beta=1.0, sampler=None, **more):
    """Sample with this file's usual settings."""
    sampler = sampler or RepExpGuided(beta=beta)
    seeds = seeds[: len(prompts)]
    return engine.sample(
        SampleRequest(prompts, n=n, sampler=sampler, max_tokens=max_tokens, seeds=seeds, states=STATES, **more)
    )


def plain(engine, n=3, max_tokens=20, beta=1.0, prompt=SHORT, seed=3):
    """The paper's scheme on the engine's own model."""
    part = engine._checkpoint
    ids, sampler = part.prompt_ids(prompt), RepExpGuided(beta=beta)
    return paper_scheme.responses(part.model, ids, sampler, n=n, max_tokens=max_tokens, seed=seed, eos=part.eos)


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_and_states_are_those_of_the_papers_scheme(engines, kind):
    tokens, states = plain(engines[kind])
    [responses] = sample(engines[kind])
    assert [list(ids) for ids in responses.token_ids] == tokens
    for i, own in enumerate(states):
        np.testing.assert_allclose(responses.states["mean"][i], own.mean(0), atol=1e-4)
        np.testing.assert_allclose(responses.states["last"][i], own[-1], atol=1e-4)
        if len(own) > 1:
            np.testing.assert_allclose(responses.states["penultimate"][i], own[-2], atol=1e-4)
    assert {len(ids) for ids in tokens} != {20}  # some end by themselves


def test_a_trained_model_with_few_candidates_a_step_draws_what_the_papers_scheme_draws():
    engine, task = Transformers("tiny24", device="cpu"), Game24()
    puzzle = task.messages(task.problems("heldout")[7])
    tokens, _ = plain(engine, n=3, max_tokens=40, beta=4.0, prompt=puzzle)
    [responses] = sample(engine, [puzzle], n=3, max_tokens=40, beta=4.0)
    assert [list(ids) for ids in responses.token_ids] == tokens


class Nothing(RepExpGuided):
    """Steers, looks at all candidates, and adds 0."""

    def steering(self):
        return self

    adds = True

    def added(self, states):
        return torch.zeros(len(states), dtype=torch.float64)

    def learn(self, states):
        pass


def test_a_bonus_of_nothing_draws_what_plain_sampling_with_the_same_filters_draws(engines):
    expected = sample(engines["llama"], [SHORT, LONG], n=8, sampler=Sampler(top_p=0.95, top_k=128))
    for sampler in (RepExpGuided(beta=0.0), Nothing()):  # by no step that looks at candidates, and by steps that add 0
        for guided, own in zip(sample(engines["llama"], [SHORT, LONG], n=8, sampler=sampler), expected, strict=True):
            assert_same_responses(guided, own)


def test_the_first_response_has_no_bonus_and_the_next_ones_do(engines):
    [guided], [unguided] = sample(engines["qwen2"], beta=5.0), sample(engines["qwen2"], beta=0.0)
    assert guided.token_ids[0] == unguided.token_ids[0]
    assert guided.token_ids[1:] != unguided.token_ids[1:]


def test_fewer_responses_are_the_first_of_more_and_prompts_change_nothing_in_each_other(engines):
    reported = []
    together = sample(engines["qwen2"], [SHORT, LONG], report=reported.append)
    assert reported == [2] * 3  # as they end
    alone = [sample(engines["qwen2"], [prompt], seeds=(seed,))[0] for prompt, seed in ((SHORT, 3), (LONG, 4))]
    in_turn = sample(Transformers(engines["qwen2"].model, device="cpu", batch=16), [SHORT, LONG])
    for both, own, other in zip(together, alone, in_turn, strict=True):
        assert_same_responses(both, own)
        assert_same_responses(both, other)
    assert_same_responses(sample(engines["qwen2"], n=2)[0], first_rows(alone[0], 2))


def test_a_prompt_gets_no_further_response_where_until_says_so(engines):
    whole = sample(engines["qwen2"], [SHORT, LONG])
    questions = []

    def until(prompt, text, finish):
        questions.append((prompt, text, finish))
        return prompt == 0 and text == whole[0].texts[1]

    stopped, other = sample(engines["qwen2"], [SHORT, LONG], until=until)
    assert_same_responses(stopped, first_rows(whole[0], 2))
    assert_same_responses(other, whole[1])
    pools = enumerate((stopped, other))
    assert sorted(questions) == sorted((j, *each) for j, p in pools for each in zip(p.texts, p.finish, strict=True))


def test_a_sliding_window_shorter_than_the_response_is_refused_with_one_line(engines):
    line = refusal_of(sample, engines["sliding"])
    assert line.startswith("sliding: prompt and --max-tokens make ")
    assert "window of 8" in line


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_models_in_sixteen_bits_are_steered_too(engines, dtype):
    engine = Transformers(engines["llama"].model, device="cpu", dtype=dtype)
    [responses] = sample(engine, n=2)
    assert responses.token_ids[0] != responses.token_ids[1]
    assert responses.states["mean"].dtype == np.float32


def test_a_run_takes_as_many_problems_together_as_fill_a_batch_with_a_response_each():
    engine = Transformers(batch=256)
    for n in (16, 1024):
        assert Sampling(engine, RepExpGuided(), Spec("repexp-guided"), n, 8).problems_per_call(n) == 16
    assert Sampling(engine, RepExpGuided(beta=0), Spec("repexp-guided"), 1024, 8).problems_per_call(1024) == 1


def test_the_key_of_a_pool_names_a_sampler_that_steers(tmp_path):
    def sampler(spec):
        config = RunConfig(task="game24", selectors=("uniform",), sampler=spec, store=tmp_path)
        return make_plan(config, Progress()).work.pool.inputs["sampler"]

    steers = sampler("repexp-guided:lam=0.2")
    assert (steers["name"], steers["lam"]) == ("repexp-guided", 0.2)
    assert "name" not in sampler("nucleus")


def test_parameters_out_of_range_are_refused_and_the_defaults_are_the_papers():
    for wrong, message in (
        ({"beta": -1}, "beta must be >= 0, got -1"),
        ({"lam": 0}, "lam must be > 0, got 0"),
        ({"top_k": 0}, "top_k must be >= 1"),
        ({"beta": float("nan")}, "beta must be a finite number"),
    ):
        assert refusal_of(RepExpGuided, **wrong).startswith(f"repexp-guided: {message}")
    sampler = RepExpGuided()
    assert (sampler.beta, sampler.lam, sampler.top_p, sampler.top_k) == (0.5, 0.1, 0.95, 128)
    assert not RepExpGuided(beta=0, top_k=0).steers
