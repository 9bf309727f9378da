r"""Read arithmetic in a response: find where it states its answer, and compute the value of the expression exactly.

`last_statement` finds the text. `symbols` reads it (plain text, Unicode, Markdown or LaTeX) as a flat list of numbers,
+ - * / ( ) and =. `chain` splits that list at =. `evaluate` computes one side by Dijkstra's shunting-yard algorithm.
Nothing recurses, no text is passed to Python's parser, and the time is linear. A chain has at most 8 sides, a side at
most 200 characters and 64 tokens. Unary signs, powers, factorials, decimals, implicit products and digits that are not
ASCII are not accepted.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from fractions import Fraction
from itertools import dropwhile
from typing import Any, NamedTuple

MAX_SIDES = 8  # of a chain of equations
MAX_CHARS = 200  # of a side
MAX_TOKENS = 64  # of a side
MAX_REMARK = 2_000  # characters after the statement

_ANSWER = re.compile(r"<answer>|answer[*_` ]{0,4}(?:is[*_` ]{0,4})?[:：]", re.IGNORECASE | re.ASCII)
_ANSWER_IS = re.compile(r"\b(?:answer|expression|equation|solution)[*_` ]{0,4} is\b", re.IGNORECASE | re.ASCII)
_CONTINUES = re.compile(
    r"^[ \t$&]{0,40}(?:==?>?|\\[Rr]ightarrow|\\implies|[→⇒⟹])[ \t$&]{0,40}(?:[0-9(\[{]|\\(?:boxed|left|[dt]?frac)\b)",
    re.MULTILINE,
)
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\{[a-z]{1,10}\*?\}")
_BRACE = re.compile(r"(\\boxed\s*\{)|\\.|([{}])")
_ALPHANUMERIC = re.compile(r"[0-9A-Za-z]")
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
_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2}
_OPERATIONS: dict[str, Any] = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": Fraction}
_NUMBER_PRECEDENCE = 3  # a number never needs brackets


class NotArithmetic(ValueError):
    """The text is not an accepted expression; the message is a short reason, which becomes the verdict's."""


class Expression(NamedTuple):
    """A parsed expression.

    text       one spelling for each syntax tree, `(10 - 6) * 5 + 4`: single spaces, brackets only if they are needed
    numbers    the numbers in it, ascending
    value      its exact value; None if it divides by zero
    """

    text: str
    numbers: tuple[int, ...]
    value: Fraction | int | None


class _Operand(NamedTuple):
    value: Fraction | int | None
    text: str
    precedence: int


def last_statement(text: str) -> str:
    r"""Return the content of the last balanced `\boxed{}`, or what follows the last `Answer:` if that begins later.

    Without either, return the last line. Lines without a letter or digit are skipped, so that an answer may be below
    its `Answer:` or inside `\[ \]`. A line that begins with = or an arrow continues the line before it. Of a line only
    what follows "answer is", "expression is" or the like is returned. Raises NotArithmetic if there is no answer.
    """
    text = _ENVIRONMENT.sub("", text)
    if _CONTINUES.search(text):
        text = _joined_lines(text)
    box = _last_box(text)
    heads = list(_ANSWER.finditer(text))
    if box and (not heads or box[0] > heads[-1].start() or box[1] >= heads[-1].end()):
        return text[max(box[0], heads[-1].end() if heads and heads[-1].start() >= box[0] else 0) : box[1]]
    if heads:
        return _ANSWER_IS.split(_line_from(text, heads[-1].end()).partition("</answer")[0])[-1]
    last = _ALPHANUMERIC.search(text[::-1])
    if last is None:
        raise NotArithmetic("no answer")
    line = _line_from(text, text.rfind("\n", 0, len(text) - last.end()) + 1)
    return _ANSWER_IS.split(line)[-1]


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


def _line_from(text: str, start: int) -> str:
    """Return the rest of the line at `start` or, if it has no letter or digit, the first line below that has one."""
    first = _ALPHANUMERIC.search(text, start)
    if first is None:
        raise NotArithmetic("no answer")
    begin = max(start, text.rfind("\n", start, first.start()) + 1)
    end = text.find("\n", first.start())
    return text[begin:] if end < 0 else text[begin:end]


def _last_box(text: str) -> tuple[int, int] | None:
    r"""Return where the content of the last balanced `\boxed{}` begins and ends; None without one. One pass."""
    if r"\boxed" not in text:
        return None
    last = (0, 0)
    open_braces: list[int] = []  # for each open brace: where the content of its box begins, 0 if it is no box
    for match in _BRACE.finditer(text):
        box, brace = match.groups()
        if box or brace == "{":
            open_braces.append(match.end() if box else 0)
        elif brace and open_braces:
            last = max(last, (open_braces.pop(), match.start()))
    return last if last[0] else None


