"""Executor `local`: in this process, or in several where the work is long enough."""

import os

import pytest
from support.refusals import refusal_of

from harness import HarnessError
from harness_plugins.executors import local
from harness_plugins.executors.local import Local


@pytest.fixture
def eager(monkeypatch):
    """Start processes after the first item."""
    monkeypatch.setattr(local, "ALONE_S", -1.0)
    monkeypatch.setattr(local, "START_S", -1.0)


# Functions of the standard library: the other processes cannot import this file.
WHO = ["/proc/self"] * 12  # as a link: the number of the process that reads it


def test_short_work_is_done_in_this_process():
    assert set(Local(workers=2).map(os.readlink, WHO, False)) == {str(os.getpid())}


@pytest.mark.usefixtures("eager")
def test_models_stay_in_this_process():
    assert set(Local(workers=2).map(os.readlink, WHO, True)) == {str(os.getpid())}


@pytest.mark.usefixtures("eager")
def test_long_work_goes_to_processes_after_its_first_item_and_comes_back_in_order():
    first, *others = Local(workers=2).map(os.readlink, WHO, False)
    assert first == str(os.getpid())
    assert first not in others
    assert list(Local(workers=2).map(abs, range(-40, 0), False)) == list(range(40, 0, -1))


def test_processes_are_started_only_where_each_saves_more_than_it_costs(monkeypatch):
    times = iter(range(0, 1000, 5))  # each item takes 5 s
    monkeypatch.setattr(local.time, "monotonic", lambda: next(times))
    handed_over = []
    monkeypatch.setattr(
        local, "_in_processes", lambda function, items, workers: handed_over.append(items) or iter(items)
    )
    for workers, count in ((2, 2), (3, 2), (2, 1), (1, 9), (2, 4)):
        times = iter(range(0, 1000, 5))
        assert len(list(Local(workers=workers).map(abs, range(count), False))) == count
    # One item left is 2.5 s for each of two workers, and 1.7 s for each of three; one worker is this process.
    assert handed_over == [[1], [1, 2, 3]]


@pytest.mark.usefixtures("eager")
def test_an_exception_is_raised_where_its_result_would_be_and_other_failures_are_one_line():
    results = Local(workers=2).map(int, ["0", "1", "2", "x", "4"], False)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="invalid literal"):
        next(results)
    with pytest.raises(HarnessError, match="executor local: a worker process died"):
        list(local._in_processes(os._exit, [1, 2], 2))
    assert refusal_of(Local, workers=-1) == "local: workers must be at least 0 (0: one a core), got -1"
