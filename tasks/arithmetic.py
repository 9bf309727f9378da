r"""Arithmetic in what a model wrote: where it states its answer, which numbers and signs that has, what value.

`last_statement` finds the text, `symbols` reads it (plain, Unicode, Markdown or LaTeX) as a flat list of numbers,
+ - * / ( ) and =, and `evaluate` takes such a list without = through Dijkstra's shunting-yard, exactly. Nothing
recurses, nothing is handed to Python's parser, and all is linear. A statement has at most 200 characters and 64 tokens,
no unary signs, powers, factorials, decimals or implicit products, and ASCII digits only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from itertools import dropwhile
from typing import NamedTuple

MAX_CHARS = 200
MAX_TOKENS = 64

_ANSWER = re.compile(r"<answer>|answer[*_` ]{0,4}(?:is[*_` ]{0,4})?[:：]", re.IGNORECASE | re.ASCII)
_ANSWER_IS = re.compile(r"answer is\b", re.IGNORECASE | re.ASCII)
_BRACE = re.compile(r"(\\boxed\s*\{)|\\.|([{}])")
_ALPHANUMERIC = re.compile(r"[0-9A-Za-z]")
_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|[A-Za-z]+|[0-9]+|\*\*+|\S")
_NUMBER = re.compile(r"[1-9][0-9]{0,3}|0")
_SIGNS = {
    **dict.fromkeys(["+"], "+"),
    **dict.fromkeys(["-", "−", "–"], "-"),
    **dict.fromkeys(["*", "×", "·", "⋅", "∗", "✕", "x", "X", r"\times", r"\cdot", r"\ast"], "*"),
    **dict.fromkeys(["/", "÷", "∕", r"\div"], "/"),
}
_CLOSING = {"(": ")", "[": "]", "{": "}", r"\{": r"\}"}
_FRACTIONS = {r"\frac", r"\dfrac", r"\tfrac"}
_KNOWN = {*_SIGNS, *_CLOSING, *_CLOSING.values(), *_FRACTIONS, "="}
_LAYOUT = {"$", "`", r"\(", r"\)", r"\[", r"\]", r"\left", r"\right", r"\displaystyle", r"\,", r"\;", r"\!", "\\ "}
_BEFORE = {"**", "***", "_", "#", ">"}
_AFTER = {"**", "***", "_", ".", ",", ";", "✓", "✔", "✅"}
_REMARKS_OWN = re.compile(r"[0-9=]")
_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2}
_NUMBERS_OWN = 3


class NotArithmetic(ValueError):
    """The text is no expression of the kind that is accepted; the message is a short reason."""


class Expression(NamedTuple):
    """A parsed expression.

    text       one spelling for each tree: `(10 - 6) * 5 + 4`, single spaces, brackets only where the tree needs them
    numbers    the numbers in it, ascending
    value      exact; None where it divides by zero
    """

    text: str
    numbers: tuple[int, ...]
    value: Fraction | int | None


class _Operand(NamedTuple):
    value: Fraction | int | None
    text: str
    precedence: int


def last_statement(text: str) -> str:
    r"""The last balanced `\boxed{}` or the line of the last `Answer:`, whichever begins later; else the last line.

    Lines without a letter or digit are passed over, so that an answer may stand below its `Answer:` or inside `\[ \]`.
    """
    box = _last_box(text)
    heads = list(_ANSWER.finditer(text))
    if box and (not heads or box[0] > heads[-1].start()):
        return text[box[0] : box[1]]
    if heads:
        return _line_from(text, heads[-1].end()).partition("</answer")[0]
    last = _ALPHANUMERIC.search(text[::-1])
    if last is None:
        raise NotArithmetic("no answer")
    line = _line_from(text, text.rfind("\n", 0, len(text) - last.end()) + 1)
    return _ANSWER_IS.split(line)[-1]


def _line_from(text: str, start: int) -> str:
    """The rest of the line at `start`, or the first line below it, that has a letter or digit."""
    first = _ALPHANUMERIC.search(text, start)
    if first is None:
        raise NotArithmetic("no answer")
    begin = max(start, text.rfind("\n", start, first.start()) + 1)
    end = text.find("\n", first.start())
    return text[begin:] if end < 0 else text[begin:end]


def _last_box(text: str) -> tuple[int, int] | None:
    r"""Where the content of the last `\boxed{}` with balanced braces begins and ends; one pass, whatever is nested."""
    if r"\boxed" not in text:
        return None
    last = (0, 0)
    waiting: list[int] = []  # for each open brace: where the content of its box begins, 0 if it is no box
    for match in _BRACE.finditer(text):
        box, brace = match.groups()
        if box or brace == "{":
            waiting.append(match.end() if box else 0)
        elif brace and waiting:
            last = max(last, (waiting.pop(), match.start()))
    return last if last[0] else None


def symbols(text: str) -> list[str]:
    r"""Numbers, + - * / ( ) and = in their order; raises NotArithmetic on anything else.

    Read away: layout ($, `\left`, backticks), bold marks and full stops around the whole, and a remark at the end that
    follows `.`, `,` or `;` or stands in brackets, if it has neither digits nor =.
    """
    tokens = _without_remark(text)
    while tokens and tokens[-1] in _AFTER:
        tokens.pop()
    tokens = list(dropwhile(_BEFORE.__contains__, tokens))
    for token in tokens:
        if token not in _KNOWN and not _NUMBER.fullmatch(token):
            raise NotArithmetic("syntax")
    return _plain_brackets(tokens)


def _without_remark(text: str) -> list[str]:
    """The tokens up to the first word, layout left out."""
    tokens: list[str] = []
    start = len(text) - len(text.lstrip())
    for match in _TOKEN.finditer(text, start):
        token = match.group()
        if token.isalpha() and token not in _SIGNS:
            return _before_remark(tokens, text[match.start() :])
        if match.end() - start > MAX_CHARS or len(tokens) == MAX_TOKENS:
            raise NotArithmetic("syntax")
        if token not in _LAYOUT:
            tokens.append(token)
    return tokens


def _before_remark(tokens: list[str], remark: str) -> list[str]:
    before = tokens[-1] if tokens else ""
    in_brackets = before == "(" and remark.rstrip(" \t\r.*_$`").endswith(")")
    if not (in_brackets or before in {".", ",", ";"}) or _REMARKS_OWN.search(remark):
        raise NotArithmetic("syntax")
    return tokens[:-1]


def _plain_brackets(tokens: Sequence[str]) -> list[str]:
    r"""[a], {a} and \{a\} as (a), \frac{a}{b} as ((a)/(b)), and every sign as one of + - * /."""
    plain: list[str] = []
    waiting: list[tuple[str, str]] = []  # for each open bracket: what closes it, and which part of a fraction it is
    part = ""  # of the fraction that the next bracket opens
    for token in tokens:
        if part and token != "{":
            raise NotArithmetic("syntax")
        if token in _FRACTIONS:
            part = "numerator"
            plain.append("(")
        elif token in _CLOSING:
            waiting.append((_CLOSING[token], part))
            part = ""
            plain.append("(")
        elif waiting and token == waiting[-1][0]:
            closed = waiting.pop()[1]
            part = "denominator" if closed == "numerator" else ""
            plain += {"numerator": [")", "/"], "denominator": [")", ")"]}.get(closed, [")"])
        elif token in _CLOSING.values():
            raise NotArithmetic("syntax")
        else:
            plain.append(_SIGNS.get(token, token))
    return plain


def evaluate(tokens: Sequence[str]) -> Expression:
    """The expression that `symbols` (without =) spell; raises NotArithmetic if they spell none."""
    operands: list[_Operand] = []
    signs: list[str] = []
    wants_operand = True
    for token in tokens:
        if wants_operand != (token == "(" or token.isdecimal()):
            raise NotArithmetic("syntax")
        if token.isdecimal():
            operands.append(_Operand(int(token), token, _NUMBERS_OWN))
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
    """Join operands while the last sign, within the innermost open bracket, binds at least as strongly."""
    while signs and _PRECEDENCE.get(signs[-1], 0) >= precedence:
        right = operands.pop()
        operands.append(_join(operands.pop(), signs.pop(), right))


def _join(left: _Operand, sign: str, right: _Operand) -> _Operand:
    precedence = _PRECEDENCE[sign]
    left_text = f"({left.text})" if left.precedence < precedence else left.text
    right_text = f"({right.text})" if right.precedence <= precedence else right.text
    return _Operand(_apply(left.value, sign, right.value), f"{left_text} {sign} {right_text}", precedence)


def _apply(left: Fraction | int | None, sign: str, right: Fraction | int | None) -> Fraction | int | None:
    if left is None or right is None or (sign == "/" and right == 0):
        return None
    if sign == "+":
        return left + right
    if sign == "-":
        return left - right
    return left * right if sign == "*" else Fraction(left) / right
