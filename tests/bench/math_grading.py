r"""Time grading of math answers against math-verify called in process on every response; aim: 20 times faster.

    python tests/bench/math_grading.py [--data FILE] [--repeats 3] [--large 100000]

`--data` is a file of MATH-500's form (JSONL with `problem`, `solution`, `answer`); without it shared/data beside the
project is used, and where that is missing, 100 generated problems, which say less. 100 problems x 8 responses each:

1-2  the reference solution as it is, and behind a sentence of its own      5  another number in the last box
3    its answer spelt otherwise (\dfrac, \left, 1,234; roots as 2·(x)/2)     6  another problem's answer in the last box
4    no box: "The final answer is $x$."                                      7  a last box that does not parse
                                                                             8  cut off before any box, ends in a number

The large set repeats their answers as a pool does: response i of a problem is one of its 8 in a fresh wording, the
common ones more often (weights 1/rank). Both graders see the same texts, in turn, in one process, and every repeat has
other problems, so that neither remembers them; ratios are of median seconds. "CPU" counts this process and the checker
with its children (read from /proc), not their start, which is given by itself. math-verify runs as its authors
recommend: parse with LaTeX and expression extraction, then verify.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
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
from support.bench_sizes import parsed
from support.processes import descendants

SHARED = Path(__file__).parents[3] / "shared/data/tasks/math500.jsonl"
CONFIG = [LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig()]

Pool = tuple[Problem, list[str]]


def rows_of(path: Path | None) -> list[dict[str, str]]:
    """Problems with a solution and an answer: a file's, or generated ones."""
    if path is not None and path.is_file():
        return [json.loads(line) for line in path.read_text().splitlines()]
    answers = [
        rf"\frac{{{i}}}{{{i + 7}}}" if i % 3 == 0 else rf"{i}\sqrt{{{i + 2}}}" if i % 3 == 1 else str(i)
        for i in range(1, 501)
    ]
    return [
        {"problem": f"What is {a}?", "solution": f"Step by step we get $\\boxed{{{a}}}$.", "answer": a} for a in answers
    ]


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
    places = [match.start() for match in re.finditer("[0-9]", answer)]
    if not places:
        return f"3{answer}"
    place = places[-1]
    return answer[:place] + str(int(answer[place]) % 9 + 1) + answer[place + 1 :]


def boxed(solution: str, answer: str) -> str:
    """A solution's text with another answer in a last box."""
    return f"{solution.replace('boxed', 'mathbf')}\nThe answer is $\\boxed{{{answer}}}$."


def pool(rows: Sequence[dict[str, str]], index: int) -> Pool:
    """One problem's eight responses."""
    row, other = rows[index], rows[(index + 7) % len(rows)]
    solution, answer = row["solution"], row["answer"]
    unboxed = solution.replace("boxed", "mathbf")
    texts = [
        solution,
        f"We reason step by step.\n\n{solution}",
        boxed(solution, otherwise(answer, index)),
        f"{unboxed}\nThe final answer is ${answer}$.",
        boxed(solution, another_number(answer)),
        boxed(solution, other["answer"]),
        boxed(solution, rf"{answer} \frac{{ ]) as above"),
        f"{unboxed[: len(unboxed) // 2]} so far 17",
    ]
    return Problem(str(index), row["problem"], answer), texts


def enlarged(pools: Sequence[Pool], count: int, rng: random.Random) -> list[Pool]:
    """As many responses in all, with the duplication of answers that pools have."""
    weights = [1 / rank for rank in range(1, 9)]
    each = count // len(pools)
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


def cpu_of_workers() -> float:
    """CPU seconds that the living processes below this one, those of the checker, have used."""
    ticks = 0.0
    for pid in descendants(os.getpid()):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def timed(call: Callable[[], object]) -> tuple[float, float]:
    """Wall seconds, and CPU seconds with the workers'."""
    wall, cpu = time.perf_counter(), time.process_time() + cpu_of_workers()
    call()
    return time.perf_counter() - wall, time.process_time() + cpu_of_workers() - cpu


def ways(pools: Sequence[Pool]) -> str:
    """Which share of the responses was decided in which way."""
    task = MathTask()
    statuses = Counter(
        verdict.route.rpartition(", ")[2] or verdict.reason
        for problem, texts in pools
        for verdict in task.verify_all(problem, texts)
    )
    total = sum(statuses.values())
    return ", ".join(f"{way or 'no answer'} {count / total:.1%}" for way, count in statuses.most_common())


def compare(name: str, sets: Sequence[tuple[list[Pool], list[Pool]]]) -> None:
    """Print medians over sets of (our pools, their pools); where theirs are fewer their seconds are scaled."""
    mine, other, counts, differ = [], [], [], []
    for pools, sample in sets:
        count = sum(len(texts) for _, texts in pools)
        share = count / sum(len(texts) for _, texts in sample)
        mine.append(timed(lambda pools=pools: ours(pools)))
        wall, cpu = timed(lambda sample=sample: theirs(sample))
        other.append((wall * share, cpu * share))
        counts.append((count, share))
        differ.append(sum(a != b for a, b in zip(ours(sample), theirs(sample), strict=True)))
    count, share = counts[0]
    wall, cpu = (median(pair[i] for pair in mine) for i in (0, 1))
    their_wall, their_cpu = (median(pair[i] for pair in other) for i in (0, 1))
    scaled = "" if share == 1 else f" (timed on {round(count / share)}, scaled)"
    print(f"{name}: {count} responses to {len(sets[0][0])} problems; medians of {len(sets)}")
    print(f"  MathTask     {count / wall:9.0f} responses/s{wall:9.3f} s wall{cpu:9.3f} s CPU, workers included")
    print(f"  math-verify  {count / their_wall:9.0f} responses/s{their_wall:9.3f} s wall{their_cpu:9.3f} s CPU{scaled}")
    print(f"  ratio        {their_wall / wall:9.1f} wall{their_cpu / cpu:15.1f} CPU")
    print(f"  decided by: {ways(sets[0][0])}")
    print(f"  verdicts that differ from math-verify's: {median(differ)} of {round(count / share)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=SHARED)
    parser.add_argument("--problems", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3, help="up to 5")
    parser.add_argument("--large", type=int, default=100_000)
    args = parsed(parser, problems=5, repeats=1, large=40)
    logging.disable(logging.CRITICAL)
    rows = rows_of(args.data)
    step = len(rows) // args.problems
    places = [range(first, len(rows), step)[: args.problems] for first in range(args.repeats)]
    small = [[pool(rows, place) for place in chosen] for chosen in places]
    started = time.perf_counter()
    MathTask().verify(Problem("", "", r"\sqrt{2}"), r"\boxed{2^{1/2}}")
    print(f"start of the checker and first check: {time.perf_counter() - started:.2f} s, once a process")
    compare("small", [(pools, pools) for pools in small])
    large = [enlarged(pools, args.large, random.Random(0)) for pools in small]
    compare("large", [(pools, [(problem, texts[:8]) for problem, texts in pools]) for pools in large])


if __name__ == "__main__":
    main()
