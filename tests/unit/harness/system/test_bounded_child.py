"""A process that answers requests, and is ended with all that it started if it takes too long."""

import pytest
from support.answering import echo
from support.processes import alive, wait_until_ended

from harness.system.bounded_child import BoundedChild


@pytest.fixture
def child():
    child = BoundedChild(echo, "hello")
    yield child
    child.end()


def test_requests_are_answered_one_by_one(child):
    assert child.answer(100) == "hello"
    assert [child.ask(request, 100) for request in (1, None)] == [1, None]
    assert child.alive


def test_a_late_process_is_ended_with_all_that_it_started(child):
    child.answer(100)
    pid = child.ask("sleep", 100)
    assert alive(pid)
    with pytest.raises(TimeoutError):
        child.answer(0.1)
    assert not child.alive
    wait_until_ended([pid], 60)


def test_a_process_that_died_has_no_answer(child):
    child.answer(100)
    with pytest.raises(EOFError):
        child.ask("die", 100)
    with pytest.raises(EOFError):
        child.ask("again", 100)
    assert not child.alive
