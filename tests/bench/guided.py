"""What exploration while decoding costs: `python tests/bench/guided.py`, CPU time a token, all ways in one process.

    plain         decoding without a bonus, one response at a time
    engine        `repexp-guided`: candidates as siblings behind one cache, one pass a step
    engine x16    the same of 16 prompts together, as a run samples them (where candidates are few)
    paper         the paper's scheme (tests/support/paper_scheme.py): one pass for the logits, then the candidates in
                  batches of 64, each over a cache copied 64 times; the decoder alone passes the candidates
    paper, model  the same with the whole model called, its head too, as a first implementation would

A random Qwen2 of about 50 M parameters (another size: --width, --layers), by prompt length and by how many candidates
survive the filters, which the head's scale decides; then tiny24 on a puzzle. The responses after the first, one thread.
All guided ways but the one with 16 prompts sample the same tokens, which is checked.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging

sys.path.insert(0, str(Path(__file__).parents[1]))
from capture import endless_engine, save_model
from support import paper_scheme
from support.bench_sizes import parsed

from harness.records import SampleRequest
from harness_plugins.engines.transformers import steered
from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.samplers.guided import RepExpGuided
from harness_tasks.game24 import Game24

GUIDED, SEED, TOGETHER, FEW = RepExpGuided(beta=0.5), 0, 16, 16


class Unguided(RepExpGuided):
    """One response after another, and nothing is added."""

    adds = False

    def steering(self) -> "Unguided":
        """Itself: it remembers nothing."""
        return self

    def learn(self, states: torch.Tensor) -> None:
        """Learn nothing."""


MARKS: list[float] = []


def mark(*rows: int) -> None:
    """Note the time: a response of each prompt has ended."""
    MARKS.append(time.process_time())


def seconds(call: Callable[[int], list[list[int]]], n: int) -> tuple[float, list[list[int]]]:
    """CPU seconds a token of the responses after the first, without the prompt's pass, and all tokens."""
    MARKS.clear()
    tokens = call(n)
    return (MARKS[-1] - MARKS[0]) / sum(map(len, tokens[1:])), tokens


def ways(engine: Transformers, prompt: list[dict[str, str]], max_tokens: int) -> dict[str, Callable[[int], list]]:
    """Each samples n responses, one after another."""
    part = engine._checkpoint
    ids = part.prompt_ids(prompt)

    def ours(n: int, sampler: RepExpGuided, prompts: int = 1) -> list[list[int]]:
        """By response: the tokens of all prompts' i-th."""
        seeds = range(SEED, SEED + prompts)
        options = {"max_tokens": max_tokens, "seeds": list(seeds), "report": mark}
        sampled = engine.sample(SampleRequest([prompt] * prompts, n=n, sampler=sampler, **options))
        return [[token for chunk in sampled for token in chunk.token_ids[i]] for i in range(n)]

    def papers(n: int, with_head: bool) -> list[list[int]]:
        options = {
            "n": n,
            "max_tokens": max_tokens,
            "seed": SEED,
            "eos": part.eos,
            "with_head": with_head,
            "report": mark,
        }
        return paper_scheme.responses(part.model, ids, GUIDED, **options)[0]

    return {
        "plain": lambda n: ours(n, Unguided()),
        "engine": lambda n: ours(n, GUIDED),
        "engine x16": lambda n: ours(n, GUIDED, TOGETHER),
        "paper": lambda n: papers(n, False),
        "paper, model": lambda n: papers(n, True),
    }


def compare(
    name: str, engine: Transformers, prompt: list[dict[str, str]], n: int, max_tokens: int, rounds: int
) -> None:
    """One line: milliseconds a token of each way (the best of the rounds), and how much faster ours is."""
    candidates: list[int] = []  # of one prompt alone
    counted = steered.CandidateTree.look

    def look(self: steered.CandidateTree, ids: torch.Tensor) -> torch.Tensor:
        if len(ids) == 1:
            candidates.append(ids.shape[1])
        return counted(self, ids)

    called = ways(engine, prompt, max_tokens)
    steered.CandidateTree.look = look  # type: ignore[method-assign]
    called["engine"](2)  # loads the model and tries it
    if sum(candidates) > FEW * len(candidates):
        del called["engine x16"]
    best, tokens = dict.fromkeys(called, float("inf")), {}
    for _ in range(rounds):
        for way, call in called.items():
            took, tokens[way] = seconds(call, n)
            best[way] = min(best[way], took)
    steered.CandidateTree.look = counted  # type: ignore[method-assign]
    same = tokens["engine"] == tokens["paper"] == tokens["paper, model"]
    figures = "  ".join(f"{way} {1000 * took:8.2f}" for way, took in best.items())
    looked = [count for count in candidates if count > 1]
    faster = ", ".join(f"{best['paper'] / best[way]:.1f} x" for way in called if way.startswith("engine"))
    mean = sum(looked) / max(len(looked), 1)
    print(f"{name:<34} {mean:6.1f}  {figures}   {faster}   {'same tokens' if same else 'OTHER TOKENS'}", flush=True)


def random_model(folder: Path, scale: float, vocabulary: int, width: int, layers: int) -> Transformers:
    """An engine with a random Qwen2; the larger the head's scale, the fewer candidates."""
    sizes = {"hidden_size": width, "intermediate_size": 3 * width, "num_hidden_layers": layers}
    heads = {"num_attention_heads": width // 64, "num_key_value_heads": max(1, width // 448)}
    save_model(folder, vocabulary, **sizes, **heads, max_position_embeddings=4096)
    model = AutoModelForCausalLM.from_pretrained(folder)
    model.lm_head.weight.data.mul_(scale / 3)
    model.save_pretrained(folder)
    return endless_engine(folder, 16 * TOGETHER)


def main() -> None:
    """Print one line a setting."""
    parser = argparse.ArgumentParser(description="cost of token-level exploration")
    parser.add_argument("--tokens", type=int, default=12)
    parser.add_argument("--n", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--width", type=int, default=896)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--vocabulary", type=int, default=8192)
    parser.add_argument("--prompts", type=int, nargs="+", default=[128, 512, 1024])
    parser.add_argument("--scales", type=float, nargs="+", default=[3.0, 30.0])
    parser.add_argument("--puzzle-tokens", type=int, default=96)
    options = parsed(
        parser,
        tokens=2,
        n=2,
        rounds=1,
        width=448,
        layers=1,
        vocabulary=512,
        prompts=[8],
        scales=[30.0],
        puzzle_tokens=4,
    )
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    print("candidates a step; ms a token of the responses after the first; paper / engine, paper / engine x16")
    for scale in options.scales:
        with tempfile.TemporaryDirectory() as folder:
            engine = random_model(Path(folder), scale, options.vocabulary, options.width, options.layers)
            size = engine._checkpoint.model.num_parameters() / 1e6
            for length in options.prompts:
                prompt = [{"role": "user", "content": "x" * length}]
                name = f"{size:.0f} M, prompt {length}, head x {scale:g}"
                compare(name, engine, prompt, options.n, options.tokens, options.rounds)
    task = Game24()
    puzzle = task.messages(next(iter(task.problems("heldout"))))
    compare("tiny24, a puzzle", Transformers("tiny24", device="cpu"), puzzle, 8, options.puzzle_tokens, options.rounds)


if __name__ == "__main__":
    main()
