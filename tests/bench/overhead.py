"""What the harness adds to the engine: its columns of a pool beside the loops that one would write without it.

    python tests/bench/overhead.py [--engine vllm] [--rows 64] [--tokens 32] [--rounds 3]

The model is a random Qwen2 of 51 M parameters without an end token, so that every way makes the same number of tokens.
The ways are taken in turn, and each round's time is divided by the first way's of that round, the last also by the
bare `engine.sample` loop's; CPU time (that of an engine's child too) beside wall time, since machines are shared. The
prompt is short (8 tokens), because the engine passes it once and plain `generate` once a row. With `--engine vllm` the
first way is its own bare `sample` loop.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import ClassVar

from harness import Problem, Task, correct, hookimpl
from harness.columns.make import batched
from harness.jobs.options import RunConfig
from harness.jobs.plan import Plan, make_plan
from harness.system.progress import Progress

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.benches import cpu_s, random_qwen2, sizes

BARE, WHOLE = "engine.sample, no states", "harness: + projection, store"


class Digits(Task):
    """Two problems of eight digits."""

    splits: ClassVar[tuple[str, ...]] = ("test",)

    def __init__(self, data: str | None = None) -> None:
        pass

    def problems(self, split: str) -> list[Problem]:
        return [Problem(digits, digits) for digits in ("10000000", "10000001")]

    def verify(self, problem, response):
        return correct()


@hookimpl
def register_tasks(register):
    register("digits", Digits)


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
                limits = {"attention_mask": torch.ones_like(rows), "max_new_tokens": plan.responses.max_tokens}
                sampled = part.model.generate(input_ids=rows, generation_config=decoding, **limits)
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


def ways(plan: Plan) -> dict[str, Callable[[], None]]:
    """The ways by name, the reference first."""
    measured: dict[str, Callable[[], None]] = {}
    if plan.config.engine == "transformers":
        measured |= {"plain generate": lambda: bare(plan, False), "plain + second pass": lambda: bare(plan, True)}
    measured[BARE] = lambda: engine_loop(plan, ())
    if "mean" in plan.responses.engine.built.states:
        measured["engine.sample, mean"] = lambda: engine_loop(plan, ("mean",))
    return measured | {WHOLE: lambda: whole(plan)}


def timed(call: Callable[[], None]) -> tuple[float, float]:
    """Seconds of CPU, of this process and of all that it started, and of wall."""
    cpu, wall = cpu_s(), time.perf_counter()
    call()
    return cpu_s() - cpu, time.perf_counter() - wall


def compared(rounds: list[dict[str, tuple[float, float]]], name: str, reference: str) -> str:
    """One way's times over another's, round by round: median (range)."""
    shown = []
    for at, clock in enumerate(("CPU", "wall")):
        ratios = [times[name][at] / max(times[reference][at], 0.01) for times in rounds]
        shown.append(f"{clock} {median(ratios):6.3f} ({min(ratios):.3f} to {max(ratios):.3f})")
    return "  ".join(shown)


def main() -> None:
    args = sizes(__doc__, engine=("transformers", "transformers"), rows=(64, 2), tokens=(32, 2), rounds=(3, 1))
    with tempfile.TemporaryDirectory() as folder:
        model, store = random_qwen2(Path(folder) / "qwen2-51m", 512, 896, 6), Path(folder) / "runs"
        sampled = {"model": model, "engine": args.engine, "n": args.rows, "max_tokens": args.tokens, "store": store}
        config = RunConfig(selectors=("repexp",), task="digits", plugin_files=(Path(__file__),), **sampled)
        calls = ways(make_plan(config, Progress(quiet=True)))
        for call in calls.values():
            call()
        rounds = [{name: timed(call) for name, call in calls.items()} for _ in range(args.rounds)]
    tokens = 2 * args.rows * args.tokens
    print(f"{args.engine}, 2 problems x {args.rows} rows x {args.tokens} tokens, {args.rounds} rounds", end="")
    print(f", load {os.getloadavg()[0]:.1f}: times the first way's, median (range)")
    for name in calls:
        seconds = median(times[name][0] for times in rounds)
        ratios = compared(rounds, name, next(iter(calls)))
        print(f"  {name:30} {seconds:6.2f} CPU s, {tokens / max(seconds, 0.01):7,.0f} tokens/CPU s  {ratios}")
    print(f"  the harness over {BARE}: {compared(rounds, WHOLE, BARE)}")


if __name__ == "__main__":
    main()
