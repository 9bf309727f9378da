"""The parts of a causal language model in a folder: tokenizer, ends, weights; and folders that hold no such model."""

import json

import pytest
from safetensors.torch import load_file, save_file
from support.refusals import refusal_of
from support.tiny_checkpoints import CONFIGS, SHORT, TEMPLATE, save_checkpoint, small_tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen2Config, Qwen2ForSequenceClassification

from harness import Responses
from harness_plugins.models.checkpoint import Checkpoint, find_device
from harness_plugins.models.location import locate


def opened(folder, dtype="auto"):
    return Checkpoint(locate(str(folder)), "cpu", dtype, None)


@pytest.fixture
def folder(tmp_path):
    """A GPT-2 to be changed."""
    return save_checkpoint(tmp_path / "model", "gpt2")


def test_a_chat_follows_the_template_or_is_joined_by_blank_lines_with_a_single_first_token(folder, tmp_path):
    ids = opened(folder).prompt_ids(SHORT)
    assert AutoTokenizer.from_pretrained(folder).decode(ids) == "<s>user: 1 2 3 4\nassistant:"
    bare = save_checkpoint(tmp_path / "llama", "llama", None)
    ids = opened(bare).prompt_ids([{"role": "system", "content": "solve"}, *SHORT])
    assert ids == AutoTokenizer.from_pretrained(bare)("solve\n\n1 2 3 4")["input_ids"]
    assert ids.count(0) == 1


def test_a_template_sees_a_fixed_date_and_may_refuse_a_prompt(folder):
    def with_template(template):
        tokenizer = AutoTokenizer.from_pretrained(folder)
        tokenizer.chat_template = template
        tokenizer.save_pretrained(folder)
        return opened(folder)

    dated = with_template("{{ date_string }}")
    assert dated.text(dated.prompt_ids(SHORT)) == "26 Jul 2024"
    refusing = with_template("{{ raise_exception('no such role') }}")
    assert refusal_of(refusing.prompt_ids, SHORT) == "model: its chat template refuses the prompt: no such role"
    assert "a prompt of no token" in refusal_of(with_template("{# nothing #}").prompt_ids, SHORT)


def test_the_ends_are_those_of_tokenizer_and_generation_config_that_the_model_knows(folder):
    assert opened(folder).eos == [1, 2]
    assert opened(folder).filler == 1
    settings = json.loads((folder / "generation_config.json").read_text())
    (folder / "generation_config.json").write_text(json.dumps(settings | {"eos_token_id": [2, 1, 9999]}))
    assert opened(folder).eos == [1, 2]
    (folder / "generation_config.json").unlink()
    assert opened(folder).eos == [1]  # the config's


def test_given_responses_have_their_own_tokens_or_those_of_their_texts(folder):
    part = opened(folder)
    ids = part.tokenizer("puzzle", add_special_tokens=False)["input_ids"]
    texts = Responses(["puzzle", "puzzle"], ["stop", "length"], [1, 1], [0, 0])
    assert part.rows(texts) == [[*ids, 1], ids]
    assert part.rows(Responses(["puzzle"], ["stop"], [1], [0], [[7, 8]])) == [[7, 8]]


def test_auto_is_the_checkpoints_own_type_on_a_gpu_and_single_precision_on_a_cpu(folder):
    part = opened("tiny24")
    assert (part.dtype, part.dtype_on("cpu"), part.dtype_on("cuda")) == ("float32", "float32", "float16")
    assert opened("tiny24", dtype="bfloat16").dtype == "bfloat16"
    assert str(opened(folder).model.dtype) == "torch.float32"


def test_a_device_that_cannot_be_used_is_one_line():
    assert str(find_device("cpu")) == "cpu"
    for name in ("abacus", "cuda:99"):
        assert f"device {name!r} cannot be used: " in refusal_of(find_device, name)


# What is no whole causal language model.


def test_a_broken_folder_or_another_kind_of_model_is_refused(folder, tmp_path):
    (folder / "model.safetensors").write_bytes(b"not weights")
    assert "model cannot be loaded" in refusal_of(lambda: opened(folder).model)
    (folder / "config.json").write_text("{")
    assert "model cannot be loaded" in refusal_of(lambda: opened(folder).config)
    Qwen2ForSequenceClassification(CONFIGS["qwen2"]).save_pretrained(tmp_path)
    small_tokenizer(TEMPLATE).save_pretrained(tmp_path)
    line = refusal_of(lambda: opened(tmp_path).config)
    assert line.endswith("(Qwen2ForSequenceClassification) is not a causal language model")


def test_weights_without_a_head_are_refused_rather_than_invented(folder):
    weights = load_file(folder / "model.safetensors")
    del weights["lm_head.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    assert "weights lack lm_head.weight" in refusal_of(lambda: opened(folder).model)


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
    part = opened("tiny24")
    part.model = model
    assert part.decoder is model.model
    del part.decoder
    model.model.register_forward_hook(lambda module, args, out: out.__setitem__("last_hidden_state", out[0] + 1))
    assert "tiny24: cannot find where Qwen2ForCausalLM gives" in refusal_of(lambda: part.decoder)
