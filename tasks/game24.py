r"""Game of 24: combine four numbers, each exactly once, with + - * / and brackets, into an expression with value 24.

How a response is graded: its last statement counts, which is the content of its last balanced `\boxed{}` or what
follows its last `Answer:`, whichever begins later; without either, its last line. It must be an expression of exactly
the four numbers with the exact value 24. It may continue as a chain of equations over several lines,
`5 * (10 - 6) + 4 = 20 + 4 = 24`, in which every side must be exactly 24. Nothing is evaluated by Python.

A problem (id `4-5-6-10`): the prompt is `4 5 6 10`, and there is no reference. `Answer: (10 - 6) * 5 + 4 = 24` at the
end of a response is correct.

Data: computed, nothing is downloaded. The problems are the 1,362 solvable hands of four numbers from 1 to 13, ordered
by their numbers: the same set as nlile/24-game and as 24.csv of tree-of-thoughts (Yao et al. 2023, arXiv:2305.10601).
`data` reads a file instead: that CSV (column `Puzzles`), or JSONL with `numbers`, `puzzle` or `prompt`.

Details. A chain has at most 8 sides. Its first side must hold the four numbers; `24 =` before it is skipped. An arrow
counts as `=`. `\boxed{24}` gives the value only: it is read as `24`, and as nothing if it follows a complete statement.
The checker of tree-of-thoughts differs. It passes the text to sympy.simplify, which evaluates it, so that a response
can run code and `4+4+8+8 # x` is correct. It also ignores the right side: `(13 - 9) * (12 - 6) = 48` is correct for it
and wrong for this task.
"""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations, combinations_with_replacement
from pathlib import Path
from typing import Any, ClassVar

from harness import HarnessError, Message, Problem, Task, Verdict, correct, wrong
from harness.system.files import beginning, opened
from harness.system.json_text import read_lines

from .arithmetic import Expression, NotArithmetic, chain, evaluate, last_statement, symbols
from .data import sources

TARGET = 24
HAND = 4  # numbers
DATA = "game24: data"
PROMPT = (
    "Use the numbers {numbers}, each exactly once, with +, -, *, / and brackets to make 24. "
    "Write one step per line, then a last line 'Answer: expression'."
)
LOOK_AT = 20_000  # characters: of a longer response, only the whole lines among its last ones are read

_BOXED_24 = re.compile(
    r"\\f?box(?:ed)?\s{0,9}\{[\s$=]{0,9}(?:24|\\(?:text|math)[a-z]{0,4}\{\s{0,9}24\s{0,9}\})[\s$.]{0,9}\}"
)
_BEFORE_BOX = 40  # characters that are looked at before a box


