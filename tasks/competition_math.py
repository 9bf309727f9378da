r"""MATH: competition problems with one final answer (Hendrycks et al. 2021, arXiv:2103.03874), and MATH-500, 500 of it.

How a response is graded: the content of its last `\boxed{}` must equal the reference. Equal spellings and equal numbers
are recognised directly; what needs algebra goes to math-verify (the rules are those of `math_answers`). Without a box,
the last "answer is x" or else the last number counts, if fallbacks are allowed (`fallback`; with --paper and in RL they
are not).

A problem of this shape, invented, since the data's texts are not ours to publish (`math`, id `algebra/test-17`): prompt
`Let $f(x) = 3x + 1$. For what $x$ is $f(f(x)) = 40$?`, reference `4`, the data's solution ends in `\boxed{4}`.

Data of `math`: EleutherAI/hendrycks_math at the commit pinned below, seven configs in alphabetical order. An id is the
config, the split and the row's number in it, from 0. The reference is the last `\boxed` of the solution, or all of them
if it ends in several (`\boxed{1}` and `\boxed{2}`). Splits: test (5,000) and train (7,500); for RL as in RepExp
(arXiv:2510.11686) dev is MATH-500, whose problems are found in test by their text, and rl-test the other 4,500.
`data` reads a local file, which holds one split (JSONL or parquet with problem and solution; ids `test-17`), or a
folder with a clone of the dataset. dev and rl-test need the texts of MATH-500 too: `math500=FILE`, else the hub.

Data of `math500`: HuggingFaceH4/MATH-500 (Lightman et al. 2023, arXiv:2305.20050) at the commit pinned below, with one
split. The id is its unique_id, `test/precalculus/807.json`, which names a file of the original MATH and no row; the
reference is its column answer.

At least ten public files name each of the two commits (the hub could not be reached when this was written). The
paper's pools: 6,400 responses of up to 512 tokens at temperature 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from harness import HarnessError, Problem

from .data import sources
from .data.sources import Hub, Row
from .math_answers.equality import compare
from .math_answers.extraction import boxed_contents
from .math_answers.normal_form import normal_form
from .math_task import MathTask

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

# The prompt is the problem and this sentence, which is the authors' (RepExp's code, data_preprocess/math_dataset.py).
# AIME and DAPO use it too.
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


@dataclass(frozen=True)
class FromHub(MathTask):
    """What the tasks of MATH, GSM8K, AIME and DAPO share: a dataset of the hub, the paper's settings, `fallback`.

    fallback   no: a response without a box has no answer. With --paper and in RL it is no.
    """

    n = 64
    max_tokens = 512
    paper: ClassVar[Mapping[str, Any]] = {"n": 6400, "max_tokens": 512, "sampler": {}, "task": {"fallback": "no"}}
    instruction = INSTRUCTION
    hub: ClassVar[Hub]

    data: str | None = None
    fallback: bool = True

    @property
    def revision(self) -> str:
        return sources.revision(self.hub.task, self.data, self.hub.revision)

    def plain(self, problem: Problem) -> str:
        """Return the problem, the instruction and `Solution:`, for models without a chat template; no examples."""
        return f"Problem: {problem.prompt}\n{INSTRUCTION}\nSolution:"


@dataclass(frozen=True)
class Math500(FromHub):
    """The 500 problems of MATH-500, or those of a local file.

    fallback   no: a response without a box has no answer. With --paper it is no.
    """

    owner = "AoPS and the MAA"
    stop = ("\nProblem:",)  # where a base model goes on with a next problem of its own
    pools_as = "math500"
    sizes: ClassVar[Mapping[str, int]] = {"test": 500}
    hub = MATH_500

    def problems(self, split: str) -> list[Problem]:
        """Return the problems, in the official order or that of the local file."""
        return sources.problems(sources.rows(MATH_500, split, self.data), _answered)

    def plain(self, problem: Problem) -> str:
        """Return four worked examples and the problem in their form, for models without a chat template."""
        return f"{WORKED}Problem: {problem.prompt}\nSolution:"


@dataclass(frozen=True)
class Math(Math500):
    """The 5,000 test problems of MATH, its 7,500 training problems, or those of a local file.

    math500    a local file of MATH-500, which tells dev from rl-test; None: MATH-500 from the hub. It chooses problems
               and does not change them, so `revision` does not depend on it.
    fallback   no: a response without a box has no answer. With --paper and in RL it is no.
    """

    splits = ("test", "train", "dev", "rl-test")
    pools_as = "math"
    sizes: ClassVar[Mapping[str, int]] = SIZES | {"dev": 500, "rl-test": 4_500}
    rl: ClassVar[Mapping[str, Any]] = {"train": "train", "dev": "dev", "test": "rl-test", "reward": "strict"}
    hub = MATH

    math500: str | None = None

    def problems(self, split: str) -> list[Problem]:
        """Return the problems of a split, in the official order (subject by subject) or that of the local file.

        Those of MATH-500 are known by their texts, blanks left out; of two with one text the first counts.
        """
        official = "train" if split == "train" else "test"
        rows = sources.rows(MATH, official, self.data)
        problems = sources.problems(rows, lambda row: _solved(official, row))
        sources.refuse_swapped("math", official, len(problems), SIZES)
        if split == official:
            return problems
        math500 = sources.problems(sources.rows(DEV, "test", self.math500), _answered)
        missing = Counter("".join(problem.prompt.split()) for problem in math500)
        parts: dict[str, list[Problem]] = {"dev": [], "rl-test": []}
        for problem in problems:
            text = "".join(problem.prompt.split())
            parts["dev" if missing[text] > 0 else "rl-test"].append(problem)
            missing[text] -= 1
        if len(parts["dev"]) < len(math500):
            raise HarnessError(
                f"math: only {len(parts['dev'])} of the {len(math500)} problems of MATH-500 are among the "
                f"{len(problems):,} of split 'test', so dev and rl-test cannot be told apart: is --data (or "
                "math500=FILE) another edition?"
            )
        return parts[split]


def _answered(row: Row) -> Problem:
    """Return the problem of a row of MATH-500; its id is the unique_id, else `test-` and the row's number."""
    name = f"test-{row.number}" if row.find("unique_id") is None else row.text("unique_id")
    return Problem(name, row.text("problem"), row.text("answer").strip())


