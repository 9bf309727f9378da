r"""Read the words in an answer: numbers in words, units that may be dropped, remarks after a value.

`twelve apples`, `12\text{ cm}`, `12, not 13` and `18 apples, out of 20` hold a value and other words. A word after a
value counts as a unit unless it changes the value or the claim: `8 or more`, `5 tenths`, `5 squared`, `5 is wrong` and
`8 less` are not 8 or 5. Single letters are units only if they are the symbol of one (`\text{k}` is a thousand).
"""

from __future__ import annotations

import re

TEXT_COMMAND = r"\\(?:text(?:bf|it|rm|tt|sf|normal|up)?|math(?:rm|bf|it|sf|tt|normal)|[mh]box|operatorname\*?|emph|bm)"

# Units


def _set_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


_SYMBOLS = _set_of(
    """m g s h l L N J W V C F mm cm dm km um nm ft yd mi in sq cu kg mg lb lbs oz ml mL dl dL cl cc mph kph hr hrs min
    sec ms ns rad deg Hz Pa eV kW kJ kN USD EUR GBP US AM PM am pm a an the of to per by on at each"""
)
_JOIN = _set_of("a an the of to per by on at")  # no unit ends in one
_SHORT_NOUNS = _set_of(
    """man men car cow pig hen egg dog cat boy day cup box bag pen way pie bus toy bed job key cap hat jar can row tie
    set sum pea nut ant bee fly fox owl rat bat cub kid son oak log dot tag mat mug pan pot rug zip web ton net gem bar
    bit pts pt cts gal qt pint tsp tbsp wks yrs mos inch mins secs"""
)
_CHANGES = _set_of(  # words that change the value or the claim, wherever they stand after the value
    """or and nor more less fewer greater lesser larger smaller bigger higher lower than least most over under above
    below beneath beyond between up down not no never neither none wrong incorrect false invalid impossible undefined
    unless except excluding without negative minus plus times divided multiplied tens hundreds hundred thousand
    thousands million millions billion billions trillion trillions tenth tenths hundredth hundredths thousandth
    thousandths millionth millionths half halves third thirds fourths fifth fifths sixth sixths seventh sevenths eighth
    eighths ninth ninths dozen dozens score gross twice double triple thrice factorial inverse inverted reciprocal
    repeating recurring remainder modulo mod power exponent base point infinity is was isn else maybe perhaps probably
    """
)
_CHANGES_FIRST = _set_of(  # words that change it directly after the value: "5 squared", but not "5 feet squared"
    "squared cubed sqrt root roots sin cos tan cot sec csc log theta alpha beta gamma where with when pi"
)
_WORD = re.compile(r"[A-Za-z]+")
_END = r"(?= ?(?:$|[,;)\]=]|\\\}|\\approx|\\in\b))"
_TEXT = rf"{TEXT_COMMAND}\{{[A-Za-z .,'/-]*\}}(?:\^\{{-?[0-9]\}})?"
_TEXT_UNITS = re.compile(rf"(?<=[0-9}}A-Za-z)]) ?({_TEXT}(?: ?(?:(?:/|\\cdot\b) ?)?{_TEXT})*){_END}", re.ASCII)
_TEXT_CONTENT = re.compile(r"\{([A-Za-z .,'/-]*)\}")
_BARE_UNITS = re.compile(
    rf"(?<=[0-9}})])(?: ?\^\{{[23]\}})?((?: [A-Za-z]+\b\.?(?:\^\{{[0-9]\}})?)+){_END}",
    re.ASCII,
)
_GLUED_UNITS = re.compile(rf"(?<=[0-9])(?:[cmk]m|kg|ft|mph)\b(?:\^\{{[0-9]\}})?{_END}", re.ASCII)


def without_units(text: str) -> str:
    r"""Return a text without the units after its values: `\text{ cm}^2`, ` square units`, `kg`."""
    if not _WORD.search(text):
        return text
    text = _TEXT_UNITS.sub(_text_unit, text)
    text = _BARE_UNITS.sub(_bare_unit, text)
    return _GLUED_UNITS.sub("", text)


def _text_unit(match: re.Match[str]) -> str:
    words = _WORD.findall(" ".join(_TEXT_CONTENT.findall(match[1])))
    return "" if is_unit(words, 3) else match.group()


def _bare_unit(match: re.Match[str]) -> str:
    return "" if is_unit(_WORD.findall(match[1]), 4) else match.group()


def is_unit(words: list[str], shortest: int) -> bool:
    """Whether words after a value are its unit; words shorter than `shortest` must be known units."""
    plain = [word.lower() for word in words]
    if _CHANGES.intersection(plain) or _CHANGES_FIRST.intersection(plain[:1]) or _JOIN.intersection(plain[-1:]):
        return False
    if shortest > 3 and any(len(word) == 1 and word not in "ma" for word in words):  # 2 k may be a product
        return False
    return all(
        word in _SYMBOLS or word.lower() in _SHORT_NOUNS or (len(word) >= shortest and word[1:].islower())
        for word in words
    )


# Remarks

_OUT_OF = re.compile(r"(?<=[0-9})])((?: [A-Za-z]{2,20}){0,3})( ?,)? ?(?:out of|rather than|instead of)\b.*$", re.DOTALL)
_SHARE = re.compile(r"([0-9]+) out of ([1-9][0-9]*)")
_BEHIND_COMMA = re.compile(r"(?<=[0-9})A-Za-z]) ?, ?(?:not|since|because|which|as)\b.*$", re.DOTALL)


