"""What hidden states in the sampling pass cost: `python tests/bench/capture.py`, CPU time beside plain generate.

A random Qwen2 of 51 M parameters, 96 responses of 64 tokens, one thread, the ways taken in turn, the median of several
rounds. Plain `generate` passes the prompt once for every row and the engine once in all, so the prompt is short (8
tokens); "generate + our sampling" has neither shared prompt nor states. The second half counts the tokens that the
batch size changes: float noise in the logits, where a row's random number falls on the border of two tokens.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, GenerationConfig, PreTrainedTokenizerFast, Qwen2Config
from transformers.utils import logging

from harness import Sampler
from harness.records import SampleRequest
from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.engines.transformers.sampling import RowSampler, uniforms

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.bench_sizes import parsed

PROMPT = [{"role": "user", "content": "12345678"}]
STATES = ("mean", "last", "penultimate")


def save_model(folder: Path, vocabulary: int, **sizes: int) -> int:
    """Save a random checkpoint; returns its number of parameters."""
    bpe = Tokenizer(models.BPE({token: i for i, token in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, []))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    PreTrainedTokenizerFast(tokenizer_object=bpe).save_pretrained(folder)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(Qwen2Config(vocab_size=vocabulary, eos_token_id=None, **sizes))
    model.lm_head.weight.data.mul_(3)  # entropies nearer to those of trained models
    model.save_pretrained(folder)
    return model.num_parameters()


def endless_engine(folder: Path, batch: int) -> Transformers:
    """The engine without an end token: all responses have their full length."""
    engine = Transformers(str(folder), device="cpu", batch=batch)
    engine._checkpoint.eos = []
    return engine


def ways(engine: Transformers, rows: int, tokens: int) -> dict[str, Callable[[], object]]:
    """The ways compared, by name; each makes `rows` responses of `tokens` tokens."""
    model = engine._checkpoint.model
    ids = torch.tensor([engine._checkpoint.prompt_ids(PROMPT)]).repeat(rows, 1)
    common = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "max_new_tokens": tokens}
    streams = np.stack([uniforms(0, row, tokens) for row in range(rows)])

    @torch.inference_mode()
    def plain() -> torch.Tensor:
        return model.generate(**common, generation_config=GenerationConfig(do_sample=True, top_k=0, pad_token_id=0))

    @torch.inference_mode()
    def our_sampling() -> torch.Tensor:
        sampling = RowSampler(Sampler(), streams, [], 0, model.device)
        return model.generate(**common, do_sample=False, logits_processor=[sampling])

    @torch.inference_mode()
    def second_pass() -> None:
        hidden = engine._checkpoint.decoder(input_ids=plain(), use_cache=False)[0]
        hidden[:, ids.shape[1] :].mean(1)

    def engine_with(states: tuple[str, ...]) -> Callable[[], object]:
        return lambda: engine.sample(
            SampleRequest([PROMPT], n=rows, sampler=Sampler(), max_tokens=tokens, seeds=[0], states=states)
        )

    return {
        "plain generate": plain,
        "generate + our sampling": our_sampling,
        "engine, no states": engine_with(()),
        "engine, mean": engine_with(("mean",)),
        "engine, all states": engine_with(STATES),
        "plain + second pass": second_pass,
    }


def cpu_seconds(call: Callable[[], object]) -> float:
    """CPU time of one call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def print_costs(folder: Path, rows: int, tokens: int, rounds: int) -> None:
    """Median CPU seconds of each way, and the median over the rounds of its ratio to plain generate."""
    sizes = {"hidden_size": 896, "intermediate_size": 2432, "num_hidden_layers": 6}
    parameters = save_model(folder, 512, **sizes, num_attention_heads=14, num_key_value_heads=2)
    calls = ways(endless_engine(folder, rows), rows, tokens)
    for call in calls.values():
        call()
    seconds = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            seconds[name].append(cpu_seconds(call))
    print(f"{parameters / 1e6:.0f} M parameters, {rows} x {tokens} tokens, one thread, median of {rounds} rounds")
    for name, times in seconds.items():
        ratios = [mine / plain for mine, plain in zip(times, seconds["plain generate"], strict=True)]
        print(f"  {name:22} {median(times):7.2f} s  {median(ratios):6.3f}  ({min(ratios):.3f} to {max(ratios):.3f})")


def print_float_noise(folder: Path, rows: int, tokens: int) -> None:
    """How many responses differ between batches of 256 and of 64, and among how many tokens."""
    sizes = {"hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 4}
    save_model(folder, 512, **sizes, num_attention_heads=4, num_key_value_heads=4)
    sampled = []
    for batch in (256, 64):
        engine = endless_engine(folder, batch)
        [responses] = engine.sample(SampleRequest([PROMPT], n=rows, sampler=Sampler(), max_tokens=tokens, seeds=[0]))
        sampled.append(np.array(responses.token_ids))
    differ = sampled[0] != sampled[1]
    compared = np.where(differ.any(1), differ.argmax(1) + 1, tokens).sum()  # up to a row's first difference
    print(f"batch 256 against 64: {differ.any(1).sum()} of {rows} responses part ways, in {compared} tokens")


def main() -> None:
    """Parse the sizes and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=96)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--noise-rows", type=int, default=3200)
    arguments = parsed(parser, rows=4, tokens=4, rounds=1, noise_rows=512)
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as folder:
        print_costs(Path(folder) / "cost", arguments.rows, arguments.tokens, arguments.rounds)
        print_float_noise(Path(folder) / "noise", arguments.noise_rows, arguments.tokens)


if __name__ == "__main__":
    main()
