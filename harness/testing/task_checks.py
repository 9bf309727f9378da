"""The checks of a task: the same problems each time, prompts, and a verifier that takes any response.

If problems are not available, the task's HarnessError passes through, as one line. Verdicts are checked on a few
problems only, and not at all if this machine cannot grade (`task.check`).
"""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

from harness.errors import HarnessError, error_text
from harness.records import STATUSES, Problem, Verdict

from . import examples
from .checking import Inapplicable, Violation, check, expect

RENDERED = 50  # problems whose prompts are rendered
ANSWER_FORMS = ("{}", "\\boxed{{{}}}", "#### {}", "Answer: {}", "```python\n{}\n```")
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
    "{'a': [1, 2",
    "%s %d {} {0}",
)

_LAST: list[Any] = [None, []]  # the task that was checked last, and its problems


def problems_of(task: Any) -> list[Problem]:
    """The problems of a task's default split, read once for all checks in a row."""
    if _LAST[0] is not task:
        _LAST[:] = task, list(task.problems(task.default_split("")[0]))
    return list(_LAST[1])


@check("task", "inherit from harness.Task, and override what differs", basic=True)
def contract(task: Any) -> None:
    """Its settings are of the right kind, and its default split is one of its splits."""
    for name in ("n", "max_tokens"):
        value = getattr(task, name, None)
        expect(isinstance(value, int) and value >= 1, f"{name} must be a whole number >= 1, got {value!r}")
    for name in ("revision", "grader"):
        value = getattr(task, name, None)
        expect(isinstance(value, str) and value, f"{name} must be text that is not empty, got {value!r}")
    split = task.default_split("")[0]
    expect(split in task.splits, f"its default split {split!r} is none of its splits {tuple(task.splits)}")


@check("task", "read them from a fixed source, give each an id that stays the same, and use no randomness", basic=True)
def same_problems_again(task: Any) -> None:
    """There are problems, with distinct ids and prompts that are text, the same ones when they are read again."""
    problems, again = problems_of(task), list(task.problems(task.default_split("")[0]))
    expect(problems, f"its default split, {task.default_split('')[0]!r}, has no problems")
    for problem in problems:
        expect(isinstance(problem, Problem), f"a problem is a {type(problem).__name__}, not harness.Problem")
        is_id = isinstance(problem.id, str) and problem.id and problem.id == problem.id.strip()
        expect(is_id, f"an id must be text without blanks around it, got {problem.id!r}")
        expect(isinstance(problem.prompt, str) and problem.prompt.strip(), f"problem {problem.id!r} has no prompt")
    repeated = [name for name, count in Counter(problem.id for problem in problems).items() if count > 1]
    expect(not repeated, f"{len(repeated)} ids occur more than once, the first is {repeated[:1]}")
    expect(len(again) == len(problems), f"{len(problems)} problems, then {len(again)}")
    for before, after in zip(problems, again, strict=True):
        expect(before.id == after.id, f"problem {before.id!r} is {after.id!r} when read again")
        same = (before.prompt, repr(before.reference)) == (after.prompt, repr(after.reference))
        expect(same, f"problem {before.id!r} has another prompt or reference when read again")


@check("task", 'let messages return [{"role": "user", "content": text}], and plain the text to go on from')
def prompts(task: Any) -> None:
    """Every problem is a chat that ends with the user's message, and text for base models, the same each time."""
    for problem in problems_of(task)[:RENDERED]:
        messages, text = task.messages(problem), task.plain(problem)
        expect(isinstance(messages, list) and messages, f"problem {problem.id!r} gives no messages: {messages!r:.60}")
        for message in messages:
            is_message = isinstance(message, dict) and set(message) == {"role", "content"}
            is_message = is_message and message["role"] in ("system", "user", "assistant")
            is_message = is_message and isinstance(message["content"], str) and bool(message["content"].strip())
            expect(is_message, f"a message has a role (system, user, assistant) and a text, got {message!r:.80}")
        expect(messages[-1]["role"] == "user", f"the last message is the {messages[-1]['role']}'s")
        expect(isinstance(text, str) and text.strip(), f"as text for base models, {problem.id!r} gives {text!r:.60}")
        is_same = (messages, text) == (task.messages(problem), task.plain(problem))
        expect(is_same, f"problem {problem.id!r} gives another chat or text the second time")


# Verdicts and answers.


