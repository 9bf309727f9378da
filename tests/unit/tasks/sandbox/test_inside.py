"""The fork server: what it forgets and remembers, and when it ends a program from outside."""

from __future__ import annotations

import time

import pytest
from support.sandboxes import SQUARE, SQUARES, change_source, results

from harness_tasks.sandbox import Sandbox, Suite, bounds, encode, worker

SCRAPER = """
import ctypes
MARK = b"-".join([b"left", b"behind"])
def memory():
    with open("/proc/self/maps") as maps:
        for line in maps:
            span, rights, *_ = line.split()
            low, high = (int(end, 16) for end in span.split("-"))
            if rights.startswith("rw"):
                yield ctypes.string_at(low, high - low)
def square(x): return sum(piece.count(MARK + b" ") for piece in memory())
"""


def test_neither_source_nor_results_of_a_program_stay_in_memory_for_the_next(sandbox):
    if sandbox.tier == "landlock":
        pytest.skip("programs cannot look at their own memory map in this tier")
    marks = "left-behind " * 500
    program = f"def square(x): return {marks!r}"
    with Sandbox(1, tier=sandbox.tier, unsafe_exec=True) as alone:
        for _ in range(2):
            told, scraped = alone.run_all(SQUARES, [program, SCRAPER])
            assert told.results == [encode(marks)] * 2
            assert (scraped.status, scraped.results) == ("ok", ["i0", "i0"])
        marked = alone.run_all(SQUARES, [SCRAPER + f"kept = {marks!r}.encode()"])[0]  # what is there is counted
    assert int(marked.results[0][1:], 16) >= 500


def test_the_kernel_kills_programs_first_when_memory_runs_out(sandbox):
    run = results(sandbox, "def solve(x): return open('/proc/self/oom_score_adj').read()", 1)
    if run.results == ["EPermissionError"]:
        pytest.skip("this tier cannot read it")
    assert run.results == [encode("1000\n")]


def test_more_suites_than_a_worker_remembers_all_work():
    suites = [Suite("same key", "solve", [[n]], [1.0]) for n in range(bounds.KEPT_SUITES + 2)]
    with Sandbox(1, unsafe_exec=True) as sandbox:
        sandbox.run_all(SQUARES, [SQUARE])
        (before,) = sandbox._idle["plain"]
        for suite in suites + suites[::-1] + suites:
            assert sandbox.run_all(suite, ["def solve(x): return x"])[0].results == [encode(suite.inputs[0][0])]
        assert sandbox._idle["plain"] == [before]
        assert len(before.suites) == bounds.KEPT_SUITES


DISARMS = """
import os, sys, time
def solve(x):
    ours = sys._getframe(1).f_globals
    ours["confinement"].arm(0, 0)
    ours["_arm"] = ours["confinement"].arm = lambda *rest: None
    spend(x if x < 1 else 0.2)
    for line in range(FORGED): os.write(3, b"1 i1\\n")
    spend(x if x < 1 else 60)
    return x
def spend(cpu_s):
    end = time.process_time() + cpu_s
    while time.process_time() < end: pass
"""


def test_a_test_whose_timers_the_program_disarms_is_ended_from_outside(monkeypatch, fresh_tiers):
    """Not by the limit on all tests, which is 30 CPU-seconds here and would say SIGXCPU."""
    change_source(
        monkeypatch,
        "bounds",
        ("ENCODE_CPU_S = 10.0", "ENCODE_CPU_S = 0.1"),
        ("SPARE_CPU_S = 0.5", "SPARE_CPU_S = 0.1"),
        ("IMPORT_CPU_S = 2.0", "IMPORT_CPU_S = 0.3"),
    )
    program = "FORGED = 0\n" + DISARMS
    with Sandbox(1, unsafe_exec=True) as sandbox:
        run = results(sandbox, program, 0.01, 1, cpu_limits_s=[0.2, 0.2], total_cpu_s=30.0)
        assert (run.status, run.detail, run.results) == ("timeout", "its timers disarmed", ["f0.01"])
        forged = results(sandbox, program.replace("= 0", "= 2"), 1, 0, 0, cpu_limits_s=[0.2] * 3, total_cpu_s=30.0)
        assert (forged.status, forged.detail) == ("timeout", "its timers disarmed")
        assert results(sandbox, program, 0.1, 0.1, 0.1, cpu_limits_s=[0.2] * 3).status == "ok"


@pytest.fixture(scope="module")
def hasty():
    """A sandbox that gives a program, and one test of it, two seconds of wall time."""
    tight = "IDLE_S, WALL_PER_CPU, TEST_WALL_PER_CPU, LEAST_TEST_WALL_S, ENCODE_CPU_S = 2.0, 1.0, 1.0, 2.0, 0.5"
    with Sandbox(1, unsafe_exec=True) as made:
        with pytest.MonkeyPatch.context() as patch:
            change_source(patch, "bounds", ("THREADS = 256", f"THREADS = 256\n{tight}\n"))
            made.run_all(SQUARES, [SQUARE])  # its worker starts now, and stays
        yield made


def test_a_program_that_waits_is_stalled(hasty):
    waits = "import time\ndef solve(x): time.sleep(600)"
    run = results(hasty, waits, 1, cpu_limits_s=[0.1])
    assert (run.status, run.detail) == ("stalled", "SIGALRM")


def test_a_program_that_disarms_its_timers_and_waits_is_stalled_too(hasty):
    disarms = 'import sys\nsys._getframe(1).f_globals["confinement"].arm(0, 0)\nimport time\ntime.sleep(600)'
    run = results(hasty, disarms, 1, cpu_limits_s=[0.1])
    assert (run.status, run.detail) == ("stalled", "")


def test_a_slow_judge_is_not_the_programs_fault(hasty, monkeypatch):
    """It takes longer than one test may (2 s), than the run may (2 s), and than the worker may (3 s)."""
    monkeypatch.setattr(bounds, "IDLE_S", 2.0)
    monkeypatch.setattr(bounds, "WALL_PER_CPU", 0.0)
    monkeypatch.setattr(worker, "SPARE_S", 1.0)
    waits_s = iter([3.5, 0, 0, 0])
    suite = Suite("slow judge", "solve", [[n] for n in range(4)], [0.5] * 4)
    runs = hasty.run_all(
        suite, ["def solve(x): return 'x' * 300_000"], lambda *result: time.sleep(next(waits_s)) is None
    )
    assert runs[0].status == "ok"
