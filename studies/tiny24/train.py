"""Train an embedded model on one CPU core: `python -m studies.tiny24.train --out DIR --steps N`.

A batch holds `prompts` puzzles with `responses` worked solutions each. The solutions share their prompt's tokens in one
row, under a mask that hides them from one another; the loss is on response tokens only. The batch of step s depends on
(seed, s) alone, so a killed run that is started again ends with the same weights (same machine, same threads).

DIR/state.pt holds the state to resume from, DIR/log.jsonl the log. DIR/step-N are complete Hugging Face folders, one
every `--keep` steps.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import takewhile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from harness import HarnessError, Problem
from harness_tasks.game24 import TARGET

from .measure import TASK, measure, pass_at_k
from .puzzles import CONTEXT, Numbers, Puzzle, all_numbers, build_tokenizer, training_puzzles


@dataclass(frozen=True)
class TrainConfig:
    """All settings of a training run. A step has `prompts` puzzles with `responses` solutions each.

    A share of `share_24` of the puzzles has target 24, the others a target from 1 to `largest_target`, with at most
    `solutions_kept` different solutions of a puzzle. A checkpoint is written every `keep` steps and after the last one,
    and measured on `dev_problems` puzzles with `dev_samples` responses each.
    """

    steps: int = 5000
    seed: int = 0
    prompts: int = 32
    responses: int = 4
    share_24: float = 0.25
    largest_target: int = 48
    solutions_kept: int = 16
    learning_rate: float = 2e-3
    warmup: int = 200
    weight_decay: float = 0.05
    hidden_size: int = 128
    intermediate_size: int = 352
    layers: int = 4
    threads: int = 1
    bfloat16: bool = True
    keep: int = 250
    dev_problems: int = 30
    dev_samples: int = 32


@dataclass(frozen=True)
class Batch:
    """Rows of a prompt and R segments, each the prompt's last token, then a response and padding: `tokens` (B, L).

    prompt_length   P, the tokens before the first segment, the same for all rows
    segment_length  S; L = P + R S
    """

    tokens: Tensor
    prompt_length: int
    segment_length: int

    def segments(self, per_token: Tensor) -> Tensor:
        """Return the segments' part of values (B, L, ...), one per token, as (B, R, S, ...)."""
        segments = per_token[:, self.prompt_length :]
        return segments.unflatten(1, (-1, self.segment_length))

    def positions(self) -> Tensor:
        """Return the positions (1, L): each segment continues where the prompt ends."""
        place = torch.arange(self.tokens.shape[1]) - self.prompt_length
        return (self.prompt_length + torch.where(place < 0, place, place % self.segment_length))[None]

    def mask(self) -> Tensor:
        """Return the mask (1, 1, L, L) bool: a token sees prompt and segment up to itself; padding is at the end."""
        place = torch.arange(self.tokens.shape[1]) - self.prompt_length
        segment = torch.where(place < 0, -1, place // self.segment_length)
        visible = (segment[None, :] == -1) | (segment[:, None] == segment[None, :])
        return (visible & (place[:, None] >= place[None, :]))[None, None]


class Curriculum:
    """The puzzles of a training run, and the batch of each step."""

    def __init__(self, config: TrainConfig, tokenizer: PreTrainedTokenizerFast, quadruples: Sequence[Numbers]) -> None:
        puzzles = training_puzzles(quadruples, config.largest_target, config.solutions_kept, config.seed)
        self.for_24 = [puzzle for puzzle in puzzles if puzzle.target == TARGET]
        self.for_others = [puzzle for puzzle in puzzles if puzzle.target != TARGET]
        self.config = config
        self.tokenizer = tokenizer

    def batch(self, step: int) -> Batch:
        """Return the batch of a step, sampled by (seed, step) alone; a puzzle's solutions have equal weight."""
        rng = random.Random(f"{self.config.seed} {step}")
        chosen = [
            rng.choice(self.for_24 if rng.random() < self.config.share_24 else self.for_others)
            for _ in range(self.config.prompts)
        ]
        return pack(self.tokenizer, chosen, [choose(puzzle.responses, self.config.responses, rng) for puzzle in chosen])


def choose(responses: Sequence[str], count: int, rng: random.Random) -> list[str]:
    """Choose `count` responses at random, distinct ones if there are enough."""
    rounds = [rng.sample(responses, min(len(responses), count)) for _ in range(math.ceil(count / len(responses)))]
    return [response for some in rounds for response in some][:count]


def render(tokenizer: PreTrainedTokenizerFast, puzzle: Puzzle) -> list[int]:
    """Return the token ids of the puzzle's prompt in the chat template, as at sampling."""
    messages = [{"role": "user", "content": puzzle.prompt}]
    return list(tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False))


