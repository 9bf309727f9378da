r"""Time grading of math answers against math-verify called in process on every response.

    python tests/bench/math_grading.py [--repeats 3] [--large 100000]

The problems are MATH-500's, in shared/data beside the project. 100 problems x 8 responses each:

1-2  the reference solution as it is, and behind a sentence of its own      5  another number in the last box
3    its answer spelt otherwise (\dfrac, \left, 1,234; roots as 2·(x)/2)     6  another problem's answer in the last box
4    no box: "The final answer is $x$."                                      7  a last box that does not parse
                                                                             8  cut off before any box, ends in a number

The large set repeats their answers as a pool does: response i of a problem is one of its 8 in a fresh wording, the
common ones more often (weights 1/rank). Both graders see the same texts, in turn, in one process, and every repeat has
other problems, so that neither remembers them; ratios are of median seconds. "CPU" counts this process and the checker
with its children (read from /proc), not their start. math-verify runs as its authors recommend: parse with LaTeX and
expression extraction, then verify.
"""

from __future__ import annotations

import json
import logging
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

from harness import Problem
from harness_tasks.math_task import MathTask

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.benches import cpu_s, sizes
from support.paths import SHARED

CONFIG = [LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig()]

Pool = tuple[Problem, list[str]]


def otherwise(answer: str, turn: int) -> str:
    """The same answer, spelt differently."""
    if re.fullmatch("[0-9]{4,}", answer):
        return f"{int(answer):,}"
    if re.search(r"\\sqrt|\\pi|[0-9][a-z]|[a-z]\^", answer) and not re.search("[,=_]|text|mbox|begin", answer):
        return rf"\frac{{2 \cdot ({answer})}}{{2}}"  # only algebra can tell
    spelt = answer.replace(r"\frac", r"\dfrac").replace("(", r"\left( ").replace(")", r" \right)").replace("+", " + ")
    return rf"\text{{{answer}}}" if answer.isdecimal() and turn % 2 else rf"\displaystyle {spelt}"


def another_number(answer: str) -> str:
    """The answer with its last digit changed; with a 3 before it where it has none."""
    head, digit, tail = re.fullmatch(r"(.*?)(?:([0-9])([^0-9]*))?", answer, re.S).groups()
    return f"{head}{int(digit) % 9 + 1}{tail}" if digit else f"3{answer}"


def pool(rows: Sequence[dict[str, str]], index: int) -> Pool:
    """One problem's eight responses."""
    row, other = rows[index], rows[(index + 7) % len(rows)]
    solution, answer = row["solution"], row["answer"]
    unboxed = solution.replace("boxed", "mathbf")
    last = (otherwise(answer, index), another_number(answer), other["answer"], rf"{answer} \frac{{ ]) as above")
    third, *boxed = [f"{unboxed}\nThe answer is $\\boxed{{{each}}}$." for each in last]
    texts = [solution, f"We reason step by step.\n\n{solution}", third, f"{unboxed}\nThe final answer is ${answer}$."]
    return Problem(str(index), row["problem"], answer), [*texts, *boxed, f"{unboxed[: len(unboxed) // 2]} so far 17"]


def enlarged(pools: Sequence[Pool], count: int, rng: random.Random) -> list[Pool]:
    """As many responses in all, with the duplication of answers that pools have."""
    weights, each = [1 / rank for rank in range(1, 9)], count // len(pools)
    return [
        (problem, [f"Attempt {rng.random()}: {text}" for text in rng.choices(texts, weights, k=each)])
        for problem, texts in pools
    ]


def ours(pools: Sequence[Pool]) -> list[bool]:
    """Verdicts of MathTask, one batch a problem; nothing is remembered from another run."""
    task = MathTask()
    graders = [module for name, module in sys.modules.items() if name.startswith("harness_tasks.math_answers")]
    for remembering in [value for module in graders for value in vars(module).values()]:
        if hasattr(remembering, "cache_clear"):
            remembering.cache_clear()
    return [verdict.status == "correct" for problem, texts in pools for verdict in task.verify_all(problem, texts)]


def theirs(pools: Sequence[Pool]) -> list[bool]:
    """Verdicts of math-verify, every response by itself; a reference is parsed once."""
    verdicts = []
    for problem, texts in pools:
        gold = parse(rf"\boxed{{{problem.reference}}}", CONFIG)
        verdicts += [verify(gold, parse(text, CONFIG)) for text in texts]
    return verdicts


def timed(call: Callable[[Sequence[Pool]], object], pools: Sequence[Pool], scale: float) -> tuple[float, float]:
    """Wall seconds, and CPU seconds with the workers'."""
    wall, cpu = time.perf_counter(), cpu_s()
    call(pools)
    return scale * (time.perf_counter() - wall), scale * (cpu_s() - cpu)


def compare(name: str, sets: Sequence[tuple[list[Pool], list[Pool]]]) -> None:
    """Print medians over sets of (our pools, their pools); where theirs are fewer their seconds are scaled."""
    count, judged = (sum(len(texts) for _, texts in pools) for pools in sets[0])
    times = [(*timed(ours, pools, 1), *timed(theirs, sample, count / judged)) for pools, sample in sets]
    wall, cpu, their_wall, their_cpu = map(median, zip(*times, strict=True))
    differ = [sum(a != b for a, b in zip(ours(sample), theirs(sample), strict=True)) for _, sample in sets]
    routes = [verdict.route or f", {verdict.reason}" for pool in sets[0][0] for verdict in MathTask().verify_all(*pool)]
    ways = Counter(route.rpartition(", ")[2] for route in routes).most_common()
    print(f"{name}: {count} responses to {len(sets[0][0])} problems; medians of {len(sets)}")
    print(f"  MathTask     {count / wall:9.0f} responses/s{wall:9.3f} s wall{cpu:9.3f} s CPU, workers included")
    print(f"  math-verify  {count / their_wall:9.0f} responses/s{their_wall:9.3f} s wall{their_cpu:9.3f} s CPU", end="")
    print("" if judged == count else f" (timed on {judged}, scaled)")
    print(f"  ratio        {their_wall / wall:9.1f} wall{their_cpu / max(cpu, 0.01):15.1f} CPU")
    print(f"  decided by: {', '.join(f'{way} {number / count:.1%}' for way, number in ways)}")
    print(f"  verdicts that differ from math-verify's: {median(differ)} of {judged}")


def main() -> None:
    args = sizes(__doc__, problems=(100, 5), repeats=(3, 1), large=(100_000, 40))
    data = SHARED / "tasks" / "math500.jsonl"
    if not data.is_file():
        return print(f"not measured: {data} is not there")
    logging.disable(logging.CRITICAL)
    rows = [json.loads(line) for line in data.read_text().splitlines()]
    places = [range(first, len(rows), len(rows) // args.problems)[: args.problems] for first in range(args.repeats)]
    small = [[pool(rows, place) for place in chosen] for chosen in places]
    MathTask().verify(Problem("", "", r"\sqrt{2}"), r"\boxed{2^{1/2}}")  # starts the checker
    compare("small", [(pools, pools) for pools in small])
    large = [enlarged(pools, args.large, random.Random(0)) for pools in small]
    compare("large", [(pools, [(problem, texts[:8]) for problem, texts in pools]) for pools in large])


if __name__ == "__main__":
    main()
