"""The fork server: what it forgets and remembers, and when it ends a program from outside."""

import time

import pytest
from corpora.sandboxed_programs import DISARMS, DISARMS_AND_WAITS, SCRAPER
from support.sandboxes import SQUARE, SQUARES, results

from harness_tasks.sandbox import Sandbox, Suite, encode, worker


def test_neither_source_nor_results_of_a_program_stay_in_memory_for_the_next(sandbox):
    if sandbox.tier == "landlock":
        pytest.skip("programs cannot look at their own memory map in this tier")
    marks = "left-behind " * 5000
    program = f"def square(x): return {marks!r}"
    with Sandbox(1, tier=sandbox.tier, unsafe_exec=True) as alone:
        for _ in range(3):
            told, scraped = alone.run_all(SQUARES, [program, SCRAPER])
            assert told.results == [encode(marks)] * 2
            assert (scraped.status, scraped.results) == ("ok", ["i0", "i0"])
        marked = alone.run_all(SQUARES, [SCRAPER + f"kept = {marks!r}.encode()"])[0]  # what is there is counted
    assert int(marked.results[0][1:], 16) >= 5000


def test_more_suites_than_a_worker_remembers_all_work():
    suites = [Suite("solve", [[n]], [1.0]) for n in range(worker.KEPT_SUITES + 2)]
    with Sandbox(1, unsafe_exec=True) as sandbox:
        sandbox.run_all(SQUARES, [SQUARE])
        (before,) = sandbox._users
        for suite in suites + suites[::-1] + suites:
            assert sandbox.run_all(suite, ["def solve(x): return x"])[0].results == [encode(suite.inputs[0][0])]
        assert list(sandbox._users) == [before]
        assert len(before.suites) == worker.KEPT_SUITES


@pytest.mark.slow
def test_a_test_whose_timers_the_program_disarms_is_ended_from_outside(monkeypatch):
    """Not by the limit on all tests, which is 30 CPU-seconds here and would say SIGXCPU."""
    monkeypatch.setattr(worker, "ENCODE_CPU_S", 0.1)
    monkeypatch.setattr(worker, "SPARE_CPU_S", 0.2)
    program = "FORGED = 0\n" + DISARMS
    with Sandbox(1, unsafe_exec=True) as sandbox:
        run = results(sandbox, program, 0.01, 1, cpu_limits_s=[0.2, 0.2], total_cpu_s=30.0)
        assert (run.status, run.detail, run.results) == ("timeout", "its timers disarmed", ["f0.01"])
        forged = results(sandbox, program.replace("= 0", "= 2"), 1, 0, 0, cpu_limits_s=[0.2] * 3, total_cpu_s=30.0)
        assert (forged.status, forged.detail) == ("timeout", "its timers disarmed")
        program += "spend(0.85)  # too much for its first test, but not to define it"
        assert results(sandbox, program, 0.1, 0.1, 0.1, cpu_limits_s=[0.2] * 3).status == "ok"


@pytest.fixture(scope="module")
def hasty():
    """A sandbox that gives a program three seconds of wall time."""
    with Sandbox(1, unsafe_exec=True) as made, pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "IDLE_S", 3.0)
        patch.setattr(worker, "WALL_PER_CPU", 1.0)
        made.run_all(SQUARES, [SQUARE])  # its worker starts now, and stays
        yield made


@pytest.mark.slow
def test_a_program_that_waits_is_stalled_also_if_it_disarms_its_timers(hasty):
    waits = "import time\ndef solve(x): time.sleep(600)"
    for program in (waits, DISARMS_AND_WAITS):
        assert results(hasty, program, 1, cpu_limits_s=[0.1]).status == "stalled"


@pytest.mark.slow
def test_a_slow_judge_is_not_the_programs_fault(hasty, monkeypatch):
    """It takes longer than the run may (3 s), and than an answer may (1 s)."""
    monkeypatch.setattr(worker, "ANSWERS_S", 1.0)
    waits_s = iter([3.5, 0, 0, 0])
    suite = Suite("solve", [[n] for n in range(4)], [0.5] * 4)
    program = "def solve(x): return 'x' * (300_000 + 0 * sum(range(10**6)))"
    assert hasty.run_all(suite, [program], lambda *result: time.sleep(next(waits_s)) is None)[0].status == "ok"
