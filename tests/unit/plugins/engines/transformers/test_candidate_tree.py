"""Several next tokens in one pass, against a pass for each over a copy of the cache."""

import pytest
import torch
from support import paper_scheme
from support.refusals import refusal_of
from support.tiny_checkpoints import MORE_CONFIGS, save_checkpoint

from harness_plugins.engines.transformers.candidate_tree import CandidateTree, prefixes, require_siblings
from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.engines.transformers.padding import padded

KINDS = ("qwen2", "llama", "gpt2", *MORE_CONFIGS)

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """A loaded checkpoint of each kind of model."""
    root = tmp_path_factory.mktemp("checkpoints")
    return {kind: Transformers(str(save_checkpoint(root / kind, kind)), device="cpu")._checkpoint for kind in KINDS}


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_siblings_have_the_states_of_expanded_caches(parts, kind, attention):
    part = parts[kind]
    before = part.model.config._attn_implementation
    part.model.set_attn_implementation(attention)
    try:
        prompts = [[5, 9, 7, 30, 31, 40], [8, 9, 10]]
        tree = CandidateTree(part, prefixes(part, *padded(part, prompts)))
        for step in range(2):
            candidates = torch.randint(300, (2, 20), generator=torch.Generator().manual_seed(step))
            states, chosen = tree.look(candidates), torch.tensor([19 - step, step])
            for row, prompt in enumerate(prompts):
                cache = part.model(torch.tensor([prompt]), use_cache=True).past_key_values
                expected = paper_scheme.states_by_expanded_caches(part.model, cache, candidates[row], len(prompt))
                torch.testing.assert_close(states[row], expected, atol=1e-4, rtol=0)
                prompt.append(int(candidates[row, chosen[row]]))
            tree.keep(chosen)
    finally:
        part.model.set_attn_implementation(before)


def test_a_model_that_siblings_would_misread_is_refused(parts, monkeypatch):
    require_siblings(parts["llama"])
    monkeypatch.setattr(CandidateTree, "_mask", lambda self, rows: None)  # siblings then see each other
    line = refusal_of(require_siblings, parts["llama"])
    assert "LlamaForCausalLM cannot look at several next tokens at once" in line


def test_a_model_that_changes_its_logits_after_the_head_is_refused(parts, monkeypatch):
    part = parts["llama"]
    own_head = part.model.get_output_embeddings()
    monkeypatch.setattr(part.model, "get_output_embeddings", lambda: lambda states: 1.05 * own_head(states))
    assert "it changes its logits after the head" in refusal_of(require_siblings, part)
    monkeypatch.undo()
    monkeypatch.setattr(part.config, "final_logit_softcapping", 30.0, raising=False)
    assert "it changes its logits after the head" in refusal_of(require_siblings, part)


def test_heads_that_share_keys_attend_without_a_copy_of_the_keys_for_each(parts, monkeypatch):
    from harness_plugins.engines.transformers import packed_attention

    random, part = torch.Generator().manual_seed(0), parts["llama"]
    query, key, value = (
        torch.randn(2, heads, tokens, 8, generator=random) for heads, tokens in ((6, 5), (2, 9), (2, 9))
    )
    mask = torch.zeros(2, 1, 5, 9).masked_fill_(torch.rand(2, 1, 5, 9, generator=random) < 0.4, -1e30)
    module = torch.nn.Module()
    module.num_key_value_groups = 3
    expected, _ = packed_attention.sdpa_attention_forward(module, query, key, value, mask, scaling=0.3)
    attended, _ = packed_attention.packed_sdpa(module, query, key, value, mask, scaling=0.3)
    torch.testing.assert_close(attended, expected)
    monkeypatch.setattr(packed_attention, "sdpa_attention_forward", None)  # the way that copies
    with torch.inference_mode():
        tree = CandidateTree(part, prefixes(part, torch.tensor([[5, 6, 7]]), torch.ones(1, 3, dtype=torch.long)))
        assert tree.look(torch.tensor([[8, 9, 10]])).isfinite().all()
    assert part.model.config._attn_implementation == "sdpa"
