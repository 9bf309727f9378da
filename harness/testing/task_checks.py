"""What the harness expects of a task: problems that stay what they are, prompts, and a verifier that nothing upsets.

Problems are read once a component. A HarnessError that says that they are out of reach passes through, as one line.
Verdicts are tried on a few problems only; where this machine cannot grade (`task.check`) they are not tried.
"""

from __future__ import annotations

import copy
import inspect
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Any

from harness.plugin_system import finish as ending
from harness.plugin_system.component import parameters

from ..errors import HarnessError
from ..records import Problem, Verdict
from . import examples
from .checking import Inapplicable, Violation, check, error_text, expect
from .common_checks import parameter_check, picklable

LOOKED_AT = 50  # problems whose prompts are rendered
GRADED = 3  # problems whose verifier is tried
READ_FINISH = ("verify", "verify_all", "verdict_key", "answer", "answers", "audit")
STATUSES = ("correct", "wrong", "error")
WAYS_TO_SAY = ("{}", "\\boxed{{{}}}", "#### {}", "Answer: {}", "```python\n{}\n```")
HOSTILE = (
    *examples.UNICODE,
    "x" * 1_000_000,
    " " * 1_000_000,
    "(" * 100_000,
    "\\boxed{" * 20_000,
    "\\boxed{9^{9^{9^{9}}}}",
    "Answer: 9**9**9**9",
    "Answer: __import__('os').getcwd()",
    "#### 1e999999999",
    "\\boxed{NaN}",
    "\\boxed{１２}",
    "{'a': [1, 2", "\\frac{1}{0}", "%s %d {} {0}", "None", "True",
)  # fmt: skip

_read: dict[tuple[type, str], list[Problem]] = {}


def problems_of(task: Any) -> list[Problem]:
    """The problems of its default split, read once for equal tasks."""
    key = (type(task), repr((parameters(task), getattr(task, "__dict__", None))))
    if key not in _read:
        _read[key] = list(task.problems(_split(task)))
    return _read[key]


def _split(task: Any) -> str:
    split: str = task.default_split("")[0]
    return split


@check("inherit from harness.Task, and override what differs")
def contract(task: Any) -> None:
    """Its settings are of the right kind, and its default split is one of its splits."""
    for name in ("n", "max_tokens"):
        value = getattr(task, name, None)
        expect(isinstance(value, int) and value >= 1, f"{name} must be a whole number >= 1, got {value!r}")
    for name in ("revision", "grader"):
        value = getattr(task, name, None)
        expect(isinstance(value, str) and value, f"{name} must be text that is not empty, got {value!r}")
        expect(getattr(task, name) == value, f"{name} is not the same when asked twice")
    names = ("problems", "messages", "plain", "verify", "verify_all", "verdict_key", "answer", "answers", "check")
    missing = [name for name in names if not callable(getattr(task, name, None))]
    expect(not missing, f"it has no {' and no '.join(missing)}")
    _require_finish(task)
    splits = getattr(task, "splits", ())
    expect(splits and not isinstance(splits, str), f"splits must list names, got {splits!r}")
    expect(_split(task) in splits, f"its default split {_split(task)!r} is none of its splits {tuple(splits)}")


def _require_finish(task: Any) -> None:
    """A task that reads how responses ended takes the keyword in every such method that it defines."""
    asked = [name for name in READ_FINISH if ending.keyword(task, name, "")]
    deaf = [name for name in asked if not _takes_finish(getattr(task, name))]
    expect(not deaf, f"it sets reads_finish, and its {', '.join(deaf)} take{'s' * (len(deaf) == 1)} no keyword finish")


def _takes_finish(method: Any) -> bool:
    parameters = inspect.signature(method).parameters.values()
    return any(one.name == "finish" or one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters)


@check("give every problem an id that stays the same, since pools made elsewhere join on it", presumes=(contract,))
def unique_ids(task: Any) -> None:
    """There are problems, with distinct ids and prompts that are text."""
    found = problems_of(task)
    expect(found, f"split {_split(task)!r} has no problems")
    for problem in found:
        expect(isinstance(problem, Problem), f"a problem is a {type(problem).__name__}, not harness.Problem")
        good = isinstance(problem.id, str) and problem.id and problem.id == problem.id.strip()
        expect(good, f"an id must be text without blanks around it, got {problem.id!r}")
        expect(isinstance(problem.prompt, str) and problem.prompt.strip(), f"problem {problem.id!r} has no prompt")
    twice = [name for name, count in Counter(problem.id for problem in found).items() if count > 1]
    expect(not twice, f"{len(twice)} ids come more than once, {twice[:1]} first")


