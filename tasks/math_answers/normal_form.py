r"""Write an answer in its normal form: one spelling for answers that honest graders hold to be the same.

`\left( 3, \dfrac\pi2 \right)` and `(3,\frac{\pi}{2})` have the normal form `(3,\frac{\pi}{2})`; `$10,\!080$`, `10080.0`
and `10,080\text{ cm}^2` have `10080`. The rules work on strings, without algebra, in tens of microseconds. The normal
form of a normal form is itself. `MathTask.answer` returns it, and verdicts depend on it.

Decisions, where writers differ:
* Units, degrees, dollars and per cent signs at the end of a value are dropped, as in Hendrycks' rule: `50\%` is 50, and
  so neither 0.5 nor 1/2. MATH's references and solutions write the sign or omit it, with the same number. Not every
  word is a unit (`wording`): `8 or more`, `5 tenths`, `12\text{k}` are not 8, 5 and 12.
* `1,234` is the number 1234; `1, 234` (a space), `(1,234)` and `\{1,234\}` hold two numbers. `1{,}234`, `1,\!234`,
  `1\,234` and `1 234` are always the number.
* The label of `x = 5` and `x \in [1,2]` is dropped unless the right side has a variable: `y = 2x + 3` keeps it.
* "and", "or" and semicolons between values become commas; between inequalities they become `\land` and `\lor`.
* What follows a `\approx` is dropped, unless it differs by more than a tenth; a `\approx` at the beginning is dropped.
  Remarks in words are dropped too (`5, not 6`).
* Numbers lose a leading plus, leading zeros and trailing decimal zeros. `3/4` becomes `\frac{3}{4}`, but no fraction is
  reduced. `3 1/2` is the mixed number, `2.4e1` becomes `2.4\times10^{1}`, `twelve` 12 and `\text{(C)}` `C`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, reduce

from .evaluation import evaluated
from .intervals import has_inequality
from .structure import without_commands
from .wording import TEXT_COMMAND, in_digits, without_remarks, without_units

ROUNDS = 6  # at most, until nothing changes; two or three are usual

_UNICODE = str.maketrans(
    {
        **dict.fromkeys("−–—‐‑﹣－", "-"),
        **dict.fromkeys("×✕", r"\times "),
        **dict.fromkeys("·⋅∙", r"\cdot "),
        **dict.fromkeys("，、", ","),
        **dict.fromkeys("\u00a0\u2009\u202f\u2007\u3000\t\r\n", " "),
        **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u200e\u200f", ""),
        **{"÷": "/", "∕": "/", "⁄": "/", "（": "(", "）": ")", "：": ":", "；": ";", "＝": "=", "％": "%"},
        **{"π": r"\pi ", "∞": r"\infty ", "θ": r"\theta ", "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ", "±": r"\pm "},
        **{"≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ", "≈": r"\approx ", "√": r"\sqrt ", "∅": r"\emptyset "},
        **{"°": r"^{\circ}", "²": "^2", "³": "^3", "½": r"\frac{1}{2}", "¼": r"\frac{1}{4}", "¾": r"\frac{3}{4}"},
        **{"‘": "'", "’": "'", "′": "'", "“": "", "”": "", '"': "", "`": ""},
    }
)


def _rules(*pairs: tuple[str, str]) -> Callable[[str], str]:
    """Return a pass over a text: it replaces all matches of each regular expression in turn."""
    compiled = [(re.compile(pattern, re.ASCII), replacement) for pattern, replacement in pairs]

    def apply(text: str) -> str:
        for pattern, replacement in compiled:
            text = pattern.sub(replacement, text)
        return text

    return apply


def _characters(text: str) -> str:
    return text if text.isascii() and text.isprintable() and '"' not in text else text.translate(_UNICODE)


_single_spaces = _rules((r"\s+", " "))  # the passes below rely on it: so they stay linear

_thousands_marked = _rules((r"(?<=[0-9]) ?(?:\{ ?, ?\}|, ?\\!|\\! ?,|\\,|~)(?:\\!| )*(?=[0-9]{3}(?![0-9]))", ""))

_layout = _rules(
    (r"^ ?\*+|\*+ ?$", ""),
    (r"\\(?:boxed|fbox) ?(?=\{)", ""),
    (r"\\(?:left|right)(?![A-Za-z]) ?\.?", ""),
    (r"\\[bB]igg?[lrm]?(?![A-Za-z])", ""),
    (r"\\(?:display|text|script)style(?![A-Za-z])|\\(?:no)?limits(?![A-Za-z])|\\bf(?:series)?(?![A-Za-z])", ""),
    (r"\\!", ""),
    (r"(?<!\\)\\[$%()\[\],;:> ]|[$%€£¢~]|\\q?quad(?![A-Za-z])", " "),  # a space: 5$6 is not 56
    (r"\\[dtc]frac(?![A-Za-z])", r"\\frac"),
    (r"\\([lg])eq(?:slant)?(?![A-Za-z])", r"\\\1e"),
    (r"\\neq(?![A-Za-z])|(?<![0-9A-Za-z)}])!=", r"\\ne"),
    (r"\\lt(?![A-Za-z])", "<"),
    (r"\\gt(?![A-Za-z])", ">"),
    (r"<=", r"\\le "),
    (r">=", r"\\ge "),
    (r"\\lbrace(?![A-Za-z])", r"\\{"),
    (r"\\rbrace(?![A-Za-z])", r"\\}"),
    (r"\\[lr]?vert(?![A-Za-z])", "|"),
    (r"\\(?:varnothing(?![A-Za-z])|\{ ?\\\})", r"\\emptyset "),
    (r"\\(begin|end)\{(?:[bBp]?matrix|smallmatrix|array)\}(?:\{[lcr|]*\})?", r"\\\1{pmatrix}"),
    (r"(?<!\\)\*\*(?=[^*])", "^"),
)

_DEGREES_SIGN = re.compile(
    r"(?:\^ ?(?:\{ ?\\(?:circ|degree) ?\}|\\(?:circ|degree)(?![A-Za-z]))|\\degree(?![A-Za-z]))(?: ?[CF](?![A-Za-z]))?"
)
_ANGLE = re.compile(rf"([0-9]+(?:\.[0-9]+)?) ?(?:{_DEGREES_SIGN.pattern})", re.ASCII)
_TRIGONOMETRIC = re.compile(r"\\?(?:sin|cos|tan|cot|sec|csc)")


def _degrees(text: str) -> str:
    """Drop the sign of degrees; next to a trigonometric function, convert to radians, which algebra expects."""
    if "circ" not in text and "degree" not in text:
        return text
    if _TRIGONOMETRIC.search(text):
        return _ANGLE.sub(r"{\\frac{\1\\pi}{180}}", text)
    return _DEGREES_SIGN.sub(" ", text)


# Braces of arguments

_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|[0-9]+|\s+|.", re.DOTALL)
_ARGUMENTS = {r"\frac": 2, r"\binom": 2, r"\sqrt": 1, "^": 1, "_": 1}
_ATOM = re.compile(r"[0-9]+|[A-Za-z]|\\[A-Za-z]+")
_sign_in_power = _rules((r"([\^_]) ?- ?([0-9]+|[A-Za-z])(?![0-9])", r"\1{-\2}"))


def _braces(text: str) -> str:
    r"""Put every argument in braces: `\frac12` becomes `\frac{1}{2}`, `x^2` `x^{2}`, and `x^10` `x^{10}`."""
    out: list[str] = []
    expected_after: list[int] = []  # for each open brace: the number of arguments expected after it is closed
    expected, takes_all_digits = 0, False
    for token in _TOKEN.findall(_sign_in_power(text)):
        if expected and token == " ":
            continue
        if token == "{":
            expected_after.append(max(expected - 1, 0))
            expected = 0
        elif token == "}":
            expected, takes_all_digits = (expected_after.pop() if expected_after else 0), False
        elif token in _ARGUMENTS:
            expected, takes_all_digits = _ARGUMENTS[token], token in "^_"
        elif expected and _ATOM.fullmatch(token):
            arguments, rest = _as_arguments(token, expected, takes_all_digits)
            expected -= len(arguments)
            token = "".join(f"{{{argument}}}" for argument in arguments) + rest
        else:
            expected = 0
        out.append(token)
    return "".join(out)


def _as_arguments(token: str, expected: int, takes_all_digits: bool) -> tuple[list[str], str]:
    r"""Return the arguments in a token and its rest: each digit is one (`\frac12`); after ^ or _ all digits are one."""
    if takes_all_digits or not token.isdecimal():
        return [token], ""
    return list(token[:expected]), token[expected:]


# Words and units

_POWERS = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_LARGE = re.compile(rf"(?<=[0-9]) ?({TEXT_COMMAND}\{{)? ?({'|'.join(_POWERS)})\b", re.ASCII)
_K = re.compile(rf"(?<=[0-9]){TEXT_COMMAND}\{{[kK] ?\}}", re.ASCII)


def _large(text: str) -> str:
    r"""Write `5 million` as `5\times10^{6}`, and `12\text{k}` as `12\times10^{3}`: such words are no units."""
    text = _K.sub(r"\\times10^{3}", text)
    return _LARGE.sub(lambda match: rf"\times10^{{{_POWERS[match[2]]}}}{match[1] or ''}", text)


def _joined_by(or_sign: str, and_sign: str) -> Callable[[str], str]:
    r"""Return a pass that replaces "or" and "and", inside `\text{}` and outside, by signs."""
    pairs = []
    for word, sign in (("or", or_sign), ("and", and_sign)):
        pairs.append((rf" ?,? ?{TEXT_COMMAND}\{{ ?,? ?{word} ?\}}", sign))
        pairs.append((rf"(?<![A-Za-z\\])(?: ?,)? ?\b{word}\b(?![A-Za-z])", sign))
    return _rules(*pairs)


_by_commas, _by_logic = _joined_by(", ", ", "), _joined_by(r" \\lor ", r" \\land ")


def _connectives(text: str) -> str:
    """Replace "or" and "and" by commas; between inequalities, where they differ in meaning, by logical signs."""
    return _by_logic(text) if has_inequality(text) else _by_commas(text)


_words = _rules(
    (r"\\(?:vee|lor)(?![A-Za-z])", r"\\lor "),
    (r"\\(?:wedge|land)(?![A-Za-z])", r"\\land "),
    (r";", ","),
)
_unwrapped_text = _rules((rf"{TEXT_COMMAND}\{{ ?([^{{}}]*)\}}", r" \1 "), (" +", " "))
_bases = _rules((r"(?<=[0-9A-F]) ?\(? ?(?:in )?base ?([0-9]+) ?\)? ?$", r"_{\1}"))
_names = _rules(
    (r"(?<![A-Za-z\\])pi(?![A-Za-z])", r"\\pi "),
    (r"(?<![A-Za-z\\])sqrt ?\(([^()]*)\)", r"\\sqrt{\1}"),
    (r"(?<![A-Za-z\\])(?:infinity|inf)(?![A-Za-z])", r"\\infty "),
)


# Thousands

_THOUSANDS = re.compile(
    r"(?<![0-9.,])[1-9][0-9]{0,2}(?:,[0-9]{3})+(?![0-9,]|\.[0-9]*,)|(?<![0-9.,])[1-9][0-9]{0,2}(?: [0-9]{3})+(?![0-9/])"
)
_BRACKET = re.compile(r"\\?[(\[{)\]}]")


def _thousands(text: str) -> str:
    """Remove the separators of thousands; inside brackets a comma separates two numbers and stays."""
    if not _THOUSANDS.search(text):
        return text
    depths = _depths(text)
    return _THOUSANDS.sub(lambda m: m.group() if depths[m.start()] else re.sub("[, ]", "", m.group()), text)


def _depths(text: str) -> list[int]:
    r"""Return for each character how many ( [ \{ are open at it."""
    depths = [0] * len(text)
    depth = last = 0
    for match in _BRACKET.finditer(text):
        depths[last : match.start()] = [depth] * (match.start() - last)
        last = match.start()
        depth += {"(": 1, "[": 1, r"\{": 1, ")": -1, "]": -1, r"\}": -1}.get(match.group(), 0)
    depths[last:] = [depth] * (len(text) - last)
    return depths


# Spaces, labels, ends

_spaces = _rules(
    (r"\s+", " "),
    (r"(?<=[0-9]) (?=[0-9])|(?<=[A-Za-z][A-Za-z]) (?=[A-Za-z][A-Za-z])|(?<=[0-9]) (?=[A-Za-z][A-Za-z])", "\x01"),
    (r"(\\[A-Za-z]+) (?=[A-Za-z])", "\\1\x01"),
    (r", (?=[0-9]{3}(?![0-9]))", ",\x01"),
    (" ", ""),
    ("\x01", " "),
)

_LABEL_TEXT = (
    r"(?:\\(?:angle|triangle|overline|vec|mathbf)\s*)?(?:[A-Za-z]+|\\(?:alpha|beta|gamma|delta|theta|phi|lambda|mu|omega"
    r"|ell|angle|rho|sigma|tau|varphi|Delta))(?:[A-Za-z ]{0,40})'*(?:_(?:[A-Za-z0-9]|\{[A-Za-z0-9,]{1,8}\}))?"
    r"(?:\([A-Za-z0-9,]{1,12}\))?"
)
LABEL = re.compile(_LABEL_TEXT, re.ASCII)
_LABELLED = re.compile(rf"{_LABEL_TEXT}(?:=|:|\\in(?![A-Za-z])) ?(?![=<>])", re.ASCII)
_VARIABLE = re.compile(r"(?<![A-Za-z\\])(?![ie](?![A-Za-z]))[A-Za-z](?![A-Za-z])|[A-Za-z][A-Za-z]+\(", re.ASCII)


def _label(text: str) -> str:
    r"""Drop a label, `x=` or `x\in`, unless the right side has a variable."""
    match = _LABELLED.match(text)
    if match is None:
        return text
    rest = text[match.end() :]
    if "=" in rest or not rest or has_variables(rest):
        return text
    return rest


def has_variables(text: str) -> bool:
    """Whether a text has a variable or a function: a letter that is no i or e, or letters before a bracket."""
    return _VARIABLE.search(without_commands(text)) is not None


_ends = _rules(
    (r"^(?:[\s=:,;]|\\approx(?![A-Za-z])|\\sim(?![A-Za-z])|\*+)+", ""),
    (r"[\s.,;:*\\]+$", ""),
)
_APPROXIMATELY = re.compile(r"\s*\\approx(?![A-Za-z])\s*")
_ROUNDED = 0.1  # relative: a worse approximation is another value


def _approximations(text: str) -> str:
    r"""Write `\sqrt{51}\approx7.14` as `\sqrt{51}` and `x\approx7.14` as `7.14`; `7\approx99` stays as it is."""
    left, *right = _APPROXIMATELY.split(text)
    if not right or not left:
        return text
    if len(right) == 1 and LABEL.fullmatch(left):
        return right[0]
    exact, rounded = evaluated(left), evaluated(right[0])
    if exact is None or rounded is None:
        return left
    return left if abs(complex(exact.value - rounded.value)) <= _ROUNDED * abs(complex(exact.value)) else text


_LONE = re.compile(
    r"\(([A-Z]|[-+]?[0-9.]+(?: ?[0-9]+/[0-9]+)?)\)|[(\[](\\begin\{pmatrix\}[^()\[\]]*\\end\{pmatrix\})[)\]]"
)


def _brackets_around(text: str) -> str:
    """Drop braces around the whole text, or brackets around a single capital letter, number or matrix."""
    if text.startswith("{") and text.endswith("}") and _closes_at(text) == len(text) - 1:
        return text[1:-1]
    lone = _LONE.fullmatch(text)
    return lone[lone.lastindex or 0] if lone else text


def _closes_at(text: str) -> int:
    """Return where the first brace of a text is closed, or -1."""
    depth = 0
    for match in re.finditer(r"\\.|[{}]", text, re.DOTALL):
        depth += {"{": 1, "}": -1}.get(match.group(), 0)
        if not depth and match.group() == "}":
            return match.start()
    return -1


_WHOLE_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)")
_MIXED = re.compile(r"(-?)([1-9][0-9]{0,8}) ([0-9]{1,9})/([0-9]{1,9})")
_SCIENTIFIC = re.compile(r"(-?[0-9]+(?:\.[0-9]+)?)[eE]([-+]?[0-9]{1,3})", re.ASCII)
_SLASH = re.compile(r"(-?)([0-9]+)/([0-9]+)")


def _numbers(text: str) -> str:
    """Write a single number without plus, leading zeros and trailing decimal zeros, and a single a/b as a fraction."""
    if _WHOLE_NUMBER.fullmatch(text):
        sign = "-" if text[0] == "-" else ""
        whole, _, decimals = text.lstrip("+-").partition(".")
        whole, decimals = whole.lstrip("0") or "0", decimals.rstrip("0")
        number = f"{whole}.{decimals}" if decimals else whole
        return number if number == "0" else sign + number
    mixed = _MIXED.fullmatch(text)
    if mixed and 0 < int(mixed[3]) < int(mixed[4]):
        return rf"{mixed[1]}{mixed[2]}\frac{{{mixed[3]}}}{{{mixed[4]}}}"
    scientific = _SCIENTIFIC.fullmatch(text)
    if scientific:
        return rf"{scientific[1]}\times10^{{{int(scientific[2])}}}" if int(scientific[2]) else scientific[1]
    slash = _SLASH.fullmatch(text)
    return rf"{slash[1]}\frac{{{slash[2]}}}{{{slash[3]}}}" if slash else text


_PLAIN = re.compile(r"-?[1-9][0-9]*")
_PASSES: tuple[Callable[[str], str], ...] = (
    _characters,
    _single_spaces,
    _thousands_marked,
    _layout,
    _single_spaces,
    _degrees,
    _braces,
    in_digits,
    _large,
    _connectives,
    _words,
    without_units,
    _unwrapped_text,
    _bases,
    without_remarks,
    without_units,
    _names,
    _thousands,
    _spaces,
    _ends,
    _approximations,
    _label,
    _brackets_around,
    _numbers,
)


@lru_cache(maxsize=1 << 14)
def normal_form(text: str) -> str:
    """Return the normal form of an answer or a reference, of up to some 1,000 characters; "" if nothing is left."""
    if _PLAIN.fullmatch(text):
        return text
    for _ in range(ROUNDS):
        before = text
        text = reduce(lambda current, step: step(current), _PASSES, text)
        if text == before:
            break
    return text
