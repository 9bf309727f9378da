r"""Game of 24: combine four numbers, each exactly once, with + - * / and brackets, into an expression with value 24.

How a response is graded: its last statement counts, which is the content of its last balanced `\boxed{}` or what
follows its last `Answer:`, whichever begins later; without either, its last line. It must be an expression of exactly
the four numbers with the exact value 24. It may continue as a chain of equations over several lines,
`5 * (10 - 6) + 4 = 20 + 4 = 24`, in which every side must be exactly 24. Nothing is evaluated by Python.

A problem (id `4-5-6-10`): the prompt is `4 5 6 10`, and there is no reference. `Answer: (10 - 6) * 5 + 4 = 24` at the
end of a response is correct.

Data: computed, nothing is downloaded. The problems are the 1,362 solvable hands of four numbers from 1 to 13, ordered
by their numbers: the same set as nlile/24-game and as 24.csv of tree-of-thoughts (Yao et al. 2023, arXiv:2305.10601).
`data` reads a file instead: that CSV (column `Puzzles`; its name ends in .csv), or JSONL or parquet with `numbers`,
`puzzle` or `prompt`.

Details. A chain has at most 8 sides, a side at most 200 characters and 64 tokens. Its first side must hold the four
numbers; `24 =` before it is skipped. An arrow counts as `=`. `\boxed{24}` gives the value only: it is read as `24`, and
as nothing if it follows a complete statement. Unary signs, powers, factorials, decimals, implicit products and digits
that are not ASCII are not accepted. Nothing recurses, and the time is linear.
The checker of tree-of-thoughts differs. It passes the text to sympy.simplify, which evaluates it, so that a response
can run code and `4+4+8+8 # x` is correct. It also ignores the right side: `(13 - 9) * (12 - 6) = 48` is correct for it
and wrong for this task.
"""

from __future__ import annotations

import hashlib
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations, combinations_with_replacement, dropwhile
from typing import Any, ClassVar, NamedTuple

from harness import Message, Problem, Task, Verdict, correct, wrong

from .data import sources
from .data.sources import Row

TARGET = 24
HAND = 4  # numbers
PROMPT = (
    "Use the numbers {numbers}, each exactly once, with +, -, *, / and brackets to make 24. "
    "Write one step per line, then a last line 'Answer: expression'."
)
LOOK_AT = 20_000  # characters: of a longer response, only the whole lines among its last ones are read


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
        return sources.revision("game24", self.data)

    def problems(self, split: str) -> list[Problem]:
        """Return the puzzles of a split: ordered by their numbers, or in the order of the local file.

        A local file's hands may be unsolvable, but none may occur twice.
        """
        if self.data is None:
            puzzles = list(map(_puzzle, solvable_hands()))
        else:
            puzzles = sources.problems(sources.file_rows("game24", self.data), lambda row: _puzzle(_hand_in(row)))
        return [puzzle for puzzle in puzzles if split in ("test", split_of(puzzle.id))]

    def messages(self, problem: Problem) -> list[Message]:
        return [{"role": "user", "content": PROMPT.format(numbers=", ".join(problem.prompt.split()))}]

    def verify(self, problem: Problem, response: str) -> Verdict:
        """Return correct if the last statement makes 24 of the problem's numbers, else wrong with a reason.

        Linear in the response's length, about 20 µs.
        """
        try:
            expression, other_value = _last_chain(response)
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
            expression, other_value = _last_chain(response)
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


# The puzzles. A hand is a tuple of four whole numbers, ascending.


def puzzle_id(numbers: Sequence[int]) -> str:
    """Return the id of a puzzle, `4-5-6-10`: its numbers, ascending."""
    return "-".join(str(number) for number in sorted(numbers))


