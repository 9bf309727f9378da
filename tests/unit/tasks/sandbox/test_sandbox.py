"""The sandbox as tasks use it: programs, judges, suites and normal forms; from threads and from child processes."""

import multiprocessing
import os
import textwrap
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from support.processes import printed_by
from support.sandboxes import NINE_SIXTEEN, SQUARE, SQUARES, programs_cpu_s, workers_and_squares

from harness_tasks.sandbox import Sandbox, Suite, shared_sandbox
from harness_tasks.sandbox import sandbox as module
from harness_tasks.sandbox.sandbox import imports_numpy


def test_results_keep_the_order_of_the_programs(sandbox):
    programs = [f"def square(x): return {n}" if n % 7 else "def square(x): return (" for n in range(20)]
    runs = sandbox.run_all(SQUARES, programs)
    assert [run.results[:1] for run in runs] == [[f"i{n:x}"] if n % 7 else [] for n in range(20)]
    assert sandbox.run_all(SQUARES, []) == []


def test_the_judge_sees_results_as_they_come_and_stops_a_program_at_once():
    slow = "def solve(x):\n    while x > 1: pass\n    return x"
    seen = []

    def judge(program, test, text):
        seen.append((program, test, text))
        return False

    suite = Suite("solve", [[1], [2]], [10.0, 10.0])
    with Sandbox(1, unsafe_exec=True) as sandbox:
        run = sandbox.run_all(suite, [slow], judge)[0]
        assert (run.status, run.detail, seen) == ("stopped", "by the judge", [(0, 0, "i1")])
        assert programs_cpu_s(sandbox) < 5
        assert sandbox.run_all(SQUARES, [SQUARE])[0].results == NINE_SIXTEEN


def test_a_judge_that_agrees_changes_nothing_and_only_the_head_of_results_is_kept(sandbox):
    program = "def square(x): return 'x' * 10**5"
    run = sandbox.run_all(SQUARES, [program], lambda program, test, text: len(text) > 10**5)[0]
    assert run.status == "ok"
    assert [len(text) for text in run.results] == [200, 200]


def test_a_judge_that_fails_fails_the_call_and_spoils_nothing(sandbox):
    def judge(program, test, text):
        raise ArithmeticError("the judge's own")

    for programs in ([SQUARE], [SQUARE] * 9):
        with pytest.raises(ArithmeticError, match="the judge's own"):
            sandbox.run_all(SQUARES, programs, judge)
    assert sandbox.run_all(SQUARES, [SQUARE] * 3)[2].results == NINE_SIXTEEN


def test_a_program_that_kills_the_parser_costs_only_itself(monkeypatch):
    monkeypatch.setattr(module, "FORMS", replace(module.FORMS, cpu_limits_s=[0.4] * module.BATCH))
    heavy = "x = " + " + ".join(["[" + "1," * 20_000 + "]"] * 60)  # takes longer than its limit, or much memory
    with Sandbox(1, unsafe_exec=True) as sandbox:
        forms = sandbox.normalised(["x=1", "(" * 10**5, "x=2", "-" * 10**6 + "1", heavy, "x=3"])
    assert (forms[0], forms[1], forms[2], forms[3], forms[5]) == ("x = 1", None, "x = 2", None, "x = 3")


def test_more_programs_than_one_process_parses_keep_their_order(sandbox):
    programs = [f"x  = {n}" if n % 9 else "x = (" for n in range(150)]
    assert sandbox.normalised(programs) == [f"x = {n}" if n % 9 else None for n in range(150)]


def test_a_program_that_imports_numpy_is_recognised():
    programs = ["import numpy", "from numpy import array", "x = 1\n  import os, numpy as np", "from a.numpy import b"]
    programs += ["x = 'numpy'\nimport numpy"]
    assert [program for program in programs if not imports_numpy(program)] == []
    programs = ["", "numpy", "x = 'numpy'", "import os\nnumpy = 1", "numpy; import os", "reimport numpy"]
    assert [program for program in programs if imports_numpy(program)] == []


# Processes and threads


def test_a_process_of_multiprocessing_has_a_shared_sandbox_with_one_worker():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(workers_and_squares) == (1, NINE_SIXTEEN)


def test_the_shared_sandbox_is_one_for_the_process_and_has_every_core():
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(shared_sandbox, unsafe_exec=True).result() is shared_sandbox(unsafe_exec=True)
    assert workers_and_squares() == (len(os.sched_getaffinity(0)), NINE_SIXTEEN)


def test_a_forked_process_lets_go_of_its_parents_workers():
    script = """
        import os
        from harness import HarnessError
        from harness_tasks.sandbox import Suite, shared_sandbox
        suite = Suite("square", [[3]], [1.0])
        square = "def square(x): return x * x"
        shared = shared_sandbox(unsafe_exec=True)
        assert shared.run_all(suite, [square])[0].results == ["i9"]
        pid = os.fork()
        if pid == 0:
            assert shared_sandbox(unsafe_exec=True) is not shared
            assert shared_sandbox(unsafe_exec=True).run_all(suite, [square])[0].results == ["i9"]
            try:
                shared.run_all(suite, [square])
            except HarnessError as problem:
                assert "another process" in str(problem)
                os._exit(0)
            os._exit(1)
        assert os.waitpid(pid, 0)[1] == 0
        assert shared.run_all(suite, [square])[0].results == ["i9"]
        print("done")
    """
    assert printed_by(textwrap.dedent(script), timeout=120) == "done"


def test_limits_hold_where_their_signals_were_blocked_or_ignored_by_the_harness():
    script = """
        import signal, threading
        from harness_tasks.sandbox import Sandbox, Suite
        stops = [signal.SIGPROF, signal.SIGALRM, signal.SIGXCPU]
        for number in stops:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, stops)
        with Sandbox(1, unsafe_exec=True) as sandbox:
            suite = Suite("f", [[1]], [0.1])
            print(sandbox.run_all(suite, ["def f(x):\\n    while True: pass"])[0].detail)
    """
    assert printed_by(textwrap.dedent(script), timeout=120) == "SIGPROF"


def test_the_trusted_side_loads_neither_numpy_nor_what_runs_inside():
    heavy = {"numpy", "ctypes", "harness_tasks.sandbox.inside"}
    code = f"import sys, harness_tasks.sandbox; print(sorted({heavy} & set(sys.modules)))"
    assert printed_by(code) == "[]"
