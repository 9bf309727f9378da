r"""The option that a response chooses, a letter from A to J, as models write it.

The first of these that gives a letter counts, and within each the last one in the response:

1. `\boxed{B}`, also `\boxed{\text{(B) Paris}}`
2. "The answer is (B)", "Answer: **B**", "the correct option is B", "(B) is correct"
3. "I choose B"
4. lines that begin with a letter (`B. Paris`, `**B)**`), if all begin with the same one: a response that repeats the
   options chooses none; or a last line that is a letter alone
5. `(B)`, `**B**` or "option B" anywhere, if no other letter is written so

Two letters in one statement ("B or C") are no choice.
"""

from __future__ import annotations

import re

from ..math_answers.extraction import LOOK_AT, boxed_contents

LETTERS = "ABCDEFGHIJ"

_LETTER = (
    r"(?:[B-HJ]|[AI](?!\s+(?!because\b|since\b|as\b|or\b|and\b|is\b)[a-z]))(?![A-Za-z0-9]|['’][a-z])"  # not "is A dog"
)
_FILLER = (
    r"(?:[\s*_:\"'`$(\[{\\=-]|(?i:is|are|be|would|should|must|option|choice|letter|the|correct|best|final|most|likely|"
    r"therefore|clearly|definitely|indeed|thus|text|textbf|mathrm|mathbf)\b)"
)
_ANSWER = re.compile(
    rf"(?:(?i:\banswers?|\b(?:correct|right|best) (?:option|choice|letter|statement))\b{_FILLER}{{1,12}}?({_LETTER}))"
    rf"|(?<![A-Za-z0-9])({_LETTER})[)\]*_.]*\s+(?i:is|as)\s+(?i:(?:the|indeed|clearly)\s+)?(?i:correct|right|answer|best)\b"
)
_CHOSEN = re.compile(rf"(?i:\bchoose|\bchose|\bpick|\bselect|\bgo with)\b{_FILLER}{{1,12}}?({_LETTER})")
_ANOTHER = re.compile(
    rf"[)\]*_}}$]*(?:\s*[/&]\s*|\s+(?:or|and)\s+|,\s*)(?:option\s+)?[(\[*]*{_LETTER}(?!\s+(?:is|was)\b)"
)
_LINE = re.compile(r"^[ \t>*_#(\[-]{0,8}([A-J])(?:[*_]{0,3}[).:\]](?![*_ ]*(?:is|was|are)\b)|[*_ \t]*$)", re.MULTILINE)
_MARKED = re.compile(r"(?:\(|\*\*\(?|(?i:option|choice|letter) )([A-J])(?:\)|[).:]?\*\*|\b)")
_BARE = re.compile(r"[(\[]?\s*([A-Ja-j])\s*(?:[)\].:,]|$)")
_MARKUP = re.compile(r"\\[a-zA-Z]+\s*|[{}$*_`\"'\s]+")


def bare_letter(text: str) -> str | None:
    r"""Return the letter that a short text is or begins with: `b`, `(B) 7`, `\text{B.}`; None if it is another text."""
    match = _BARE.match(_MARKUP.sub(" ", text).strip())
    return match[1].upper() if match else None


def answer(response: str, cut_off: bool = False) -> str | None:
    """Return the letter that the response chooses, from A to J; None if it chooses none, or several.

    cut_off   the token limit ended the response: only what it states as its answer counts
    """
    text = response[-LOOK_AT:]
    boxes = boxed_contents(text)
    if boxes and (boxed := bare_letter(boxes[0])):
        return boxed if len(boxes) == 1 and not _ANOTHER.match(_MARKUP.sub(" ", boxes[0]).strip(), 1) else None
    for pattern in (_ANSWER, _CHOSEN):
        statements = list(pattern.finditer(text))
        if statements:
            last = statements[-1]
            group = last.lastindex or 0
            return None if _ANOTHER.match(text, last.end(group)) else last[group]
    return None if cut_off else _unstated(text)


def _unstated(text: str) -> str | None:
    """Return the letter of a response that does not say "answer"."""
    stripped = text.strip()
    if (only := bare_letter(stripped)) and len(_MARKUP.sub("", stripped)) <= 4:
        return only
    lines = _LINE.findall(stripped)
    if lines:
        last = stripped.rpartition("\n")[2].strip(" *_().[]:")
        return lines[-1] if len({*lines}) == 1 or last == lines[-1] else None
    marked = {*_MARKED.findall(stripped)}
    return marked.pop() if len(marked) == 1 else None