def split_of(puzzle: str) -> str:
    """Return a puzzle's split by the SHA-256 of its id: "train" (7 in 10), "dev" (1 in 10) or "heldout" (2 in 10)."""
    bucket = int.from_bytes(hashlib.sha256(puzzle.encode()).digest()[:8], "big") % 10
    return "heldout" if bucket < 2 else "dev" if bucket == 2 else "train"


def _puzzle(hand: Sequence[int]) -> Problem:
    return Problem(puzzle_id(hand), " ".join(map(str, hand)))


def _hand_in(row: Row) -> list[int]:
    value = row.find("puzzles", "numbers", "puzzle", "prompt")
    if value is None:
        found = ", ".join(map(str, row.values)) or "none"
        raise row.fault(f"no column 'Puzzles', 'numbers', 'puzzle' or 'prompt' (found: {found})")
    parts = value.replace(",", " ").split() if isinstance(value, str) else value if isinstance(value, list) else []
    texts = [str(part) for part in parts]
    if len(texts) != HAND or not all(re.fullmatch("[1-9][0-9]{0,3}", text) for text in texts):
        raise row.fault(f"expected four integers from 1 to 9999, got {value!r:.80}")
    return sorted(map(int, texts))


@cache
def solvable_hands() -> tuple[tuple[int, ...], ...]:
    """Return the 1,362 hands of numbers from 1 to 13 that make 24, in lexicographic order; the search takes 0.2 s."""
    return tuple(hand for hand in combinations_with_replacement(range(1, 14), HAND) if _makes_target(hand))


def _makes_target(hand: tuple[int, ...]) -> bool:
    """Whether the hand can be split in two so that some value of each part, combined by one operation, makes 24.

    What makes 24 together with a value is what 24 and that value make, but for 24 * 0.
    """
    for part, rest in _partitions(hand):
        for value in _values(part):
            completing = _combined(value, Fraction(TARGET)) if value else {Fraction(TARGET), Fraction(-TARGET)}
            if not _values(rest).isdisjoint(completing):
                return True
    return False


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
        values.update(*(_combined(a, b) for a in _values(part) for b in _values(rest)))
    return frozenset(values)


@cache
def _combined(a: Fraction, b: Fraction) -> frozenset[Fraction]:
    """Return every value that one operation makes of two, in either order."""
    return frozenset({a + b, a - b, b - a, a * b} | ({a / b} if b else set()) | ({b / a} if a else set()))


# A response's last statement: its text


class NotArithmetic(ValueError):
    """The text is not an accepted expression; the message is a short reason, which becomes the verdict's."""


_BOXED_24 = re.compile(
    r"\\f?box(?:ed)?\s{0,9}\{[\s$=]{0,9}(?:24|\\(?:text|math)[a-z]{0,4}\{\s{0,9}24\s{0,9}\})[\s$.]{0,9}\}"
)
_BEFORE_BOX = 40  # characters that are looked at before a box
_ANSWER = re.compile(r"<answer>|answer[*_` ]{0,4}(?:is[*_` ]{0,4})?[:：]", re.IGNORECASE | re.ASCII)
_ANSWER_IS = re.compile(r"\b(?:answer|expression|equation|solution)[*_` ]{0,4} is\b", re.IGNORECASE | re.ASCII)
_CONTINUES = re.compile(
    r"^[ \t$&]{0,40}(?:==?>?|\\[Rr]ightarrow|\\implies|[→⇒⟹])[ \t$&]{0,40}(?:[0-9(\[{]|\\(?:boxed|left|[dt]?frac)\b)",
    re.MULTILINE,
)
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\{[a-z]{1,10}\*?\}")
_BRACE = re.compile(r"(\\boxed\s*\{)|\\.|([{}])")
_ALPHANUMERIC = re.compile(r"[0-9A-Za-z]")


