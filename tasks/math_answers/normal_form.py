r"""Write an answer in its normal form: one spelling for answers that honest graders hold to be the same.

`\left( 3, \dfrac\pi2 \right)` and `(3,\frac{\pi}{2})` have the normal form `(3,\frac{\pi}{2})`; `$10,\!080$`, `10080.0`
and `10,080\text{ cm}^2` have `10080`. The rules work on strings, in tens of microseconds. The normal form of
a normal form is itself.

Decisions, where writers differ:
* Units, degrees, currencies and per cent signs at the end of a value are dropped, as in Hendrycks' rule: `50\%` is 50,
  and so neither 0.5 nor 1/2. MATH's references and solutions write the sign or omit it, with the same number.
* A word after a value is a unit, in any alphabet, unless it changes the value or the claim: `8 or more`, `5 tenths`,
  `5 squared`, `5 is wrong` and `8 less` are not 8 or 5. Single letters are units only if they are the symbol of one:
  `12\text{k}` is 12,000. `a.m.` and `p.m.` are part of a time of day.
* `1,234` is the number 1234; `1, 234` (a space), `(1,234)` and `\{1,234\}` hold two numbers. `1{,}234`, `1,\!234`,
  `1\,234` and `1 234` are always the number.
* The label of `x = 5` and `x \in [1,2]` is dropped unless the right side has a variable: `y = 2x + 3` keeps it.
  `(x,y) = (1,2)` is `x=1,y=2`.
* "and", "or" and semicolons between values become commas; between inequalities they become `\land` and `\lor`.
* What follows a `\approx` is dropped, except after a label, and so are remarks (`5, not 6`).
* Numbers lose a leading plus, leading zeros and trailing decimal zeros. `3/4` becomes `\frac{3}{4}`, but no fraction is
  reduced. `3 1/2` is the mixed number, `2.4e1` is `2.4\times10^{1}`, `twelve` 12, `3 to 2` `3:2`, `\text{(C)}` `C`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from operator import methodcaller
from typing import NamedTuple
from unicodedata import normalize

ROUNDS = 6  # at most, until nothing changes; two or three are usual

_SIGNS = "times times cdot cdot cdot pi infty theta cup cap in pm le ge ne approx sqrt emptyset"
_UNICODE = str.maketrans(
    {sign: f"\\{command} " for sign, command in zip("×✕·⋅∙π∞θ∪∩∈±≤≥≠≈√∅", _SIGNS.split(), strict=True)}
    | dict.fromkeys("−–—‐‑﹣－", "-")
    | dict.fromkeys("\u00a0\u2009\u202f\u2007\u3000\t\r\n", " ")
    | dict.fromkeys('\u200b\u200c\u200d\u2060\ufeff\u200e\u200f“”"`', "")
    | {"÷": "/", "∕": "/", "⁄": "/", "、": ",", "°": r"^{\circ}", "‘": "'", "’": "'", "′": "'"}
    | {power: f"^{{{digit}}}" for digit, power in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")}
    | {part: r"\frac{{{}}}{{{}}}".format(*normalize("NFKC", part).split("⁄")) for part in "¼½¾⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"}
)
TEXT_COMMAND = r"\\(?:text(?:bf|it|rm|tt|sf|normal|up)?|math(?:rm|bf|it|sf|tt|normal)|[mh]box|operatorname\*?|emph|bm)"


def _set_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _characters(text: str) -> str:
    """Write characters with an ASCII spelling in it; full-width digits and letters are the plain ones."""
    return text if text.isascii() else normalize("NFKC", text.translate(_UNICODE)).translate(_UNICODE)


_COMMANDS = (
    dict.fromkeys(_set_of("left right boxed fbox displaystyle textstyle scriptstyle limits nolimits bf bfseries"), "")
    | {f"{b}ig{g}{side}": "" for b in "bB" for g in ("", "g") for side in ("", *"lrm")}
    | dict.fromkeys(("quad", "qquad", "pounds"), " ")
    | dict.fromkeys(("dfrac", "tfrac", "cfrac"), r"\frac")
    | {"leq": r"\le", "leqslant": r"\le", "geq": r"\ge", "geqslant": r"\ge", "neq": r"\ne", "lt": "<", "gt": ">"}
    | {"lbrace": r"\{", "rbrace": r"\}", "vert": "|", "lvert": "|", "rvert": "|", "vee": r"\lor", "wedge": r"\land"}
    | {"varnothing": r"\emptyset "}
)
_COMMAND = re.compile(r"\\([A-Za-z]+)")
_BLANKS = re.compile(r"\s{2,}|[^\S ]")  # all but a single space
_DEGREE = (
    r"(?:\^ ?(?:\{ ?\\(?:circ|degree) ?\}|\\(?:circ|degree)(?![A-Za-z]))|\\degree(?![A-Za-z]))(?: ?[CF](?![A-Za-z]))?"
)
_DEGREES, _IN_DEGREES = re.compile(_DEGREE), re.compile(rf"([0-9]+(?:\.[0-9]+)?) ?{_DEGREE}")
_TRIGONOMETRIC = re.compile(r"\\?(?:sin|cos|tan|cot|sec|csc)")


def _degrees(text: str) -> str:
    """Drop the sign of degrees; next to a trigonometric function, convert to radians, which algebra expects."""
    if _TRIGONOMETRIC.search(text):
        return _IN_DEGREES.sub(r"{\\frac{\1\\pi}{180}}", text)
    return _DEGREES.sub(" ", text)


_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|(?<=[\^_]) ?[0-9]+|\s+|.", re.DOTALL)
_ARGUMENTS = {r"\frac": 2, r"\binom": 2, r"\sqrt": 1, "^": 1, "_": 1}
_ATOM = re.compile(r" ?[0-9]+|[A-Za-z]|\\[A-Za-z]+")


def _braces(text: str) -> str:
    r"""Put every argument in braces: `\frac12` becomes `\frac{1}{2}`, `x^2` `x^{2}`, and `x^10` `x^{10}`."""
    out: list[str] = []
    expected_after: list[int] = []  # for each open brace: the number of arguments expected after it is closed
    expected = 0
    for token in _TOKEN.findall(text):
        if expected and token == " ":
            continue
        if token == "{":
            expected_after.append(max(expected - 1, 0))
            expected = 0
        elif token == "}":
            expected = expected_after.pop() if expected_after else 0
        elif token in _ARGUMENTS:
            expected = _ARGUMENTS[token]
        elif expected and _ATOM.fullmatch(token):
            expected -= 1
            token = f"{{{token.strip()}}}"
        else:
            expected = 0
        out.append(token)
    return "".join(out)


_JOIN = _set_of("a an the of to per by on at")  # no unit ends in one
_SYMBOLS = _JOIN | {*"mgshlLNJWVCF"}
_CHANGES = _set_of(  # words that change the value or the claim, wherever they stand after the value
    """or and nor more less fewer greater lesser larger smaller bigger higher lower than least most over under above
    below beneath beyond between up down not no never neither none wrong incorrect false invalid impossible undefined
    unless except excluding without negative minus plus times divided multiplied tens hundreds hundred thousand
    thousands million millions billion billions trillion trillions tenth tenths hundredth hundredths thousandth
    thousandths millionth millionths half halves third thirds fourths fifth fifths sixth sixths seventh sevenths eighth
    eighths ninth ninths score gross twice double triple thrice factorial inverse inverted reciprocal am
    pm repeating recurring remainder modulo mod power exponent base point infinity is was isn else maybe perhaps
    probably lakh lakhs crore crores"""
)
_CHANGES_FIRST = _set_of(  # directly after the value: "5 squared", but not "5 feet squared"
    "squared cubed sqrt root roots sin cos tan cot sec csc log ln exp theta alpha beta gamma where with when pi choose"
)
_WORD = re.compile(r"[^\W\d_]+")
_END = r"(?= ?(?:$|[,;)\]=]|\\\}|\\approx|\\in\b))"
_TEXT = rf"{TEXT_COMMAND}\{{([^{{}}0-9\\]*)\}}(?:\^\{{-?[0-9]\}})?"


def _unit(match: re.Match[str]) -> str:
    """Drop what follows a value if it is a unit."""
    words = _WORD.findall(re.sub(TEXT_COMMAND, " ", match[1]))
    plain = [word.lower() for word in words]
    changes = _CHANGES.intersection(plain) or _CHANGES_FIRST.intersection(plain[:1]) or _JOIN.intersection(plain[-1:])
    if not words or changes or any(word.isascii() and len(word) == 1 and word not in _SYMBOLS for word in words):
        return match[0]
    return ""


_ONES = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen"""
_TEN_TIMES = "twenty thirty forty fifty sixty seventy eighty ninety"
_NUMERALS = {word: value for value, word in enumerate(_ONES.split())}
_NUMERALS |= {word: 10 * value for value, word in enumerate(_TEN_TIMES.split(), 2)}
_NUMERAL = re.compile(
    rf"^ ?((?:{TEXT_COMMAND}\{{)? ?(?:negative |minus )?)({'|'.join(sorted(_NUMERALS, reverse=True))})"
    rf"(?:[ -](one|two|three|four|five|six|seven|eight|nine))?(?= ?[}}.]| ?$| [a-z])"
    r"(?! (?:of|or|and|to|hundred|thousand|[mbtr]+illion|half|halves|quarters?|[a-z]+ths?|thirds?)\b)",
    re.IGNORECASE,
)
_SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}


