"""Where the last hidden states are taken, and how those of given responses are pooled."""

from __future__ import annotations

import pytest
import torch
from support.refusals import refusal_of
from transformers import AutoModelForCausalLM, Qwen2Config

from harness_plugins.engines.transformers.capture import final_decoder, pool

KINDS = ("mean", "last", "penultimate")


def test_the_decoder_is_tried_before_it_is_trusted():
    config = Qwen2Config(
        vocab_size=20,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
    )
    model = AutoModelForCausalLM.from_config(config).eval()
    assert final_decoder(model, "small") is model.model
    model.model.register_forward_hook(lambda module, args, out: out.__setitem__("last_hidden_state", out[0] + 1))
    assert "small: cannot find where Qwen2ForCausalLM gives" in refusal_of(final_decoder, model, "small")


def test_states_are_pooled_over_the_response_and_of_no_token_from_the_prompt():
    hidden = torch.arange(1.0, 9.0).reshape(2, 4, 1) ** 2  # two rows: the prompt's last position, three tokens
    expected = {0: (1, 1, 1), 1: (4, 4, 1), 2: ((4 + 9) / 2, 9, 4), 3: ((4 + 9 + 16) / 3, 16, 9)}
    for length, values in expected.items():
        pooled = pool(hidden, torch.tensor([length, 3]), KINDS)
        assert [pooled[kind][0].item() for kind in KINDS] == pytest.approx(values)
        assert pooled["last"][1].item() == 64
    assert set(pool(hidden, torch.tensor([1, 1]), ("last",))) == {"last"}