@check("read from a fixed source, and draw nothing", presumes=(contract,))
def same_problems_again(task: Any) -> None:
    """The problems are the same, in the same order, when they are read again."""
    expected = problems_of(task)
    got = list(task.problems(_split(task)))
    expect(len(got) == len(expected), f"{len(got)} problems, then {len(expected)}")
    for one, other in zip(expected, got, strict=True):
        expect(one.id == other.id, f"problem {one.id!r} was {other.id!r} before")
        same = (one.prompt, repr(one.reference)) == (other.prompt, repr(other.reference))
        expect(same, f"problem {one.id!r} has another prompt or reference when read again")


BASIC = (contract, unique_ids, same_problems_again)


@check('return [{"role": "user", "content": text}]', presumes=BASIC)
def chat_messages(task: Any) -> None:
    """Every problem is a chat that ends with the user's message, the same one each time."""
    for problem in problems_of(task)[:LOOKED_AT]:
        messages = task.messages(problem)
        expect(isinstance(messages, list) and messages, f"problem {problem.id!r} gives no messages: {messages!r:.60}")
        for message in messages:
            plain = isinstance(message, dict) and set(message) == {"role", "content"}
            expect(plain, f"a message has role and content, got {message!r:.80}")
            expect(message["role"] in ("system", "user", "assistant"), f"a message's role is {message['role']!r}")
            good = isinstance(message["content"], str) and message["content"].strip()
            expect(good, f"a message's content is {message['content']!r:.60}")
        expect(messages[-1]["role"] == "user", f"the last message is the {messages[-1]['role']}'s")
        expect(task.messages(problem) == messages, f"problem {problem.id!r} gives other messages the second time")


@check("return the text that a base model goes on from", presumes=BASIC)
def plain_text(task: Any) -> None:
    """Every problem is text for base models too, the same one each time."""
    for problem in problems_of(task)[:LOOKED_AT]:
        text = task.plain(problem)
        expect(isinstance(text, str) and text.strip(), f"problem {problem.id!r} gives {text!r:.60}")
        expect(task.plain(problem) == text, f"problem {problem.id!r} gives another text the second time")