def _in_digits(match: re.Match[str]) -> str:
    return f"{match[1]}{_NUMERALS[match[2].lower()] + _NUMERALS.get((match[3] or '').lower(), 0)}"


_OR, _AND = (
    re.compile(rf" ?,? ?{TEXT_COMMAND}\{{ ?,? ?{word} ?\}}|(?<![A-Za-z\\])(?: ?,)? ?\b{word}\b(?![A-Za-z])")
    for word in ("or", "and")
)


def _connectives(text: str) -> str:
    """Replace "or" and "and" by commas; between inequalities, where they differ in meaning, by logical signs."""
    signs = (r" \\lor ", r" \\land ") if has_inequality(text) else (", ", ", ")
    return _AND.sub(signs[1], _OR.sub(signs[0], text))


def _thousands(match: re.Match[str]) -> str:
    """Remove the separators of thousands; inside brackets a comma separates two numbers and stays."""
    brackets = re.findall(r"\\?[(\[{)\]}]", match.string[: match.start()])
    is_inside = sum((bracket in ("(", "[", r"\{")) - (bracket in (")", "]", r"\}")) for bracket in brackets)
    return match[0] if is_inside else re.sub("[, ]", "", match[0])


_LABEL = (
    r"(?:\\(?:angle|triangle|overline|vec|mathbf)\s*)?(?:[A-Za-z]+|\\(?:alpha|beta|gamma|delta|theta|phi|lambda|mu|omega"
    r"|ell|angle|rho|sigma|tau|varphi|Delta))(?:[A-Za-z ]{0,40})'*(?:_(?:[A-Za-z0-9]|\{[A-Za-z0-9,]{1,8}\}))?"
    r"(?:\([A-Za-z0-9,]{1,12}\))?"
)
LABEL = re.compile(_LABEL)
_VARIABLE = re.compile(r"(?<![A-Za-z\\])(?![ie](?![A-Za-z]))[A-Za-z](?![A-Za-z])|[A-Za-z][A-Za-z]+\(")


