"""Sampler `repexp-guided` in the transformers engine against the paper's plain scheme, on models of real classes."""

import numpy as np
import pytest
import torch
from support import paper_scheme
from support.tiny_checkpoints import LONG, MORE_CONFIGS, SHORT, assert_same_responses, first_rows, save_checkpoint

from harness import HarnessError, Sampler
from harness.plugin_system.component import Spec
from harness.records import SampleRequest
from harness.running.config import RunConfig
from harness.running.plan import Sampling
from harness.running.planning import make_plan
from harness.system.progress import Progress
from harness_plugins.engines.transformers import packed_attention
from harness_plugins.engines.transformers.candidate_tree import CandidateTree, prefixes, require_siblings
from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.engines.transformers.padding import padded
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


def sample(engine, prompts=(SHORT,), n=6, max_tokens=20, seeds=(3, 4), beta=1.0, sampler=None, **more):
    """Sample with this file's usual settings."""
    sampler = sampler or RepExpGuided(beta=beta)
    seeds = seeds[: len(prompts)]
    return engine.sample(
        SampleRequest(prompts, n=n, sampler=sampler, max_tokens=max_tokens, seeds=seeds, states=STATES, **more)
    )


def plain(engine, n=6, max_tokens=20, beta=1.0, prompt=SHORT, seed=3):
    """The paper's scheme on the engine's own model."""
    part = engine._checkpoint
    ids = part.prompt_ids(prompt)
    return paper_scheme.responses(
        part.model, ids, RepExpGuided(beta=beta), n=n, max_tokens=max_tokens, seed=seed, eos=part.eos
    )


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_and_states_are_those_of_the_papers_scheme(engines, kind):
    tokens, states = plain(engines[kind])
    [responses] = sample(engines[kind])
    assert [list(ids) for ids in responses.token_ids] == tokens
    assert {len(ids) for ids in tokens} != {20}  # some end by themselves
    for i, own in enumerate(states):
        np.testing.assert_allclose(responses.states["mean"][i], own.mean(0), atol=1e-4)
        np.testing.assert_allclose(responses.states["last"][i], own[-1], atol=1e-4)
        if len(own) > 1:
            np.testing.assert_allclose(responses.states["penultimate"][i], own[-2], atol=1e-4)


@pytest.mark.parametrize("beta", [1.0, 8.0])
def test_a_trained_model_with_few_candidates_a_step_draws_what_the_papers_scheme_draws(beta):
    engine, task = Transformers("tiny24", device="cpu"), Game24()
    puzzle = task.messages(task.problems("heldout")[7])
    tokens, _ = plain(engine, n=5, max_tokens=48, beta=beta, prompt=puzzle)
    [responses] = sample(engine, [puzzle], n=5, max_tokens=48, beta=beta)
    assert [list(ids) for ids in responses.token_ids] == tokens


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_siblings_have_the_states_of_expanded_caches(engines, kind, attention):
    part = engines[kind]._checkpoint
    before = part.model.config._attn_implementation
    part.model.set_attn_implementation(attention)
    try:
        prompts = [[5, 9, 7, 30, 31, 40], [8, 9, 10]]
        ids, mask = padded(part, prompts)
        tree = CandidateTree(part, prefixes(part, ids, mask))
        for step in range(3):
            candidates = torch.randint(300, (2, 100), generator=torch.Generator().manual_seed(step))
            found, chosen = tree.look(candidates), torch.tensor([99 - step, step])
            for row, prompt in enumerate(prompts):
                cache = part.model(torch.tensor([prompt]), use_cache=True).past_key_values
                expected = paper_scheme.states_by_expanded_caches(part.model, cache, candidates[row], len(prompt))
                torch.testing.assert_close(found[row], expected, atol=1e-4, rtol=0)
                prompt.append(int(candidates[row, chosen[row]]))
            tree.keep(chosen)
    finally:
        part.model.set_attn_implementation(before)


def test_a_beta_of_zero_draws_what_plain_sampling_with_the_same_filters_draws(engines):
    filtered = Sampler(top_p=0.95, top_k=128)
    for guided, expected in zip(
        sample(engines["llama"], [SHORT, LONG], n=30, beta=0.0),
        sample(engines["llama"], [SHORT, LONG], n=30, sampler=filtered),
        strict=True,
    ):
        assert_same_responses(guided, expected)


class Nothing(RepExpGuided):
    """Steers, looks at all candidates, and adds 0."""

    def steering(self):
        return self

    adds = True

    def added(self, states):
        return torch.zeros(len(states), dtype=torch.float64)

    def learn(self, states):
        pass


def test_a_steered_step_that_adds_nothing_draws_the_same_tokens_from_the_same_streams(engines):
    filtered = Sampler(top_p=0.95, top_k=128)
    for guided, expected in zip(
        sample(engines["qwen2"], [SHORT, LONG], n=30, sampler=Nothing()),
        sample(engines["qwen2"], [SHORT, LONG], n=30, sampler=filtered),
        strict=True,
    ):
        assert_same_responses(guided, expected)


def test_the_first_response_has_no_bonus_and_the_next_ones_do(engines):
    [guided], [unguided] = sample(engines["qwen2"], beta=5.0), sample(engines["qwen2"], beta=0.0)
    assert guided.token_ids[0] == unguided.token_ids[0]
    assert guided.token_ids[1:] != unguided.token_ids[1:]


def test_fewer_responses_are_the_first_of_more(engines):
    [few], [many] = sample(engines["qwen2"], n=3), sample(engines["qwen2"], n=6)
    assert_same_responses(few, first_rows(many, 3))