def _graded_problems(task: Any) -> list[Problem]:
    """A few problems, the first and the last among them; Inapplicable if this machine cannot grade."""
    try:
        task.check()
    except HarnessError as refusal:
        raise Inapplicable(f"it cannot grade on this machine: {refusal}") from refusal
    problems = problems_of(task)
    return [problems[i] for i in sorted({0, len(problems) // 2, len(problems) - 1})]


def _asked(task: Any, method: str, problem: Problem, response: str, finish: str) -> Any:
    """What `verify_all` or `answers` returns for one response."""
    try:
        [value] = getattr(task, method)(problem, [response], finish=[finish])
        return value
    except Exception as failure:
        raise Violation(f"{method} of {response!r:.40} ({len(response)} characters) {error_text(failure)}") from failure


def _verdict(task: Any, problem: Problem, response: str, finish: str = "stop") -> Verdict:
    verdict: Verdict = _asked(task, "verify_all", problem, response, finish)
    is_verdict = isinstance(verdict, Verdict) and verdict.status in STATUSES
    expect(is_verdict, f"verify of {response!r:.40} gives {verdict!r:.80}, not a harness.Verdict")
    return verdict


def _answer(task: Any, problem: Problem, response: str, finish: str = "stop") -> str | None:
    answer: str | None = _asked(task, "answers", problem, response, finish)
    expect(answer is None or isinstance(answer, str), f"answer of {response!r:.40} gives {answer!r:.60}")
    return answer


def _responses(problem: Problem) -> list[str]:
    """Short responses: unusual texts, and the reference in several forms, with and without blanks around it."""
    stated = [form.format(problem.reference) for form in ANSWER_FORMS]
    return [*examples.UNICODE, "1", "wrong", *stated, *(f" {text}\n" for text in stated)]


@check("task", "grade every response as correct or wrong; `error` is only for faults of the verifier", basic=True)
def hostile_responses(task: Any) -> None:
    """Empty, huge, broken and malicious responses get a verdict, no error of ours, and blank ones are not correct."""
    problem = _graded_problems(task)[0]
    for response in HOSTILE:
        verdict = _verdict(task, problem, response)
        is_blank = not response.strip()
        expect(not (is_blank and verdict.status == "correct"), f"the blank response {response[:9]!r} is correct")
        expect(verdict.status != "error", f"{response!r:.40} gets the verdict error: {verdict.reason:.80}")


@check("task", "return text, or None if the response has no answer", basic=True)
def answers_are_text(task: Any) -> None:
    """`answers` gives text or None for any response and never raises, for one response or for many."""
    for problem in _graded_problems(task):
        responses = [*HOSTILE, *_responses(problem)]
        singly = [_answer(task, problem, response) for response in responses]
        together = task.answers(problem, responses, finish=["stop"] * len(responses))
        expect(len(together) == len(responses), f"answers gives {len(together)} for {len(responses)} responses")
        for response, alone, among in zip(responses, singly, together, strict=True):
            expect(alone == among, f"{response!r:.40} alone has the answer {alone!r:.40}, among others {among!r:.40}")


@check("task", "let verify depend on the problem and the response alone")
def pure_verdicts(task: Any) -> None:
    """The same response has the same verdict, in any company, and no problem is changed by it."""
    for problem in _graded_problems(task):
        before, responses = copy.deepcopy(problem), _responses(problem)
        singly = [_verdict(task, problem, response) for response in responses]
        again = [_verdict(task, problem, response) for response in reversed(responses)][::-1]
        together = task.verify_all(problem, responses, finish=["stop"] * len(responses))
        expect(len(together) == len(responses), f"verify_all gives {len(together)} verdicts for {len(responses)}")
        for when, verdicts in (("the second time", again), ("together with others (verify_all)", together)):
            for response, first, second in zip(responses, singly, verdicts, strict=True):
                expect(first.status == second.status, f"{response!r:.40} is {first.status}, and {when} {second.status}")
        expect(before == problem, f"verify changed problem {problem.id!r}")


@check("task", "grade the reference of a problem, stated as the task asks, as correct, and that of another as wrong")
def reference_is_correct(task: Any) -> None:
    """The reference as a response is correct for each problem if it is for one, and another's is wrong.

    It is stated as it is, boxed, after #### and Answer:, and as code. If none of these is correct the check does not
    apply: it cannot know in which form the task wants the answer.
    """

    def accepts(problem: Problem, form: str, source: Problem) -> bool:
        return _verdict(task, problem, form.format(source.reference)).status == "correct"

    problems = [problem for problem in _graded_problems(task) if isinstance(problem.reference, (str, int, float))]
    forms = [form for form in ANSWER_FORMS if problems and accepts(problems[0], form, problems[0])]
    if not forms:
        raise Inapplicable("the references are neither text nor numbers, or are correct in none of the forms tried")
    first, form = problems[0], forms[-1]
    for problem in problems:
        what = f"the reference of {problem.id!r} as {form!r} is not correct, that of {first.id!r} is"
        expect(accepts(problem, form, problem), what)
    others = [p for p in problems_of(task)[:RENDERED] if p.reference != first.reference][:5]
    are_wrong = not others or not all(accepts(first, form, other) for other in others)
    expect(are_wrong, f"the references of other problems are correct for {first.id!r}")


@check("task", "put everything that the verdict depends on into the key")
def equal_keys_equal_verdicts(task: Any) -> None:
    """Responses with equal verdict keys have equal verdicts, however they ended."""
    has_keys, ends = False, ("stop", "length")
    for problem in _graded_problems(task):
        by_key: dict[str, tuple[str, str]] = {}
        for response, end in ((response, end) for response in _responses(problem) for end in ends):
            answer = _answer(task, problem, response, end)
            key = task.verdict_key(problem, response, answer, finish=end)
            expect(key is None or isinstance(key, str), f"the verdict key of {response!r:.40} is {key!r:.60}")
            if key is not None:
                has_keys, status = True, _verdict(task, problem, response, end).status
                first, expected = by_key.setdefault(key, (response, status))
                what = f"{first!r:.40} and {response!r:.40} have one key and are {expected} and {status}"
                expect(status == expected, what)
    if not has_keys:
        raise Inapplicable("no response has a verdict key")
