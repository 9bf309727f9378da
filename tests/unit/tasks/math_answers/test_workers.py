"""The checker's children: shared by threads, replaced when they are lost, one checker for each process."""

import multiprocessing
import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from support.math_grading import HANGING, algebra_is_graded, graded, graded_in_a_child
from support.processes import alive, descendants, wait_for, wait_until_ended

from harness import Verdict
from harness_tasks.math_answers import checker_process, workers
from harness_tasks.math_answers.checker_process import CheckerFailure, Gone
from harness_tasks.math_answers.equality import Matching, Pair
from harness_tasks.math_answers.workers import shared_workers

SAME, OTHER = Pair("x+1", "1+x"), Pair("x", "y")


@pytest.fixture
def own(monkeypatch):
    """Workers with two children of their own, on the checker that this process has."""
    made = workers.Workers()
    monkeypatch.setattr(made, "_size", 2)
    monkeypatch.setattr(made, "_checker", shared_workers()._running_checker())
    yield made
    made._checker = None
    made.close()
    assert made.pids() == []


def test_claims_hold_together_in_order_or_in_any():
    check = shared_workers().check
    claims = {(SAME,): "equal", (SAME, OTHER): "different", (OTHER, SAME): "different", (): "equal"}
    claims |= {(Pair(r"\foo\frac", "x"),): "gold", (Pair("x", r"\frac"),): "unparsed"}
    claims[(Matching((((OTHER,), (SAME,)), ((SAME,), (OTHER,)))),)] = "equal"  # in another order
    claims[(Matching((((SAME,), (OTHER,)), ((SAME,), (OTHER,)))),)] = "different"  # two rows, one column
    claims[(Matching(((None, (SAME,)), (None, ()))),)] = "different"
    assert dict(zip(claims, check(list(claims)), strict=True)) == claims
    assert check([]) == []


def test_grading_touches_no_signal_and_twelve_threads_share_the_children():
    def handlers():
        numbers = (signal.SIGALRM, signal.SIGPROF, signal.SIGCHLD, signal.SIGINT)
        timers = (signal.ITIMER_REAL, signal.ITIMER_PROF)
        return [signal.getsignal(number) for number in numbers], [signal.getitimer(timer) for timer in timers]

    before = handlers()
    results = []
    threads = [threading.Thread(target=lambda: results.append(algebra_is_graded())) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 12
    assert len(shared_workers().pids()) <= 1 + len(os.sched_getaffinity(0))
    assert handlers() == before


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_multiprocessing_child_has_a_checker_of_its_own_with_one_child():
    assert algebra_is_graded()
    with multiprocessing.get_context("fork").Pool(1) as pool:
        is_right, holders, pid, children = pool.apply_async(graded_in_a_child, (0,)).get(180)
    assert is_right
    assert holders == [pid]  # the parent's are let go
    assert pid != os.getpid()
    assert children == 1
    assert algebra_is_graded()


def test_a_child_is_replaced_after_so_many_checks(own, monkeypatch):
    monkeypatch.setattr(workers, "RECYCLE", 3)
    idle = []
    for _ in range(7):
        assert own.check([(SAME,)]) == ["equal"]
        idle.append(own.pids()[1:])
    first, second, third = idle[0], idle[3], idle[6]
    assert idle == [first, first, [], second, second, [], third]
    assert len({*first, *second, *third}) == 3


def test_a_batch_that_breaks_off_leaves_no_answer_for_the_next(own, monkeypatch):
    def no_child():
        raise CheckerFailure("no more")

    assert own.check([(SAME,)]) == ["equal"]
    with monkeypatch.context() as broken:
        broken.setattr(own, "_new_child", no_child)
        with pytest.raises(CheckerFailure, match="no more"):
            own.check([(SAME,), (SAME,)])
    assert own.check([(OTHER,), (SAME,), (OTHER,)]) == ["different", "equal", "different"]


def test_a_child_that_was_killed_while_it_was_idle_is_replaced(own):
    assert own.check([(SAME,)]) == ["equal"]
    [_, idle] = own.pids()
    os.kill(idle, signal.SIGKILL)
    wait_until_ended([idle], 60)
    assert own.check([(OTHER,)]) == ["different"]
    assert idle not in own.pids()


def test_a_check_that_is_not_answered_within_the_wall_limit_is_repeated_by_another_child(own, monkeypatch):
    assert own.check([(SAME,)]) == ["equal"]
    [checker, late] = own.pids()
    os.kill(late, signal.SIGSTOP)
    monkeypatch.setattr(checker_process, "WALL_LIMIT_S", 1.5)
    assert own.check([(OTHER,)]) == ["different"]
    assert own.pids()[0] == checker
    assert own.pids()[1] != late


def test_a_checker_that_ends_whenever_it_forks_is_our_error(own, monkeypatch):
    def gone(checker):
        raise Gone

    forgotten = []
    monkeypatch.setattr(workers, "Child", gone)
    monkeypatch.setattr(own, "_forget_checker", forgotten.append)
    with pytest.raises(CheckerFailure, match="ended twice while it forked"):
        own.check([(SAME,)])
    assert len(forgotten) == 2


@pytest.mark.slow
def test_a_checker_killed_in_the_middle_of_a_batch_does_no_harm():
    own = shared_workers()
    batch = [(Pair(f"(x+{n})^{{2}}", f"x^{{2}}+{2 * n}x+{n * n}"),) for n in range(1, 13)]
    assert own.check(batch[:2]) == ["equal"] * 2
    checker, *children = own.pids()
    for pid in children:  # so the batch cannot end before they are killed
        os.kill(pid, signal.SIGSTOP)
    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.extend(own.check(batch)))
    thread.start()
    wait_for(lambda: own._busy, what="the batch to begin")
    for pid in (checker, *children):
        os.kill(pid, signal.SIGKILL)
    thread.join()
    assert outcomes == ["equal"] * len(batch)
    assert own.pids()[0] != checker