def _solved(split: str, row: Row) -> Problem:
    """Return the problem of a row of MATH; its id is `algebra/test-17`, or `test-17` for a row of a local file."""
    name = f"{split}-{row.number}" if row.config is None else f"{row.config}/{split}-{row.number}"
    reference = reference_in(row.text("solution"))
    if not reference:
        raise row.fault("column 'solution' has no \\boxed{...} with an answer")
    return Problem(name, row.text("problem"), reference)


def reference_in(solution: str) -> str | None:
    r"""Return the content of a solution's last box, or several boxes if it ends in several; None without an answer.

    These are the boxes that are joined to one answer in a response (see `extraction`), `\boxed{1}, \boxed{2}`. Boxes
    that may be spellings of one value are one: of `\boxed{1\frac{1}{2}} or \boxed{\frac{3}{2}}` the reference is
    `\frac{3}{2}`.
    """
    last = boxed(solution)
    answers: list[str] = []
    for box in reversed(boxed_contents(solution) if last else []):
        if all(compare(other, normal_form(box)).equal is False for other in answers):
            answers.append(box)
    return ", ".join(rf"\boxed{{{answer}}}" for answer in reversed(answers)) if len(answers) > 1 else last


def boxed(solution: str) -> str | None:
    r"""Return the content of a solution's last `\boxed{...}`; None without one, or if its brace is not closed.

    In old solutions (`$\boxed 5$`) it is all up to the end of the formula.
    """
    _, command, rest = solution.rpartition(r"\boxed")
    rest = rest.lstrip()
    if not command or not rest.startswith("{"):
        return rest.partition("$")[0].strip() if command else None
    depth = 0
    for end, sign in enumerate(rest):
        depth += (sign == "{") - (sign == "}")
        if depth == 0:
            return rest[1:end].strip()
    return None