def symbols(text: str, target: int | None = None) -> list[str]:
    r"""Return the numbers, + - * / ( ) and = of a text, in order. Raises NotArithmetic on anything else.

    Other spellings are rewritten: `\times` as *, an arrow as =, [ and { as (, `\frac{a}{b}` as ((a)/(b)). Left out are
    layout ($, `\left`, backticks), bold marks and full stops around the text, and a remark at its end. A remark follows
    `.`, `,` or `;`, or is in brackets, and states nothing else: it has no = and no operation, no number but `target`
    and those before it, and no words that take the statement back.
    """
    tokens = _without_remark(text, target)
    while tokens and tokens[-1] in _AFTER:
        tokens.pop()
    tokens = list(dropwhile(_BEFORE.__contains__, tokens))
    for token in tokens:
        if token not in _KNOWN and not _NUMBER.fullmatch(token):
            raise NotArithmetic("syntax")
    return _plain_brackets(tokens)


def chain(tokens: Sequence[str]) -> list[list[str]]:
    """Return the sides of a chain of equations: the tokens of `symbols`, split at every =."""
    sides: list[list[str]] = [[]]
    for token in tokens:
        if token == "=":
            sides.append([])
        else:
            sides[-1].append(token)
    return sides


def _without_remark(text: str, target: int | None) -> list[str]:
    """Return the tokens up to the first word, layout left out."""
    tokens: list[str] = []
    start = len(text) - len(text.lstrip())  # where the side begins in the text; `side`: in the tokens
    side, sides = 0, 1
    for match in _TOKEN.finditer(text, start):
        token = match.group()
        if token.isalpha() and token not in _SIGNS:
            return _before_remark(tokens, text[match.start() :], target)
        if match.end() - start > MAX_CHARS or len(tokens) - side == MAX_TOKENS:
            raise NotArithmetic("syntax")
        if sides > MAX_SIDES:
            raise NotArithmetic("too many sides")
        if token not in _LAYOUT:
            tokens.append(token)
        if _SIGNS.get(token) == "=":
            start, side, sides = match.end(), len(tokens), sides + 1
    return tokens


def _before_remark(tokens: list[str], remark: str, target: int | None) -> list[str]:
    """Return the tokens before a remark; NotArithmetic if none may stand there, or if it states or takes back a thing.

    It may name `target` and the numbers before it, and no others.
    """
    before = tokens[-1] if tokens else ""
    in_brackets = before == "(" and remark.rstrip(" \t\r.*_$`").endswith(")")
    numbers = set(_DIGITS.findall(remark[:MAX_REMARK]))
    if (
        not (in_brackets or before in {".", ",", ";"})
        or len(remark) > MAX_REMARK
        or not numbers <= {*tokens, str(target)}
        or _ANOTHER.search(remark)
        or _TAKES_BACK.search(remark)
        or (numbers and _OR_ELSE.search(remark))
    ):
        raise NotArithmetic("syntax")
    return tokens[:-1]


def _plain_brackets(tokens: Sequence[str]) -> list[str]:
    r"""Write [a], {a} and \{a\} as (a), \frac{a}{b} as ((a)/(b)), and every sign as one of + - * /."""
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


def evaluate(tokens: Sequence[str]) -> Expression:
    """Return the expression that tokens of `symbols` (without =) spell. Raises NotArithmetic if they spell none."""
    operands: list[_Operand] = []
    signs: list[str] = []
    wants_operand = True
    for token in tokens:
        if wants_operand != (token == "(" or token.isdecimal()):
            raise NotArithmetic("syntax")
        if token.isdecimal():
            operands.append(_Operand(int(token), token, _NUMBER_PRECEDENCE))
            wants_operand = False
        elif token == "(":
            signs.append(token)
        elif token == ")":
            _reduce(operands, signs, 1)
            if not signs:
                raise NotArithmetic("syntax")
            signs.pop()
        else:
            _reduce(operands, signs, _PRECEDENCE[token])
            signs.append(token)
            wants_operand = True
    if wants_operand:
        raise NotArithmetic("syntax")
    _reduce(operands, signs, 1)
    if signs:
        raise NotArithmetic("syntax")
    numbers = tuple(sorted(int(token) for token in tokens if token.isdecimal()))
    return Expression(operands[0].text, numbers, operands[0].value)


def _reduce(operands: list[_Operand], signs: list[str], precedence: int) -> None:
    """Apply the last signs, back to the innermost open bracket, whose precedence is at least this one."""
    while signs and _PRECEDENCE.get(signs[-1], 0) >= precedence:
        right = operands.pop()
        operands.append(_join(operands.pop(), signs.pop(), right))


def _join(left: _Operand, sign: str, right: _Operand) -> _Operand:
    """Return `left sign right` as one operand: its value, and its text with brackets only if they are needed."""
    precedence = _PRECEDENCE[sign]
    left_text = f"({left.text})" if left.precedence < precedence else left.text
    right_text = f"({right.text})" if right.precedence <= precedence else right.text
    value = None
    if left.value is not None and right.value is not None and not (sign == "/" and right.value == 0):
        value = _OPERATIONS[sign](left.value, right.value)
    return _Operand(value, f"{left_text} {sign} {right_text}", precedence)
