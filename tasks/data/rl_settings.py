"""The RL settings of each task (`Task.rl`): the splits to train, choose the checkpoint and report on, and others.

For MATH, GSM8K and DAPO with AIME they are the paper's (Tuyls et al. 2025, arXiv:2510.11686, appendix on RL). A value
that is missing here has the default of `Settings` (plugins/rl/training.py), the paper's table. A task imports this
module only inside its property `rl`, so that the settings for training, which do not affect grading, change no
verdict's key.

The reward is strict: the answer must have the form that the prompt asks for. The rules are verl's for GSM8K and MATH,
with which the authors' code trains (the paper names verl, and no grader). For DAPO and AIME their code uses verl's
math-verify wrapper, which also accepts a number without a box; this project uses MATH's rule for these too.
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

# This project's own settings, chosen by the dev pass@1 of plain GRPO alone (docs/log.md): twenty steps, a few minutes
# on one core.
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
