r"""GSM8K: grade-school word problems whose answer is a whole number (Cobbe et al. 2021, arXiv:2110.14168).

Example, invented (id `test-17`): prompt `A box holds 12 pencils. Ana has 5 boxes and gives 8 pencils away. How many
pencils has she left?`, reference `52`; the data's answer ends in `#### 52`.

Data: openai/gsm8k, config main, at the commit below, which at least ten public files name (it could not be fetched
where this was written). Ids are the official row numbers from 0: `test-0` to `test-1318`, `train-0` to `train-7472`.
`data`: one file is one split, JSONL as in github.com/openai/grade-school-math or the hub's parquet; `test.jsonl` serves
`test`, `dev` and `rl-test`, and with `--split train` a file is taken as the training set. (The other set's file, known
by its number of rows, is refused: its ids would be wrong.) Or a folder: a clone of the dataset.

Splits: test (1,319), train (7,473). For RL, as RepExp (arXiv:2510.11686): dev is the first 512 of test, as the paper's
text has it, and rl-test the other 807. The authors' code draws these 512 at random without a seed, so nobody can have
the same. The paper's pools: 6,400 responses of up to 512 tokens at temperature 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from harness import Message, Problem, hookimpl
from harness.hookspecs import Register

from .data import sources
from .data.sources import Hub, Row
from .math_answers import MathTask

HUB = Hub(
    task="gsm8k",
    repo="openai/gsm8k",
    revision="740312add88f781978c0658806c59bc2815b9866",
    configs=("main",),
    instead="--data FILE, JSONL or parquet with question and answer (test.jsonl of openai/grade-school-math on GitHub)",
)
SIZES = {"test": 1_319, "train": 7_473}
DEV = 512  # rows of test

# The authors' wording (RepExp's code, data_preprocess/gsm8k.py).
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
class Gsm8k(MathTask):
    """The 1,319 test problems, the 7,473 training problems, or a local file's.

    fallback   no: a response without a `####` or a box has no answer; so with --paper and in RL
    """

    n = 64
    max_tokens = 512
    paper: ClassVar[Mapping[str, Any]] = {"n": 6400, "max_tokens": 512, "sampler": {}, "task": {"fallback": "no"}}
    splits = ("test", "train", "dev", "rl-test")
    statements = "####"
    strict = "####"
    pools_as = "gsm8k"

    data: str | None = None
    fallback: bool = True

    @property
    def rl(self) -> Mapping[str, Any]:
        """How it is trained on."""
        from .data.rl_settings import GSM8K

        return GSM8K

    @property
    def revision(self) -> str:
        """The dataset's commit, or the file's hash."""
        return sources.revision(HUB, self.data)

    def problems(self, split: str) -> list[Problem]:
        """The problems of a split, in the official order."""
        sources.refuse_unknown("gsm8k", split, self.splits)
        official = "train" if split == "train" else "test"
        whole = sources.problems(sources.rows(HUB, official, self.data), lambda row: _problem(official, row))
        sources.refuse_swapped("gsm8k", official, len(whole), SIZES)
        return {"dev": whole[:DEV], "rl-test": whole[DEV:]}.get(split, whole)

    def messages(self, problem: Problem) -> list[Message]:
        """One user message: the question and `INSTRUCTION`."""
        return [{"role": "user", "content": f"{problem.prompt} {INSTRUCTION}"}]

    def plain(self, problem: Problem) -> str:
        """Four worked examples, and the question in their form."""
        return f"{WORKED}Question: {problem.prompt}\nAnswer:"


def _problem(split: str, row: Row) -> Problem:
    solution = row.text("answer")
    _, marker, gold = solution.rpartition("####")
    gold = gold.strip().replace(",", "")
    if not marker or not gold:
        raise row.fault(f"column 'answer' must end in '#### ' and a number, got {solution[-40:]!r}")
    return Problem(f"{split}-{row.number}", row.text("question"), gold)


@hookimpl
def register_tasks(register: Register) -> None:
    """The task `gsm8k`."""
    register("gsm8k", "harness_tasks.gsm8k:Gsm8k")
