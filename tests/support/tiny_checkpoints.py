"""Small random checkpoints of real classes of models, which are saved and loaded, and what engines say of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    BertConfig,
    GenerationConfig,
    GPT2Config,
    LlamaConfig,
    MistralConfig,
    Phi3Config,
    PhiConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
)

from harness import Responses

TEXT = ["solve this puzzle: 1 2 3 4 + - * / = 24", "the quick brown fox jumps over the lazy dog, please"]
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)
SMALL = {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
SMALL |= {"num_key_value_heads": 2, "max_position_embeddings": 128}
CONFIGS = {
    "qwen2": Qwen2Config(**SMALL),
    "llama": LlamaConfig(**SMALL),
    "gpt2": GPT2Config(n_embd=48, n_layer=2, n_head=4, n_positions=128),
    "sliding": MistralConfig(**SMALL, sliding_window=8),
}
MORE_CONFIGS = {
    "phi": PhiConfig(**SMALL),
    "phi3": Phi3Config(**SMALL, pad_token_id=0),
    "mistral": MistralConfig(**SMALL, sliding_window=None),
    "wide": MistralConfig(**SMALL, sliding_window=100),
}
LONG_CONTEXT = {"qwen2-long": Qwen2Config(**SMALL | {"max_position_embeddings": 512})}
NORMS = {"gpt2": "transformer.ln_f", "phi": "model.final_layernorm"}  # where the last one is not `model.norm`
SHORT = [{"role": "user", "content": "1 2 3 4"}]
LONG = [{"role": "user", "content": "the quick brown fox, please solve 4 4 10 10 this puzzle"}]


def small_tokenizer(template: str | None) -> PreTrainedTokenizerFast:
    """A byte-level BPE trained on two sentences, which begins every plain text with <s>."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=["<s>", "<end>", "<other end>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    bpe.train_from_iterator(TEXT * 3, trainer)
    bpe.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token="<s>", eos_token="<end>")
    tokenizer.chat_template = template
    return tokenizer


def save_checkpoint(folder: Path, kind: str, template: str | None = TEMPLATE, end_scale: float = 3.0) -> Path:
    """A random checkpoint with two end tokens, a norm of some effect, and decoding defaults that must not leak."""
    tokenizer = small_tokenizer(template)
    config = (CONFIGS | MORE_CONFIGS | LONG_CONTEXT)[kind]
    config.vocab_size, config.bos_token_id, config.eos_token_id = len(tokenizer), 0, 1
    config.tie_word_embeddings = False
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = AutoModelForCausalLM.from_config(config)
        with torch.no_grad():
            norm = model.get_submodule(NORMS.get(kind, "model.norm"))
            norm.weight.uniform_(0.5, 1.5)
            model.lm_head.weight.mul_(8)
            model.lm_head.weight[2].mul_(end_scale)
            make_end_likely(model, tokenizer("assistant:" if template else SHORT[0]["content"])["input_ids"])
    model.generation_config = GenerationConfig(
        eos_token_id=[1, 2], do_sample=True, top_k=5, temperature=0.1, repetition_penalty=3.0, max_length=20
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def save_reward_model(folder: Path, kind: str = "llama", *, labels: int = 1, padding: int | None = None) -> Path:
    """A random reward model; "bert" reads pairs and has no chat template."""
    tokenizer = small_tokenizer(None if kind == "bert" else TEMPLATE)
    small = {name: value for name, value in SMALL.items() if kind != "bert" or name != "num_key_value_heads"}
    config = (BertConfig if kind == "bert" else LlamaConfig)(**small, num_labels=labels)
    config.vocab_size, config.pad_token_id = len(tokenizer), padding
    with torch.random.fork_rng():
        torch.manual_seed(2)
        AutoModelForSequenceClassification.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_end_likely(model, ids: list[int]) -> None:
    """Turn <end>'s row of the head towards the state after `ids`, so that about one response in ten ends there."""
    out = model.eval()(torch.tensor([ids]), output_hidden_states=True)
    state, logits = out.hidden_states[-1][0, -1], out.logits[0, -1]
    model.lm_head.weight[1] = state * (logits.logsumexp(-1) - 2) / (state @ state)


def assert_same_responses(responses: Responses, others: Responses) -> None:
    """The same tokens, and states and log-probabilities up to float noise."""
    assert responses.token_ids == others.token_ids
    assert responses.texts == others.texts
    assert responses.finish == others.finish
    np.testing.assert_allclose(responses.logprobs, others.logprobs, atol=1e-4)
    assert responses.states.keys() == others.states.keys()
    for kind, values in responses.states.items():
        np.testing.assert_allclose(values, others.states[kind], atol=1e-4)


def first_rows(responses: Responses, n: int) -> Responses:
    """The first n rows."""
    columns = {name: getattr(responses, name)[:n] for name in ("texts", "finish", "lengths", "logprobs", "token_ids")}
    return replace(responses, **columns, states={kind: values[:n] for kind, values in responses.states.items()})
