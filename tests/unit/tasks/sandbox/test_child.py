"""What becomes of one program: how it ends, what it finds in its process, what comes back of its results."""

from __future__ import annotations

import itertools
import textwrap

import pytest
from support.sandboxes import NINE_SIXTEEN, SQUARE, SQUARES, results

from harness_tasks.sandbox import Suite, digest, encode, tiers

THREADS = """
import _thread, threading
threading.stack_size(32768)
lock = _thread.allocate_lock()
lock.acquire()
while True: _thread.start_new_thread(lock.acquire, ())
"""
FLOOD = """
import os
while True:
    try: os.write(3, b"1" * 65536)
    except BlockingIOError: pass
"""
ENDINGS = [
    (SQUARE, "ok", ""),
    ("def square(x): return (", "syntax", "SyntaxError"),
    ("1 / 0", "raised", "ZeroDivisionError"),
    ("import os\nraise SystemExit", "raised", "SystemExit"),
    ("def cube(x): return x", "missing", "square"),
    ("def square(x):\n    while True: pass", "timeout", "SIGPROF"),
    ("while True: pass", "timeout", "SIGPROF"),
    ("def square(x): return bytearray(1 << 40)", "memory", ""),
    ("x = bytearray(1 << 40)", "memory", "while it was defined"),
    ("def square(x): return 'x' * 10**7", "output", ""),
    ("def square(x): return 'x' * (3 << 20)", "output", ""),  # one result is short enough, two are not
    ("import os\ndef square(x): os._exit(3)", "killed", "exited with 3"),
    ("import ctypes\ndef square(x): ctypes.string_at(0)", "killed", "SIGSEGV"),
    ("def square(x): return 1 / 0", "stopped", "a test raised"),
    ("def square(x): raise type('a b', (Exception,), {})", "stopped", "a test raised"),
    ("def square(x): return input()", "stopped", "a test raised"),
    ("import sys\ndef square(x): return sys.stdin.read()", "stopped", "a test raised"),
    ("import os\nos.close(3)\nwhile True: pass", "killed", "closed its output"),
    (FLOOD, "output", ""),
    (THREADS, "killed", "too many threads"),
]
RAISED = ["EZeroDivisionError", "EException", "EOSError", "EOSError"]


def test_a_run_says_how_it_ended(sandbox):
    suite = Suite("squares", "square", [[3], [4]], [0.2, 0.2])
    runs = sandbox.run_all(suite, [program for program, _, _ in ENDINGS])
    assert [(run.status, run.detail) for run in runs] == [(status, detail) for _, status, detail in ENDINGS]
    assert runs[0].results == NINE_SIXTEEN
    assert [run.results for run in runs if run.status == "stopped"] == [[raised] for raised in RAISED]
    assert all(len(run.cpu_s) == len(run.results) for run in runs)
    assert {len(run.results) for run in runs if run.status not in ("ok", "stopped", "output")} == {0}


def test_limits_are_on_cpu_time_not_on_the_wall_clock(sandbox):
    program = "import time\ndef solve(x):\n    time.sleep(0.5)\n    return x"
    assert results(sandbox, program, 1, cpu_limits_s=[0.1]).results == ["i1"]


BUSY = """
import time
def solve(x):
    end = time.thread_time() + x
    while time.thread_time() < end: pass
    return x
"""


def test_each_test_has_its_own_limit_and_the_run_has_another(sandbox):
    run = results(sandbox, BUSY, *[0.2] * 3, cpu_limits_s=[0.4] * 3)
    assert run.status == "ok"
    assert all(0.15 < cpu_s < 0.4 for cpu_s in run.cpu_s)
    run = results(sandbox, BUSY, 0.01, 1.5, cpu_limits_s=[5.0, 0.2])
    assert (run.status, run.results) == ("timeout", [encode(0.01)])
    run = results(sandbox, BUSY, *[0.3] * 8, total_cpu_s=0.5)  # the kernel counts whole seconds
    assert (run.status, run.detail) == ("timeout", "SIGXCPU")
    assert 1 <= len(run.results) <= 3


def test_a_test_that_raises_ends_the_run_unless_told_otherwise(sandbox):
    program = "def square(x): return 1 // (x - 3)"
    assert sandbox.run_all(SQUARES, [program])[0].status == "stopped"
    run = sandbox.run_all(SQUARES, [program], stop_at_raise=False)[0]
    assert (run.status, run.results) == ("ok", ["EZeroDivisionError", "i1"])


def test_a_result_can_come_back_as_a_digest(sandbox):
    program = "import itertools\ndef solve(x): return list(itertools.permutations('abcdef')) if x == 'long' else x"
    values = ["long", None, True, 2, 2.0, "x", [], (1.0, [2]), {1}, "long"]
    run = results(sandbox, program, *values, digest=[True] * 9 + [False], output_bytes=1000)
    expected = [digest(value) for value in [list(itertools.permutations("abcdef")), *values[1:9]]]
    assert (run.status, run.results) == ("output", expected)