def _last_chain(response: object) -> tuple[Expression, str | None]:
    """Return the expression that a response states last, and the first side of its chain that is not 24, or None."""
    if not isinstance(response, str):
        raise NotArithmetic("not text")
    text = response if len(response) <= LOOK_AT else response[-LOOK_AT:].partition("\n")[2]
    sides: list[list[str]] = [[]]
    for token in symbols(_last_statement(_BOXED_24.sub(_read_boxed_24, text))):
        if token == "=":
            sides.append([])
        else:
            sides[-1].append(token)
    if sides[0] == [str(TARGET)] and len(sides) > 1:  # 24 = (10 - 6) * 5 + 4, and 24 = 20 + 4 = (10 - 6) * 5 + 4
        is_hand = sum(token.isdecimal() for token in sides[-1]) == HAND
        sides = sides[::-1] if is_hand else sides[1:] + sides[:1]
    untrue = next((side for side in sides[1:] if not _is_target(side)), None)
    return evaluate(sides[0]), None if untrue is None else " ".join(untrue)


def _is_target(side: Sequence[str]) -> bool:
    try:
        return evaluate(side).value == TARGET
    except NotArithmetic:
        return False


def _read_boxed_24(box: re.Match[str]) -> str:
    r"""Return what `\boxed{24}` is read as: "" after a number or a bracket, as it repeats the result, else "24"."""
    before = box.string[max(0, box.start() - _BEFORE_BOX) : box.start()].rpartition("\n")[2].rstrip(" \t$.,;:*_")
    return "" if before[-1:].isdecimal() or before[-1:] in {")", "]", "}"} else str(TARGET)


def _last_statement(text: str) -> str:
    r"""Return the content of the last balanced `\boxed{}`, or what follows the last `Answer:` if that begins later.

    Without either, return the last line. Lines without a letter or digit are skipped, so that an answer may be below
    its `Answer:` or inside `\[ \]`. A line that begins with = or an arrow continues the line before it. Of a line only
    what follows "answer is", "expression is" or the like is returned. Raises NotArithmetic if there is no answer.
    """
    text = _ENVIRONMENT.sub("", text)
    if _CONTINUES.search(text):
        text = _joined_lines(text)
    begin, end = _last_box(text)
    heads = list(_ANSWER.finditer(text))
    if begin and (not heads or begin > heads[-1].start() or end >= heads[-1].end()):
        return text[max(begin, heads[-1].end() if heads and heads[-1].start() >= begin else 0) : end]
    start = heads[-1].end() if heads else 0
    if not heads and (last := _ALPHANUMERIC.search(text[::-1])):
        start = text.rfind("\n", 0, len(text) - last.end()) + 1
    first = _ALPHANUMERIC.search(text, start)
    if first is None:
        raise NotArithmetic("no answer")
    line = text[max(start, text.rfind("\n", start, first.start()) + 1) :].partition("\n")[0]
    return _ANSWER_IS.split(line.partition("</answer")[0] if heads else line)[-1]


def _joined_lines(text: str) -> str:
    """Return the text with each line that continues a chain appended to the last line before it that is not blank."""
    lines: list[list[str]] = []
    for line in text.split("\n"):
        if lines and _CONTINUES.match(line):
            while len(lines) > 1 and not lines[-1][0].strip():
                lines.pop()
            lines[-1].append(line)
        else:
            lines.append([line])
    return "\n".join(map(" ".join, lines))


def _last_box(text: str) -> tuple[int, int]:
    r"""Return where the content of the last balanced `\boxed{}` begins and ends; zeros without one. One pass."""
    last = (0, 0)
    open_braces: list[int] = []  # for each open brace: where the content of its box begins, 0 if it is no box
    for match in _BRACE.finditer(text) if r"\boxed" in text else ():
        box, brace = match.groups()
        if box or brace == "{":
            open_braces.append(match.end() if box else 0)
        elif brace and open_braces:
            last = max(last, (open_braces.pop(), match.start()))
    return last if last[0] else (0, 0)


# ... its symbols

MAX_SIDES = 8  # of a chain of equations
MAX_CHARS = 200  # of a side
MAX_TOKENS = 64  # of a side
MAX_REMARK = 2_000  # characters after the statement