def pack(tokenizer: PreTrainedTokenizerFast, puzzles: Sequence[Puzzle], responses: Sequence[Sequence[str]]) -> Batch:
    """Return a batch: a row per puzzle, R responses each. All prompts have one length: numbers are single tokens."""
    prompts = torch.tensor([render(tokenizer, puzzle) for puzzle in puzzles])
    ids = tokenizer([response + tokenizer.eos_token for some in responses for response in some])["input_ids"]
    longest = max(map(len, ids))
    ends = torch.tensor([row + [tokenizer.pad_token_id] * (longest - len(row)) for row in ids])
    ends = ends.view(len(puzzles), -1, longest)
    starts = prompts[:, None, -1:].expand(-1, ends.shape[1], 1)
    segments = torch.cat([starts, ends], dim=2)
    return Batch(torch.cat([prompts[:, :-1], segments.flatten(1)], dim=1), prompts.shape[1] - 1, longest + 1)


def loss_of(model: LlamaForCausalLM, batch: Batch, bfloat16: bool) -> Tensor:
    """Return the mean cross-entropy of the response tokens, end of sequence included, in nats."""
    with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
        states = model.model(
            input_ids=batch.tokens, position_ids=batch.positions(), attention_mask=batch.mask(), use_cache=False
        ).last_hidden_state
        targets = batch.segments(batch.tokens)[:, :, 1:]
        real = targets != model.config.pad_token_id
        logits = model.lm_head(batch.segments(states)[:, :, :-1][real])
    return cross_entropy(logits.float(), targets[real])


def build_model(config: TrainConfig, tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """Return an untrained standard Llama with heads of 64, its weights initialized from the seed."""
    torch.manual_seed(config.seed)
    special = {name: getattr(tokenizer, name) for name in ("pad_token_id", "bos_token_id", "eos_token_id")}
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            num_hidden_layers=config.layers,
            num_attention_heads=config.hidden_size // 64,
            max_position_embeddings=CONTEXT,
            tie_word_embeddings=True,
            **special,
        )
    )
    model.generation_config = GenerationConfig(do_sample=True, temperature=1.0, top_k=0, top_p=1.0, **special)
    return model


def build_optimizer(config: TrainConfig, model: LlamaForCausalLM) -> torch.optim.AdamW:
    """Return AdamW with weight decay on matrices only."""
    matrices = [weight for weight in model.parameters() if weight.dim() > 1]
    vectors = [weight for weight in model.parameters() if weight.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=(0.9, 0.98))


def learning_rate(config: TrainConfig, step: int) -> float:
    """Return the learning rate of a step: a linear warm-up times a cosine that falls to a fiftieth."""
    cosine = 0.5 * (1 + math.cos(math.pi * step / config.steps))
    return config.learning_rate * min(1.0, (step + 1) / config.warmup) * max(cosine, 0.02)