def test_a_result_is_gone_before_the_next_test(sandbox):
    program = """
        class Large:
            def __init__(self): self.bytes = bytes(150 << 20)
        def solve(x): return Large()
    """
    run = results(sandbox, textwrap.dedent(program), 1, 2, 3, memory_bytes=200 << 20)
    assert run.results == ["X"] * 3


def test_inputs_are_fresh_for_every_test_and_program(sandbox):
    shared = [1]
    suite = Suite("shared", "solve", [[shared], [shared]], [1.0, 1.0])
    for run in sandbox.run_all(suite, ["def solve(x):\n    x.append(2)\n    return x"] * 3):
        assert run.results == ["[i1,i2]", "[i1,i2]"]


def test_programs_live_in_a_module_of_their_own(sandbox):
    program = """
        import dataclasses, pickle, sys, typing
        @dataclasses.dataclass
        class Point:
            x: int
            y: "typing.Optional[Point]" = None
        def solve(x):
            assert __name__ != "__main__" and sys.modules[__name__].Point is Point
            assert typing.get_type_hints(Point)["y"] == typing.Optional[Point]
            back = pickle.loads(pickle.dumps(Point(x)))
            print("to nowhere", back, file=sys.stderr)
            print("\\ud800", flush=True)
            return dataclasses.astuple(back)
    """
    assert results(sandbox, textwrap.dedent(program), 5).results == ["(i5,N)"]


def test_a_program_has_nothing_of_ours(each_tier):
    program = """
        import builtins, fcntl, os, sys, __main__
        def is_open(fd):
            try: return fcntl.fcntl(fd, fcntl.F_GETFD) >= 0
            except OSError: return False
        def solve(x):
            builtins.len = lambda value: x
            ours = [name for name in [*sys.modules, *vars(__main__)] if "sandbox" in name or name == "sources"]
            open_ones, environment = [fd for fd in range(256) if is_open(fd)], os.environ.keys() - {"LC_CTYPE", "PWD"}
            return open_ones, len([]), ours, environment, os.getcwd()
    """
    (text,) = results(each_tier, textwrap.dedent(program), 7).results
    assert text == encode(([0, 1, 2, 3], 7, [], set(tiers.ENVIRONMENT), "/"))


def test_the_same_program_gives_the_same_results(sandbox):
    program = "import random\ndef solve(x): return [random.random(), hash('x'), list({'a', 'b', 'c', 'd'})]"
    runs = sandbox.run_all(Suite("chance", "solve", [[1]], [1.0]), [program] * 4)
    assert len({run.results[0] for run in runs}) == 1


def test_threads_and_generators_of_honest_programs_work(sandbox):
    program = """
        from concurrent.futures import ThreadPoolExecutor
        from functools import lru_cache
        @lru_cache(None)
        def fibonacci(n): return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)
        def solve(x):
            with ThreadPoolExecutor(4) as pool:
                return list(pool.map(fibonacci, range(x)))
    """
    assert results(sandbox, textwrap.dedent(program), 9).results == [encode([0, 1, 1, 2, 3, 5, 8, 13, 21])]


def test_memory_is_counted_from_the_bare_interpreter(sandbox):
    program = "def solve(x): return len(bytearray(x << 20))"
    for extra in ("", "import numpy\n"):
        run = results(sandbox, extra + program, 200, memory_bytes=256 << 20)
        assert run.status == "ok", run
        assert results(sandbox, extra + program, 300, memory_bytes=256 << 20).status == "memory"


def test_programs_that_import_numpy_find_it_with_a_fixed_seed(sandbox):
    pytest.importorskip("numpy")
    program = """
from numpy import linalg
import numpy as np
def solve(x): return linalg.det(np.eye(x)), np.arange(x).sum(), np.random.rand()
"""
    run = results(sandbox, program, 3)
    assert run.results[0].startswith("(nfloat64:f1.0;,nint64:i3;,")
    assert results(sandbox, program, 3).results == run.results


def test_a_normal_form_forgets_spelling_and_keeps_what_a_program_can_see(sandbox):
    long = "x = 0x" + "f" * 5000
    spellings = {
        "def f( x ):\n  'doc'\n  return(x) # c": "def f(x):\n    return x",
        'def f(x):\n    """other"""\n\n    return x': "def f(x):\n    return x",
        "class A:\n 'doc'": "class A:\n    pass",
        "def f(): 'doc'\nprint(f.__doc__)": 'def f():\n    """doc"""\nprint(f.__doc__)',
        "import inspect\ndef f(): 'doc'": 'import inspect\n\ndef f():\n    """doc"""',
        "x = 1": "x = 1",
        "x = (": None,
        long: long,
    }
    assert sandbox.normalised(list(spellings)) == list(spellings.values())
    assert sandbox.normalised([]) == []
