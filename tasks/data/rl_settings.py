"""What RL trains on, is chosen and reported by, and with which settings, task by task (`Task.rl`).

Math, GSM8K and DAPO with AIME: the paper's (Tuyls et al. 2025, arXiv:2510.11686, appendix on RL); what is not named
here is `harness.training.Settings`' default, which is its table. Tasks import this where they are asked: how a model is
trained is no part of how its responses are graded, and must not change a verdict's key.

The reward is strict, an answer in the form that the prompt asks for: verl's rules for GSM8K and MATH, with which the
authors' code trains (the paper names verl, and no grader). For DAPO and AIME their code takes verl's math-verify
wrapper, which also accepts a number without a box. Here MATH's rule holds for these too.
"""

from __future__ import annotations

from typing import Any

MATH: dict[str, Any] = {"train": "train", "dev": "dev", "test": "rl-test", "reward": "strict"}
GSM8K: dict[str, Any] = {"train": "train", "dev": "dev", "test": "rl-test", "reward": "strict"}

DAPO_AIME: dict[str, Any] = {
    "train": "train",
    "dev": "dev",
    "test": "test",
    "reward": "strict",
    "settings": {
        "batch": 512,
        "mini_batch": 128,
        "micro_batch": 8,
        "max_prompt": 2048,
        "max_response": 8192,
        "save_every": 10,
    },
    "bonus": {"repexp": {"dim": 128}},
}

# Ours: found by plain GRPO's dev pass@1 alone (docs/log.md), twenty steps of a few minutes on one core.
GAME24: dict[str, Any] = {
    "train": "train",
    "dev": "dev",
    "test": "heldout",
    "model": "tiny24-medium",
    "settings": {
        "learning_rate": 3e-4,
        "batch": 64,
        "mini_batch": 16,
        "micro_batch": 64,
        "max_response": 96,
        "steps": 20,
        "save_every": 5,
        "dev_samples": 8,
    },
}