@dataclass
class Run:
    """The state of a training run; with its config, all that is needed to resume it.

    step      optimizer steps done
    seconds   training time, earlier processes included
    """

    model: LlamaForCausalLM
    optimizer: torch.optim.AdamW
    step: int = 0
    seconds: float = 0.0

    def save(self, path: Path) -> None:
        """Write the state to a temporary file, then rename it: a killed process leaves the old state or the new one."""
        parts = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        torch.save({**parts, "step": self.step, "seconds": self.seconds}, path.with_suffix(".part"))
        os.replace(path.with_suffix(".part"), path)

    def load(self, path: Path) -> None:
        """Load a saved state."""
        state = torch.load(path, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.seconds = state["step"], state["seconds"]

    def advance(self, config: TrainConfig, batch: Batch) -> float:
        """Do one optimizer step; return the loss."""
        started = time.perf_counter()
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(config, self.step)
        loss = loss_of(self.model, batch, config.bfloat16)
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.step += 1
        self.seconds += time.perf_counter() - started
        return loss.item()


def train(out: Path, config: TrainConfig, quadruples: Sequence[Numbers] | None = None) -> Run:
    """Train up to step `config.steps`, with checkpoints and log in `out`; return the state. Resume if `out` holds one.

    quadruples   the numbers of the puzzles, four each; None: all 1,820
    """
    torch.set_num_threads(config.threads)
    out.mkdir(parents=True, exist_ok=True)
    record(out / "config.json", config)
    tokenizer = build_tokenizer()
    model = build_model(config, tokenizer)
    run = Run(model, build_optimizer(config, model))
    if (out / "state.pt").exists():
        run.load(out / "state.pt")
    log = Log(out / "log.jsonl", run.step)
    curriculum = Curriculum(config, tokenizer, quadruples or all_numbers())
    dev = dev_problems(config.dev_problems)
    while run.step < config.steps:
        log.losses.append(run.advance(config, curriculum.batch(run.step)))
        if run.step % config.keep == 0 or run.step == config.steps:
            save_folder(out / f"step-{run.step}", run.model, tokenizer)
            log.write(run, dev_metrics(run.model, tokenizer, dev, config.dev_samples))
            run.save(out / "state.pt")
    return run


def record(path: Path, config: TrainConfig) -> None:
    """Write the config to `path`; HarnessError if `path` holds another config, with which the run was started."""
    if not path.exists():
        path.write_text(json.dumps(asdict(config), indent=2) + "\n")
    changed = {name for name, value in json.loads(path.read_text()).items() if getattr(config, name) != value}
    if changed:
        named = ", ".join(sorted(changed))
        raise HarnessError(f"tiny24.train: {path.parent} holds a run with another {named}; choose another --out")


def dev_problems(count: int) -> list[Problem]:
    """Return some problems of the split "dev", always the same ones."""
    return random.Random(0).sample(TASK.problems("dev"), count)


def dev_metrics(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, dev: Sequence[Problem], n: int
) -> dict[str, float]:
    """Return pass@1 and pass@n on dev problems, with n responses each."""
    if not dev:
        return {}
    counts = measure(model, tokenizer, dev, n=n)
    return {f"dev_pass@{k}": round(pass_at_k(counts, n, k), 4) for k in (1, n)}


class Log:
    """The file log.jsonl, a line every `keep` steps. A resumed run first deletes lines of steps that it repeats."""

    def __init__(self, path: Path, step: int) -> None:
        self.path = path
        self.losses: list[float] = []
        lines = path.read_text().splitlines() if path.exists() else []
        earlier = takewhile(lambda line: json.loads(line)["step"] <= step, lines)
        path.write_text("".join(f"{line}\n" for line in earlier))

    def write(self, run: Run, metrics: dict[str, float]) -> None:
        """Append a line: step, mean loss since the last line, seconds of training, and metrics."""
        loss = round(sum(self.losses) / len(self.losses), 4)
        line = {"step": run.step, "loss": loss, "seconds": round(run.seconds, 1), **metrics}
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        self.losses.clear()


def save_folder(folder: Path, model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
    """Write a complete Hugging Face folder, with weights in float16."""
    half = LlamaForCausalLM(model.config).to(torch.float16)
    half.load_state_dict(model.state_dict())
    half.generation_config = model.generation_config
    half.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line; every field of TrainConfig is an option."""
    parser = argparse.ArgumentParser(description="Train an embedded Game of 24 model; start again to resume.")
    parser.add_argument("--out", type=Path, required=True)
    for field in fields(TrainConfig):
        is_flag = isinstance(field.default, bool)
        kind: Any = {"action": argparse.BooleanOptionalAction} if is_flag else {"type": type(field.default)}
        parser.add_argument(f"--{field.name.replace('_', '-')}", default=field.default, **kind)
    options = vars(parser.parse_args(None if arguments is None else list(arguments)))
    train(options.pop("out"), TrainConfig(**options))


if __name__ == "__main__":
    main()
