"""The sandbox as tasks use it: programs, judges, suites and normal forms; from threads and from child processes."""

import multiprocessing
import os
import textwrap
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.processes import printed_by
from support.sandboxes import NINE_SIXTEEN, SQUARE, SQUARES, programs_cpu_s, workers_and_squares

from harness_tasks.sandbox import Sandbox, Suite, shared_sandbox
from harness_tasks.sandbox.sandbox import imports_numpy


def test_results_keep_the_order_of_the_programs_and_only_their_heads_are_kept(sandbox):
    programs = [f"def square(x): return {n}" if n % 7 else "def square(x): return (" for n in range(20)]
    runs = sandbox.run_all(SQUARES, programs)
    assert [run.results[:1] for run in runs] == [[f"i{n:x}"] if n % 7 else [] for n in range(20)]
    assert sandbox.run_all(SQUARES, []) == []
    long = ["def square(x): return 'x' * 10**5"]
    run = sandbox.run_all(SQUARES, long, lambda program, test, text: len(text) > 10**5)[0]
    assert (run.status, [len(text) for text in run.results]) == ("ok", [200, 200])


def test_the_judge_sees_results_as_they_come_stops_a_program_at_once_and_spoils_nothing_where_it_fails():
    slow = "def solve(x):\n    while x > 1: pass\n    return x"
    seen = []

    def fails(program, test, text):
        raise ArithmeticError("the judge's own")

    suite = Suite("solve", [[1], [2]], [10.0, 10.0])
    with Sandbox(1, unsafe_exec=True) as sandbox:
        run = sandbox.run_all(suite, [slow], lambda *result: seen.append(result))[0]
        assert (run.status, run.detail, seen) == ("stopped", "by the judge", [(0, 0, "i1")])
        assert programs_cpu_s(sandbox) < 5
        with pytest.raises(ArithmeticError, match="the judge's own"):
            sandbox.run_all(SQUARES, [SQUARE] * 9, fails)
        assert sandbox.run_all(SQUARES, [SQUARE] * 3)[2].results == NINE_SIXTEEN


def test_a_program_that_imports_numpy_is_recognised():
    yes = ["from numpy import array", "x = 1\n  import os, numpy as np", "x = 'numpy'\nimport numpy"]
    no = ["numpy", "x = 'numpy'", "import os\nnumpy = 1", "numpy; import os", "reimport numpy"]
    assert [program for program in yes + no if imports_numpy(program)] == yes


def test_the_shared_sandbox_is_one_for_the_process_with_every_core_and_has_one_worker_in_a_child():
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(shared_sandbox, unsafe_exec=True).result() is shared_sandbox(unsafe_exec=True)
    assert workers_and_squares() == (len(os.sched_getaffinity(0)), NINE_SIXTEEN)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(workers_and_squares) == (1, NINE_SIXTEEN)


def test_a_forked_process_lets_go_of_its_parents_workers_and_the_trusted_side_loads_nothing_heavy():
    script = """
        import os, sys
        from harness import HarnessError
        from harness_tasks.sandbox import Suite, shared_sandbox
        assert not {"numpy", "ctypes", "harness_tasks.sandbox.inside"} & set(sys.modules)
        suite = Suite("square", [[3]], [1.0])
        squared = lambda sandbox: sandbox.run_all(suite, ["def square(x): return x * x"])[0].results == ["i9"]
        shared = shared_sandbox(unsafe_exec=True)
        assert squared(shared)
        pid = os.fork()
        if pid == 0:
            assert shared_sandbox(unsafe_exec=True) is not shared
            assert squared(shared_sandbox(unsafe_exec=True))
            try:
                squared(shared)
            except HarnessError as problem:
                assert "another process" in str(problem)
                os._exit(0)
            os._exit(1)
        assert os.waitpid(pid, 0)[1] == 0
        assert squared(shared)
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
