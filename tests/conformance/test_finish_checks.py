"""The conformance kit on tasks that read how a response ended."""

from __future__ import annotations

from support.toy import Colours

from harness import wrong
from harness.testing import findings


class Lamps(Colours):
    """Four problems of the toy task, soundly; a response that was cut off is wrong and has no answer."""

    reads_finish = True

    def problems(self, split):
        return list(super().problems("test"))

    def answer(self, problem, response, *, finish=""):
        return None if finish == "length" or not response.strip() else response.split()[-1]

    def verify(self, problem, response, *, finish=""):
        return wrong("cut off") if finish == "length" else super().verify(problem, response)

    def verdict_key(self, problem, response, answer, *, finish=""):
        return f"{finish} {response}"


class Deaf(Lamps):
    """Says that it reads how responses ended, and does not take it."""

    def verify(self, problem, response):
        return super().verify(problem, response)


class Keyless(Lamps):
    """Leaves how a response ended out of its key."""

    def verdict_key(self, problem, response, answer, *, finish=""):
        return response


def failed(task):
    return {row["check"]: row["what"] for row in findings("task", task) if row["outcome"] == "failed"}


def test_a_task_that_reads_the_finish_must_take_it_and_key_by_it():
    assert failed(Lamps()) == {}
    [(check, what)] = failed(Deaf()).items()
    assert check == "contract"
    assert "it sets reads_finish, and its verify takes no keyword finish" in what
    [(check, what)] = failed(Keyless()).items()
    assert check == "equal-keys-equal-verdicts"
    assert "have one key and are" in what
