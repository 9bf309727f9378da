"""What hidden states cost in vLLM, and what vLLM costs: `python tests/bench/vllm_capture.py`; needs its environment.

The embedded model and a random Qwen2 of 51 M parameters on a CPU, one thread, no end token, so that all responses have
their full length. The ways are taken in turn, one child for all of vLLM's; CPU time is the child's and ours together.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
from capture import PROMPT, STATES, endless_engine, save_model

from harness import HarnessError, Sampler
from harness.records import SampleRequest
from harness_plugins.engines.vllm.engine import Vllm
from harness_plugins.models.location import embedded as folder

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.bench_sizes import parsed

TICKS = os.sysconf("SC_CLK_TCK")
SIZES = {"hidden_size": 896, "intermediate_size": 2432, "num_hidden_layers": 6}
SIZES |= {"num_attention_heads": 14, "num_key_value_heads": 2}


def child_seconds(engine: Vllm) -> float:
    """CPU time that the child has used."""
    fields = Path(f"/proc/{engine._loaded().pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def ways(model: Path, rows: int, tokens: int, chunk: int) -> tuple[Vllm, dict[str, Callable[[], object]]]:
    """The ways compared, by name, and the engine with the child."""
    vllm = Vllm(str(model), max_num_seqs=rows, max_model_len=512, chunk=chunk, threads=1)
    here = endless_engine(model, rows)
    vllm._checkpoint.eos = []

    def drawing(engine: object, states: tuple[str, ...]) -> Callable[[], object]:
        return lambda: engine.sample(
            SampleRequest([PROMPT], n=rows, sampler=Sampler(), max_tokens=tokens, seeds=[0], states=states)
        )

    kinds = {"no states": (), "mean": ("mean",), "all states": STATES}
    by_vllm = {f"vllm, {name}": drawing(vllm, states) for name, states in kinds.items()}
    return vllm, by_vllm | {f"transformers, {name}": drawing(here, kinds[name]) for name in ("no states", "mean")}


def print_costs(name: str, model: Path, rows: int, tokens: int, rounds: int, chunk: int) -> None:
    """Medians of CPU and wall seconds, tokens a second, and the CPU time's ratio to vLLM without states."""
    vllm, calls = ways(model, rows, tokens, chunk)
    try:
        vllm.check([PROMPT], tokens)
        for call in calls.values():
            call()
        cpu: dict[str, list[float]] = {way: [] for way in calls}
        wall: dict[str, list[float]] = {way: [] for way in calls}
        for _ in range(rounds):
            for way, call in calls.items():
                before = time.perf_counter(), time.process_time() + child_seconds(vllm)
                call()
                cpu[way].append(time.process_time() + child_seconds(vllm) - before[1])
                wall[way].append(time.perf_counter() - before[0])
    finally:
        vllm.close()
    print(f"{name}, {rows} x {tokens} tokens, {chunk} rows a request, one thread, median of {rounds} rounds")
    for way in calls:
        ratios = [mine / plain for mine, plain in zip(cpu[way], cpu["vllm, no states"], strict=True)]
        print(
            f"  {way:24} cpu {median(cpu[way]):6.2f} s  wall {median(wall[way]):6.2f} s "
            f"{rows * tokens / median(cpu[way]):8,.0f} tokens/cpu-s  {median(ratios):6.3f} "
            f"({min(ratios):.3f} to {max(ratios):.3f})",
            flush=True,
        )


def main() -> None:
    """Parse the sizes and print a table a model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--chunk", type=int, default=64)
    parser.add_argument("--rows", type=int, help="default: 256 of tiny24, 96 of the other model")
    parser.add_argument("--tokens", type=int, help="default: 48 of tiny24, 64 of the other model")
    arguments = parsed(parser, rounds=1, rows=4, tokens=4)
    torch.set_num_threads(1)
    try:
        _ = Vllm("tiny24")._environment
    except HarnessError as absent:
        print(f"not measured: {absent}")
        return
    print_costs(
        "tiny24", folder("tiny24"), arguments.rows or 256, arguments.tokens or 48, arguments.rounds, arguments.chunk
    )
    with tempfile.TemporaryDirectory() as place:
        parameters = save_model(Path(place) / "random", 512, **SIZES)
        rows, tokens = arguments.rows or 96, arguments.tokens or 64
        print_costs(
            f"{parameters / 1e6:.0f} M", Path(place) / "random", rows, tokens, arguments.rounds, arguments.chunk
        )


if __name__ == "__main__":
    main()
