r"""Game of 24: use four numbers, each once, with + - * / and brackets, to make 24.

Example (id `4-5-6-10`): prompt `4 5 6 10`; a correct response ends in `Answer: (10 - 6) * 5 + 4 = 24`.

Data: nothing to fetch. The problems are all 1,362 solvable hands of four numbers from 1 to 13, found by exact search:
the same set as nlile/24-game and as 24.csv of tree-of-thoughts (Yao et al. 2023, arXiv:2305.10601), here ordered by
their numbers. `data` reads a file instead: that CSV (column `Puzzles`) or JSONL with `numbers`, `puzzle` or `prompt`.

The checker takes what the response states last: its last balanced `\boxed{}` or its last `Answer:`, whichever begins
later; without either, its last line. That must be an expression with exactly the four numbers and the exact value 24.
It may go on as a chain of equations, `5 * (10 - 6) + 4 = 20 + 4 = 24`, of at most 8 sides, over several lines too:
every side must be exactly 24, and the first (`24 =` before it aside) has the four numbers. An arrow counts as `=`.
`\boxed{24}` names the value only: it is read as `24`, and behind a finished statement as nothing.
The checker of tree-of-thoughts hands the text to sympy.simplify, which evals it (a response can run code, and
`4+4+8+8 # x` is correct there), and ignores the right side: `(13 - 9) * (12 - 6) = 48` is correct there, wrong here.
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

from harness import HarnessError, Message, Problem, Task, Verdict, correct, hookimpl, wrong
from harness.hookspecs import Register
from harness.system.json_lines import opened, read_lines

from .arithmetic import Expression, NotArithmetic, chain, evaluate, last_statement, symbols

PROMPT = (
    "Use the numbers {numbers}, each exactly once, with +, -, *, / and brackets to make 24. "
    "Write one step per line, then a last line 'Answer: expression'."
)
TARGET = 24
HAND = 4  # numbers
DATA = "game24: data"
LOOK_AT = 20_000  # characters: only the whole lines among a longer response's last ones are read

_BOXED_24 = re.compile(
    r"\\f?box(?:ed)?\s{0,9}\{[\s$=]{0,9}(?:24|\\(?:text|math)[a-z]{0,4}\{\s{0,9}24\s{0,9}\})[\s$.]{0,9}\}"
)
_BEFORE_BOX = 40  # characters that are looked at


@dataclass(frozen=True)
class Game24(Task):
    """The 1,362 solvable puzzles, or a local file's; `train`, `dev` and `heldout` are the embedded models' split."""

    n = 64
    max_tokens = 128
    paper: ClassVar[Mapping[str, Any]] = {"n": 6400, "max_tokens": 512, "sampler": {}}
    splits = ("test", "train", "dev", "heldout")
    grader = "2"
    default_model = "tiny24"

    data: str | None = None

    @property
    def rl(self) -> Mapping[str, Any]:
        """How it is trained on."""
        from .data.rl_settings import GAME24

        return GAME24

    @property
    def revision(self) -> str:
        """`1` for the computed puzzles, else the file's hash."""
        return "1" if self.data is None else f"sha256:{hashlib.sha256(_read(self.data)).hexdigest()[:16]}"

    def problems(self, split: str) -> list[Problem]:
        """The puzzles of a split, by their numbers ascending; those of a file in the file's order."""
        if split not in self.splits:
            raise HarnessError(f"game24: unknown split {split!r} (choose from {', '.join(self.splits)})")
        hands = solvable_hands() if self.data is None else _hands_in(self.data)
        puzzles = [Problem(puzzle_id(hand), " ".join(map(str, hand))) for hand in hands]
        return [puzzle for puzzle in puzzles if split in ("test", split_of(puzzle.id))]

    def messages(self, problem: Problem) -> list[Message]:
        """One user message: `PROMPT` with the numbers."""
        return [{"role": "user", "content": PROMPT.format(numbers=", ".join(problem.prompt.split()))}]

    def verify(self, problem: Problem, response: str) -> Verdict:
        """Correct if the last statement makes 24 of the problem's numbers; else wrong and why. Linear, about 20 µs."""
        try:
            expression, right = _last_statement(response)
        except NotArithmetic as refusal:
            return wrong(str(refusal))
        if expression.numbers != tuple(sorted(map(int, problem.prompt.split()))):
            return wrong("numbers")
        if expression.value is None:
            return wrong("division by zero")
        if expression.value != TARGET:
            return wrong("value")
        return correct() if right is None else wrong("right side")

    def answer(self, problem: Problem, response: str) -> str | None:
        """The expression in one spelling, `(10 - 6) * 5 + 4`; None where there is none.

        The first side of its chain that is not 24 (`= 48`) stays with it, so that equal answers have equal verdicts.
        """
        try:
            expression, right = _last_statement(response)
        except NotArithmetic:
            return None
        return expression.text if right is None else f"{expression.text} = {right}"

    def default_split(self, model: str) -> tuple[str, str]:
        """The held-out puzzles for the embedded models, which were trained on the others; else all."""
        if not model.startswith("tiny24"):
            return "test", ""
        held_out = f"the {len(self.problems('heldout'))} puzzles held out from its training"
        return "heldout", f"game24: tiny24 was trained by this project, so only {held_out} are used"


