r"""GSM8K: grade-school word problems whose answer is a whole number (Cobbe et al. 2021, arXiv:2110.14168).

How a response is graded: its last `#### x` or `\boxed{x}`, whichever comes later, must be the reference's number:
`52.0`, `$52` and `52 pencils` are 52. Without either, the last "answer is x" or else the last number counts, if
fallbacks are allowed (`fallback`; with --paper and in RL they are not). The rules are those of `math_answers`.

A problem (id `test-1`): prompt `A robe takes 2 bolts of blue fiber and half that much white fiber.  How many bolts in
total does it take?`, reference `3`. The data's solution ends in `#### 3`, as a correct response should.

Data: openai/gsm8k, config main, at the commit pinned below, which at least ten public files name (the hub could not be
reached when this was written). Ids are the row numbers of the official files, from 0: `test-0` to `test-1318`,
`train-0` to `train-7472`. `data` reads a local file or folder instead. A file holds one split: JSONL as in
github.com/openai/grade-school-math, or the hub's parquet. `test.jsonl` serves `test`, `dev` and `rl-test`; with
`--split train` a file is read as the training set. A file with as many rows as the other set has is refused, since its
ids would be wrong. A folder is a clone of the dataset.

Splits: test (1,319) and train (7,473). For RL as in RepExp (arXiv:2510.11686): dev is the first 512 problems of test,
as the paper says, and rl-test the other 807. The authors' code samples its 512 at random without a seed, so that they
cannot be reproduced. The paper's pools: 6,400 responses of up to 512 tokens at temperature 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from harness import Problem

from .competition_math import FromHub
from .data import sources
from .data.sources import Hub, Row

HUB = Hub(
    task="gsm8k",
    repo="openai/gsm8k",
    revision="740312add88f781978c0658806c59bc2815b9866",
    configs=("main",),
    instead="--data FILE, JSONL or parquet with question and answer (test.jsonl of openai/grade-school-math on GitHub)",
)
SIZES = {"test": 1_319, "train": 7_473}
DEV = 512  # problems of test

# The prompt is the question and this sentence, which is the authors' (RepExp's code, data_preprocess/gsm8k.py).
INSTRUCTION = 'Let\'s think step by step and output the final answer after "####".'

WORKED = """\
Question: A box holds 12 pencils. Ana has 5 boxes and gives 8 pencils away. How many pencils has she left?
Answer: Five boxes hold 5 * 12 = 60 pencils. After giving 8 away she has 60 - 8 = 52. #### 52

Question: A ferry carries 40 cars a trip and makes 6 trips a day. A quarter of the cars are red. How many red cars \
does it carry in a day?
Answer: It carries 40 * 6 = 240 cars a day. A quarter of them is 240 / 4 = 60. #### 60

Question: Tom is 4 years older than Mia, and Mia is twice as old as Leo. Leo is 9. How old is Tom?
Answer: Mia is 2 * 9 = 18 years old. Tom is 18 + 4 = 22. #### 22

Question: Bread costs $3 a loaf and cheese $11 a kilo. Rosa buys 4 loaves and 2 kilos and pays with a $50 note. \
How many dollars does she get back?
Answer: The bread costs 4 * 3 = 12 dollars and the cheese 2 * 11 = 22. Together that is 12 + 22 = 34. \
She gets 50 - 34 = 16 back. #### 16

"""


@dataclass(frozen=True)
class Gsm8k(FromHub):
    """The 1,319 test problems, the 7,473 training problems, or those of a local file.

    fallback   no: a response without a `####` or a box has no answer. With --paper and in RL it is no.
    """

    splits = ("test", "train", "dev", "rl-test")
    rl: ClassVar[Mapping[str, Any]] = {"train": "train", "dev": "dev", "test": "rl-test", "reward": "strict"}
    instruction = INSTRUCTION
    statements = "####"
    strict = "####"
    stop = ("\nQuestion:",)  # where a base model goes on with a next question of its own
    pools_as = "gsm8k"
    sizes: ClassVar[Mapping[str, int]] = SIZES | {"dev": DEV, "rl-test": SIZES["test"] - DEV}

    hub = HUB

    def problems(self, split: str) -> list[Problem]:
        """Return the problems of a split, in the official order or that of the local file."""
        official = "train" if split == "train" else "test"
        problems = sources.problems(sources.rows(HUB, official, self.data), lambda row: _problem(official, row))
        sources.refuse_swapped("gsm8k", official, len(problems), SIZES)
        return {"dev": problems[:DEV], "rl-test": problems[DEV:]}.get(split, problems)

    def plain(self, problem: Problem) -> str:
        """Return four worked examples and the question in their form, for models without a chat template."""
        return f"{WORKED}Question: {problem.prompt}\nAnswer:"


def _problem(split: str, row: Row) -> Problem:
    solution = row.text("answer")
    _, marker, number = solution.rpartition("####")
    number = number.strip().replace(",", "")
    if not marker or not number:
        raise row.fault(f"column 'answer' must end in '#### ' and a number, got {solution[-40:]!r}")
    return Problem(f"{split}-{row.number}", row.text("question"), number)
