r"""Apply verl's strict rules for MATH and GSM8K, with which RepExp's authors train; for `--audit` and as reward in RL.

The paper names no grader. Its authors' code uses these two for MATH and GSM8K. For AIME and DAPO it uses verl's
math-verify wrapper, where this project uses the rule of MATH. Both rules compare strings.

MATH ("boxed"): the content of the last `\boxed` must equal the reference after the normalisation of Hendrycks et al.
(2021, arXiv:2103.03874, `is_equiv`), as verl's `math_reward` applies it. Line breaks and spaces, `\!`, `\left`,
`\right`, degrees, `\$`, `\%` and a unit after `\text{ ` are removed. `\dfrac` and `\tfrac` become `\frac`, `\frac12`
and `\sqrt3` get braces, a decimal gets its leading zero, `a/b` becomes a fraction and 0.5 a half. A name of at most two
characters before = is dropped. So `5.0`, `\text{5}` and `1,234` are wrong for 5, 5 and 1234, and so is `\fbox{5}`.

GSM8K ("####"): the last `#### ` that a number follows directly, within the last 300 characters, counts. Without its
commas, the number must be the same string as the reference. So `#### 18.`, `#### $18` and `####18` are wrong for 18.

This code was written from that description. It agrees with verl 0.9.1's own functions on 100,000 mutated answers.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from harness import Verdict, correct, wrong

from ..math_answers.extraction import Statements

CLIP = 300  # characters that GSM8K's rule reads, the last ones

_HASHES = re.compile(r"#### (-?[0-9.,]+)")
_BRACES = re.compile("[{}]")


def strict_verdict(rule: Statements, gold: str, response: object) -> Verdict:
    """Return the verdict of the strict rule of MATH ("boxed") or GSM8K ("####"); its route is the rule's name."""
    name, extract = ("math_reward", last_box) if rule == "boxed" else ("gsm8k strict", last_hashes)
    if not isinstance(response, str):
        return wrong("not text", name)
    answer = extract(response)
    if answer is None:
        return wrong("no answer", name)
    gold = last_box(gold) or gold  # of a reference with several boxes the rule uses the last
    equal = is_equivalent(answer, gold) if rule == "boxed" else answer == gold.replace(",", "")
    return correct(route=name) if equal else wrong("different", name)


def last_hashes(response: str) -> str | None:
    """Return the x of the last strict `#### x` near the end, without commas; None without one."""
    numbers = _HASHES.findall(response[-CLIP:])
    return numbers[-1].replace(",", "") if numbers else None


def last_box(response: str) -> str | None:
    r"""Return what follows the last `\boxed ` up to a dollar; without one, the content of the last `\boxed{...}`.

    None without either, or if the brace is not closed.
    """
    if r"\boxed " in response:
        return response.rpartition(r"\boxed ")[2].partition("$")[0]
    start = response.rfind(r"\boxed")
    if start < 0:
        return None
    depth = 0
    for brace in _BRACES.finditer(response, start):  # escaped ones too
        depth += 1 if brace.group() == "{" else -1
        if depth == 0 and brace.group() == "}":
            inside = response[start + len(r"\boxed{") : brace.start()]
            return inside if response.startswith(r"\boxed{", start) else None
    return None


def is_equivalent(answer: str, gold: str) -> bool:
    """Whether two strings are equal in Hendrycks' normal form or, if one of them has none, as they are."""
    try:
        return _stripped(answer) == _stripped(gold)
    except _NotApplicable:
        return answer == gold


class _NotApplicable(ValueError):
    """The rule fails for a string: it has two units, or a root or fraction of nothing."""


def _stripped(text: str) -> str:
    """Return a text in Hendrycks' normal form. Raises _NotApplicable."""
    text = _without(text, "\n", r"\!").replace("\\\\", "\\").replace("tfrac", "frac").replace("dfrac", "frac")
    text, *units = _without(text, r"\left", r"\right", r"^{\circ}", r"^\circ", r"\$").split(r"\text{ ")
    if len(units) > 1:
        raise _NotApplicable
    text = _without(text, r"\\%", r"\%").replace(" .", " 0.").replace("{.", "{0.")
    text = "0" + text if text.startswith(".") else text
    name, equals, value = text.partition("=")
    if equals and "=" not in value and len(name) <= 2:
        text = value
    text = _after_each(r"\sqrt", text, lambda part: part if part[0] == "{" else f"{{{part[0]}}}{part[1:]}")
    text = _fractions(_without(text, " "))
    if text == "0.5":
        return r"\frac{1}{2}"
    ratio = re.fullmatch("(0|-?[1-9][0-9]*)/(0|-?[1-9][0-9]*)", text, re.ASCII)
    return rf"\frac{{{ratio[1]}}}{{{ratio[2]}}}" if ratio else text


def _without(text: str, *parts: str) -> str:
    for part in parts:
        text = text.replace(part, "")
    return text


def _after_each(command: str, text: str, argument: Callable[[str], str]) -> str:
    """Return a text with `argument` applied to what follows each command. Raises _NotApplicable if nothing follows."""
    first, *rest = text.split(command)
    if not all(rest):
        raise _NotApplicable
    return "".join([first, *(command + argument(part) for part in rest)])


def _fractions(text: str) -> str:
    parts = text.split(r"\frac")[1:]
    lone = next((place for place, part in enumerate(parts) if part != "{" and len(part) == 1), len(parts))
    if not all(parts[:lone]):
        raise _NotApplicable
    return text if lone < len(parts) else _after_each(r"\frac", text, _fraction)


def _fraction(part: str) -> str:
    r"""Put braces around the one-character arguments of `\frac`; the second gets them only if the first had none."""
    if part[0] == "{":
        return part
    above, below, rest = part[0], part[1], part[2:]
    return f"{{{above}}}{{{below}}}{rest}" if below != "{" else f"{{{above}}}{{{rest}"
