"""What the benches share: their sizes, with `--smallest` for a test; CPU seconds; a random model."""

from __future__ import annotations

import argparse
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from .processes import descendants


def sizes(description: str | None, **defaults: tuple[Any, Any]) -> argparse.Namespace:
    """The options of a bench, by name: the usual value, and that of `--smallest`, at which it runs in seconds."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smallest", action="store_true", help="run all of it in seconds; the figures then say little")
    for name, (usual, _) in defaults.items():
        kind: dict[str, Any] = {"action": "store_true"} if usual is False else {"type": type(usual), "default": usual}
        parser.add_argument(f"--{name}", **kind)
    if parser.parse_known_args()[0].smallest:
        parser.set_defaults(**{name: smallest for name, (_, smallest) in defaults.items()})
    return parser.parse_args()


def cpu_s() -> float:
    """CPU seconds so far of this process and of all below it, those that have ended too; in steps of 10 ms."""
    ticks = 0
    for pid in (os.getpid(), *descendants()):
        with suppress(OSError):
            ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def random_qwen2(folder: Path, vocabulary: int, width: int, layers: int, head: float = 3) -> str:
    """Save a random checkpoint without an end token; the larger the head's scale, the fewer tokens a filter leaves."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, Qwen2Config
    from transformers.utils import logging

    torch.set_num_threads(1)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    bpe = Tokenizer(models.BPE({token: i for i, token in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, []))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    PreTrainedTokenizerFast(tokenizer_object=bpe).save_pretrained(folder)
    heads = {"num_attention_heads": width // 64, "num_key_value_heads": max(1, width // 448)}
    shape = {"hidden_size": width, "intermediate_size": 19 * width // 7, "num_hidden_layers": layers}
    torch.manual_seed(0)
    config = Qwen2Config(vocab_size=vocabulary, eos_token_id=None, max_position_embeddings=4096, **shape, **heads)
    model = AutoModelForCausalLM.from_config(config)
    model.lm_head.weight.data.mul_(head)
    model.save_pretrained(folder)
    return str(folder)
