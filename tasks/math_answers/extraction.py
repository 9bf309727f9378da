r"""Find a response's final answer: its last `\boxed{}`, its last `#### x`, or a fallback, which is marked as one.

Only the last 20,000 characters are read, in one pass. An answer has at most 500 characters. If a new "Question:" or
"Problem:" follows an answer, the text from it on is dropped first: base models with few-shot prompts invent problems.

Boxes with only a comma, "and", "or", `$` or white space between them are one answer, a list. For the reference 5
the guesses `\boxed{4} or \boxed{5}` are wrong; for `1,2` the boxes `\boxed{1}, \boxed{2}` are right. A response that
was cut off inside its last box has no answer: an earlier box holds an intermediate result, and `\boxed{` without an end
is no answer by Hendrycks' rule either.

What a response denies or only bounds is no answer. Skipped are "not \boxed{24}", "the answer is not 24", "I doubt the
answer is 24", and a last number after "at least", "less than" or "either 23 or".
"""

from __future__ import annotations

import re
from collections import deque
from typing import Literal, NamedTuple

LOOK_AT = 20_000  # characters, the last ones
MAX_ANSWER = 500  # characters

Statements = Literal["boxed", "####"]

_NEXT_PROBLEM = re.compile(r"\n[ \t#*]{0,8}(?:(?:Question|Problem)(?: [0-9]{1,4})?:|Q: (?=[A-Z]))")
_ANSWERED = re.compile(r"\\f?box(?:ed)?\b|####|answer is\b|answer:", re.IGNORECASE)
_BRACE = re.compile(
    r"(?P<box>\\(?:boxed|fbox)\s*\{)|(?P<bare>\\(?:boxed|fbox)\s+(?=[^\s{]))|\\.|(?P<brace>[{}])", re.DOTALL
)
_BARE_ANSWER = re.compile(rf"[^\s$\\]{{1,{MAX_ANSWER + 1}}}|[^\n$]{{1,{MAX_ANSWER + 1}}}")
_CONNECTOR = re.compile(
    r"(?:[\s$,;&*]|\\[()\[\],;!\\]|\\q?quad|\b(?:and|or)\b|\\(?:text|mbox|textrm)\{\s*,?\s*(?:and|or)?\s*\})*"
)
_LONGEST_CONNECTOR = 40
_HASH = (  # a value must follow directly: "#### Step 2" and "#### 2. Next" are headings
    r"####[ \t]*+(?![0-9]{1,2}[.):][ \t]+[A-Za-z*])(?=[*_`$\\({\[+ -]{0,6}(?:[0-9]|\.[0-9]|boxed|[dt]?frac|sqrt|text))"
)
_HASHES = re.compile(_HASH)
_STATEMENT = re.compile(_HASH + r"|\banswer\b[*_ ]{0,4}(?:(?:is|=)(?![a-z])[*_ ]{0,4}[:：]?|[:：])", re.IGNORECASE)
_DENIED = re.compile(
    r"(?:(?:\b(?:not|never|neither|nor|cannot|hardly|unlikely|doubt|unsure|wrong|incorrect)\b|n't\b|\bno longer\b)"
    r"[*_ :]{1,4}(?:[A-Za-z]{1,20}[*_ :]{1,4}){0,4}|(?:\\neq?|≠|(?<![0-9A-Za-z)}])!=)\s{0,4})[\s$*_(\\]{0,6}$",
    re.IGNORECASE,
)
_BOUNDED = re.compile(
    r"(?:\b(?:than|least|most|over|under|above|below|exceeds?|exceeding|(?<!rounds )(?<!round )(?<!rounded )up to)"
    r"|\b(?:between|either|from)\b[^.]{1,30}\b(?:and|or|to)|[<>]|\\[lg]eq?)[\s$*_(\\]{0,6}$",
    re.IGNORECASE,
)
_DENIES = re.compile(
    r"[\s*_:$]{0,6}(?:not|never|neither|nor|no longer|wrong|incorrect)\b[^.\n]{0,40}?[0-9\\$]", re.IGNORECASE
)
_HEDGES = re.compile(
    r"\b(?:not|less|fewer|more|greater|least|most|between|either|over|under|above|below)\b", re.IGNORECASE
)
_SUPPOSED = re.compile(
    r"(?:\b(?:doubt|unsure|if|whether|unless|suppose|assume|assuming|unlikely|not sure)|n't (?:think|believe|say))"
    r"(?: that)?(?: (?:the|my|our|this|final|correct|right|true))*[ *_]*$",
    re.IGNORECASE,
)
_NEAR = 60  # characters before a number or statement that may deny it
_DECORATION = " \t\r\n*_`"
_MATH = re.compile(
    r"\$\$?([^$\n]*[^$\s])\$(?![0-9])|\\\(((?:[^\\\n]|\\[^)\n])+)\\\)|\\\[\s*((?:[^\\\n]|\\[^\]\n])+)\\\]"
)
_SENTENCE_END = re.compile(r"\.(?=\s|$)|,?\s(?=(?:I hope|since|because|where|which|as)\b)")
_NUMBER = re.compile(r"(?<![\w.,])-?\$?[0-9][0-9,]*(?:\.[0-9]+)?(?:/[0-9]+)?", re.ASCII)
_DIGIT = re.compile("[0-9]")
_STARTS_WITH_WORDS = re.compile(r"[A-Za-z]{2,}[ ,:]")
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")  # no control characters, no lone surrogates


