"""A random LoRA for the embedded model, saved by PEFT, and the model with it merged in."""

from __future__ import annotations

import warnings
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from harness_plugins.models.location import embedded


def write_adapter(folder: Path, base: Path | None = None, merged: Path | None = None) -> Path:
    """Save an adapter of rank 4 that changes the model much, and with `merged` the whole model; return its folder."""
    base, modules = base or embedded("tiny24"), ["q_proj", "v_proj", "down_proj"]
    config = LoraConfig(r=4, target_modules=modules, task_type="CAUSAL_LM", init_lora_weights=False)
    with torch.random.fork_rng(), warnings.catch_warnings(action="ignore"):
        torch.manual_seed(5)
        adapted = get_peft_model(AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32), config)
        adapted.save_pretrained(folder)
        if merged:
            adapted.merge_and_unload().save_pretrained(merged)
            AutoTokenizer.from_pretrained(base).save_pretrained(merged)
    return folder