def puzzle_id(numbers: Sequence[int]) -> str:
    """`4-5-6-10`: the numbers ascending."""
    return "-".join(str(number) for number in sorted(numbers))


def split_of(puzzle: str) -> str:
    """The embedded models' split, by the SHA-256 of the puzzle's id: "train" (7 in 10), "dev" (1) or "heldout" (2)."""
    bucket = int.from_bytes(hashlib.sha256(puzzle.encode()).digest()[:8], "big") % 10
    return "heldout" if bucket < 2 else "dev" if bucket == 2 else "train"


def _last_statement(response: object) -> tuple[Expression, str | None]:
    """The expression that a response states last, and the first thing it equates it with that is not 24, or None."""
    if not isinstance(response, str):
        raise NotArithmetic("not text")
    text = response if len(response) <= LOOK_AT else response[-LOOK_AT:].partition("\n")[2]
    sides = chain(symbols(last_statement(_BOXED_24.sub(_value_alone, text)), TARGET))
    if sides[0] == [str(TARGET)] and len(sides) > 1:  # 24 = (10 - 6) * 5 + 4, and 24 = 20 + 4 = (10 - 6) * 5 + 4
        sides = sides[::-1] if _has_a_hand(sides[-1]) else sides[1:] + sides[:1]
    untrue = next((side for side in sides[1:] if not _is_target(side)), None)
    return evaluate(sides[0]), None if untrue is None else " ".join(untrue)


def _value_alone(box: re.Match[str]) -> str:
    r"""What `\boxed{24}` is read as: nothing behind a number or bracket, where it repeats the result; else 24."""
    before = box.string[max(0, box.start() - _BEFORE_BOX) : box.start()].rpartition("\n")[2].rstrip(" \t$.,;:*_")
    return "" if before[-1:].isdecimal() or before[-1:] in {")", "]", "}"} else str(TARGET)


def _has_a_hand(side: Sequence[str]) -> bool:
    return sum(token.isdecimal() for token in side) == HAND


def _is_target(side: Sequence[str]) -> bool:
    try:
        return evaluate(side).value == TARGET
    except NotArithmetic:
        return False


# The puzzles


@cache
def solvable_hands() -> tuple[tuple[int, ...], ...]:
    """The 1,362 hands of four numbers from 1 to 13 that make 24, ascending, in lexicographic order; takes 0.2 s."""
    return tuple(hand for hand in combinations_with_replacement(range(1, 14), 4) if _makes_target(hand))


