r"""Your own problems: `own:file=questions.jsonl,grader=number`, one JSON object a line.

    {"id": "q1", "prompt": "What is 6 times 7?", "reference": "42"}

`messages`, a chat, may stand in the place of `prompt`. Without `id` a line is `line-3`. The graders:

exact     the stated answer (`\boxed{x}`, "answer is x", else the whole response) is the reference, up to case, blanks
          and punctuation around it
number    the number that is stated last is the reference, as an exact fraction, or within `tolerance`
math      the answer in `\boxed{}`, or stated last, equals the reference, which may be LaTeX: as for the task math
choice    the letter that is chosen, A to J
regex     `reference` is a pattern that must be found; or `pattern=` finds the answer (its first group, last match),
          which must be the reference as with `exact`
command   a program of yours decides: `command='python check.py {response_file} {reference_file}'`, exit code 0 correct,
          1 wrong, anything else an error; it runs in the sandbox, or with --unsafe-exec outside

The file may also be a JSON array or parquet. Its content is in every key; an edited line has only its own problem
sampled and graded again.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from harness import HarnessError, Message, Problem, Task, Verdict, correct, error, wrong
from harness.system.children import require_program, words_of

from .data import sources
from .data.sources import Row
from .graders import choices, commands, stated
from .math_task import MathTask

_MATH = MathTask()
ROLES = ("system", "user", "assistant")


@dataclass(frozen=True)
class Own(Task):
    """The problems of a file of yours, graded as you say.

    file        JSON lines with `prompt` (or `messages`) and `reference`; `--data FILE` gives it too
    grader      exact, number, math, choice, regex or command
    pattern     for `regex`: finds the answer; without it each reference is the pattern
    command     for `command`: a command line with {response_file}, and {reference_file}, {prompt_file} if you like
    tolerance   for `number`: how far from the reference a right answer may be
    timeout_s   for `command`: seconds after which a response is wrong
    """

    n = 64
    max_tokens = 512
    pools_as = "own"
    splits: ClassVar[Sequence[str]] = ("test",)

    file: str | None = None
    grader: Literal["exact", "number", "math", "choice", "regex", "command"] = "exact"  # type: ignore[misc]
    pattern: str | None = None
    command: str | None = None
    tolerance: float = 0.0
    timeout_s: float = 60.0
    data: str | None = None

    def __post_init__(self) -> None:
        read_by = {"pattern": "regex", "command": "command", "tolerance": "number", "timeout_s": "command"}
        for name, grader in read_by.items():
            if getattr(self, name) != getattr(Own, name) and self.grader != grader:
                raise HarnessError(f"own: {name} goes with grader={grader}, got grader={self.grader}")
        if self.grader == "command":
            self._words()
        if self.pattern is not None:
            _require_pattern(self.pattern, "own: pattern")
        if not (self.tolerance >= 0 and self.timeout_s > 0):
            raise HarnessError(f"own: tolerance must be >= 0 and timeout_s > 0, got {self.tolerance}, {self.timeout_s}")

    @property
    def _path(self) -> str:
        path = self.file or self.data
        if path is None:
            raise HarnessError("own: say which file has the problems: --task own:file=questions.jsonl, or --data FILE")
        return path

    def _words(self) -> list[str]:
        return words_of(self.command or "", commands.NAMES, commands.OPTION)

    def _command_files(self) -> list[str]:
        """Return the hashes of the files that the command names: its code, an edit of which may change verdicts."""
        words = [] if self.command is None else self._words()
        return [sources.revision("own", word) for word in words if Path(word).is_file()]

    @property
    def revision(self) -> str:
        return ",".join([sources.revision("own", self._path), *self._command_files()])

    def problems(self, split: str) -> list[Problem]:
        """Return the problems in the file's order. HarnessError for a line that is not one, or an id given twice."""
        return sources.problems(sources.file_rows("own", self._path), self._problem)

    def _problem(self, row: Row) -> Problem:
        number = row.place.rpartition(", ")[2].replace(" ", "-")
        name = number if row.find("id") is None else row.text("id").strip()
        if row.find("messages") is None:
            return Problem(name, row.text("prompt"), self._gold(row))
        messages = _messages(row)
        prompt = "\n\n".join(f"{message['role']}: {message['content']}" for message in messages)
        prompt = prompt if len(messages) > 1 else messages[0]["content"]
        return Problem(name, prompt, self._gold(row), {"messages": messages})

    def _gold(self, row: Row) -> str:
        """Return the line's reference as text. HarnessError if the grader cannot use it."""
        value = row.find("reference")
        gold = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
        if value is None or not gold.strip():
            raise row.fault(f"no value in column 'reference' (columns: {', '.join(map(str, row.values))})")
        if self.grader == "number" and stated.number_in(gold) is None:
            raise row.fault(
                f"grader=number needs a number as reference, got {gold!r:.60}: put such lines into a file of their own "
                "with grader=exact"
            )
        if self.grader == "choice" and choices.bare_letter(gold) is None:
            raise row.fault(f"grader=choice needs a letter from A to J as reference, got {gold!r:.60}")
        if self.grader == "regex" and self.pattern is None:
            _require_pattern(gold, f"{row.place}: reference")
        elif self.grader in ("exact", "regex") and not stated.normalised(gold):
            raise row.fault(f"reference has no letter or digit, got {gold!r:.60}")
        return gold

    def check(self, unsafe_exec: bool = False) -> str:
        """Return a line that says where the command runs, "" for other graders; HarnessError if it cannot run."""
        if self.grader == "math":
            return _MATH.check()
        if self.command is None:
            return ""
        os.environ.pop(commands.UNSAFE_EXEC, None)
        if unsafe_exec:
            os.environ[commands.UNSAFE_EXEC] = "1"
        require_program(self._words(), commands.OPTION)
        return commands.tier(unsafe_exec)[1]

    def conditions(self) -> Mapping[str, str]:
        """Return {"sandbox": "bwrap" or "none"} for a command, {"math": "3, math-verify 0.9.0"} for math, else {}."""
        if self.grader == "math":
            return {"math": _MATH.grader}
        unsafe_exec = os.environ.get(commands.UNSAFE_EXEC) == "1"
        return {"sandbox": commands.tier(unsafe_exec)[0]} if self.command else {}

    def messages(self, problem: Problem) -> list[Message]:
        return list(problem.meta.get("messages") or super().messages(problem))

    def verify(self, problem: Problem, response: str) -> Verdict:
        return self.verify_all(problem, [response])[0]

    def verify_all(
        self, problem: Problem, responses: Sequence[str], *, finish: Sequence[str] | None = None
    ) -> list[Verdict]:
        """Return the verdict on each response; commands and checks by math-verify run on all cores."""
        if self.grader == "math":
            return _MATH.verify_all(problem, responses, finish=finish)
        is_alone = self.grader != "command" or multiprocessing.parent_process() is not None
        with ThreadPoolExecutor(1 if is_alone else len(os.sched_getaffinity(0))) as threads:
            ends = [""] * len(responses) if finish is None else finish
            return list(threads.map(lambda text, end: self._verdict(problem, text, end == "length"), responses, ends))

    def _verdict(self, problem: Problem, response: str, cut_off: bool) -> Verdict:
        gold = str(problem.reference)
        if self.grader == "command":
            given = {"response": response, "reference": gold, "prompt": problem.prompt}
            return commands.run(self.command or "", given, self.timeout_s)
        if self.grader == "regex":
            try:
                match = stated.last_match(self.pattern or gold, response)
            except TimeoutError:
                return wrong(f"the search took longer than {stated.LIMIT_S:g} s")
            except EOFError:
                return error("the process of the search was killed")
            if match is None:
                return wrong("no match")
            return _judged(self.pattern is None or stated.normalised(match) == stated.normalised(gold))
        if self.grader == "number":
            number = stated.stated_number(response, cut_off)
            if number is None:
                return wrong("cut off" if cut_off else "no number")
            return _judged(stated.is_right(gold, number, self.tolerance))
        expected = choices.bare_letter(gold) if self.grader == "choice" else stated.normalised(gold)
        given_answer = self._answer(response, cut_off)
        return wrong("no answer") if given_answer is None else _judged(given_answer == expected)

    def verdict_key(self, problem: Problem, response: str, answer: str | None, *, finish: str = "") -> str | None:
        """Return what a verdict by math or by a command depends on; None for the cheap graders."""
        if self.grader == "math":
            return _MATH.verdict_key(problem, response, answer, finish=finish)
        if self.command is None:
            return None
        return json.dumps([self.command, self.timeout_s, response, *self._command_files()])

    def answer(self, problem: Problem, response: str) -> str | None:
        """Return the answer in one spelling: a number, a letter, what `pattern` finds, else the stated text.

        None without one. The reference is not looked at.
        """
        return self.answers(problem, [response])[0]

    def answers(
        self, problem: Problem, responses: Sequence[str], *, finish: Sequence[str] | None = None
    ) -> list[str | None]:
        if self.grader == "math":
            return _MATH.answers(problem, responses, finish=finish)
        ends = [""] * len(responses) if finish is None else finish
        return [self._answer(text, end == "length") for text, end in zip(responses, ends, strict=True)]

    def _answer(self, response: str, cut_off: bool) -> str | None:
        if self.pattern is None:
            by_grader = {"number": stated.number_answer, "choice": choices.answer}
            return by_grader.get(self.grader, stated.text_answer)(response, cut_off)
        try:
            return stated.normalised(stated.last_match(self.pattern, response) or "") or None
        except (TimeoutError, EOFError):
            return None


def _judged(is_right: bool) -> Verdict:
    return correct() if is_right else wrong()


def _require_pattern(pattern: str, what: str) -> None:
    try:
        re.compile(pattern)
    except re.error as failure:
        raise HarnessError(f"{what} is no regular expression ({failure}), got {pattern!r:.60}") from None


def _messages(row: Row) -> list[Message]:
    """Return the line's chat. HarnessError if it has a prompt too, or the chat is none."""
    messages = row.find("messages")
    if row.find("prompt") is not None:
        raise row.fault("has prompt and messages: give one of them")
    is_chat = isinstance(messages, list) and messages and all(map(_is_message, messages))
    if not is_chat or messages[-1]["role"] != "user":
        raise row.fault('messages must be a list of {"role": ..., "content": ...} that ends with the user\'s')
    return [{"role": message["role"], "content": message["content"]} for message in messages]


def _is_message(message: object) -> bool:
    if not isinstance(message, dict) or not isinstance(message.get("content"), str):
        return False
    return bool(message["content"].strip()) and message.get("role") in ROLES
