r"""Where a response states its final answer: its last `\boxed{}`, its last `#### x`, or, marked, a fallback.

Only the last 20,000 characters are read, in one pass; an answer has at most 500 characters. Whatever follows an
answer under a new "Question:" or "Problem:" is cut first, since base models in few-shot form go on inventing.

Boxes with nothing but a comma, "and", "or", `$` or white space between them are one answer, a list: for the reference
5 the guesses `\boxed{4} or \boxed{5}` are wrong, for `1,2` the boxes `\boxed{1}, \boxed{2}` are right. A response that
was cut off inside its last box has no answer: what it boxed before was an intermediate result, and `\boxed{` left
open is no answer in Hendrycks' rule either.

What a response denies or only bounds is no answer: "not \boxed{24}", "the answer is not 24", "I doubt the answer is 24"
and a last number behind "at least", "less than" or "either 23 or" are passed over.
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
_HASH = (  # a value must stand right behind it: "#### Step 2" and "#### 2. Next" are headings
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
    r"""What a response states last.

    answer   as it is written, `\frac12` and all; None where there is none
    route    "boxed", "####" or "fallback"; "" where nothing was found
    reason   why there is no answer: "not text", "no answer", "cut off", "too long"
    """

    answer: str | None
    route: str = ""
    reason: str = ""


def final_statement(response: object, statements: Statements = "boxed") -> Extraction:
    """The final answer as written, and where it stood; never raises. Linear, 5 to 40 µs for usual responses.

    `statements` says what a task asks its models for: with "####" a line `#### x` counts as much as a box, and the
    later of the two is taken; with "boxed" such a line is one of the fallbacks.
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
    """The text up to the first new problem that stands after an answer."""
    if _NEXT_PROBLEM.search(text) is None:
        return text
    answered = _ANSWERED.search(text)
    begun = answered and _NEXT_PROBLEM.search(text, answered.end())
    return text[: begun.start()] if begun else text


def _fit(answer: str | None, route: str) -> Extraction:
    answer = (answer or "").strip()
    if len(answer) > MAX_ANSWER:
        return Extraction(None, route, "too long")
    if not answer or _UNFIT.search(answer):
        return Extraction(None, route if answer else "", "no answer")
    return Extraction(answer, route)


# Boxes


class _Box(NamedTuple):
    """The last box or joined boxes: where its command begins, what they hold, whether its brace was closed."""

    start: int
    contents: tuple[str, ...]
    closed: bool

    @property
    def answer(self) -> str:
        return ", ".join(self.contents)


class _Span(NamedTuple):
    start: int
    content: int
    end: int
    after: int


def boxed_contents(text: str) -> list[str]:
    r"""What the last `\boxed{}` holds and those before it that only connectors part from it, each once, in order."""
    box = _last_boxes(text[-LOOK_AT:])
    return list(box.contents) if box else []


def _last_boxes(text: str) -> _Box | None:
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
    """The closed boxes that no other closed box holds, in order, and where the last box left open begins, or -1."""
    spans: list[_Span] = []
    waiting: list[tuple[int, int]] = []  # for each open brace: where its box's command and its content begin, or -1
    first = min(place for place in (text.find("\\boxed"), text.find("\\fbox")) if place >= 0)
    for match in _BRACE.finditer(text, first):
        if match["box"]:
            waiting.append((match.start(), match.end()))
        elif match["bare"]:
            content = _BARE_ANSWER.match(text, match.end())
            if content and not waiting and (not spans or spans[-1].after <= match.start()):
                spans.append(_Span(match.start(), match.end(), content.end(), content.end()))
        elif match["brace"] == "{":
            waiting.append((-1, -1))
        elif match["brace"] and waiting:
            start, content_start = waiting.pop()
            if start >= 0:
                while spans and spans[-1].start > start:
                    spans.pop()
                spans.append(_Span(start, content_start, match.start(), match.end()))
    return spans, max((start for start, _ in waiting), default=-1)


def _joined(text: str, spans: list[_Span]) -> list[_Span]:
    """The last box and those before it that only connectors part from it."""
    first = len(spans) - 1
    while first and _is_connector(text[spans[first - 1].after : spans[first].start]):
        first -= 1
    return spans[first:]


def _is_connector(between: str) -> bool:
    return len(between) <= _LONGEST_CONNECTOR and _CONNECTOR.fullmatch(between) is not None


# Statements


def _last_hashes(text: str) -> int | None:
    """Where the last `####` with a value behind it ends, or None."""
    return max((match.end() for match in _HASHES.finditer(text)), default=None)


def _fallback(text: str) -> str | None:
    """What the last "#### x", "answer is x" or "answer: x" says, else the last number; None without digits or those."""
    stated = max((match.end() for match in _STATEMENT.finditer(text) if _is_meant(text, match)), default=None)
    if stated is not None:
        sentence = _sentence(text, stated)
        if sentence:
            number = _last_number(sentence) if _STARTS_WITH_WORDS.match(sentence) else None
            return number or sentence
    return _last_number(text)


def _last_number(text: str) -> str | None:
    last = deque(_NUMBER.finditer(text), maxlen=1)
    if not last or _is_denied(text, last[0].start()) or _BOUNDED.search(_before(text, last[0].start())):
        return None
    return last[0].group().rstrip(",")


def _before(text: str, place: int) -> str:
    """What stands near before a place in its sentence."""
    return re.split(r"[.!?;]\s|\n", text[max(0, place - _NEAR) : place])[-1]


def _is_denied(text: str, place: int) -> bool:
    return _DENIED.search(_before(text, place)) is not None


def _is_meant(text: str, statement: re.Match[str]) -> bool:
    """Whether "the answer is" is followed by no denial and preceded by no doubt."""
    denies = _DENIES.match(text, statement.end(), statement.end() + 2 * _NEAR)
    return denies is None and _SUPPOSED.search(_before(text, statement.start())) is None


def _sentence(text: str, start: int) -> str:
    """The statement at `start`: the formula in it if it has one, else its first line up to a full stop."""
    rest = text[start : start + 2 * MAX_ANSWER].lstrip(_DECORATION + ":")
    if rest.startswith(("$$\n", "\\[\n")):
        rest = rest[3:].lstrip()
    line = rest.partition("\n")[0]
    formula = _MATH.search(line)
    if formula and not _DIGIT.search(line, 0, formula.start()) and not _HEDGES.search(line, 0, formula.start()):
        return next(group for group in formula.groups() if group)
    end = _SENTENCE_END.search(line)
    return (line[: end.start()] if end else line).strip(_DECORATION)