_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|[A-Za-z]+|[0-9]+|\*\*+|==?>?|-->?|->|\S")
_NUMBER = re.compile(r"[1-9][0-9]{0,3}|0")
_SIGNS = {
    **dict.fromkeys(["+"], "+"),
    **dict.fromkeys(["-", "−", "–"], "-"),
    **dict.fromkeys(["*", "×", "·", "⋅", "∗", "✕", "x", "X", r"\times", r"\cdot", r"\ast"], "*"),
    **dict.fromkeys(["/", "÷", "∕", r"\div"], "/"),
    **dict.fromkeys(["=", "==", "=>", "->", "-->", "→", "⇒", "⟹", "⟶"], "="),
    **dict.fromkeys([r"\to", r"\rightarrow", r"\Rightarrow", r"\longrightarrow", r"\Longrightarrow", r"\implies"], "="),
}
_CLOSING = {"(": ")", "[": "]", "{": "}", r"\{": r"\}"}
_FRACTIONS = {r"\frac", r"\dfrac", r"\tfrac"}
_KNOWN = {*_SIGNS, *_CLOSING, *_CLOSING.values(), *_FRACTIONS}
_SPACES = {"&", r"\\", r"\,", r"\;", r"\:", r"\!", "\\ ", r"\quad", r"\qquad"}
_LAYOUT = {*_SPACES, *"$`", *(rf"\{sign}" for sign in "()[]")}
_LAYOUT |= {r"\left", r"\right", r"\displaystyle", r"\mathbf", r"\mathrm"}
_BEFORE = {"**", "***", "_", "#", ">"}
_AFTER = {"**", "***", "_", ".", ",", ";", "✓", "✔", "✅"}
_DIGITS = re.compile(r"[0-9]+")
_ANOTHER = re.compile(r"[=≠]|[0-9)][^A-Za-z0-9,]*[-+*/×÷·−][^A-Za-z0-9,]*[0-9(]")
_TAKES_BACK = re.compile(r"\b(?:wrong|incorrect|invalid|(?:is|does) not|isn't|doesn't|fails)\b", re.IGNORECASE)
_OR_ELSE = re.compile(r"\b(?:or|not|no|but|wait|instead|actually)\b", re.IGNORECASE)


def symbols(text: str) -> list[str]:
    r"""Return the numbers, + - * / ( ) and = of a text, in order. Raises NotArithmetic on anything else.

    Other spellings are rewritten: `\times` as *, an arrow as =, [ and { as (, `\frac{a}{b}` as ((a)/(b)). Left out are
    layout ($, `\left`, backticks), bold marks and full stops around the text, and a remark at its end. A remark follows
    `.`, `,` or `;`, or is in brackets, and states nothing else: it has no = and no operation, no number but 24 and
    those before it, and no words that take the statement back.
    """
    tokens = _without_remark(text)
    while tokens and tokens[-1] in _AFTER:
        tokens.pop()
    tokens = list(dropwhile(_BEFORE.__contains__, tokens))
    if not all(token in _KNOWN or _NUMBER.fullmatch(token) for token in tokens):
        raise NotArithmetic("syntax")
    plain: list[str] = []
    open_brackets: list[tuple[str, str]] = []  # for each: what closes it, and which part of a fraction it holds
    part = ""  # the part of a fraction that the next bracket opens
    for token in tokens:
        if part and token != "{":
            raise NotArithmetic("syntax")
        if token in _FRACTIONS:
            part = "numerator"
            plain.append("(")
        elif token in _CLOSING:
            open_brackets.append((_CLOSING[token], part))
            part = ""
            plain.append("(")
        elif open_brackets and token == open_brackets[-1][0]:
            closed = open_brackets.pop()[1]
            part = "denominator" if closed == "numerator" else ""
            plain += {"numerator": [")", "/"], "denominator": [")", ")"]}.get(closed, [")"])
        elif token in _CLOSING.values():
            raise NotArithmetic("syntax")
        else:
            plain.append(_SIGNS.get(token, token))
    return plain


