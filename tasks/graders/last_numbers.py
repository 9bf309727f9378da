r"""The last number of a text in prose, as the whole expression in which its digits are: `4 1/2`, `−2`, `\frac{1}{3}`.

An expression is a run of numbers, signs, LaTeX and number words. Of `6 * 7 = 42` the part after the last `=` counts.
There is no number where the text leaves open what the digits mean: `10^3`, `3k`, `2 or 3`, `5 squared`, `2 is wrong`,
`x - 2`, `3, which is one too many`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from ..math_answers.exact_number import Number, exact_number
from ..math_answers.extraction import MAX_ANSWER, is_denied_or_bounded
from ..math_answers.normal_form import normal_form

_TOKEN = re.compile(
    r"\\text\w*\{[^{}\n]{0,80}\}|\\[A-Za-z]+|\\.|\w+(?:(?:(?<=[0-9])(?:[.,:]|\{,\})(?=[0-9])|(?<=[^\W0-9])['’](?=[^\W0-9]))\w+)*"
    r"|(?<![\w.])\.[0-9]\w*|[-+−–—×·*/÷^=<>≤≥≠≈~±%°!√'#$€£{}()\[\]_&@|]"
)
_NUMBER_WORD = re.compile(
    r"(?:zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen|"
    r"(?:twen|thir|for|fif|six|seven|eigh|nine)ty|half|halves|thirds?|quarters?|(?:four|fif|six|seven|eigh|nin|ten)ths?|"
    r"hundred(?:th)?s?|thousand(?:th)?s?|[mbtr]+illion(?:th)?s?|dozens?|score|twice|thrice|double|triple|minus|negative|"
    r"plus|times|over|divided|multiplied|by|per|squared|cubed|power|root|point|remainder|factorial|mod|modulo|base|"
    r"percent|pi|infinity)",
    re.IGNORECASE,
)
_GAP = re.compile(r"[ \t]*(?:(?:,[ \t]|(?:and|or|to|of|out of|to the)\b)[ \t]*)?")
_ONLY_OPERATORS = frozenset("+×·/÷^√{_")
_RELATION = re.compile(r"[<>≤≥≠]|!=|\\(?:[lgn]eq?|[lg]t|sim|neq|pm)(?![A-Za-z])|±")
_EQUAL = re.compile(r"=|≈|\\approx(?![A-Za-z])")
_SEVERAL = re.compile(r"\b(?:and|or)\b|,[ \t]")
_EQUATION = re.compile(r"(?=.*(?<![A-Za-z\\])[A-Za-z](?![A-Za-z]))(?=.*[-+−*/^0-9])", re.DOTALL)  # x^2 = 9
_UNIT = re.compile(
    r"(?<=[0-9}]) ?[mgshlLNJWVCF]/[mgshlLK](?:\^?\{?[23]\}?)?$|(?<=[0-9}]) [sgL]$|/$"
)  # 36 m/s, and 36/hour before "hour"
_OTHER_SCALE = re.compile(
    r"[±⌊⌈]|\\pm(?![A-Za-z])|\b(?:lakhs?|crores?|grand|gross|doz|bn|mn|mil|mio|tens|binary|octal|hexadecimal)\b",
    re.IGNORECASE,
)
_DETACHED = re.compile(r"[-+–—*/·×][ \t]")  # a bullet, a dash, or what is left of "apples - 2"
_DISPLAY = re.compile(r"\$|\\[()\[\]]")
_OPEN = re.compile(
    r"(?:\b(?:or|maybe|perhaps|nor|step|question|problem|part|option|line|equation|figure|exercise|case|section|"
    r"log|ln|exp|sin|cos|tan|square|cube|opposite|inverse|reciprocal|remainder)\b"
    r"(?:[ \t]+\w{1,12}){0,1}|\b(?:not|n't)\b[^.\n]{0,20})[ \t$*_(]*$",
    re.IGNORECASE,
)
_COMPOUND = re.compile(
    r"[0-9][ \t]+(?!is|are|equals|gives|makes|with|for|so)[A-Za-z]{1,12}(?:[ \t]+and)?[ \t]+$"
)  # 5 feet 3
_TURNED = (  # the value or the claim is another one
    r"not|never|neither|nor|cannot|wrong|incorrect|false|mistaken?|invalid|or|except|squared|cubed|dozens?|hundreds?|"
    r"thousands?|[mbtr]+illions?|hal(?:f|ves)|mod|modulo|base|remainder|factorial|minus|plus|times|divided|multiplied|"
    r"negative|binary|octal|hex(?:adecimal)?|ppm|mille|kilo|mega|giga"
)
_COMPARED = "more|less|fewer|greater|larger|smaller|higher|lower|above|below|least|most|than|too"
_TURNS = re.compile(rf"\b(?:{_TURNED})\b|n['’]t\b", re.IGNORECASE)
_UNCLEAR = re.compile(rf"\b(?:{_TURNED}|{_COMPARED})\b|n['’]t\b", re.IGNORECASE)
_TAKEN_BACK = re.compile(r"\b(?:wrong|incorrect|mistaken?|not right|not correct|not the answer)\b", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[.!?;](?=\s|$)|\n")
_ENUMERATES = re.compile(r"(?:^|\n)[ \t>*_#(-]*$")
_NUMERAL_POINT = re.compile(r"[.)][*_]*[ \t]+\S")
_HARMLESS = frozenset("→⇒⟹…“”‘’«»„，。：；！？、（）【】")
_SIGNS, _MARKS = ("Sm", "Pd", "Sk", "Ps", "Pe"), ("Mn", "Me", "Cf", "No", "Po", "So")
_REMARK = re.compile(r"(?<=\S)\s*\([^()]*\)$")


def number_in(text: str) -> Number | None:
    """Return the number that a text spells; None if it spells none."""
    if _OTHER_SCALE.search(text):
        return None
    return exact_number(normal_form(text))


def whole_number(text: str) -> Number | None:
    """Return the number that a response is as a whole, in digits or only in number words; None if it is no number."""
    is_line = len(text) <= MAX_ANSWER and "\n" not in text.strip() and not text.startswith(("- ", "– ", "— "))
    words = re.findall(r"[A-Za-z]+", text)
    is_spelt = any(map(str.isnumeric, text)) or all(
        _NUMBER_WORD.fullmatch(word) or word in ("and", "a") for word in words
    )
    return number_in(text) if is_line and is_spelt else None


def without_remark(text: str) -> str:
    """Return a text without a remark in brackets at its end, unless that changes the claim: `36 eggs (3 boxes)`."""
    remark = _REMARK.search(text)
    return text if remark is None or _TURNS.search(remark[0]) else text[: remark.start()]


def last_number(text: str) -> Number | None:
    """Return the last number of a text; None without one, or if the text does not make clear which number it is."""
    start, end = _last_expression(text)
    expression = text[start:end]
    if not any(map(str.isdigit, expression)) or end - start > MAX_ANSWER or _RELATION.search(expression):
        return None
    if _is_unclear(text, start, end):
        return None
    *left, right = _EQUAL.split(expression)
    if left and (_SEVERAL.search(expression) or _EQUATION.match(left[-1])):
        return None
    bare = _DISPLAY.sub("", right).strip(" \t*_`'#")
    if not left and _DETACHED.match(_DISPLAY.sub("", expression).strip()):
        return None
    if bare.count("(") != bare.count(")"):
        bare = bare.strip("() ")
    return number_in(bare) or number_in(_UNIT.sub("", bare) if _is_per(bare, text[end:]) else bare)


def _is_per(bare: str, after: str) -> bool:
    return not bare.endswith("/") or after[:1].isalpha()


def _is_unclear(text: str, start: int, end: int) -> bool:
    """Whether what is around an expression may change it, deny it, or make it a label."""
    before, after = text[:start], text[end:]
    rest = _SENTENCE_END.split(after, maxsplit=1)[0]
    return (
        before[-1:].isalnum()
        or _is_foreign(before)
        or _is_foreign(after[::-1])
        or is_denied_or_bounded(text, start)
        or _COMPOUND.search(before[-40:]) is not None
        or _OPEN.search(before[-60:]) is not None
        or _UNCLEAR.search(rest) is not None
        or _OTHER_SCALE.search(rest) is not None
        or _TAKEN_BACK.search(after) is not None
        or (_ENUMERATES.search(before[-20:]) is not None and _NUMERAL_POINT.match(after) is not None)
    )


def _is_foreign(text: str) -> bool:
    """Whether a text ends in a sign outside ASCII that may belong to the next number: an operator, a mark, `‰`."""
    near, last = text[-1:], text.rstrip(" \t")[-1:]
    if not last or last.isascii() or last in _HARMLESS:
        return False
    return unicodedata.category(last) in _SIGNS or (near == last and unicodedata.category(last) in _MARKS)


def _last_expression(text: str) -> tuple[int, int]:
    """Return where the last run of tokens that has a number or a number word begins and ends; 0, 0 without one."""
    last = (0, 0)
    for start, end, has_number in _runs(text):
        if has_number:
            last = (start, end)
    return last


def _runs(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield the runs of tokens with only blanks, commas, "and", "or" and the like between them."""
    start = end = 0
    has_number, previous = False, ""
    for token in _TOKEN.finditer(text):
        word = token[0]
        is_number = any(map(str.isnumeric, word)) or _NUMBER_WORD.fullmatch(word) is not None
        if word[0].isalpha() and not is_number and (len(word) > 1 or word in "aAI"):
            continue
        if end and not _joined(text[end : token.start()], previous, word):
            yield start, end, has_number
            start, has_number = token.start(), False
        elif not end:
            start = token.start()
        end, has_number, previous = token.end(), has_number or is_number, word
    yield start, end, has_number


def _joined(gap: str, previous: str, word: str) -> bool:
    if gap.isspace() and "\n" in gap:
        return previous[-1] in _ONLY_OPERATORS or word in _ONLY_OPERATORS
    return _GAP.fullmatch(gap) is not None
