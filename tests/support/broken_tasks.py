"""Tasks and samplers with one mistake each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from harness import Sampler, correct, error, wrong
from support.broken import broken
from support.toy import Colours

# Tasks

# fmt: off

class Lamps(Colours):  # the toy task, four problems of it, soundly: it says nothing but correct and wrong
    def problems(self, split): return list(super().problems("test"))
    def answer(self, problem, response): return response.split()[-1] if response.strip() else None

@broken("task", "same-problems-again")
class SameId(Lamps):  # numbers within groups
    def problems(self, split): return [replace(problem, id=problem.id[:-1]) for problem in super().problems(split)]

@broken("task", "same-problems-again")
class Shuffled(Lamps):  # shuffles when it reads
    turn: ClassVar[list[int]] = [0]
    def problems(self, split):
        self.turn[0] += 1
        problems = super().problems(split)
        return problems[self.turn[0] % 6 :] + problems[: self.turn[0] % 6]

@broken("task", "contract")
class NoGrader(Lamps):  # counts its grader's version as a number
    grader = 1

@broken("task", "prompts")
class Bare(Lamps):  # gives the prompt and no chat
    def messages(self, problem): return problem.prompt
    def plain(self, problem): return problem.prompt

@broken("task", "prompts")
class Blank(Lamps):  # has nothing to say to base models
    def plain(self, problem): return ""

@broken("task", "hostile-responses")
class Fragile(Lamps):  # raises for a response that is long
    def verify(self, problem, response):
        if len(response) > 50_000:
            raise RecursionError("too deep")
        return super().verify(problem, response)

@broken("task", "hostile-responses")
class Excusing(Lamps):  # calls a response that it cannot encode an error of its own
    def verify(self, problem, response):
        try:
            response.encode()
        except UnicodeEncodeError as failure:
            return error(str(failure))
        return super().verify(problem, response)

@broken("task", "hostile-responses")
class Lenient(Lamps):  # finds everything correct
    def verify(self, problem, response): return correct()

@broken("task", "pure-verdicts")
class Moody(Lamps):  # takes an answer once
    taken: ClassVar[set] = set()
    def verify(self, problem, response):
        first = (problem.id, response) not in self.taken
        self.taken.add((problem.id, response))
        return wrong() if not first and response == f" {problem.reference}\n" else super().verify(problem, response)

@broken("task", "pure-verdicts")
class Batched(Lamps):  # grades a batch in another order
    def verify_all(self, problem, responses, *, finish): return super().verify_all(problem, responses)[::-1]

@broken("task", "pure-verdicts")
class Scribbling(Lamps):  # notes on the problem what it graded
    def verify(self, problem, response):
        problem.meta["graded"] = problem.meta.get("graded", 0) + 1
        return super().verify(problem, response)

@broken("task", "answers-are-text")
class Numbers(Lamps):  # gives answers that are no text
    def answer(self, problem, response): return len(response)
    def verify(self, problem, response): return correct() if problem.reference in response.split() else wrong()

@broken("task", "reference-is-correct")
class ByHeart(Lamps):  # knows the first problem's answer only
    def verify(self, problem, response): return correct() if self.answer(problem, response) == "red" else wrong()

class Ending(Lamps):  # it reads how a response ended, soundly: one that was cut off is wrong and has no answer
    def answers(self, problem, responses, *, finish):
        each = zip(responses, finish, strict=True)
        return [None if end == "length" else self.answer(problem, text) for text, end in each]
    def verify_all(self, problem, responses, *, finish):
        each = zip(responses, finish, strict=True)
        return [wrong("cut off") if end == "length" else self.verify(problem, text) for text, end in each]
    def verdict_key(self, problem, response, answer, *, finish): return f"{finish} {response}"

@broken("task", "equal-keys-equal-verdicts")
class Keyless(Ending):  # leaves how a response ended out of its key
    def verdict_key(self, problem, response, answer, *, finish): return response

# Samplers

@broken("sampler", "contract")
@dataclass(frozen=True)
class Cold:  # has a temperature and nothing else
    steers: ClassVar[bool] = False
    temperature: float = 0.5

@broken("sampler", "out-of-range-refused")
@dataclass(frozen=True)
class Careless(Sampler):  # checks nothing
    def __post_init__(self): pass

@broken("sampler", "contract")
@dataclass
class Loose:  # can be changed after it is built
    steers: ClassVar[bool] = False
    temperature: float = 1.0
    top_p: float = 1.0
    min_p: float = 0.0
    top_k: int = 0
    def __post_init__(self):
        Sampler(self.temperature, self.top_p, self.min_p, self.top_k)
