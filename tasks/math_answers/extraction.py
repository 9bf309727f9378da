r"""Find a response's final answer: its last `\boxed{}`, its last `#### x`, or a fallback, which is marked as one.

Four rules, and no word beside an answer changes them:

1. The response proper ends where another turn of a chat, or another problem, begins.
2. The last box with something in it is the answer. Boxes with only a comma, "and", "or", `$` or blanks between them are
   one answer, a list: the guesses `\boxed{4} or \boxed{5}` are not 5. A response that was cut off inside its last box
   has no answer: an earlier box holds an intermediate result.
3. Where the task asks for it, the last `#### x`, if it comes after the last box.
4. As a fallback: what the last "answer is" states, as a whole expression; else the last number, if it stands alone, or
   the formula in `$` that it is part of. The digits of `2^10`, `3:2` or `7 + 5` do not stand alone.

Only the last 100,000 characters are read, in one pass. An answer has at most 500 characters.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Literal, NamedTuple

LOOK_AT = 100_000  # characters, the last ones
MAX_ANSWER = 500  # characters

Statements = Literal["boxed", "####"]

_TURN = re.compile(  # of the other side
    r"<[|｜](?:im_start|start_header_id|start)[|｜]>\s*(?:user|human)\b|<[|｜](?:user|human|endoftext)[|｜]>"
    r"|<start_of_turn>\s*user\b|\[inst\]|^[ \t#*]{0,8}(?:(?:human|user|instruction)\b *\**:|(?:user|human)\s*:?$)",
    re.MULTILINE,
)
_NEXT = re.compile(  # after an answer
    r"\n[ \t#*>]{0,8}(?:(?:question|problem|exercise)(?: [0-9]{1,4})?\b *\**[.:\n]|q: [a-z0-9]"
    r"|(?:assistant|response|input)\b *\**:)"
    r"|<[|｜](?:im_end|end|eot_id|eot|end_of_text|im_start|start_header_id|start|assistant|system)[|｜]>|</?s>|<eos>"
    r"|<end_of_turn>|<start_of_turn>|\[/inst\]"
)
_SIGNS_OF_A_TURN = "user human inst <| <｜ s> _turn> question problem exercise q: response input"
_ANSWERED = re.compile(r"\\(?:boxed|fbox)(?:\s*\{\s*|\s+)[^\s{}]|####\s*\S|answer(?: is\b|:)[^\n]{0,40}?[0-9$\\]")
_BOX = re.compile(r"\\(?:boxed|fbox)(?:\s*\{|\s+(?=[^\s{]))")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_BARE_ANSWER = re.compile(rf"[^\s$\\]{{1,{MAX_ANSWER + 1}}}|[^\n$]{{1,{MAX_ANSWER + 1}}}")
_NOTHING = re.compile(r"(?:[\s.…?_~,:;$]|\\[ldcq]?(?:dots|quad)\b|\\(?:text|mbox)\{\s*\}|\\[,;! ])*")
_CONNECTOR = re.compile(
    r"(?:[\s$,;&*]|\\[()\[\],;!\\]|\\q?quad|\b(?:and|or)\b|\\(?:text|mbox|textrm)\{\s*,?\s*(?:and|or)?\s*\}){0,40}"
)
_HASHES = re.compile(  # a value must follow directly: "#### Step 2" and "#### 2. Next" are headings
    r"####[ \t]*+(?![0-9]{1,2}[.):][ \t]+[A-Za-z*])(?=[^\w\n]{0,8}(?:\d|(?<=\\)(?:boxed|[dt]?frac|sqrt|text|pi)\b))"
)
_STATEMENT = re.compile(
    _HASHES.pattern + r"|\banswer\b[*_ ]{0,4}(?:(?:is|=)(?![a-z])[*_ ]{0,4}[:：]?|[:：])|<answer>", re.IGNORECASE
)
_DECORATION = " \t\r\n*_`"
_ENDS = re.compile(
    r"\.(?=\s|$)|</|[,;]?\s\(?(?=(?:I hope|since|because|where|which|as)\b)|\s\((?!mod|base)(?=[^()\\]*[A-Za-z]{2})|\n"
)
_IS = re.compile(r".*\b(?:is|are|equals?(?: to)?|be|was|has)\b[\s*_:]*(?=\S)|.*:\s+(?=\S)", re.DOTALL)
_FORMULA = re.compile(
    r"\$\$?[^$\n]*[^$\s] ?\$\$?(?![0-9])|\\\((?:[^\\\n]|\\[^)\n])+\\\)|\\\[(?:[^\\\n]|\\[^\]\n])+\\\]"
)
_HEDGED = re.compile(r"(?:at )?\b(?:not|no|than|least|most|less|more|fewer|between|either|or)\b", re.IGNORECASE)
_NUMBER = re.compile(
    r"(?<![\w.,:^{/√])(?<![\w)}]-)(?<![\w)}]−)(?:[-−–](?=[$0-9.]))?[$£€]?(?:[0-9]+ (?=[0-9]+/[0-9]))?"
    r"(?:(?:[0-9]{1,3}(?: [0-9]{3})+(?![0-9])|[0-9][0-9,]*)(?:\.[0-9]+)?|\.[0-9]+)(?:/[0-9]+)?[¼-¾⅐-⅞]?"
    r"(?:[A-Za-z]{1,4}[²³]?\b| (?:hundred|thousand|[mbtr]+illion|lakh|crore|squared|cubed)s?\b)?"
)
_JOINS_BEFORE = re.compile(
    r"(?:[+/×·^÷<≤]|[0-9)] ?\*{1,2}|\w\(|\b(?:minus|negative|plus|times|over|log|root of)|[0-9] or|[0-9] ?,"
    r"|[\w)}] ?[-−–]|\\[a-zA-Z]+)[ $]*$"
)
_JOINS_AFTER = re.compile(r"\s?[}^_!:+*/×·÷]\s?[\w\\({]|[\w}\\^!‰]|\.[0-9]|,[0-9]| ?\\[a-zA-Z]")
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")  # no control characters, no lone surrogates


class Extraction(NamedTuple):
    """The final answer as it is written, and its form: "boxed", "####" or "fallback".

    Without an answer `route` is that of a text that cannot be one, or "", and `reason` says why.
    """

    answer: str | None
    route: str = ""
    reason: str = ""


def final_statement(response: object, statements: Statements = "boxed") -> Extraction:
    """Return the final answer as it is written and its route, or why there is none. Linear time, 5 to 40 µs.

    statements   the form that the task asks for: with "####" the later of a line `#### x` and a box is taken; with
                 "boxed" such a line is only a fallback
    """
    if not isinstance(response, str):
        return Extraction(None, reason="not text")
    text = _proper(response)
    boxes, last_box, last_open = _boxes(text)
    line = max((match.end() for match in _HASHES.finditer(text)), default=-1) if statements == "####" else -1
    if line > max(last_box, last_open):
        answer, route = _stated(text, line), "####"
    elif last_open >= 0:
        return Extraction(None, "boxed", "cut off")
    elif boxes:
        answer, route = ", ".join(boxes), "boxed"
    else:
        places = [match.end() for match in _STATEMENT.finditer(text)]
        answer, route = (places and _stated(text, places[-1])) or _last_number(text) or "", "fallback"
    answer = answer.strip()
    if len(answer) > MAX_ANSWER:
        return Extraction(None, route, "too long")
    if not answer or _UNFIT.search(answer):
        return Extraction(None, route if answer else "", "no answer")
    return Extraction(answer, route)


def _proper(response: str) -> str:
    """Return the end of the response proper: up to another turn, or after an answer another problem."""
    lowered = response.lower() if response.isascii() else re.sub("[A-Z]+", lambda found: found[0].lower(), response)
    end = len(response)
    if any(map(lowered.__contains__, _SIGNS_OF_A_TURN.split())):  # a tenth of the time of the searches
        end = next((turn.start() for turn in _TURN.finditer(lowered) if lowered[: turn.start()].strip()), end)
        if (answered := _ANSWERED.search(lowered, 0, end)) and (after := _NEXT.search(lowered, answered.end(), end)):
            end = after.start()
    return response[max(0, end - LOOK_AT) : end]


def boxed_contents(text: str) -> list[str]:
    r"""Return the contents of the last `\boxed{}` and of those joined to it by connectors: in order, each once.

    [] without one, or if the last one is not closed.
    """
    boxes, _, last_open = _boxes(text[-LOOK_AT:])
    return boxes if last_open < 0 else []


def _boxes(text: str) -> tuple[list[str], int, int]:
    """Return the contents of the last boxes, as above, where the last begins, and where a later open one does, or -1.

    Only closed boxes that hold something and are in no other one count.
    """
    closes: dict[int, int] = {}
    open_braces: list[int] = []
    begin = min((place for place in (text.find("\\boxed"), text.find("\\fbox")) if place >= 0), default=len(text))
    for brace in _BRACE.finditer(text, begin):
        if brace[0] == "{":
            open_braces.append(brace.start())
        elif brace[0] == "}" and open_braces:
            closes[open_braces.pop()] = brace.start()
    boxes: list[str] = []  # joined to each other
    start = after = last_open = -1  # of the last box: where it begins, and where the text after it does
    for command in _BOX.finditer(text, begin):
        bare = None if command[0].endswith("{") else _BARE_ANSWER.match(text, command.end())
        end = bare.end() if bare else closes.get(command.end() - 1, -1)
        if command.start() < after:
            continue
        if end < 0:
            last_open = command.start()
        elif not _NOTHING.fullmatch(text, command.end(), end):
            if not _CONNECTOR.fullmatch(text, after, command.start()):
                boxes = []
            boxes.append(text[command.end() : end].strip())
            start, after = command.start(), end + (bare is None)
    return list(dict.fromkeys(boxes)), start, last_open if last_open > start else -1


def _stated(text: str, start: int) -> str:
    """Return the expression that is stated from `start` on: all of a value, what follows "is", or the last number."""
    sentence = text[start : start + 2 * MAX_ANSWER].lstrip(_DECORATION + ":")
    if sentence.startswith(("$$\n", "\\[\n")):
        sentence = sentence[3:].lstrip()
    sentence = _ENDS.split(sentence, maxsplit=1)[0].strip(_DECORATION)
    if not re.match(r"[A-Za-z]{2,}[ ,:]", sentence) or _HEDGED.match(sentence):
        return sentence
    said = _IS.sub("", sentence)
    formulas = _FORMULA.findall(said)
    if said != sentence or _HEDGED.search(sentence):
        return said
    return formulas[-1] if formulas else _last_number(sentence) or sentence


def _last_number(text: str) -> str | None:
    """Return the last number; None without one, or if its digits are part of something else."""
    last = deque(re.finditer("[0-9]", text), maxlen=1)
    if not last:
        return None
    line = max(text.rfind("\n", 0, last[0].start()) + 1, last[0].start() - MAX_ANSWER)
    formula = next((found for found in _FORMULA.finditer(text, line) if found.end() > last[0].start()), None)
    if formula and formula.start() < last[0].start():
        return formula.group()
    numbers = deque(_NUMBER.finditer(text, line), maxlen=1)
    if not numbers or numbers[0].end() <= last[0].start():
        return None
    [number] = numbers
    before, after = text[max(line, number.start() - 20) : number.start()], text[number.end() : number.end() + 20]
    if _JOINS_BEFORE.search(before) or _JOINS_AFTER.match(after):
        return None
    return number.group().rstrip(",").replace("−", "-").replace("–", "-")
