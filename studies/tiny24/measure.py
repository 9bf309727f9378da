"""Measure an embedded model: `python -m studies.tiny24.measure FOLDER --split dev --n 256`.

Samples by plain `generate` at temperature 1 and grades by the task: an independent check of `harness run`.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM, PreTrainedTokenizerFast

from harness import Problem
from harness_tasks.game24 import Game24

MAX_TOKENS = 96
TASK = Game24()


@torch.inference_mode()
def sample(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, problems: Sequence[Problem], n: int, seed: int
) -> list[list[str]]:
    """Sample n responses to each problem at temperature 1, all in one batch; return their texts."""
    prompts = tokenizer.apply_chat_template(
        [TASK.messages(problem) for problem in problems],
        add_generation_prompt=True,
        return_dict=True,
        return_tensors="pt",
        padding=True,
    )
    torch.manual_seed(seed)
    output = model.generate(**prompts, num_return_sequences=n, max_new_tokens=MAX_TOKENS, cache_implementation="static")
    texts = tokenizer.batch_decode(output[:, prompts["input_ids"].shape[1] :], skip_special_tokens=True)
    return [texts[i : i + n] for i in range(0, len(texts), n)]


def measure(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    problems: Sequence[Problem],
    *,
    n: int,
    seed: int = 0,
    rows: int = 256,
) -> list[int]:
    """Return how many of n responses to each problem are correct; about `rows` are sampled at a time."""
    per_call = max(1, rows // n)
    counts: list[int] = []
    for start in range(0, len(problems), per_call):
        some = problems[start : start + per_call]
        for problem, responses in zip(some, sample(model, tokenizer, some, n, seed + start), strict=True):
            counts.append(sum(TASK.verify(problem, response).status == "correct" for response in responses))
    return counts


def pass_at_k(counts: Sequence[int], n: int, k: int) -> float:
    """Return the mean over problems of 1 - C(n - c, k) / C(n, k); `counts`: c, a problem's correct responses of n."""
    return sum(1 - math.comb(n - c, k) / math.comb(n, k) for c in counts) / len(counts)


def summary(counts: Sequence[int], n: int) -> dict[str, float]:
    """Return pass@k for powers of 4 up to n, and the shares of problems never solved and solved by over 90 % of n.

    counts   for each problem how many of its n responses are correct
    """
    ks = [4**i for i in range(int(math.log(n, 4) + 1e-9) + 1)]
    return {
        "problems": len(counts),
        **{f"pass@{k}": round(pass_at_k(counts, n, k), 4) for k in ks},
        "never_solved": round(sum(c == 0 for c in counts) / len(counts), 4),
        "above_0.9": round(sum(c > 0.9 * n for c in counts) / len(counts), 4),
    }


def main() -> None:
    """Print the summary as one JSON object; `--counts` adds the number of correct responses to each problem."""
    parser = argparse.ArgumentParser(description="pass@k of an embedded model on a split of game24")
    parser.add_argument("folder")
    parser.add_argument("--split", default="dev", choices=["train", "dev", "heldout"])
    parser.add_argument("--n", type=int, default=256)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--counts", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(options.folder, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(options.folder)
    problems = TASK.problems(options.split)
    counts = measure(model, tokenizer, problems, n=options.n, seed=options.seed)
    result: dict[str, object] = dict(summary(counts, options.n))
    if options.counts:
        result["counts"] = {problem.id: count for problem, count in zip(problems, counts, strict=True)}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
