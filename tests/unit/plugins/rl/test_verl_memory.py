"""The memory that a run of verl needs on each GPU."""

import json

import pytest
from support.refusals import refusal_of

from harness.training import Settings
from harness_plugins.models.tiny24 import folder
from harness_plugins.rl.verl_memory import cache_bytes, estimate, parameter_count

QWEN_7B = {  # Qwen2.5-7B's config.json, what matters of it
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_attention_heads": 28,
    "num_hidden_layers": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
    "tie_word_embeddings": False,
}


def test_the_parameters_of_a_dense_model_are_counted_from_its_config(tmp_path):
    assert parameter_count(tmp_path, QWEN_7B) == pytest.approx(7.6e9, rel=0.01)
    tied = parameter_count(tmp_path, QWEN_7B | {"tie_word_embeddings": True})
    assert parameter_count(tmp_path, QWEN_7B) - tied == 152064 * 3584


def test_the_embedded_models_parameters_are_read_from_its_weights():
    model = folder("tiny24-weak")
    assert parameter_count(model, json.loads((model / "config.json").read_text())) == 942_976


def test_a_token_of_a_7b_model_keeps_56_kib_with_its_own_head_width_or_number_of_heads():
    assert cache_bytes(QWEN_7B) == 2 * 2 * 28 * 4 * 128
    assert cache_bytes(QWEN_7B | {"head_dim": 64}) == 2 * 2 * 28 * 4 * 64
    assert cache_bytes(QWEN_7B | {"num_key_value_heads": None}) == 2 * 2 * 28 * 28 * 128


def test_the_papers_model_fits_eight_gpus_of_80_gib_and_not_one():
    eight = estimate(7_600_000_000, QWEN_7B, Settings())
    assert (eight.updating, eight.sampling) == (pytest.approx(14.16, abs=0.01), pytest.approx(10.62, abs=0.01))
    assert eight.sampler == pytest.approx((2 * 7.6e9 + 57_344 * 2048) / 2 / 2**30)
    assert eight.require(80, 0.6).startswith("memory: 7.60 B parameters need 14.2 GiB a GPU to update")
    one = estimate(7_600_000_000, QWEN_7B, Settings(devices=1, tensor_parallel=1))
    assert "does not fit" in refusal_of(one.require, 80, 0.6)


def test_weights_at_rest_beside_the_sampler_must_fit_too():
    two = estimate(7_600_000_000, QWEN_7B, Settings(devices=2, tensor_parallel=1))
    assert two.updating < 80
    assert two.sampler < 0.6 * 80
    assert "42.5 beside the sampler" in refusal_of(two.require, 80, 0.6)


def test_a_sampler_that_overfills_its_share_is_refused():
    needs = estimate(7_600_000_000, QWEN_7B, Settings(devices=64, tensor_parallel=1))
    assert "does not fit" in refusal_of(needs.require, 20, 0.6)
    assert needs.updating < 20