def _makes_target(hand: tuple[int, ...]) -> bool:
    """Whether some value of one part and some value of the rest make 24: the last operation has two sides."""
    return any(
        not _partners(value).isdisjoint(_values(rest)) for part, rest in _partitions(hand) for value in _values(part)
    )


def _partitions(hand: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Every way to part a hand in two, each once: the first number stays on the left; both parts ascend."""
    others = range(1, len(hand))
    for size in range(len(hand) - 1):
        for chosen in combinations(others, size):
            rest = tuple(hand[i] for i in others if i not in chosen)
            yield (hand[0], *(hand[i] for i in chosen)), rest


@cache
def _values(hand: tuple[int, ...]) -> frozenset[Fraction]:
    """All that can be made of one, two or three numbers."""
    if len(hand) == 1:
        return frozenset([Fraction(hand[0])])
    made: set[Fraction] = set()
    for part, rest in _partitions(hand):
        for a in _values(part):
            for b in _values(rest):
                made |= {a + b, a - b, b - a, a * b}
                made |= ({a / b} if b else set()) | ({b / a} if a else set())
    return frozenset(made)


@cache
def _partners(value: Fraction) -> frozenset[Fraction]:
    """What makes 24 together with a value, by one operation in either order."""
    sums = {TARGET - value, TARGET + value, value - TARGET}
    return frozenset(sums | {TARGET / value, TARGET * value, value / TARGET} if value else sums)


# A local file


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as failure:
        raise HarnessError(f"game24: cannot read {path!r}: {failure.strerror}") from failure


def _hands_in(path: str) -> list[tuple[int, ...]]:
    """The ascending hands of a CSV or JSONL file, in its order; no hand twice."""
    is_json = _read(path).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[", b"\x1f")
    seen: dict[tuple[int, ...], str] = {}
    for place, value in _json_rows(path) if is_json else _csv_rows(path):
        hand = _hand(value)
        if hand is None:
            raise HarnessError(f"{place}: expected four integers from 1 to 9999, got {value!r:.80}")
        if hand in seen:
            raise HarnessError(f"{place}: puzzle {puzzle_id(hand)} is on {seen[hand].rpartition(', ')[2]} already")
        seen[hand] = place
    if not seen:
        raise HarnessError(f"game24: data {path} has no puzzles")
    return list(seen)


def _csv_rows(path: str) -> Iterator[tuple[str, object]]:
    with opened(Path(path), DATA) as text:
        reader = csv.DictReader(text)
        try:
            if "Puzzles" not in (reader.fieldnames or ()):
                found = ", ".join(reader.fieldnames or ()) or "none"
                raise HarnessError(f"{DATA} {path}: no column 'Puzzles' (found: {found})")
            for row in reader:
                yield f"{DATA} {path}, line {reader.line_num}", row["Puzzles"]
        except csv.Error as failure:
            raise HarnessError(f"{DATA} {path}, line {reader.line_num}: {failure}") from failure


def _json_rows(path: str) -> Iterator[tuple[str, object]]:
    for line in read_lines(Path(path), DATA):
        fields = [name for name in ("numbers", "puzzle", "prompt") if name in line.value]
        if not fields:
            raise HarnessError(f"{line.where}: no field 'numbers', 'puzzle' or 'prompt'")
        yield line.where, line.value[fields[0]]


def _hand(value: object) -> tuple[int, ...] | None:
    """Four numbers, ascending, from a list or from text such as `4 5 6 10`; None if it is anything else."""
    parts = value.replace(",", " ").split() if isinstance(value, str) else value if isinstance(value, list) else []
    texts = [str(part) for part in parts]
    if len(texts) != 4 or not all(re.fullmatch("[1-9][0-9]{0,3}", text) for text in texts):
        return None
    return tuple(sorted(map(int, texts)))


@hookimpl
def register_tasks(register: Register) -> None:
    """The task `game24`."""
    register("game24", "harness_tasks.game24:Game24")