def _graded_problems(task: Any) -> list[Problem]:
    """A few problems, the first and last among them, where this machine can grade."""
    try:
        task.check()
    except HarnessError as refusal:
        raise Inapplicable(f"it cannot grade here: {refusal}") from refusal
    found = problems_of(task)
    return [found[i] for i in sorted({0, len(found) // 2, len(found) - 1})][:GRADED]


def _verdict(task: Any, problem: Problem, response: str, finish: str = "stop") -> Verdict:
    try:
        found = task.verify(problem, response, **ending.keyword(task, "verify", finish))
    except Exception as failure:
        raise Violation(f"verify of {response!r:.40} ({len(response)} characters) {error_text(failure)}") from failure
    good = isinstance(found, Verdict) and found.status in STATUSES
    expect(good, f"verify of {response!r:.40} gives {found!r:.80}, not a harness.Verdict")
    verdict: Verdict = found
    return verdict


@check("make every response correct or wrong; an `error` is for what the verifier itself got wrong", presumes=BASIC)
def hostile_responses(task: Any) -> None:
    """Empty, huge, broken and malicious responses get a verdict, no error of ours, and blank ones are not correct."""
    for problem in _graded_problems(task)[:1]:
        for response in HOSTILE:
            found = _verdict(task, problem, response)
            blank = not response.strip()
            expect(not (blank and found.status == "correct"), f"the blank response {response[:9]!r} is correct")
            expect(found.status != "error", f"{response!r:.40} is an error of ours: {found.reason:.80}")


@check("let verify depend on the problem and the response alone", presumes=BASIC)
def pure_verdicts(task: Any) -> None:
    """The same response has the same verdict, in any company, and no problem is changed by it."""
    for problem in _graded_problems(task):
        before = copy.deepcopy(problem)
        responses = _responses(problem)
        singly = [_verdict(task, problem, response) for response in responses]
        again = [_verdict(task, problem, response) for response in reversed(responses)][::-1]
        _require_same_verdicts(responses, singly, again, "the second time")
        together = ending.verify_all(task, problem, responses, ["stop"] * len(responses))
        expect(len(together) == len(responses), f"verify_all gives {len(together)} verdicts for {len(responses)}")
        _require_same_verdicts(responses, singly, together, "among others (verify_all)")
        expect(before == problem, f"verify changed problem {problem.id!r}")


def _require_same_verdicts(
    responses: Sequence[str], expected: Sequence[Verdict], got: Sequence[Verdict], when: str
) -> None:
    for response, one, other in zip(responses, expected, got, strict=True):
        same = one.status == other.status
        expect(same, f"{response!r:.40} is {one.status}, and {when} {other.status}")


def _responses(problem: Problem) -> list[str]:
    """Small responses: hostile ones, and the reference in several forms, some with blanks around."""
    said_ways = [way.format(problem.reference) for way in WAYS_TO_SAY]
    return [*examples.UNICODE, "1", "wrong", *said_ways, *(f" {text}\n" for text in said_ways)]


@check(
    "see that the reference, stated as the task asks for it, is graded correct, and another's is not", presumes=BASIC
)
def reference_is_correct(task: Any) -> None:
    """The reference as a response is correct for each problem if it is for one, and another's is wrong.

    It is tried as it is, boxed, after #### and Answer:, and as code. Where none of these is correct the check does not
    apply: it cannot know how the task wants it said.
    """
    tried = [problem for problem in _graded_problems(task) if isinstance(problem.reference, (str, int, float))]
    ways = [way for way in WAYS_TO_SAY if tried and _says(task, tried[0], way, tried[0])]
    if not ways:
        raise Inapplicable("the references are no text and no numbers, or are correct in no form that was tried")
    way = ways[-1]
    for problem in tried:
        right = _says(task, problem, way, problem)
        expect(right, f"the reference of {problem.id!r} as {way!r} is not correct, that of {tried[0].id!r} is")
    others = [p for p in islice(problems_of(task), LOOKED_AT) if p.reference != tried[0].reference]
    expect(
        not others or not all(_says(task, tried[0], way, other) for other in others[:5]),
        f"the references of other problems are correct for {tried[0].id!r}",
    )


def _says(task: Any, problem: Problem, way: str, source: Problem) -> bool:
    return _verdict(task, problem, way.format(source.reference)).status == "correct"


@check("return text, or None where no answer is found", presumes=BASIC)
def answers_are_text(task: Any) -> None:
    """`answer` gives text or None for any response and never raises; `answers` gives the same."""
    for problem in _graded_problems(task):
        responses = [*HOSTILE, *_responses(problem)]
        singly = [_answer(task, problem, response) for response in responses]
        together = ending.answers(task, problem, responses, ["stop"] * len(responses))
        expect(len(together) == len(responses), f"answers gives {len(together)} for {len(responses)} responses")
        for response, one, other in zip(responses, singly, together, strict=True):
            expect(one == other, f"of {response!r:.40} answer gives {one!r:.40}, answers {other!r:.40}")


def _answer(task: Any, problem: Problem, response: str, finish: str = "stop") -> str | None:
    try:
        found = task.answer(problem, response, **ending.keyword(task, "answer", finish))
    except Exception as failure:
        raise Violation(f"answer of {response!r:.40} ({len(response)} characters) {error_text(failure)}") from failure
    expect(found is None or isinstance(found, str), f"answer of {response!r:.40} gives {found!r:.60}")
    text: str | None = found
    return text


@check("put all that the verdict depends on into the key", presumes=(*BASIC, answers_are_text))
def equal_keys_equal_verdicts(task: Any) -> None:
    """Responses with equal verdict keys have equal verdicts, however they ended."""
    keyed, ends = False, ("stop", "length") if ending.reads_finish(task) else ("stop",)
    for problem in _graded_problems(task):
        by_key: dict[str, tuple[str, str]] = {}
        for response, end in ((response, end) for response in _responses(problem) for end in ends):
            answer = _answer(task, problem, response, end)
            key = task.verdict_key(problem, response, answer, **ending.keyword(task, "verdict_key", end))
            expect(key is None or isinstance(key, str), f"the verdict key of {response!r:.40} is {key!r:.60}")
            if key is None:
                continue
            keyed = True
            status = _verdict(task, problem, response, end).status
            first, expected = by_key.setdefault(key, (response, status))
            expect(
                status == expected,
                f"{first!r:.40} and {response!r:.40} have one key and are {expected} and {status}",
            )
    if not keyed:
        raise Inapplicable("no response has a verdict key")


parameters_round_trip = parameter_check("task")

CHECKS = (
    *BASIC,
    chat_messages,
    plain_text,
    hostile_responses,
    pure_verdicts,
    reference_is_correct,
    answers_are_text,
    equal_keys_equal_verdicts,
    parameters_round_trip,
    picklable,
)
