"""The embedded models as they are shipped."""

from __future__ import annotations

import pytest
import torch
from safetensors import safe_open
from support.processes import printed_by
from transformers import AutoModelForCausalLM, AutoTokenizer

from harness_plugins.models import tiny24

LADDER = ["tiny24", "tiny24-faint", "tiny24-medium", "tiny24-weak"]


def test_the_ladder_is_there_and_nothing_else_is_embedded():
    assert tiny24.names() == LADDER
    assert tiny24.folder("Qwen/Qwen2.5-0.5B-Instruct") is None
    assert tiny24.folder("") is None
    code = "import sys; from harness_plugins.models import tiny24; tiny24.folder('tiny24')"
    assert printed_by(f"{code}; print('torch' in sys.modules)") == "False"


def test_all_weights_together_stay_below_eight_megabytes():
    weights = [path for name in LADDER for path in tiny24.folder(name).glob("*.safetensors")]
    assert sum(path.stat().st_size for path in weights) <= 8_000_000


@pytest.mark.parametrize("name", LADDER)
def test_a_shipped_folder_loads_as_a_stock_model(name):
    model = AutoModelForCausalLM.from_pretrained(tiny24.folder(name), dtype=torch.float32)
    assert (type(model).__name__, model.config.head_dim) == ("LlamaForCausalLM", 64)
    assert model.config.max_position_embeddings >= 512
    tokenizer = AutoTokenizer.from_pretrained(tiny24.folder(name))
    assert model.config.vocab_size == len(tokenizer)
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert model.generation_config.pad_token_id == tokenizer.pad_token_id
    with safe_open(tiny24.folder(name) / "model.safetensors", "pt") as weights:
        assert {weights.get_slice(key).get_dtype() for key in weights.keys()} == {"F16"}  # noqa: SIM118
