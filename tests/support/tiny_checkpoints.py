"""Small random checkpoints of real classes of models, which are saved and loaded, and what engines say of them."""

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, GenerationConfig

from harness import Responses
from harness_plugins.models.location import embedded

TEXT = ["solve this puzzle: 1 2 3 4 + - * / = 24", "the quick brown fox jumps over the lazy dog, please"]
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)
SMALL = {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
SMALL |= {"num_key_value_heads": 2, "max_position_embeddings": 128}
KINDS = {
    "qwen2": ("Qwen2", SMALL),
    "qwen2-long": ("Qwen2", SMALL | {"max_position_embeddings": 512}),
    "llama": ("Llama", SMALL),
    "gpt2": ("GPT2", {"n_embd": 48, "n_layer": 2, "n_head": 4, "n_positions": 128}),
    "sliding": ("Mistral", SMALL | {"sliding_window": 8}),
    "wide": ("Mistral", SMALL | {"sliding_window": 100}),
    "phi": ("Phi", SMALL),
}
NORMS = {"gpt2": "transformer.ln_f", "phi": "model.final_layernorm"}  # where the last one is not `model.norm`
SHORT = [{"role": "user", "content": "1 2 3 4"}]
LONG = [{"role": "user", "content": "the quick brown fox, please solve 4 4 10 10 this puzzle"}]


def small_tokenizer(template: str | None = TEMPLATE) -> transformers.PreTrainedTokenizerFast:
    """A byte-level BPE trained on two sentences, which begins every plain text with <s>."""
    bpe, alphabet = Tokenizer(models.BPE()), pre_tokenizers.ByteLevel.alphabet()
    bpe.pre_tokenizer, bpe.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    special = ["<s>", "<end>", "<other end>"]
    trainer = trainers.BpeTrainer(vocab_size=320, special_tokens=special, initial_alphabet=alphabet)
    bpe.train_from_iterator(TEXT * 3, trainer)
    bpe.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token="<s>", eos_token="<end>")
    tokenizer.chat_template = template
    return tokenizer


def save_checkpoint(folder: Path, kind: str, template: str | None = TEMPLATE) -> Path:
    """A random checkpoint with two end tokens, a norm of some effect, and decoding defaults that must not leak."""
    tokenizer, (family, sizes) = small_tokenizer(template), KINDS[kind]
    ends = {"vocab_size": len(tokenizer), "bos_token_id": 0, "eos_token_id": 1, "tie_word_embeddings": False}
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = AutoModelForCausalLM.from_config(getattr(transformers, f"{family}Config")(**sizes, **ends)).eval()
        with torch.no_grad():
            model.get_submodule(NORMS.get(kind, "model.norm")).weight.uniform_(0.5, 1.5)
            model.lm_head.weight.mul_(8)
            model.lm_head.weight[2].mul_(3)
            # Turn <end>'s row towards the state after the prompt, so that about one response in ten ends there.
            ids = tokenizer("assistant:" if template else SHORT[0]["content"])["input_ids"]
            out = model(torch.tensor([ids]), output_hidden_states=True)
            state, logits = out.hidden_states[-1][0, -1], out.logits[0, -1]
            model.lm_head.weight[1] = state * (logits.logsumexp(-1) - 2) / (state @ state)
    model.generation_config = GenerationConfig(
        eos_token_id=[1, 2], do_sample=True, top_k=5, temperature=0.1, repetition_penalty=3.0, max_length=20
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def save_reward_model(folder: Path, kind: str = "llama", *, labels: int = 1, padding: int | None = None) -> Path:
    """A random reward model; "bert" reads pairs and has no chat template."""
    tokenizer, is_bert = small_tokenizer(None if kind == "bert" else TEMPLATE), kind == "bert"
    sizes = {name: value for name, value in SMALL.items() if not is_bert or name != "num_key_value_heads"}
    config = (transformers.BertConfig if is_bert else transformers.LlamaConfig)(**sizes, num_labels=labels)
    config.vocab_size, config.pad_token_id = len(tokenizer), padding
    with torch.random.fork_rng():
        torch.manual_seed(2)
        AutoModelForSequenceClassification.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def write_adapter(folder: Path, base: Path | None = None, merged: Path | None = None) -> Path:
    """Save a random LoRA of rank 4 that changes tiny24 much, and with `merged` the whole model; return its folder."""
    from peft import LoraConfig, get_peft_model

    base, modules = base or embedded("tiny24"), ["q_proj", "v_proj", "down_proj"]
    config = LoraConfig(r=4, target_modules=modules, task_type="CAUSAL_LM", init_lora_weights=False)
    with torch.random.fork_rng(), warnings.catch_warnings(action="ignore"):
        torch.manual_seed(5)
        adapted = get_peft_model(AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32), config)
        adapted.save_pretrained(folder)
        if merged:
            adapted.merge_and_unload().save_pretrained(merged)
            transformers.AutoTokenizer.from_pretrained(base).save_pretrained(merged)
    return folder


def assert_same_responses(responses: Responses, others: Responses) -> None:
    """The same tokens, and states and log-probabilities up to float noise."""
    for column in ("token_ids", "texts", "finish"):
        assert getattr(responses, column) == getattr(others, column)
    assert responses.states.keys() == others.states.keys()
    np.testing.assert_allclose(responses.logprobs, others.logprobs, atol=1e-4)
    for kind, values in responses.states.items():
        np.testing.assert_allclose(values, others.states[kind], atol=1e-4)


def first_rows(responses: Responses, n: int) -> Responses:
    """The first n rows."""
    columns = {name: getattr(responses, name)[:n] for name in ("texts", "finish", "lengths", "logprobs", "token_ids")}
    return replace(responses, **columns, states={kind: values[:n] for kind, values in responses.states.items()})