@dataclass(frozen=True)
class Game24(Task):
    """The 1,362 solvable puzzles, or those of a local file.

    Splits: `test` is all of them; `train`, `dev` and `heldout` are the split by which the embedded models were trained.
    """

    n = 64
    max_tokens = 128
    paper: ClassVar[Mapping[str, Any]] = {"n": 6400, "max_tokens": 512, "sampler": {}}
    splits = ("test", "train", "dev", "heldout")
    grader = "2"
    defaults: ClassVar[Mapping[str, str]] = {"model": "tiny24"}
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {"limit": 100, "n": 32, "selector": ["repexp", "uniform", "facility-location"]}
    }
    sizes: ClassVar[Mapping[str, int]] = {"test": 1362, "heldout": 269}
    # This project's own settings, chosen by the dev pass@1 of plain GRPO alone: twenty steps, minutes on one core.
    rl: ClassVar[Mapping[str, Any]] = {
        "train": "train",
        "dev": "dev",
        "test": "heldout",
        "model": "tiny24-medium",
        "settings": {
            "learning_rate": 3e-4,
            "batch": 64,
            "mini_batch": 16,
            "micro_batch": 64,
            "max_response": 96,
            "steps": 20,
            "save_every": 5,
            "dev_samples": 8,
        },
    }

    data: str | None = None

    @property
    def revision(self) -> str:
        """Return "1" for the computed puzzles, else the hash of the local file."""
        return "1" if self.data is None else sources.file_revision("game24", self.data)

    def problems(self, split: str) -> list[Problem]:
        """Return the puzzles of a split: ordered by their numbers, or in the order of the local file."""
        hands = solvable_hands() if self.data is None else hands_in(Path(self.data).expanduser())
        puzzles = [Problem(puzzle_id(hand), " ".join(map(str, hand))) for hand in hands]
        return [puzzle for puzzle in puzzles if split in ("test", split_of(puzzle.id))]

    def messages(self, problem: Problem) -> list[Message]:
        """Return one user message: `PROMPT` with the numbers."""
        return [{"role": "user", "content": PROMPT.format(numbers=", ".join(problem.prompt.split()))}]

    def verify(self, problem: Problem, response: str) -> Verdict:
        """Return correct if the last statement makes 24 of the problem's numbers, else wrong with a reason.

        Linear in the response's length, about 20 µs.
        """
        try:
            expression, other_value = _last_statement(response)
        except NotArithmetic as refusal:
            return wrong(str(refusal))
        if expression.numbers != tuple(sorted(map(int, problem.prompt.split()))):
            return wrong("numbers")
        if expression.value is None:
            return wrong("division by zero")
        if expression.value != TARGET:
            return wrong("value")
        return correct() if other_value is None else wrong("right side")

    def answer(self, problem: Problem, response: str) -> str | None:
        """Return the expression in one spelling, `(10 - 6) * 5 + 4`; None if there is none.

        If a later side of the chain is not 24, the first such side is appended (`= 48`), so that equal answers have
        equal verdicts.
        """
        try:
            expression, other_value = _last_statement(response)
        except NotArithmetic:
            return None
        return expression.text if other_value is None else f"{expression.text} = {other_value}"

    def default_split(self, model: str) -> tuple[str, str]:
        """Return the split to test a model on, and a remark or "".

        That is `heldout` for the embedded models, in whose training these puzzles were not used, else `test`.
        """
        if not model.startswith("tiny24"):
            return "test", ""
        held_out = f"the {len(self.problems('heldout'))} puzzles held out from its training"
        return "heldout", f"game24: tiny24 was trained by this project, so only {held_out} are used"


def split_of(puzzle: str) -> str:
    """Return a puzzle's split by the SHA-256 of its id: "train" (7 in 10), "dev" (1 in 10) or "heldout" (2 in 10)."""
    bucket = int.from_bytes(hashlib.sha256(puzzle.encode()).digest()[:8], "big") % 10
    return "heldout" if bucket < 2 else "dev" if bucket == 2 else "train"


def _last_statement(response: object) -> tuple[Expression, str | None]:
    """Return the expression that a response states last, and the first side of its chain that is not 24, or None."""
    if not isinstance(response, str):
        raise NotArithmetic("not text")
    text = response if len(response) <= LOOK_AT else response[-LOOK_AT:].partition("\n")[2]
    sides = chain(symbols(last_statement(_BOXED_24.sub(_read_boxed_24, text)), TARGET))
    if sides[0] == [str(TARGET)] and len(sides) > 1:  # 24 = (10 - 6) * 5 + 4, and 24 = 20 + 4 = (10 - 6) * 5 + 4
        is_hand = sum(token.isdecimal() for token in sides[-1]) == HAND
        sides = sides[::-1] if is_hand else sides[1:] + sides[:1]
    untrue = next((side for side in sides[1:] if not _is_target(side)), None)
    return evaluate(sides[0]), None if untrue is None else " ".join(untrue)


def _read_boxed_24(box: re.Match[str]) -> str:
    r"""Return what `\boxed{24}` is read as: "" after a number or a bracket, as it repeats the result, else "24"."""
    before = box.string[max(0, box.start() - _BEFORE_BOX) : box.start()].rpartition("\n")[2].rstrip(" \t$.,;:*_")
    return "" if before[-1:].isdecimal() or before[-1:] in {")", "]", "}"} else str(TARGET)


def _is_target(side: Sequence[str]) -> bool:
    """Whether a side is an expression with the value 24."""
    try:
        return evaluate(side).value == TARGET
    except NotArithmetic:
        return False


# The puzzles. A hand is a tuple of four whole numbers, ascending.


def puzzle_id(numbers: Sequence[int]) -> str:
    """Return the id of a puzzle, `4-5-6-10`: its numbers, ascending."""
    return "-".join(str(number) for number in sorted(numbers))