class Extraction(NamedTuple):
    r"""The final answer that a response states.

    answer   as it is written, `\frac12` for example; None without one
    route    "boxed", "####" or "fallback": the form of the answer, or of a text that cannot be one; "" without both
    reason   why there is no answer: "not text", "no answer", "cut off", "too long"
    """

    answer: str | None
    route: str = ""
    reason: str = ""


def final_statement(response: object, statements: Statements = "boxed") -> Extraction:
    """Return the final answer as it is written and its route, or why there is none. Never raises.

    The time is linear, usually 5 to 40 µs.

    statements   the form that the task asks for: with "####" the later of a line `#### x` and a box is taken; with
                 "boxed" such a line is only a fallback
    """
    if not isinstance(response, str):
        return Extraction(None, reason="not text")
    text = _first_problem_only(response)[-LOOK_AT:]
    box = _last_boxes(text)
    if statements == "####":
        line = _last_hashes(text)
        if line is not None and (box is None or line > box.start):
            return _fit(_sentence(text, line), "####")
    if box is not None:
        return _fit(box.answer, "boxed") if box.closed else Extraction(None, "boxed", "cut off")
    return _fit(_fallback(text), "fallback")


def _first_problem_only(text: str) -> str:
    """Return the text up to the first new problem after an answer."""
    if _NEXT_PROBLEM.search(text) is None:
        return text
    answered = _ANSWERED.search(text)
    next_problem = answered and _NEXT_PROBLEM.search(text, answered.end())
    return text[: next_problem.start()] if next_problem else text


def _fit(answer: str | None, route: str) -> Extraction:
    """Return the extraction of an answer, or why the text cannot be one."""
    answer = (answer or "").strip()
    if len(answer) > MAX_ANSWER:
        return Extraction(None, route, "too long")
    if not answer or _UNFIT.search(answer):
        return Extraction(None, route if answer else "", "no answer")
    return Extraction(answer, route)


# Boxes


class _Box(NamedTuple):
    """The last box, or the last boxes if they are one answer.

    start      where the first one's command begins
    contents   what they hold, each content once
    closed     whether the last one's brace is closed
    """

    start: int
    contents: tuple[str, ...]
    closed: bool

    @property
    def answer(self) -> str:
        return ", ".join(self.contents)


class _Span(NamedTuple):
    """Where a box's command begins, where its content begins and ends, and where the text after it begins."""

    start: int
    content: int
    end: int
    after: int


def boxed_contents(text: str) -> list[str]:
    r"""Return the contents of the last `\boxed{}` and of those joined to it by connectors: in order, each once.

    Boxes at the end that the text denies do not count. [] without one, or if the last one is not closed.
    """
    box = _last_boxes(text[-LOOK_AT:])
    return list(box.contents) if box else []


def _last_boxes(text: str) -> _Box | None:
    """Return the last boxes that the text does not deny; without contents if it denies all, None if it has no box."""
    if "\\boxed" not in text and "\\fbox" not in text:
        return None
    spans, last_open = _outermost_boxes(text)
    if last_open >= 0 and (not spans or last_open > spans[-1].start):
        return _Box(last_open, (), False)
    while spans and _is_denied(text, spans[-1].start):
        spans.pop()
    if not spans:
        return _Box(0, (), True)
    joined = _joined(text, spans)
    contents = dict.fromkeys(text[span.content : span.end].strip() for span in joined)
    return _Box(joined[0].start, tuple(contents), True)


