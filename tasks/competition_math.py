r"""MATH: competition problems with one final answer (Hendrycks et al. 2021, arXiv:2103.03874), and MATH-500 of it.

Example, invented (`math`, id `algebra/test-17`): prompt `Let $f(x) = 3x + 1$. For what $x$ is $f(f(x)) = 40$?`,
reference `4`; the solution ends in `\boxed{4}`.

`math`: EleutherAI/hendrycks_math, seven configs in alphabetical order. An id is the config, the split and the row's
number there, from 0. Splits: test (5,000) and train (7,500); for RL, as RepExp (arXiv:2510.11686), dev is MATH-500 (500
of test, found by their text) and rl-test the other 4,500. The reference is the last `\boxed` of the solution, or, where
it ends in several (`\boxed{1}` and `\boxed{2}`), all of these.
`data`: one file (JSONL or parquet with problem and solution) is one split, of ids `test-17`; or a folder: a clone of
the dataset. dev and rl-test then need the texts of MATH-500 too: `math500=FILE`, else the hub.

`math500`: HuggingFaceH4/MATH-500, Lightman et al. 2023 (arXiv:2305.20050); one split. The id is its unique_id
(`test/precalculus/807.json`: a file of the original MATH, not a row), the reference its answer column.

Both commits below are named in at least ten public files each (they could not be fetched where this was written). The
paper's pools: 6,400 responses of up to 512 tokens at temperature 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from harness import HarnessError, Message, Problem, hookimpl
from harness.hookspecs import Register

from .data import sources
from .data.sources import Hub, Row
from .math_answers import MathTask
from .math_answers.equality import reference_in

MATH = Hub(
    task="math",
    repo="EleutherAI/hendrycks_math",
    revision="21a5633873b6a120296cce3e2df9d5550074f4a3",
    configs=(
        "algebra",
        "counting_and_probability",
        "geometry",
        "intermediate_algebra",
        "number_theory",
        "prealgebra",
        "precalculus",
    ),
    instead="--data FILE, JSONL or parquet with problem and solution, or a folder with a clone of the dataset",
)
MATH_500 = Hub(
    task="math500",
    repo="HuggingFaceH4/MATH-500",
    revision="6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be",
    instead="--data FILE, the dataset's test.jsonl (problem, answer, unique_id)",
)
DEV = replace(MATH_500, task="math", instead="--task math:math500=FILE, the dataset's test.jsonl")
SIZES = {"test": 5_000, "train": 7_500}

# The authors' wording (RepExp's code, data_preprocess/math_dataset.py); for AIME and DAPO too.
INSTRUCTION = r"Let's think step by step and output the final answer within \boxed{}."

WORKED = r"""
Problem: Let $f(x) = 3x + 1$. For what $x$ is $f(f(x)) = 40$?
Solution: We have $f(f(x)) = 3(3x + 1) + 1 = 9x + 4$. From $9x + 4 = 40$ we get $x = 4$. The answer is $\boxed{4}$.

Problem: A fair die is thrown twice. What is the probability that the second number is greater than the first?
Solution: Of the $36$ outcomes $6$ have equal numbers. By symmetry half of the other $30$ have a greater second number,
so the probability is $\frac{15}{36} = \frac{5}{12}$. The answer is $\boxed{\frac{5}{12}}$.

Problem: A circle passes through all vertices of a square with side $6$. What is its area?
Solution: The diagonal of the square, $6\sqrt{2}$, is a diameter, so the radius is $3\sqrt{2}$ and the area is
$\pi (3\sqrt{2})^2 = 18\pi$. The answer is $\boxed{18\pi}$.

Problem: What is the remainder when $7^{2022}$ is divided by $10$?
Solution: The last digits of the powers of $7$ repeat as $7, 9, 3, 1$. Since $2022 = 4 \cdot 505 + 2$, the last digit of
$7^{2022}$ is $9$. The answer is $\boxed{9}$.

