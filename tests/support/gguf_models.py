"""A small random Llama as a GGUF file, written by the gguf library as llama.cpp's converter writes one."""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from support.tiny_checkpoints import TEMPLATE, small_tokenizer

HEADS, KEY_HEADS = 4, 2
NAMES = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
OTHERS = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def write_gguf(path: Path, template: str | None = TEMPLATE) -> LlamaForCausalLM:
    """Write the file, matrices in 8 bits (Q8_0); return the model that was written, in float32."""
    tokenizer = small_tokenizer(template)
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "max_position_embeddings": 128}
    heads = {"num_attention_heads": HEADS, "num_key_value_heads": KEY_HEADS, "tie_word_embeddings": False}
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = LlamaForCausalLM(LlamaConfig(**sizes, **heads, vocab_size=len(tokenizer), initializer_range=0.3))
    writer = gguf.GGUFWriter(path, "llama")
    _write_sizes(writer, model.config)
    _write_vocabulary(writer, tokenizer, template)
    for name, weights in model.state_dict().items():
        data = _permuted(name, weights).numpy()
        kind = gguf.GGMLQuantizationType.Q8_0 if data.ndim == 2 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(_name(name), gguf.quants.quantize(data, kind), raw_dtype=kind)
    for step in ("write_header_to_file", "write_kv_data_to_file", "write_tensors_to_file", "close"):
        getattr(writer, step)()
    return model


def _write_sizes(writer: gguf.GGUFWriter, config: LlamaConfig) -> None:
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_rope_dimension_count(config.hidden_size // HEADS)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)


def _write_vocabulary(writer, tokenizer, template: str | None) -> None:
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1])
    special = set(tokenizer.all_special_ids) | {2}
    kinds = [gguf.TokenType.CONTROL if i in special else gguf.TokenType.NORMAL for _, i in vocabulary]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([token for token, _ in vocabulary])
    writer.add_token_types(kinds)
    merges = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]
    writer.add_token_merges([" ".join(pair) for pair in merges])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    if template:
        writer.add_chat_template(template)


def _name(name: str) -> str:
    stem = name.removesuffix(".weight")
    if stem in OTHERS:
        return f"{OTHERS[stem]}.weight"
    _, _, layer, part = stem.split(".", 3)
    return f"blk.{layer}.{NAMES[part]}.weight"


def _permuted(name: str, weights: torch.Tensor) -> torch.Tensor:
    """Rows of queries and keys in the order of llama.cpp, which rotates neighbours and not halves."""
    heads = HEADS if "q_proj" in name else KEY_HEADS if "k_proj" in name else 0
    if not heads:
        return weights
    rows, columns = weights.shape
    halves = weights.reshape(heads, 2, rows // heads // 2, columns)
    return halves.swapaxes(1, 2).reshape(rows, columns).contiguous()