def _label(match: re.Match[str]) -> str:
    """Drop a label unless the right side has a variable."""
    rest = match.string[match.end() :]
    return match[0] if not rest or "=" in rest or _VARIABLE.search(without_commands(rest)) else ""


def _labels(match: re.Match[str]) -> str:
    names, values = match[1].split(","), split(match[2], ",")
    return ",".join(map("{}={}".format, names, values)) if len(names) == len(values) else match[0]


def _without_braces(text: str) -> str:
    is_wrapped = text[:1] == "{" and text[-1] == "}" and is_balanced(text) and is_balanced(text[1:-1])
    return text[1:-1] if is_wrapped else text


def _plain(match: re.Match[str]) -> str:
    """Write a number without plus, leading zeros and trailing decimal zeros."""
    whole, _, decimals = match[0].lstrip("+-").partition(".")
    number = f"{whole.lstrip('0') or '0'}.{decimals.rstrip('0')}".removesuffix(".")
    return number if number == "0" or match[0][0] != "-" else f"-{number}"


_Change = Callable[[re.Match[str]], str]
_UNITS: tuple[tuple[str, _Change], ...] = (
    (rf"(?i:(?<=[0-9]) ?({TEXT_COMMAND}\{{)? ?([ap])\.?m\b\.?(?(1) ?\}}|))", lambda match: f" {match[2].upper()}M"),
    (rf"(?<=[0-9}}A-Za-z)]) ?((?:{_TEXT} ?(?:(?:/|\\cdot\b) ?)?)*{_TEXT}){_END}", _unit),
    (rf"(?<=[0-9}})])((?: [^\W\d_]+\.?(?:\^\{{[0-9]\}})?)+){_END}", _unit),
    (rf"(?<=[0-9])([cmk]m|kg|ft|mph|[^\W\d_\x00-\x7f]+)(?:\^\{{[0-9]\}})?{_END}", _unit),
)
# Passes over the whole text, and regular expressions with what replaces their matches. All are linear, since runs of
# blanks are one blank.
_PASSES: tuple[Callable[[str], str] | tuple[str | re.Pattern[str], str | _Change], ...] = (
    _characters,
    (_BLANKS, " "),
    # Layout
    (r"\.{3,}|…|\\[cl]?dots(?![A-Za-z])", r"\\ldots "),
    (r"(?<=[0-9]) ?(?:\{ ?, ?\}|, ?\\!|\\! ?,|\\,|~)(?:\\!| )*(?=[0-9]{3}(?![0-9]))", ""),  # of thousands
    (r"^ ?\*+|\*+ ?$|\\!|(?<=\\left) ?\.|(?<=\\right) ?\.", ""),
    (r"(?<!\\)\\[$%()\[\],;:> ]|[$%€£¢¥₹₩~]", " "),  # a space: 5$6 is not 56
    *((r"(?<![0-9A-Za-z)}])!=", r"\\ne "), ("<=", r"\\le "), (">=", r"\\ge "), (";", ","), ('"', "")),
    (r"\\\{ ?\\\}", r"\\emptyset "),
    (r"\\(?:text)?color ?\{[A-Za-z]+\}|\\(?:underline|mathbf|mathrm|boldsymbol|bm)(?=\{[^{}]*[\\^_{]|\{[0-9.]+\})", ""),
    (r"(?<=\\\\)\[[0-9.]+ ?[a-z]{2}\]", ""),  # of a matrix: \\[4pt]
    (r"\\(begin|end)\{(?:[bBp]?matrix|smallmatrix|array)\}(?:\{[lcr|]*\})?", r"\\\1{pmatrix}"),
    (r"(?<!\\)\*\*(?=[^*])", "^"),
    (r"([\^_]) ?- ?([0-9]+|[A-Za-z])(?![0-9])", r"\1{-\2}"),
    (_COMMAND, lambda match: _COMMANDS.get(match[1], match[0])),
    (_BLANKS, " "),
    _degrees,
    _braces,
    # Numbers and signs in words
    (_NUMERAL, _in_digits),
    (r"([0-9]+) and (?:a|one) half\b", r"\1\\frac{1}{2}"),
    (rf"^ ?((?:{TEXT_COMMAND}\{{)?) ?(?:[Nn]egative|[Mm]inus) (?=[0-9\\\\(])", r"\1-"),
    (r"^ ?(?:exactly|about|approximately|around|roughly) (?=[-0-9\\(])", ""),
    (r"([0-9]+) out of ([1-9][0-9]*) ?$", r"\\frac{\1}{\2}"),
    (r"(?<=[0-9]) (?:to|\\text\{ ?to ?\}) (?=[0-9])", ":"),
    (
        rf"(?<=[0-9]) ?((?:{TEXT_COMMAND}\{{)?) ?({'|'.join(_SCALES)})\b",
        lambda match: rf"\times10^{{{_SCALES[match[2]]}}}{match[1]}",
    ),
    (rf"(?<=[0-9]) ?{TEXT_COMMAND}\{{[kK] ?\}}", r"\\times10^{3}"),
    # Remarks: `18 apples, out of 20`, `5, not 6`
    (r"(?<=[0-9})A-Za-z]) ?, ?(?:not|since|because|which|as|out of|rather than|instead of)\b.*$", ""),
    (r"(?<=[0-9]) ([a-z]{3,20}) (?:out of|rather than|instead of)\b.*$", r" \1"),
    _connectives,
    *_UNITS,
    # Text
    (rf"{TEXT_COMMAND}\{{ ?([^{{}}]*)\}}", r" \1 "),
    (" {2,}", " "),
    (r"(?<=[0-9A-F]) ?\(? ?(?:in )?base ?([0-9]+) ?\)? ?$", r"_{\1}"),
    (r"(?<![A-Za-z\\])pi(?![A-Za-z])", r"\\pi "),
    (r"(?<![A-Za-z\\])sqrt ?\(([^()]*)\)", r"\\sqrt{\1}"),
    (r"(?<![A-Za-z\\])(?:infinity|inf)(?![A-Za-z])", r"\\infty "),
    *_UNITS,
    (r"(?<![0-9.,])[1-9][0-9]{0,2}(?:(?:,[0-9]{3})+(?![0-9,]|\.[0-9]*,)|(?: [0-9]{3})+(?![0-9/]))", _thousands),
    # Spaces
    (_BLANKS, " "),
    (r"(?<=[0-9]) (?=[0-9])|(?<=[^\W\d_][^\W\d_]) (?=[^\W\d_][^\W\d_])|(?<=[0-9]) (?=[^\W\d_][^\W\d_])", "\x01"),
    (r"(\\[A-Za-z]+) (?=[A-Za-z])", "\\1\x01"),
    (r", (?=[0-9]{3}(?![0-9]))", ",\x01"),
    (" ", ""),
    ("\x01", " "),
    (r"^(?:[\s=:,]|\\approx(?![A-Za-z])|\\sim(?![A-Za-z])|\*+)+", ""),
    (r"[\s.,:*\\]+$", ""),
    # Approximations, labels, and brackets around the whole text or a single letter, number or matrix
    (rf"^{_LABEL} ?\\approx ?(?![A-Za-z])", ""),
    (r"(?<=.) ?\\approx(?![A-Za-z]).*$", ""),
    (r"^\(((?:[A-Za-z],)+[A-Za-z])\)=\(([^()]*)\)\Z", _labels),
    (rf"^{_LABEL}(?:=|:|\\in(?![A-Za-z])) ?(?![=<>])", _label),
    (r"^\(([A-Z]|[-+]?[0-9.]+(?: ?[0-9]+/[0-9]+)?)\)\Z", r"\1"),
    (r"^[(\[](\\begin\{pmatrix\}[^()\[\]]*\\end\{pmatrix\})[)\]]\Z", r"\1"),
    _without_braces,
    # A single number: plain, mixed, scientific or with a slash
    (r"^[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)\Z", _plain),
    (
        r"^\+?(-?)([1-9][0-9]{0,8}) ([0-9]{1,9})/([0-9]{1,9})\Z",
        lambda match: (
            rf"{match[1]}{match[2]}\frac{{{match[3]}}}{{{match[4]}}}" if 0 < int(match[3]) < int(match[4]) else match[0]
        ),
    ),
    (r"^(-?[0-9]+(?:\.[0-9]+)?)[eE][-+]?0{1,3}\Z", r"\1"),
    (r"^(-?[0-9]+(?:\.[0-9]+)?)[eE](?:\+|(-))?(?=[0-9]{1,3}\Z)0*([0-9]+)\Z", r"\1\\times10^{\2\3}"),
    (r"^(-?)([0-9]+)/([0-9]+)\Z", r"\1\\frac{\2}{\3}"),
)
_STEPS = [  # a template is read anew at each call of `sub`, but only after a match by `expand`
    step
    if callable(step)
    else partial(re.compile(step[0]).sub, step[1] if callable(step[1]) else methodcaller("expand", step[1]))
    for step in _PASSES
]