@cache
def solvable_hands() -> tuple[tuple[int, ...], ...]:
    """Return the 1,362 hands of numbers from 1 to 13 that make 24, in lexicographic order; the search takes 0.2 s."""
    return tuple(hand for hand in combinations_with_replacement(range(1, 14), HAND) if _makes_target(hand))


def _makes_target(hand: tuple[int, ...]) -> bool:
    """Whether the hand can be split in two so that some value of each part, combined by one operation, makes 24."""
    return any(
        not _completing_values(value).isdisjoint(_values(rest))
        for part, rest in _partitions(hand)
        for value in _values(part)
    )


def _partitions(hand: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield every way to split a hand in two, each once: the first number is always in the left part; both ascend."""
    others = range(1, len(hand))
    for size in range(len(hand) - 1):
        for chosen in combinations(others, size):
            rest = tuple(hand[i] for i in others if i not in chosen)
            yield (hand[0], *(hand[i] for i in chosen)), rest


@cache
def _values(numbers: tuple[int, ...]) -> frozenset[Fraction]:
    """Return every value that one, two or three numbers can make."""
    values = {Fraction(numbers[0])} if len(numbers) == 1 else set[Fraction]()
    for part, rest in _partitions(numbers):
        for a in _values(part):
            for b in _values(rest):
                values |= {a + b, a - b, b - a, a * b}
                values |= ({a / b} if b else set()) | ({b / a} if a else set())
    return frozenset(values)


@cache
def _completing_values(value: Fraction) -> frozenset[Fraction]:
    """Return the values that make 24 together with this one, by one operation in either order."""
    sums = {TARGET - value, TARGET + value, value - TARGET}
    return frozenset(sums | {TARGET / value, TARGET * value, value / TARGET} if value else sums)


def hands_in(path: Path) -> list[tuple[int, ...]]:
    """Return the hands of a CSV or JSONL file in the file's order, solvable or not. Raises HarnessError.

    CSV has a column `Puzzles` (`4 5 6 10`), JSONL a field `numbers`, `puzzle` or `prompt`. No hand may occur twice.
    """
    try:  # a compressed file is always read as JSON
        is_json = beginning(path).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[", b"\x1f")
    except OSError as failure:
        raise HarnessError(f"game24: cannot read {str(path)!r}: {failure.strerror}") from failure
    first_place: dict[tuple[int, ...], str] = {}
    for place, value in _json_rows(path) if is_json else _csv_rows(path):
        parts = value.replace(",", " ").split() if isinstance(value, str) else value if isinstance(value, list) else []
        texts = [str(part) for part in parts]
        if len(texts) != HAND or not all(re.fullmatch("[1-9][0-9]{0,3}", text) for text in texts):
            raise HarnessError(f"{place}: expected four integers from 1 to 9999, got {value!r:.80}")
        hand = tuple(sorted(map(int, texts)))
        if hand in first_place:
            line = first_place[hand].rpartition(", ")[2]
            raise HarnessError(f"{place}: puzzle {puzzle_id(hand)} is on {line} already")
        first_place[hand] = place
    if not first_place:
        raise HarnessError(f"game24: data {path} has no puzzles")
    return list(first_place)


def _csv_rows(path: Path) -> Iterator[tuple[str, object]]:
    """Yield each row's place, for messages, and its puzzle."""
    with opened(path, DATA) as text:
        reader = csv.DictReader(text)
        try:
            if "Puzzles" not in (reader.fieldnames or ()):
                columns = ", ".join(reader.fieldnames or ()) or "none"
                raise HarnessError(f"{DATA} {path}: no column 'Puzzles' (found: {columns})")
            for row in reader:
                yield f"{DATA} {path}, line {reader.line_num}", row["Puzzles"]
        except csv.Error as failure:
            raise HarnessError(f"{DATA} {path}, line {reader.line_num}: {failure}") from failure


def _json_rows(path: Path) -> Iterator[tuple[str, object]]:
    for line in read_lines(path, DATA):
        fields = [name for name in ("numbers", "puzzle", "prompt") if name in line.value]
        if not fields:
            raise HarnessError(f"{line.where}: no field 'numbers', 'puzzle' or 'prompt'")
        yield line.where, line.value[fields[0]]
