"""Checks in forked children: limits and outcomes, lost processes, and that nothing outlives the process that asks."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.math_grading import HANGING, algebra_is_graded, boxed, graded
from support.paths import ROOT
from support.processes import alive, descendants, wait_until_ended

from harness import Verdict
from harness_tasks.math_task import ALGEBRA
from harness_tasks.sandbox import forked
from harness_tasks.sandbox.forked import Checker, CheckerFailure, run_forked

SAME, OTHER = ["equal", "x+1", "1+x"], ["equal", r"\sin x", r"\cos x"]
REFUSED = [
    "__import__('socket').socket()", "os.fork()", "os.execv('/bin/true', ['true'])", "os.kill(os.getppid(), 0)",
    "open('/dev/null', 'w')", "os.unlink('/dev/nothing')", "signal.setitimer(signal.ITIMER_PROF, 0)",
]  # fmt: skip


def attempt(code):
    """What becomes of a line of Python in a child."""
    try:
        exec(code)
    except OSError as failure:
        return failure.strerror
    return "done"


def outcomes(checks, children=2, limit_s=0.2, bound_s=20.0):
    idle = []
    made = [outcome for outcome, _ in run_forked(attempt, checks, children, limit_s, bound_s, idle)]
    for child in idle:
        child.end()
    return made


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="no table of system calls")
def test_a_child_is_under_the_filter_and_refused_every_way_out():
    assert outcomes(REFUSED) == ["Operation not permitted"] * len(REFUSED)
    status = outcomes(["raise OSError(0, open('/proc/self/status').read())"])[0]
    assert "Seccomp:\t2" in status
    assert "Seccomp:\t2" not in Path("/proc/self/status").read_text()


@pytest.mark.slow
def test_a_check_gets_no_more_memory_and_cpu_time_than_its_limits_and_the_others_go_on():
    checks = ["bytearray(3 << 30)", "bytearray(1 << 30)", "while True: pass", "os.abort()", "1"]
    assert outcomes(checks, limit_s=2.0) == ["memory", "done", "timeout", "crashed", "done"]


def test_what_the_bound_leaves_no_time_for_is_over_and_a_child_that_waits_for_ever_is_replaced(monkeypatch):
    hanging = "while True: pass"
    assert outcomes([hanging] * 3 + ["1"], children=1, limit_s=0.1, bound_s=0.15) == ["timeout"] * 2 + ["over"] * 2
    assert outcomes([]) == []
    monkeypatch.setattr(forked, "WALL_LIMIT_S", 1.0)
    assert outcomes(["time.sleep(600)", "1"], children=1) == ["lost", "done"]


def test_claims_hold_together_no_signal_is_touched_and_twelve_threads_share_the_checker():
    def handlers():
        timers = map(signal.getitimer, (signal.ITIMER_REAL, signal.ITIMER_PROF))
        return [signal.getsignal(number) for number in signal.valid_signals()], [*timers]

    before = handlers()
    claims = {(): "equal", (0,): "equal", (0, 1): "different", (1, 0): "different"}
    batch = [[(SAME, OTHER)[index] for index in indices] for indices in claims]
    batch += [[["equal", r"\foo\frac", "x"]], [["equal", "x", r"\frac"]]]
    assert ALGEBRA.outcomes(batch, 20.0) == [*claims.values(), "gold", "unparsed"]
    with ThreadPoolExecutor(12) as threads:
        assert list(threads.map(algebra_is_graded, range(12))) == [True] * 12
    assert handlers() == before


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_multiprocessing_child_has_a_checker_of_its_own():
    assert algebra_is_graded()
    ours = ALGEBRA.pid
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(algebra_is_graded, (0,)).get(180)
    assert algebra_is_graded()
    assert ALGEBRA.pid == ours


def test_a_checker_that_was_killed_is_started_anew_and_one_that_ends_again_is_our_error(monkeypatch):
    assert algebra_is_graded()
    os.kill(ALGEBRA.pid, signal.SIGKILL)
    assert algebra_is_graded()
    ends = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    monkeypatch.setattr(forked.Checker, "_started", lambda self: subprocess.Popen(["true"], **ends))
    with pytest.raises(CheckerFailure, match="it ended twice"):
        Checker("nothing").outcomes([[SAME]], 1.0)


def test_a_checker_that_cannot_start_is_our_error(monkeypatch, tmp_path):
    (tmp_path / "sympy.py").write_text("raise ImportError('broken here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    ALGEBRA.forget()
    faults = {sys.executable: "ImportError: broken here", "/bin/true": "it ended before it was ready"}
    for program, fault in (faults | {"/nonexistent/python": "No such file or directory"}).items():
        monkeypatch.setattr(sys, "executable", program)
        broken = graded(r"\cot x", boxed(r"\tan x"))
        assert (broken.status, broken.reason) == ("error", f"the math checker does not run: {program}: {fault}")
    assert graded("5", r"\boxed{5}").status == "correct"


@pytest.mark.slow
def test_a_check_whose_child_is_killed_again_and_again_is_our_error(monkeypatch):
    assert algebra_is_graded()
    monkeypatch.setattr(forked, "QUICK_S", 100.0)
    monkeypatch.setattr(forked, "CPU_LIMIT_S", 100.0)
    results = []
    thread = threading.Thread(target=lambda: results.append(graded(*HANGING)))
    thread.start()
    while thread.is_alive():
        for pid in descendants(ALGEBRA.pid):
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    assert results == [Verdict("error", "the math checker was lost twice on this answer", "boxed, math-verify")]
    assert algebra_is_graded()


PROGRAM = """
import os, sys, threading, time
sys.path.insert(0, "tests")
from support.math_grading import HANGING, algebra_is_graded, graded
from harness_tasks.math_task import ALGEBRA
assert algebra_is_graded()
with open(f"/proc/{ALGEBRA.pid}/maps") as maps:
    print(*sorted({"sympy", "math_verify", "torch"} & set(sys.modules)), "libtorch" in maps.read(), flush=True)
threading.Thread(target=graded, args=HANGING, daemon=True).start()
time.sleep(0.5)
copy = os.fork()
if copy: print(copy, ALGEBRA.pid, flush=True)
time.sleep(600)
"""


def test_math_verify_is_loaded_by_the_checker_alone_which_ends_with_the_harness_though_a_fork_of_it_lives():
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as harness:
        assert harness.stdout.readline() == "False\n"
        copy, checker = map(int, harness.stdout.readline().split())
        children = descendants(checker)
        harness.kill()
    try:
        wait_until_ended([checker, *children], 60)
        assert alive(copy)
    finally:
        os.kill(copy, signal.SIGKILL)