@lru_cache(maxsize=1 << 14)
def normal_form(text: str) -> str:
    """Return the normal form of an answer or a reference, of up to some 1,000 characters; "" if nothing is left."""
    if text.isascii() and text.isdecimal() and text[0] != "0":
        return text
    for _ in range(ROUNDS):
        before = text
        for step in _STEPS:
            text = step(text)
        if text == before:
            break
    return text


# The outer structure of a normal form: brackets, and the elements of a list, tuple, interval or set.

MAX_DEPTH = 30  # nested brackets
_SYMBOL = re.compile(r"\\[A-Za-z]+|\\.|.", re.DOTALL)
_INEQUALITY = re.compile(r"<|>|\\[lgn]e(?![A-Za-z])")
_STEP = {**dict.fromkeys(["(", "[", "{", r"\{"], 1), **dict.fromkeys([")", "]", "}", r"\}"], -1)}
_PARTNERS = {"(": (")", "]"), "[": (")", "]"), "{": ("}",), r"\{": (r"\}",)}


class Collection(NamedTuple):
    """A list, tuple, interval or set: its brackets ("" for a bare list), its elements."""

    brackets: str
    elements: tuple[str, ...]


def is_balanced(text: str) -> bool:
    """Whether every bracket has a partner, as in `(a,b]` too, and at most MAX_DEPTH are open at a time."""
    open_brackets: list[str] = []
    for symbol in _SYMBOL.findall(text):
        step = _STEP.get(symbol, 0)
        if step > 0:
            open_brackets.append(symbol)
        if len(open_brackets) > MAX_DEPTH:
            return False
        if step < 0 and (not open_brackets or symbol not in _PARTNERS[open_brackets.pop()]):
            return False
    return not open_brackets


