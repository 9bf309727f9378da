r"""The answer that a response states in words, in one spelling, for the graders `exact` and `regex`.

A statement is the last `\boxed{x}`, else the last `#### x` or "answer is x" or "Answer: x"; without one the whole
response is the answer, as to "Answer with one word". The spelling: NFKC, small letters, single blanks, without quotes,
asterisks and final punctuation around it. `**Paris.**` and "The answer is Paris." are both `paris`.
"""

from __future__ import annotations

import re
import unicodedata

from ..math_answers.extraction import boxed_contents

LOOK_AT = 20_000  # characters, the last ones

_COMMAND = re.compile(r"\\(?:text|textbf|textit|mathrm|mathbf)\s*\{([^{}]*)\}")
_STATEMENT = re.compile(r"(?:####|\banswer\b[*_ ]{0,4}(?:is\b|:)(?:[*_ ]{0,4}:)?)[*_\s]*(?=\S)", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[a-z0-9)\]*]{2})[.!?](?=\s)")  # not after "Dr"
_AROUND = " \t\r\n*_`\"'“”‘’«»$.,;:!?"


def stated_text(response: str, cut_off: bool = False) -> str | None:
    """Return what the response states, as it is written; None without a statement.

    cut_off   the token limit ended the response, so that neither the whole nor an unfinished statement is an answer
    """
    boxes = boxed_contents(response)
    if boxes:
        return ", ".join(boxes)
    text = response[-LOOK_AT:]
    ends = [match.end() for match in _STATEMENT.finditer(text)]
    if not ends:
        return None if cut_off or len(response) > LOOK_AT else text
    line, newline, _ = text[ends[-1] :].partition("\n")
    sentence, *more = _SENTENCE_END.split(line, maxsplit=1)
    return None if cut_off and not (newline or more) else sentence


def normalised(text: str) -> str:
    """Return the text in one spelling; "" if nothing is left."""
    plain = unicodedata.normalize("NFKC", _COMMAND.sub(r"\1", text))
    return " ".join(plain.casefold().split()).strip(_AROUND)


def answer(response: str, cut_off: bool = False) -> str | None:
    """Return the stated text in one spelling; None if there is none."""
    return normalised(stated_text(response, cut_off) or "") or None