def without_remarks(text: str) -> str:
    r"""Return a value without a remark after it (`18 apples, out of 20`, `5, not 6`).

    If the whole text is `7 out of 10`, return the fraction `\frac{7}{10}`.
    """
    share = _SHARE.fullmatch(text.strip())
    if share:
        return rf"\frac{{{share[1]}}}{{{share[2]}}}"
    return _BEHIND_COMMA.sub("", _OUT_OF.sub(_out_of, text, count=1), count=1)


def _out_of(match: re.Match[str]) -> str:
    words = _WORD.findall(match[1])
    return "" if (words or match[2]) and is_unit(words, 3) else match.group()


# Numbers in words

_ONES = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen"""
_TEN_TIMES = "twenty thirty forty fifty sixty seventy eighty ninety"
_SMALL = {word: value for value, word in enumerate(_ONES.split())}
_TENS = {word: 10 * value for value, word in enumerate(_TEN_TIMES.split(), 2)}
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_PART = "half third fourth fifth sixth seventh eighth ninth tenth"
_PARTS = {word + plural: value for value, word in enumerate(_PART.split(), 2) for plural in ("", "s")} | {
    "halves": 2,
    "quarter": 4,
    "quarters": 4,
}
_PHRASE = re.compile(rf"(?:{TEXT_COMMAND}\{{)? ?([A-Za-z][A-Za-z -]*)\.?(?P<close>\}})?", re.ASCII)
_AND_A_HALF = re.compile(r"([0-9]+) and (?:a|one) half\b", re.ASCII)
_SIGN = re.compile(r"^ ?(?:negative|minus) (?=[0-9\\(])", re.IGNORECASE)
_QUALIFIED = re.compile(r"^ ?(?:exactly|about|approximately|around|roughly) (?=[-0-9\\(])", re.IGNORECASE)
_LONGEST_PHRASE = 120


def in_digits(text: str) -> str:
    r"""Return an answer in words with digits: `12 apples` for `twelve apples`, `\frac{2}{3}` for `\text{two thirds}`.

    `exactly` or `about` before a number is dropped, `minus` becomes its sign. Any other text is returned unchanged.
    """
    text = _AND_A_HALF.sub(r"\1\\frac{1}{2}", _SIGN.sub("-", _QUALIFIED.sub("", text)))
    phrase = _PHRASE.fullmatch(text) if len(text) <= _LONGEST_PHRASE else None
    if phrase is None or (phrase["close"] is not None) != text.startswith("\\"):
        return text
    words = phrase[1].replace("-", " ").split()
    negative = words[0].lower() in ("negative", "minus")
    number, rest = _read(list(map(str.lower, words[negative:])), words[negative:])
    if number is None or not is_unit(rest, 3) or rest[:1] == ["of"]:
        return text
    return " ".join([("-" if negative else "") + number, *rest])


def _read(words: list[str], spelt: list[str]) -> tuple[str | None, list[str]]:
    """Return the number at the start of the words, in digits, and the other words; None and all words without one.

    spelt   the same words, with their capital letters
    """
    whole, used = _cardinal(words)
    if not used:
        return None, spelt
    if words[used : used + 3] in (["and", "a", "half"], ["and", "one", "half"]):
        return rf"{whole}\frac{{1}}{{2}}", spelt[used + 3 :]
    if used < len(words) and words[used] in _PARTS:
        return rf"\frac{{{whole}}}{{{_PARTS[words[used]]}}}", spelt[used + 1 :]
    return str(whole), spelt[used:]


def _cardinal(words: list[str]) -> tuple[int, int]:
    """Return the value of the longest number at the start of the words, and its number of words; 0, 0 without one."""
    total, used = 0, 0
    limit = 10**15  # a scale must be smaller than the one before it
    while True:
        group, count = _below_thousand(words[used:])
        if not count:
            return total, used
        scale = _SCALES.get(words[used + count], 1) if used + count < len(words) else 1
        if scale >= limit:
            return total, used
        total, limit = total + group * scale, scale
        used += count + (scale > 1)
        if scale == 1:
            return total, used
        if words[used : used + 1] == ["and"] and _below_thousand(words[used + 1 :])[1]:
            used += 1


def _below_thousand(words: list[str]) -> tuple[int, int]:
    """Return the same for a number below 1,000."""
    value, used = _below_hundred(words)
    if words[used : used + 1] == ["hundred"] and 0 < value < 100 and used:
        gap = words[used + 1 : used + 2] == ["and"]
        rest, count = _below_hundred(words[used + 1 + gap :])
        return 100 * value + rest, used + 1 + (gap + count if count else 0)
    return value, used


def _below_hundred(words: list[str]) -> tuple[int, int]:
    """Return the same for a number below 100."""
    if not words:
        return 0, 0
    if words[0] in _SMALL:
        return _SMALL[words[0]], 1
    if words[0] in _TENS:
        digit = _SMALL.get(words[1], 0) if len(words) > 1 else 0
        return (_TENS[words[0]] + digit, 2) if 0 < digit < 10 else (_TENS[words[0]], 1)
    return 0, 0