def without_commands(text: str) -> str:
    r"""Return the text with a space in place of each command such as `\frac` or `\pi`."""
    return _COMMAND.sub(" ", text)


def has_inequality(text: str) -> bool:
    """Whether a normal form has a sign of inequality."""
    return _INEQUALITY.search(text) is not None


def _depths(text: str) -> Iterator[tuple[re.Match[str], int]]:
    """Yield each symbol, and how many brackets are open after it."""
    depth = 0
    for match in _SYMBOL.finditer(text):
        depth += _STEP.get(match[0], 0)
        yield match, depth


def split(text: str, separator: str) -> list[str]:
    """Return the parts of a text between the separators that are outside all brackets."""
    if separator not in text:
        return [text]
    spans = [match.span() for match, depth in _depths(text) if not depth and match[0] == separator]
    starts, ends = [0, *(end for _, end in spans)], [*(start for start, _ in spans), len(text)]
    return [text[start:end].strip() for start, end in zip(starts, ends, strict=True)]


@lru_cache(maxsize=1 << 12)
def collection(text: str) -> Collection | None:
    r"""Return a normal form as brackets and elements; None for a single value. `\pm` makes two elements of one."""
    brackets, inner = "", text
    opening = text[:2] if text.startswith(r"\{") else text[:1]
    if opening in ("(", "[", r"\{"):
        closing = next((match for match, depth in _depths(text) if not depth), None)
        if closing and closing.end() == len(text) and closing[0] in _PARTNERS[opening]:
            brackets, inner = opening + closing[0], text[len(opening) : closing.start()]
    elements = split(inner, ",")
    if brackets in ("", r"\{\}"):
        elements = [signed for element in elements for signed in _signed(element)]
    return None if brackets != r"\{\}" and len(elements) == 1 else Collection(brackets, tuple(elements))


def _signed(element: str) -> list[str]:
    before, sign, after = element.partition(r"\pm")
    if not sign or r"\pm" in after or r"\mp" in element:
        return [element]
    return [f"{before}+{after.strip()}".lstrip("+"), f"{before}-{after.strip()}"]
