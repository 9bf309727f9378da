"""What the harness adds to the engine: its columns of a pool beside the loops that one would write without it.

    python tests/bench/overhead.py [--full] [--engine transformers] [--model DIR] [--rows 64] [--tokens 32] [--rounds 3]

The model is a random Qwen2 of 51 M parameters without an end token, so that every way makes the same number of tokens.
The ways are taken in turn, and each round's time is divided by the first way's of that round, the last also by the
bare `engine.sample` loop's; CPU time beside wall time, since machines are shared. The prompt is short (8 tokens),
because the engine passes it once and plain `generate` once a row. For another engine (`--engine vllm`) the first way is
its own bare `sample` loop; CPU time is that of its child too.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import ClassVar

from memory import tree

from harness import Problem, Task, correct, hookimpl
from harness.columns.make import batched
from harness.jobs.options import RunConfig
from harness.jobs.plan import Plan, make_plan
from harness.system.progress import Progress

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.bench_sizes import parsed

SIZES = {"hidden_size": 896, "intermediate_size": 2432, "num_hidden_layers": 6}
BARE, WHOLE = "engine.sample, no states", "harness: + projection, store"


class Digits(Task):
    """A problem is eight digits."""

    splits: ClassVar[tuple[str, ...]] = ("test",)

    def __init__(self, data: str | None = None) -> None:
        self.size = int(data or 2)

    def problems(self, split: str) -> list[Problem]:
        return [Problem(str(10_000_000 + i), str(10_000_000 + i)) for i in range(self.size)]

    def verify(self, problem, response):
        return correct()


@hookimpl
def register_tasks(register):
    register("digits", Digits)


def config(args: argparse.Namespace, model: str, store: Path) -> RunConfig:
    return RunConfig(
        selectors=("repexp",),
        task="digits",
        data=Path(str(args.problems)),
        model=model,
        engine=args.engine,
        n=args.rows,
        max_tokens=args.tokens,
        store=store,
        plugin_files=(Path(__file__),),
    )


def bare(plan: Plan, second_pass: bool) -> None:
    """A researcher's loop: prompt repeated, `generate` in batches, texts; with `second_pass` the mean states too."""
    import torch
    from transformers import GenerationConfig

    engine, n = plan.responses.engine.built, plan.responses.n
    part = engine._checkpoint
    decoding = GenerationConfig(do_sample=True, top_k=0, pad_token_id=0)
    with torch.inference_mode():
        for question in plan.questions:
            ids = torch.tensor([part.prompt_ids(question.chat)])
            for start in range(0, n, engine.batch):
                rows = ids.repeat(min(engine.batch, n - start), 1)
                sampled = part.model.generate(
                    input_ids=rows,
                    attention_mask=torch.ones_like(rows),
                    max_new_tokens=plan.responses.max_tokens,
                    generation_config=decoding,
                )
                part.tokenizer.batch_decode(sampled[:, ids.shape[1] :], skip_special_tokens=True)
                if second_pass:
                    part.decoder(input_ids=sampled, use_cache=False)[0][:, ids.shape[1] :].mean(1).numpy()


def engine_loop(plan: Plan, states: tuple[str, ...]) -> None:
    """The engine's own `sample`, problem by problem as the pipeline groups them, and nothing kept."""
    pool = plan.responses
    for group in batched(plan.questions, pool.together):
        pool.engine.built.sample(pool.request(group, states=states))


def whole(plan: Plan) -> None:
    """Two columns into an empty store: responses and mean states sampled, projected and kept."""
    shutil.rmtree(plan.config.store, ignore_errors=True)
    plan.store.forget()
    plan.maker.make([plan.responses, *([plan.vectors] if plan.vectors else [])], plan.questions)


def ways(args: argparse.Namespace, plan: Plan) -> dict[str, Callable[[], None]]:
    """The ways by name, the reference first."""
    measured: dict[str, Callable[[], None]] = {}
    if args.engine.partition(":")[0] == "transformers":
        measured |= {"plain generate": lambda: bare(plan, False), "plain + second pass": lambda: bare(plan, True)}
    measured[BARE] = lambda: engine_loop(plan, ())
    if "mean" in plan.responses.engine.built.states:
        measured["engine.sample, mean"] = lambda: engine_loop(plan, ("mean",))
    return measured | {WHOLE: lambda: whole(plan)}


def timed(call: Callable[[], None]) -> tuple[float, float]:
    """Seconds of CPU, of this process and of all that it started, and of wall."""
    cpu, wall = spent(), time.perf_counter()
    call()
    return spent() - cpu, time.perf_counter() - wall


def spent() -> float:
    """CPU seconds so far of this process and of those below it; an engine's child goes on between calls."""
    ticks = 0
    for pid in tree(os.getpid()):
        with suppress(OSError):
            ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="128 rows of 128 tokens, 5 rounds")
    parser.add_argument("--engine", default="transformers")
    parser.add_argument("--model", help="a folder of your own; default: a random one is made")
    parser.add_argument("--problems", type=int, default=2)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--tokens", type=int)
    parser.add_argument("--rounds", type=int)
    args = parsed(parser, problems=1, rows=2, tokens=2, rounds=1)
    full = {"rows": 128, "tokens": 128, "rounds": 5} if args.full else {"rows": 64, "tokens": 32, "rounds": 3}
    for name, value in full.items():
        setattr(args, name, getattr(args, name) or value)
    with tempfile.TemporaryDirectory() as folder:
        model = args.model or made_model(Path(folder))
        plan = make_plan(config(args, model, Path(folder) / "runs"), Progress(quiet=True))
        calls = ways(args, plan)
        for call in calls.values():
            call()
        rounds = [{name: timed(call) for name, call in calls.items()} for _ in range(args.rounds)]
    tokens = args.problems * args.rows * args.tokens
    print(
        f"{args.engine}, {args.problems} problems x {args.rows} rows x {args.tokens} tokens, {args.rounds} rounds",
        end="",
    )
    print(f", load {os.getloadavg()[0]:.1f}: times the first way's, median (range)")
    for name in calls:
        seconds = median(round_times[name][0] for round_times in rounds)
        ratios = compared(rounds, name, next(iter(calls)))
        print(f"  {name:30} {seconds:6.2f} CPU s, {tokens / seconds:7,.0f} tokens/CPU s  {ratios}")
    print(f"  the harness over {BARE}: {compared(rounds, WHOLE, BARE)}")


def compared(rounds: list[dict[str, tuple[float, float]]], name: str, reference: str) -> str:
    """One way's times over another's, round by round: median (range)."""
    shown = []
    for at, clock in enumerate(("CPU", "wall")):
        ratios = [round_times[name][at] / round_times[reference][at] for round_times in rounds]
        shown.append(f"{clock} {median(ratios):6.3f} ({min(ratios):.3f} to {max(ratios):.3f})")
    return "  ".join(shown)


def made_model(folder: Path) -> str:
    """A random checkpoint of 51 M parameters."""
    import torch
    from capture import save_model
    from transformers.utils import logging

    torch.set_num_threads(1)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    save_model(folder / "qwen2-51m", 512, **SIZES, num_attention_heads=14, num_key_value_heads=2)
    return str(folder / "qwen2-51m")


if __name__ == "__main__":
    main()
