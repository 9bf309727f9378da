"""How good an embedded model is (measure), and the embedded models as they are shipped."""

from __future__ import annotations

import pytest
import torch
from safetensors import safe_open
from support.processes import printed_by
from transformers import AutoModelForCausalLM, AutoTokenizer

from harness_plugins.models import tiny24
from harness_plugins.models.tiny24.measure import TASK, measure, pass_at_k, summary

pytestmark = pytest.mark.usefixtures("one_thread")


def test_tiny24_solves_dev_puzzles_by_sampling(tokenizer):
    model = AutoModelForCausalLM.from_pretrained(tiny24.folder("tiny24"), dtype=torch.float32)
    counts = measure(model, tokenizer, TASK.problems("dev")[::30], n=16, rows=64)
    assert sum(count > 0 for count in counts) >= 3, counts
    assert pass_at_k(counts, 16, 1) >= 0.05


def test_a_summary_is_exact_at_both_ends():
    assert summary([0, 4], 4) == {"problems": 2, "pass@1": 0.5, "pass@4": 0.5, "never_solved": 0.5, "above_0.9": 0.5}
    assert pass_at_k([1], 4, 2) == 0.5
    assert summary([9], 10)["above_0.9"] == 0


LADDER = ["tiny24", "tiny24-faint", "tiny24-medium", "tiny24-weak"]


def test_the_ladder_is_there_and_nothing_else_is_embedded():
    assert tiny24.names() == LADDER
    assert tiny24.folder("Qwen/Qwen2.5-0.5B-Instruct") is None
    assert tiny24.folder("") is None
    code = "import sys; from harness_plugins.models import tiny24; tiny24.folder('tiny24')"
    assert printed_by(f"{code}; print('torch' in sys.modules)") == "False"


def test_each_shipped_folder_loads_as_a_stock_model():
    for name in LADDER:
        model = AutoModelForCausalLM.from_pretrained(tiny24.folder(name), dtype=torch.float32)
        assert (type(model).__name__, model.config.head_dim) == ("LlamaForCausalLM", 64)
        assert model.config.max_position_embeddings >= 512
        tokenizer = AutoTokenizer.from_pretrained(tiny24.folder(name))
        assert model.config.vocab_size == len(tokenizer)
        assert model.generation_config.eos_token_id == tokenizer.eos_token_id
        assert model.generation_config.pad_token_id == tokenizer.pad_token_id
        with safe_open(tiny24.folder(name) / "model.safetensors", "pt") as weights:
            assert {weights.get_slice(key).get_dtype() for key in weights.keys()} == {"F16"}  # noqa: SIM118