def test_a_late_reply_is_not_taken_for_that_to_another_request_and_a_late_checker_is_killed(monkeypatch):
    assert algebra_is_graded()
    process = shared_workers()._running_checker()
    process._control.settimeout(0.05)
    os.kill(process.pid, signal.SIGSTOP)  # no reply can come in time
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for end in (signal.SIGCONT, signal.SIGSTOP):
            with pytest.raises(Gone):
                process.fork(theirs)
            os.kill(process.pid, end)
    wait = process._process.wait
    monkeypatch.setattr(process._process, "wait", lambda limit_s=None: wait(limit_s and 0.1))
    shared_workers()._forget_checker(process)
    assert not alive(process.pid)
    assert algebra_is_graded()


def kill_running_children(checker):
    """Kill the children that use a core now, not those that wait on their socket."""
    for pid in descendants(checker):
        with suppress(OSError):  # it has ended by itself
            if ") R " in Path(f"/proc/{pid}/stat").read_text():
                os.kill(pid, signal.SIGKILL)


def test_a_check_whose_child_is_lost_twice_is_our_error(monkeypatch):
    assert algebra_is_graded()
    monkeypatch.setattr(workers, "QUICK_S", 100.0)
    monkeypatch.setattr(workers, "CPU_LIMIT_S", 100.0)
    results = []
    thread = threading.Thread(target=lambda: results.append(graded(*HANGING)))
    thread.start()
    while thread.is_alive():
        kill_running_children(shared_workers().pids()[0])
    assert results == [Verdict("error", "the math checker was lost twice on this answer", "boxed, math-verify")]
    assert algebra_is_graded()


def test_a_checker_that_cannot_start_is_our_error(monkeypatch, tmp_path):
    (tmp_path / "sympy.py").write_text("raise ImportError('broken here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(workers, "_shared", {})
    broken = graded(r"\cot x", r"\boxed{\tan x}")
    assert (broken.status, broken.reason) == ("error", "the math checker does not run: ImportError: broken here")
    for program, fault in (
        ("/bin/true", "/bin/true ended before it was ready (EOFError)"),
        ("/nonexistent/python", "/nonexistent/python: No such file or directory"),
    ):
        monkeypatch.setattr(sys, "executable", program)
        assert graded(r"\cot x", r"\boxed{\tan x}").reason == f"the math checker does not run: {fault}"
    assert graded("5", r"\boxed{5}").status == "correct"
