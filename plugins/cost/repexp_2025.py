"""The pools of RepExp's paper (Tuyls, Foster, Krishnamurthy and Ash 2025, arXiv:2510.11686) as a table of data.

What the paper says: ten models and five tasks (its section on inference-time exploration); pools of 6,400 responses
(AIME: 8,192) of at most 512 tokens (MBPP+: 768, AIME: 8,192), which are `Task.paper`; five samplers on MATH with
Qwen2.5-7B; the mean, the last and the last but one token's state; one or two A100 with 40 GB a pool.

`REMARKS` lists what the paper does not say and this table assumes. Sizes of models come from their published configs.
Lengths of responses are guesses, not measurements: a probe replaces them (`--model`).
"""

from __future__ import annotations

from harness.paper import ModelSize, Paper, PaperRow, TaskSize

MODELS = {
    "Qwen/Qwen2.5-0.5B-Instruct": ModelSize(0.494e9, layers=24, kv_width=2 * 64, width=896),
    "Qwen/Qwen2.5-3B-Instruct": ModelSize(3.09e9, layers=36, kv_width=2 * 128, width=2048),
    "Qwen/Qwen2.5-7B-Instruct": ModelSize(7.62e9, layers=28, kv_width=4 * 128, width=3584),
    "Qwen/Qwen2.5-14B-Instruct": ModelSize(14.8e9, layers=48, kv_width=8 * 128, width=5120),
    "Qwen/Qwen2.5-32B-Instruct": ModelSize(32.8e9, layers=64, kv_width=8 * 128, width=5120),
    "meta-llama/Llama-3.2-3B-Instruct": ModelSize(3.21e9, layers=28, kv_width=8 * 128, width=3072),
    "meta-llama/Llama-3.1-8B-Instruct": ModelSize(8.03e9, layers=32, kv_width=8 * 128, width=4096),
    "microsoft/Phi-3-medium-4k-instruct": ModelSize(14.0e9, layers=40, kv_width=10 * 128, width=5120),
    "microsoft/phi-4": ModelSize(14.7e9, layers=40, kv_width=10 * 128, width=5120),
    "mistralai/Mistral-7B-Instruct-v0.3": ModelSize(7.25e9, layers=32, kv_width=8 * 128, width=4096),
}

# Seconds a verdict: docs/log.md (game24 20 µs, programs 4.4 ms). Math: one answer in 200 goes to math-verify, for 10 to
# 50 ms; the others take about 30 µs.
TASKS = {
    "math": TaskSize(5000, prompt_tokens=130, response_tokens=350, verdict_s=0.2e-3),
    "gsm8k": TaskSize(1319, prompt_tokens=130, response_tokens=220, verdict_s=0.2e-3),
    "mbppplus": TaskSize(378, prompt_tokens=180, response_tokens=200, verdict_s=4.4e-3),
    "game24": TaskSize(1362, prompt_tokens=80, response_tokens=250, verdict_s=20e-6),
    "aime25": TaskSize(30, prompt_tokens=200, response_tokens=1500, verdict_s=0.2e-3),
}

ABLATED = "Qwen/Qwen2.5-7B-Instruct"
ROWS = (
    *(PaperRow("RF1, RF2, RF3", task, model) for task in TASKS for model in MODELS),
    *(PaperRow("RF4", "math", ABLATED, sampler) for sampler in ("low-temp", "high-temp", "min-p", "nucleus")),
    *(PaperRow("representations", "math", ABLATED, None, f"hidden-{kind}") for kind in ("last", "penultimate")),
)

REMARKS = (
    "rows: all ten models on all five tasks; the paper's text names them, but not every pair that it drew",
    "Mistral-7B: which version the paper ran is not said; Instruct-v0.3 is taken",
    "representations: on which pool the paper compares them is not said; MATH with Qwen2.5-7B is taken",
    "left out: guided decoding (RF5; no pools: 200 questions x up to 1,024 responses x 5 seeds), "
    "RL (RF6, RF7; the paper: 8 H100 for a day a run, 3 methods x 3 tasks x 3 seeds = 5,184 GPU-hours), "
    "GPT-4o mini's pools behind RF3 and RF5, proteins (`harness run --task proteins --preset paper --dry-run`)",
)


def repexp_2025() -> Paper:
    """Return RepExp's table of pools: ten models, five tasks, five samplers, three representations."""
    return Paper("arXiv:2510.11686", ROWS, TASKS, MODELS, remarks=REMARKS)
