"""Which prompt do instruct models follow on code tasks? `tests/bench/code_prompts.py --model FOLDER --data FILE`.

Each wording is given to the same problems with the same random streams; counted is how many responses hold a program,
define the function that is asked for, open with a fenced block, and pass the tests. docs/log.md has what was measured.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from harness.columns.responses import seed_of
from harness.columns.verdicts import graded
from harness.records import Message, Problem, SampleRequest
from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.samplers.plain import Vanilla
from harness_tasks.evalplus_tasks import PROMPT, EvalPlus, HumanEvalPlus, MbppPlus
from harness_tasks.programs.program_text import program_in

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.bench_sizes import parsed
from support.evalplus_problems import RELEASES, small_release

TASKS = {"mbppplus": MbppPlus, "humanevalplus": HumanEvalPlus}
PROSE = (
    "Write a self-contained Python function that solves the following problem. Give the whole program, with the "
    "imports it needs, in one ```python block.\n\n{problem}"
)
FENCED = (
    "Solve this programming problem with a self-contained Python program. Write the program in one Markdown code "
    "block.\n\n```python\n{problem}\n```"
)
WORDINGS = {"prose": PROSE, "fenced": FENCED, "the task's": PROMPT}


def chat(wording: str, problem: Problem) -> list[Message]:
    """The problem in that wording."""
    return [{"role": "user", "content": WORDINGS[wording].format(problem=problem.prompt.strip())}]


def counts(task: EvalPlus, problem: Problem, texts: Sequence[str]) -> dict[str, int]:
    """How many of a problem's responses have each property."""
    programs = [program_in(text, problem.meta["entry_point"], problem.prompt) for text in texts]
    verdicts, _ = graded(task, problem, texts)
    return {
        "responses": len(texts),
        "block first": sum(text.lstrip().startswith("```") for text in texts),
        "program": sum(program is not None for program in programs),
        "correct": sum(verdict.status == "correct" for verdict in verdicts),
    }


def main() -> None:
    """Print a line a wording."""
    parser = argparse.ArgumentParser(description="wordings of the prompt of code tasks, side by side")
    parser.add_argument("--model", help="a hub id or a folder; without one nothing is run")
    parser.add_argument("--data", help="the task's release file")
    parser.add_argument("--task", choices=TASKS, default="mbppplus")
    parser.add_argument("--problems", type=int, default=20)
    parser.add_argument("--n", type=int, default=8)
    parser.add_argument("--max-tokens", type=int, default=300)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--wordings", nargs="+", default=list(WORDINGS))
    parser.add_argument("--show", type=int, default=0, help="print so many responses of each wording")
    options = parsed(parser, model="tiny24", problems=1, n=1, max_tokens=8)
    if not options.model:
        print("code prompts: not run without --model")
        return
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        if options.smallest:
            options.data = str(small_release(Path(folder)) / "tasks" / RELEASES["mbpp"])
        task = TASKS[options.task](data=options.data)
        every = task.problems("test")
    problems = every[:: max(1, len(every) // options.problems)][: options.problems]
    engine = Transformers(model=options.model)
    for wording in options.wordings:
        sampled = engine.sample(
            SampleRequest(
                [chat(wording, problem) for problem in problems],
                n=options.n,
                sampler=Vanilla(temperature=options.temperature),
                max_tokens=options.max_tokens,
                seeds=[seed_of("sample", 0, problem) for problem in problems],
            )
        )
        total: dict[str, int] = {}
        for problem, responses in zip(problems, sampled, strict=True):
            for name, count in counts(task, problem, responses.texts).items():
                total[name] = total.get(name, 0) + count
            total["cut"] = total.get("cut", 0) + list(responses.finish).count("length")
        print(f"{wording}: " + ", ".join(f"{name} {count}" for name, count in total.items()), flush=True)
        for responses in sampled[: options.show]:
            print("----", repr(responses.texts[0])[:1500], flush=True)


if __name__ == "__main__":
    main()
