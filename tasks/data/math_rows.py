"""Read rows of MATH and MATH-500 as problems: a solution's boxed answer, and the problems of MATH in MATH-500."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from harness import HarnessError, Problem

from ..math_answers.equality import compare
from ..math_answers.extraction import boxed_contents
from ..math_answers.normal_form import normal_form
from .sources import Row


def solved_problem(split: str, row: Row) -> Problem:
    """Return the problem of a row of MATH; its reference is the boxed answer of the solution.

    Its id is `algebra/test-17`, or `test-17` for a row of a local file. Raises HarnessError if there is no such answer.
    """
    name = f"{split}-{row.number}" if row.config is None else f"{row.config}/{split}-{row.number}"
    solution = row.text("solution")
    answer = boxed(solution)
    if not answer:
        raise row.fault("column 'solution' has no \\boxed{...} with an answer")
    return Problem(name, row.text("problem"), reference_in(solution, answer))


def answered_problem(row: Row) -> Problem:
    """Return the problem of a row of MATH-500; its id is the unique_id, else `test-` and the row's number."""
    name = f"test-{row.number}" if row.find("unique_id") is None else row.text("unique_id")
    return Problem(name, row.text("problem"), row.text("answer").strip())


def reference_in(solution: str, last: str) -> str:
    r"""Return the reference of a solution: `last`, the content of its last box, or several boxes if it ends in several.

    These are the boxes that are joined to one answer in a response (see `extraction`), `\boxed{1}, \boxed{2}`. Boxes
    that may be spellings of one value are one: of `\boxed{1\frac{1}{2}} or \boxed{\frac{3}{2}}` the reference is
    `\frac{3}{2}`.
    """
    answers: list[str] = []
    for box in reversed(boxed_contents(solution)):
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


def ids_of_math500(math500: Sequence[Problem], problems: Sequence[Problem]) -> set[str]:
    """Return the ids of those of MATH's problems that are in MATH-500: their texts are equal, blanks left out.

    A text that occurs twice in MATH but once in MATH-500 counts once, so that 500 problems give 500 ids. Raises
    HarnessError if one of MATH-500 is missing in MATH.
    """
    missing = Counter(_without_blanks(problem.prompt) for problem in math500)
    ids: set[str] = set()
    for problem in problems:
        text = _without_blanks(problem.prompt)
        if missing[text] > 0:
            missing[text] -= 1
            ids.add(problem.id)
    if len(ids) < len(math500):
        raise HarnessError(
            f"math: only {len(ids)} of the {len(math500)} problems of MATH-500 are among the {len(problems):,} of "
            "split 'test', so dev and rl-test cannot be told apart: is --data (or math500=FILE) another edition?"
        )
    return ids


def _without_blanks(text: str) -> str:
    return "".join(text.split())