def _without_remark(text: str) -> list[str]:
    """Return the tokens up to the first word, layout left out. NotArithmetic if the words are not a remark's."""
    tokens: list[str] = []
    start = len(text) - len(text.lstrip())  # where the side begins in the text; `side`: in the tokens
    side, sides = 0, 1
    for match in _TOKEN.finditer(text, start):
        token = match.group()
        if token.isalpha() and token not in _SIGNS:
            remark, before = text[match.start() :], tokens[-1] if tokens else ""
            in_brackets = before == "(" and remark.rstrip(" \t\r.*_$`").endswith(")")
            numbers = set(_DIGITS.findall(remark[:MAX_REMARK]))
            if (
                not (in_brackets or before in {".", ",", ";"})
                or len(remark) > MAX_REMARK
                or not numbers <= {*tokens, str(TARGET)}
                or _ANOTHER.search(remark)
                or _TAKES_BACK.search(remark)
                or (numbers and _OR_ELSE.search(remark))
            ):
                raise NotArithmetic("syntax")
            return tokens[:-1]
        if match.end() - start > MAX_CHARS or len(tokens) - side == MAX_TOKENS:
            raise NotArithmetic("syntax")
        if sides > MAX_SIDES:
            raise NotArithmetic("too many sides")
        if token not in _LAYOUT:
            tokens.append(token)
        if _SIGNS.get(token) == "=":
            start, side, sides = match.end(), len(tokens), sides + 1
    return tokens


# ... its value

_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2}  # of a number 3: it never needs brackets
_OPERATIONS: dict[str, Any] = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": Fraction}


class Expression(NamedTuple):
    """A parsed expression.

    text        one spelling for each syntax tree, `(10 - 6) * 5 + 4`: single spaces, brackets only if they are needed
    value       its exact value; None if it divides by zero
    numbers     the numbers in it, ascending
    precedence  of its last operation
    """

    text: str
    value: Fraction | int | None
    numbers: tuple[int, ...]
    precedence: int


def evaluate(tokens: Sequence[str]) -> Expression:
    """Return the expression that tokens of `symbols` (without =) spell. Raises NotArithmetic if they spell none.

    By Dijkstra's shunting-yard algorithm.
    """
    operands: list[Expression] = []
    signs: list[str] = []
    wants_operand = True
    for token in [*tokens, ""]:  # the end closes what is open
        if wants_operand != (token == "(" or token.isdecimal()):
            raise NotArithmetic("syntax")
        if token.isdecimal():
            operands.append(Expression(token, int(token), (int(token),), 3))
            wants_operand = False
            continue
        if token != "(":
            while signs and _PRECEDENCE.get(signs[-1], 0) >= _PRECEDENCE.get(token, 1):
                right, sign, left = operands.pop(), signs.pop(), operands.pop()
                operands.append(_joined(left, sign, right))
        if token == ")":
            if not signs:
                raise NotArithmetic("syntax")
            signs.pop()
        elif token:
            signs.append(token)
            wants_operand = True
    if signs:
        raise NotArithmetic("syntax")
    return operands[0]._replace(numbers=tuple(sorted(operands[0].numbers)))


def _joined(left: Expression, sign: str, right: Expression) -> Expression:
    precedence = _PRECEDENCE[sign]
    left_text = f"({left.text})" if left.precedence < precedence else left.text
    right_text = f"({right.text})" if right.precedence <= precedence else right.text
    value = None
    if left.value is not None and right.value is not None and not (sign == "/" and right.value == 0):
        value = _OPERATIONS[sign](left.value, right.value)
    return Expression(f"{left_text} {sign} {right_text}", value, left.numbers + right.numbers, precedence)
