"""A process that answers requests, and is ended with all that it started if it takes too long."""

from pathlib import Path

import pytest
from support.answering import echo

from harness.system.bounded_child import BoundedChild


@pytest.fixture
def child():
    child = BoundedChild(echo, "hello")
    yield child
    child.end()


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_requests_are_answered_one_by_one(child):
    assert child.answer(100) == "hello"
    assert [child.ask(request, 100) for request in (1, None)] == [1, None]
    assert child.alive


def test_a_late_process_is_ended_with_all_that_it_started(child):
    child.answer(100)
    pid = child.ask("sleep", 100)
    assert is_running(pid)
    with pytest.raises(TimeoutError):
        child.answer(0.1)
    assert (child.alive, is_running(pid)) == (False, False)


def test_a_process_that_died_has_no_answer(child):
    child.answer(100)
    with pytest.raises(EOFError):
        child.ask("die", 100)
    with pytest.raises(EOFError):
        child.ask("again", 100)
    assert not child.alive