""".lstrip()


def boxed_chat(problem: Problem) -> list[Message]:
    """One user message: the problem and `INSTRUCTION`."""
    return [{"role": "user", "content": f"{problem.prompt} {INSTRUCTION}"}]


def worked_examples(problem: Problem) -> str:
    """Four worked examples, and the problem in their form."""
    return f"{WORKED}Problem: {problem.prompt}\nSolution:"


@dataclass(frozen=True)
class Math(MathTask):
    """The 5,000 test problems of MATH, its 7,500 training problems, or a local file's.

    math500    a local file of MATH-500, by which dev and rl-test are told apart; None: the hub's
    fallback   no: a response without a box has no answer; so with --paper and in RL
    """

    n = 64
    max_tokens = 512
    owner = "AoPS and the MAA"
    paper: ClassVar[Mapping[str, Any]] = {"n": 6400, "max_tokens": 512, "sampler": {}, "task": {"fallback": "no"}}
    splits = ("test", "train", "dev", "rl-test")
    pools_as = "math"

    data: str | None = None
    math500: str | None = None
    fallback: bool = True

    @property
    def rl(self) -> Mapping[str, Any]:
        """How it is trained on."""
        from .data.rl_settings import MATH

        return MATH

    @property
    def revision(self) -> str:
        """The dataset's commit, or the file's hash. Which problems are in dev is no part of it: they stay the same."""
        return sources.revision(MATH, self.data)

    def problems(self, split: str) -> list[Problem]:
        """The problems of a split, subject by subject in the official order."""
        sources.refuse_unknown("math", split, self.splits)
        official = "train" if split == "train" else "test"
        whole = sources.problems(sources.rows(MATH, official, self.data), lambda row: _solved(official, row))
        sources.refuse_swapped("math", official, len(whole), SIZES)
        if split == official:
            return whole
        in_dev = _first_of_each(sources.problems(sources.rows(DEV, "test", self.math500), _answered), whole)
        return [problem for problem in whole if (problem.id in in_dev) == (split == "dev")]

    def messages(self, problem: Problem) -> list[Message]:
        """One user message: the problem and `INSTRUCTION`."""
        return boxed_chat(problem)

    def plain(self, problem: Problem) -> str:
        """Four worked examples, and the problem in their form."""
        return worked_examples(problem)


@dataclass(frozen=True)
class Math500(MathTask):
    """The 500 problems of MATH-500, or a local file's.

    fallback   no: a response without a box has no answer; so with --paper
    """

    n = 64
    max_tokens = 512
    owner = "AoPS and the MAA"
    paper: ClassVar[Mapping[str, Any]] = {"n": 6400, "max_tokens": 512, "sampler": {}, "task": {"fallback": "no"}}
    pools_as = "math500"

    data: str | None = None
    fallback: bool = True

    @property
    def revision(self) -> str:
        """The dataset's commit, or the file's hash."""
        return sources.revision(MATH_500, self.data)

    def problems(self, split: str) -> list[Problem]:
        """The problems, in the official order."""
        sources.refuse_unknown("math500", split, self.splits)
        return sources.problems(sources.rows(MATH_500, split, self.data), _answered)

    def messages(self, problem: Problem) -> list[Message]:
        """One user message: the problem and `INSTRUCTION`."""
        return boxed_chat(problem)

    def plain(self, problem: Problem) -> str:
        """Four worked examples, and the problem in their form."""
        return worked_examples(problem)


def _answered(row: Row) -> Problem:
    """A row of MATH-500; one without unique_id is known by its number."""
    name = f"test-{row.number}" if row.find("unique_id") is None else row.text("unique_id")
    return Problem(name, row.text("problem"), row.text("answer").strip())


def _solved(split: str, row: Row) -> Problem:
    name = f"{split}-{row.number}" if row.config is None else f"{row.config}/{split}-{row.number}"
    gold = boxed(row.text("solution"))
    if not gold:
        raise row.fault("column 'solution' has no \\boxed{...} with an answer")
    return Problem(name, row.text("problem"), reference_in(row.text("solution"), gold))


def boxed(solution: str) -> str | None:
    r"""What the last `\boxed` holds: `{...}`, or (in old solutions, `$\boxed 5$`) all up to the formula's end."""
    _, found, rest = solution.rpartition(r"\boxed")
    rest = rest.lstrip()
    if not found or not rest.startswith("{"):
        return rest.partition("$")[0].strip() if found else None
    depth = 0
    for end, sign in enumerate(rest):
        depth += (sign == "{") - (sign == "}")
        if depth == 0:
            return rest[1:end].strip()
    return None


def _first_of_each(wanted: list[Problem], whole: list[Problem]) -> set[str]:
    """The ids of the problems that these are among `whole`, by their text with its blanks left out; all, or an error.

    A text that is twice in MATH but once in MATH-500 is found once, so that 500 give 500.
    """
    left = Counter(_squeezed(problem.prompt) for problem in wanted)
    found: set[str] = set()
    for problem in whole:
        text = _squeezed(problem.prompt)
        if left[text] > 0:
            left[text] -= 1
            found.add(problem.id)
    if len(found) < len(wanted):
        raise HarnessError(
            f"math: only {len(found)} of the {len(wanted)} problems of MATH-500 are among the {len(whole):,} of split "
            "'test', so dev and rl-test cannot be told apart: is --data (or math500=FILE) another edition?"
        )
    return found


def _squeezed(text: str) -> str:
    return "".join(text.split())


@hookimpl
def register_tasks(register: Register) -> None:
    """The tasks `math` and `math500`."""
    register("math", "harness_tasks.competition_math:Math")
    register("math500", "harness_tasks.competition_math:Math500")