def test_prompts_drawn_together_change_nothing_in_each_other(engines):
    together = sample(engines["qwen2"], [SHORT, LONG])
    assert_same_responses(together[0], sample(engines["qwen2"], [SHORT], seeds=(3,))[0])
    assert_same_responses(together[1], sample(engines["qwen2"], [LONG], seeds=(4,))[0])
    alone = Transformers(engines["qwen2"].model, device="cpu", batch=16)  # one prompt at a time
    for own, other in zip(together, sample(alone, [SHORT, LONG]), strict=True):
        assert_same_responses(own, other)


def test_a_prompt_gets_no_further_response_where_until_says_so(engines):
    whole = sample(engines["qwen2"], [SHORT, LONG])
    asked = []

    def until(prompt, text, finish):
        asked.append((prompt, text, finish))
        return prompt == 0 and text == whole[0].texts[2]

    stopped, other = sample(engines["qwen2"], [SHORT, LONG], until=until)
    assert_same_responses(stopped, first_rows(whole[0], 3))
    assert_same_responses(other, whole[1])
    said = [
        (j, *response) for j, one in enumerate((stopped, other)) for response in zip(one.texts, one.finish, strict=True)
    ]
    assert sorted(asked) == sorted(said)


def test_responses_are_reported_as_they_end(engines):
    reported = []
    sample(engines["qwen2"], [SHORT, LONG], n=3, report=reported.append)
    assert reported == [2, 2, 2]


def test_heads_that_share_keys_attend_without_a_copy_of_the_keys_for_each(engines, monkeypatch):
    random = torch.Generator().manual_seed(0)
    query, key, value = (
        torch.randn(2, heads, tokens, 8, generator=random) for heads, tokens in ((6, 5), (2, 9), (2, 9))
    )
    mask = torch.zeros(2, 1, 5, 9).masked_fill_(torch.rand(2, 1, 5, 9, generator=random) < 0.4, -1e30)
    module = torch.nn.Module()
    module.num_key_value_groups = 3
    expected, _ = packed_attention.sdpa_attention_forward(module, query, key, value, mask, scaling=0.3)
    found, _ = packed_attention.packed_sdpa(module, query, key, value, mask, scaling=0.3)
    torch.testing.assert_close(found, expected)
    part = engines["llama"]._checkpoint
    monkeypatch.setattr(packed_attention, "sdpa_attention_forward", None)  # the way that copies
    with torch.inference_mode():
        tree = CandidateTree(part, prefixes(part, torch.tensor([[5, 6, 7]]), torch.ones(1, 3, dtype=torch.long)))
        assert tree.look(torch.tensor([[8, 9, 10]])).isfinite().all()
    assert part.model.config._attn_implementation == "sdpa"


def test_a_sliding_window_shorter_than_the_response_is_refused_with_one_line(engines):
    with pytest.raises(HarnessError, match=r"sliding: prompt and --max-tokens make \d+ tokens, .* window of 8"):
        sample(engines["sliding"])


def test_a_model_that_siblings_would_misread_is_refused(engines, monkeypatch):
    part = engines["llama"]._checkpoint
    require_siblings(part)
    monkeypatch.setattr(CandidateTree, "_mask", lambda self, rows: None)  # siblings then see each other
    with pytest.raises(HarnessError, match="LlamaForCausalLM cannot look at several next tokens at once"):
        require_siblings(part)


def test_a_model_that_changes_its_logits_after_the_head_is_refused(engines, monkeypatch):
    part = engines["llama"]._checkpoint
    head_of_its_own = part.model.get_output_embeddings()
    monkeypatch.setattr(part.model, "get_output_embeddings", lambda: lambda states: 1.05 * head_of_its_own(states))
    with pytest.raises(HarnessError, match="it changes its logits after the head"):
        require_siblings(part)
    monkeypatch.undo()
    monkeypatch.setattr(part.config, "final_logit_softcapping", 30.0, raising=False)
    with pytest.raises(HarnessError, match="it changes its logits after the head"):
        require_siblings(part)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_models_in_sixteen_bits_are_steered_too(engines, dtype):
    engine = Transformers(engines["llama"].model, device="cpu", dtype=dtype)
    [responses] = sample(engine, n=3)
    assert responses.token_ids[0] != responses.token_ids[1]
    assert responses.states["mean"].dtype == np.float32


def test_a_run_takes_as_many_problems_together_as_fill_a_batch_one_response_each():
    engine = Transformers(batch=256)
    for n in (16, 1024):
        assert Sampling(engine, RepExpGuided(), Spec("repexp-guided"), n, 8).problems_per_call(n) == 16
    assert Sampling(engine, RepExpGuided(beta=0), Spec("repexp-guided"), 1024, 8).problems_per_call(1024) == 1


def test_the_key_of_a_pool_names_a_sampler_that_steers(tmp_path):
    def sampler(spec):
        config = RunConfig(task="game24", selectors=("uniform",), sampler=spec, store=tmp_path)
        return make_plan(config, Progress()).work.pool.inputs["sampler"]

    assert sampler("repexp-guided")["name"] == "repexp-guided"
    assert sampler("repexp-guided:lam=0.2")["lam"] == 0.2
    assert "name" not in sampler("nucleus")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"beta": -1}, "repexp-guided: beta must be >= 0, got -1"),
        ({"lam": 0}, "repexp-guided: lam must be > 0, got 0"),
        ({"top_k": 0}, "repexp-guided: top_k must be >= 1"),
        ({"beta": float("nan")}, "repexp-guided: beta must be a finite number"),
    ],
)
def test_parameters_out_of_range_are_refused(given, said):
    with pytest.raises(HarnessError, match=said):
        RepExpGuided(**given)