def _outermost_boxes(text: str) -> tuple[list[_Span], int]:
    """Return the closed boxes inside no other closed box, in order, and where the last open box begins, or -1."""
    spans: list[_Span] = []
    open_braces: list[tuple[int, int]] = []  # for each: where its box's command and content begin; -1 if it is no box
    first = min(place for place in (text.find("\\boxed"), text.find("\\fbox")) if place >= 0)
    for match in _BRACE.finditer(text, first):
        if match["box"]:
            open_braces.append((match.start(), match.end()))
        elif match["bare"]:
            content = _BARE_ANSWER.match(text, match.end())
            if content and not open_braces and (not spans or spans[-1].after <= match.start()):
                spans.append(_Span(match.start(), match.end(), content.end(), content.end()))
        elif match["brace"] == "{":
            open_braces.append((-1, -1))
        elif match["brace"] and open_braces:
            start, content_start = open_braces.pop()
            if start >= 0:
                while spans and spans[-1].start > start:
                    spans.pop()
                spans.append(_Span(start, content_start, match.start(), match.end()))
    return spans, max((start for start, _ in open_braces), default=-1)


def _joined(text: str, spans: list[_Span]) -> list[_Span]:
    """Return the last box and those before it with only connectors in between."""
    first = len(spans) - 1
    while first and _is_connector(text[spans[first - 1].after : spans[first].start]):
        first -= 1
    return spans[first:]


def _is_connector(between: str) -> bool:
    return len(between) <= _LONGEST_CONNECTOR and _CONNECTOR.fullmatch(between) is not None


# Statements


def _last_hashes(text: str) -> int | None:
    """Return where the last `####` that a value follows ends; None without one."""
    return max((match.end() for match in _HASHES.finditer(text)), default=None)


def unboxed(response: str) -> tuple[str, bool]:
    """Return what follows the last "####", "answer is" or "answer:", and True; without one the text, and False."""
    text = _first_problem_only(response)[-LOOK_AT:]
    place = _stated(text)
    line = "" if place is None else _line(text, place)
    sentence = _SENTENCE_END.split(line, maxsplit=1)[0].strip(_DECORATION)
    return (sentence, True) if sentence else (text, False)


def _fallback(text: str) -> str | None:
    """Return the x of the last "#### x", "answer is x" or "answer: x", else the last number; None without any."""
    place = _stated(text)
    sentence = "" if place is None else _sentence(text, place)
    if sentence:
        number = _last_number(sentence) if _STARTS_WITH_WORDS.match(sentence) else None
        return number or sentence
    return _last_number(text)


def _stated(text: str) -> int | None:
    """Return where the last statement that is meant as one ends; None without one."""
    return max((match.end() for match in _STATEMENT.finditer(text) if _is_meant(text, match)), default=None)


def _last_number(text: str) -> str | None:
    """Return the last number; None without one, or if the text denies or only bounds it."""
    last = deque(_NUMBER.finditer(text), maxlen=1)
    if not last or is_denied_or_bounded(text, last[0].start()):
        return None
    return last[0].group().rstrip(",")


def is_denied_or_bounded(text: str, place: int) -> bool:
    """Whether "not", "at least" or the like precedes what is at a place."""
    return _is_denied(text, place) or _BOUNDED.search(_before(text, place)) is not None


def _before(text: str, place: int) -> str:
    """Return the end of the sentence before a place in it, at most `_NEAR` characters."""
    return re.split(r"[.!?;]\s|\n", text[max(0, place - _NEAR) : place])[-1]


def _is_denied(text: str, place: int) -> bool:
    return _DENIED.search(_before(text, place)) is not None


def _is_meant(text: str, statement: re.Match[str]) -> bool:
    """Whether no denial follows "the answer is" and no doubt precedes it."""
    denies = _DENIES.match(text, statement.end(), statement.end() + 2 * _NEAR)
    return denies is None and _SUPPOSED.search(_before(text, statement.start())) is None


def _sentence(text: str, start: int) -> str:
    """Return the statement at `start`: its formula if it has one, else its first line up to a full stop."""
    line = _line(text, start)
    formula = _MATH.search(line)
    if formula and not _DIGIT.search(line, 0, formula.start()) and not _HEDGES.search(line, 0, formula.start()):
        return next(group for group in formula.groups() if group)
    end = _SENTENCE_END.search(line)
    return (line[: end.start()] if end else line).strip(_DECORATION)


def _line(text: str, start: int) -> str:
    rest = text[start : start + 2 * MAX_ANSWER].lstrip(_DECORATION + ":")
    if rest.startswith(("$$\n", "\\[\n")):
        rest = rest[3:].lstrip()
    return rest.partition("\n")[0]
