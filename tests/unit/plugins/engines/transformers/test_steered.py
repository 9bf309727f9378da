"""Several next tokens in one pass, against a pass for each over a copy of the cache."""

import pytest
import torch
from support import paper_scheme
from support.refusals import refusal_of
from support.tiny_checkpoints import MORE_CONFIGS

from harness_plugins.engines.transformers.sampling import CACHE, padded
from harness_plugins.engines.transformers.steered import CandidateTree, Prompts, require_siblings

KINDS = ("qwen2", "llama", "gpt2", *MORE_CONFIGS)

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def parts(engines):
    """The loaded checkpoints."""
    return {kind: engines[kind]._checkpoint for kind in KINDS}


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_siblings_have_the_states_of_expanded_caches(parts, kind, attention):
    part = parts[kind]
    before = part.model.config._attn_implementation
    part.model.set_attn_implementation(attention)
    try:
        prompts = [[5, 9, 7, 30, 31, 40], [8, 9, 10]]
        tree = CandidateTree(part, Prompts(part, *padded(part, prompts)), torch.arange(2))
        for step in range(2):
            candidates = torch.randint(300, (2, 20), generator=torch.Generator().manual_seed(step))
            states, chosen = tree.look(candidates), torch.tensor([19 - step, step])
            for row, prompt in enumerate(prompts):
                cache = part.model(torch.tensor([prompt]), use_cache=True)[CACHE]
                expected = paper_scheme.states_by_expanded_caches(part.model, cache, candidates[row], len(prompt))
                torch.testing.assert_close(states[row], expected, atol=1e-4, rtol=0)
                prompt.append(int(candidates[row, chosen[row]]))
            tree.keep(chosen, 20)
    finally:
        part.model.set_attn_implementation(before)


def test_a_model_that_siblings_would_misread_is_refused(parts, monkeypatch):
    require_siblings(parts["llama"])
    monkeypatch.setattr(CandidateTree, "_mask", lambda self, rows, siblings: None)  # siblings then see each other
    line = refusal_of(require_siblings, parts["llama"])
    assert "LlamaForCausalLM cannot look at several next tokens at once" in line


def test_a_model_that_changes_its_logits_after_the_head_is_refused(parts, monkeypatch):
    part = parts["llama"]
    own_head = part.model.get_output_embeddings()
    monkeypatch.setattr(part.model, "get_output_embeddings", lambda: lambda states: 1.05 * own_head(states))
    assert "their logits differ from a plain pass's by" in refusal_of(require_siblings, part)
    monkeypatch.undo()
    monkeypatch.setattr(part.config, "final_logit_softcapping", 30.0, raising=False)
    assert "it caps its logits after the head" in refusal_of(require_siblings, part)
