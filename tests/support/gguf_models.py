"""A small random Llama as a GGUF file, written by the gguf library as llama.cpp's converter writes one."""

import json
from pathlib import Path

import gguf
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from support.tiny_checkpoints import TEMPLATE, small_tokenizer

HEADS, KEY_HEADS = 4, 2
NAMES = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}  # fmt: skip
OTHERS = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def write_gguf(path: Path) -> LlamaForCausalLM:
    """Write the file, matrices in 8 bits (Q8_0); return the model that was written, in float32."""
    tokenizer = small_tokenizer()
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "max_position_embeddings": 128}
    heads = {"num_attention_heads": HEADS, "num_key_value_heads": KEY_HEADS, "tie_word_embeddings": False}
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = LlamaForCausalLM(LlamaConfig(**sizes, **heads, vocab_size=len(tokenizer), initializer_range=0.3))
    vocabulary, control = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get), {*tokenizer.all_special_ids, 2}
    merges = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]
    kinds = [gguf.TokenType.CONTROL if i in control else gguf.TokenType.NORMAL for i in range(len(vocabulary))]
    writer = gguf.GGUFWriter(path, "llama")
    for name, value in (
        ("context_length", 128), ("embedding_length", 64), ("block_count", 2), ("feed_forward_length", 96),
        ("head_count", HEADS), ("head_count_kv", KEY_HEADS), ("rope_dimension_count", 64 // HEADS),
        ("layer_norm_rms_eps", model.config.rms_norm_eps), ("vocab_size", len(tokenizer)),
        ("tokenizer_model", "gpt2"), ("tokenizer_pre", "gpt-2"), ("token_list", vocabulary), ("token_types", kinds),
        ("token_merges", [" ".join(pair) for pair in merges]), ("bos_token_id", 0), ("eos_token_id", 1),
        ("chat_template", TEMPLATE),
    ):  # fmt: skip
        getattr(writer, f"add_{name}")(value)
    for name, weights in model.state_dict().items():
        stem, data = name.removesuffix(".weight"), weights
        if heads := HEADS if "q_proj" in name else KEY_HEADS if "k_proj" in name else 0:
            rows, columns = weights.shape  # llama.cpp rotates neighbours and not halves
            data = weights.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)
        parts = stem.split(".", 3)
        place = OTHERS.get(stem) or f"blk.{parts[2]}.{NAMES[parts[3]]}"
        kind = gguf.GGMLQuantizationType.Q8_0 if data.ndim == 2 else gguf.GGMLQuantizationType.F32
        packed = gguf.quants.quantize(data.contiguous().numpy(), kind)
        writer.add_tensor(f"{place}.weight", packed, raw_dtype=kind)
    for step in ("write_header_to_file", "write_kv_data_to_file", "write_tensors_to_file", "close"):
        getattr(writer, step)()
    return model
