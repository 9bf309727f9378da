"""What becomes of one program: how it ends, what it finds and can leave in its process, its results, its limits."""

import time

import pytest
from support.sandboxes import NINE_SIXTEEN, SQUARE, SQUARES, results

from harness_tasks.sandbox import Sandbox, Suite, encode, tiers, worker

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
ENDINGS = [  # a program that defines `square`, the status of its run, the detail
    (SQUARE, "ok", ""), ("def square(x): return (", "syntax", "SyntaxError"), ("def cube(x): 1", "missing", "square"),
    ("while True: pass", "timeout", "SIGPROF"), ("def square(x):\n    while True: pass", "timeout", "SIGPROF"),
    ("raise SystemExit", "raised", "SystemExit"), ("def square(x): return bytearray(1 << 40)", "memory", ""),
    ("x = bytearray(1 << 40)", "memory", "while it was defined"), ("def square(x): return 'x' * 10**7", "output", ""),
    ("def square(x): return 'x' * (3 << 20)", "output", ""),  # one result is short enough, two are not
    ("import os\ndef square(x): os._exit(3)", "killed", "exited with 3"), (THREADS, "killed", "too many threads"),
    ("import ctypes\ndef square(x): ctypes.string_at(0)", "killed", "SIGSEGV"), (FLOOD, "output", ""),
    ("import os\nos.close(3)\nwhile True: pass", "killed", "closed its output"),
]  # fmt: skip
RAISES = [  # a program whose first test raises, and what is said of it
    ("def square(x): return 1 / 0", "EZeroDivisionError"), ("def square(x): return input()", "EOSError"),
    ("def square(x): raise type('a b', (Exception,), {})", "EException"),
]  # fmt: skip


def test_a_run_says_how_it_ended(sandbox, monkeypatch):
    monkeypatch.setattr(worker, "DEFINE_CPU_S", 0.3)
    suite = Suite("square", [[3], [4]], [0.2, 0.2])
    runs = sandbox.run_all(suite, [program for program, *_ in ENDINGS])
    assert [(run.status, run.detail) for run in runs] == [(status, detail) for _, status, detail in ENDINGS]
    assert runs[0].results == NINE_SIXTEEN
    assert {len(run.results) for run in runs[1:] if run.status != "output"} == {0}
    assert all(len(run.cpu_s) == len(run.results) for run in runs)


def test_a_test_that_raises_ends_the_run_unless_told_otherwise(sandbox):
    for (_, raised), run in zip(RAISES, sandbox.run_all(SQUARES, [program for program, _ in RAISES]), strict=True):
        assert (run.status, run.detail, run.results) == ("stopped", "a test raised", [raised])
    run = sandbox.run_all(SQUARES, ["def square(x): return 1 // (x - 3)"], stop_at_raise=False)[0]
    assert (run.status, run.results) == ("ok", ["EZeroDivisionError", "i1"])


BUSY = "import time\ndef solve(x):\n  end = time.thread_time() + x\n  while time.thread_time() < end: pass\n  return x"


@pytest.mark.slow
def test_each_test_has_its_own_limit_of_cpu_time_and_the_run_has_another(sandbox):
    program = "import time\ndef solve(x):\n    time.sleep(0.5)\n    return x"
    assert results(sandbox, program, 1, cpu_limits_s=[0.1]).results == ["i1"]  # no limit on the wall clock
    run = results(sandbox, BUSY, *[0.2] * 3, cpu_limits_s=[0.4] * 3)
    assert run.status == "ok"
    assert all(0.15 < cpu_s < 0.4 for cpu_s in run.cpu_s)
    run = results(sandbox, BUSY, 0.01, 1.5, cpu_limits_s=[5.0, 0.2])
    assert (run.status, run.results) == ("timeout", [encode(0.01)])
    run = results(sandbox, BUSY, *[0.3] * 8, total_cpu_s=0.5)  # the kernel counts whole seconds
    assert (run.status, run.detail) == ("timeout", "SIGXCPU")
    assert 1 <= len(run.results) <= 3


def test_a_program_cannot_grow_files_dump_core_or_open_many_files(sandbox):
    program = "import resource as r\ndef solve(x): return [r.getrlimit(k) for k in (r.RLIMIT_FSIZE, r.RLIMIT_CORE, "
    program += "r.RLIMIT_NOFILE, r.RLIMIT_CPU)]"
    assert results(sandbox, program, 1, total_cpu_s=5.0).results == [encode([(0, 0), (0, 0), (32, 32), (6, 7)])]


def test_memory_is_counted_from_the_bare_interpreter_and_a_result_is_gone_before_the_next_test(sandbox):
    for extra in ("", "import numpy\n"):
        program = f"{extra}def solve(x): return len(bytearray(x << 20))"
        assert [results(sandbox, program, mb, memory_bytes=256 << 20).status for mb in (200, 300)] == ["ok", "memory"]
    program = "class Large:\n    def __init__(self): self.bytes = bytes(150 << 20)\ndef solve(x): return Large()"
    assert results(sandbox, program, 1, 2, memory_bytes=200 << 20).results == ["X"] * 2


NOTHING_OF_OURS = """
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
OWN_MODULE = """
import dataclasses, pickle, sys, typing
@dataclasses.dataclass
class Point:
    x: int
    y: "typing.Optional[Point]" = None
def solve(x):
    assert __name__ != "__main__" and sys.modules[__name__].Point is Point
    assert typing.get_type_hints(Point)["y"] == typing.Optional[Point]
    back = pickle.loads(pickle.dumps(Point(x)))
    print("to nowhere \\ud800", back, file=sys.stderr, flush=True)
    return dataclasses.astuple(back)
"""


def test_a_program_finds_fresh_inputs_a_module_of_its_own_and_nothing_of_ours(sandbox, each_tier):
    shared = [1]
    suite = Suite("solve", [[shared], [shared]], [1.0, 1.0])
    runs = sandbox.run_all(suite, ["def solve(x):\n    x.append(2)\n    return x"] * 3)
    assert [run.results for run in runs] == [["[i1,i2]", "[i1,i2]"]] * 3
    assert results(sandbox, OWN_MODULE, 5).results == ["(i5,N)"]
    (text,) = results(each_tier, NOTHING_OF_OURS, 7).results
    assert text == encode(([0, 1, 2, 3], 7, [], set(tiers.ENVIRONMENT), "/"))


def test_the_same_program_gives_the_same_results_with_numpy_too(sandbox):
    program = "import random\ndef solve(x): return [random.random(), hash('x'), list({'a', 'b', 'c', 'd'})]"
    runs = sandbox.run_all(Suite("solve", [[1]], [1.0]), [program] * 4)
    assert len({run.results[0] for run in runs}) == 1
    program = "import numpy as np\ndef solve(x): return np.linalg.det(np.eye(x)), np.arange(x).sum(), np.random.rand()"
    first, second = results(sandbox, program, 3), results(sandbox, program, 3)
    assert first.results[0].startswith("(nfloat64:f1.0;,nint64:i3;,")
    assert second.results == first.results


LONG_INT = "x = 0x" + "f" * 5000
NORMAL_FORMS = {
    "def f( x ):\n  'doc'\n  return(x) # c": "def f(x):\n    return x", "class A:\n 'doc'": "class A:\n    pass",
    "def f(): 'doc'\nprint(f.__doc__)": 'def f():\n    """doc"""\nprint(f.__doc__)', LONG_INT: LONG_INT,
    "import inspect\ndef f(): 'doc'": 'import inspect\n\ndef f():\n    """doc"""', "x = (": None,
    "'doc'\nasync def f():\n    'doc'\n    1": "async def f():\n    1",
}  # fmt: skip


def test_a_normal_form_forgets_spelling_and_keeps_what_a_program_can_see(sandbox):
    assert sandbox.normalised(list(NORMAL_FORMS)) == list(NORMAL_FORMS.values())
    assert sandbox.normalised([]) == []
    programs = [f"x  = {n}" if n % 9 else "x = (" for n in range(70)]  # more than one process parses
    assert sandbox.normalised(programs) == [f"x = {n}" if n % 9 else None for n in range(70)]


def test_more_suites_than_a_worker_remembers_all_work():
    suites = [Suite("solve", [[n]], [1.0]) for n in range(worker.KEPT_SUITES + 2)]
    with Sandbox(1, unsafe_exec=True) as sandbox:
        for suite in suites + suites[::-1]:
            assert sandbox.run_all(suite, ["def solve(x): return x"])[0].results == [encode(suite.inputs[0][0])]
        assert [len(user.suites) for user in sandbox._users] == [worker.KEPT_SUITES]


DISARMS = """
import os, sys, time
def solve(x):
    ours = sys._getframe(1).f_globals
    ours["confinement"].arm(0)
    ours["confinement"].arm = lambda *rest: None
    spend(x if x < 1 else 0.2)
    for line in range(FORGED): os.write(3, b"1 i1\\n")
    spend(x if x < 1 else 60)
    return x
def spend(cpu_s):
    end = time.process_time() + cpu_s
    while time.process_time() < end: pass
"""


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


@pytest.mark.slow
def test_a_program_that_waits_is_stalled_and_a_slow_judge_is_not_its_fault(monkeypatch):
    """A program has two seconds of wall time here, an answer one; the judge takes longer."""
    waits = "import time\ndef solve(x): time.sleep(600)"
    disarmed = 'import sys, time\nsys._getframe(1).f_globals["confinement"].arm(0)\ntime.sleep(600)'
    long = "def solve(x): return 'x' * (300_000 + 0 * sum(range(10**6)))"
    suite, waits_s = Suite("solve", [[n] for n in range(4)], [0.5] * 4), iter([2.5, 0, 0, 0])
    with Sandbox(1, unsafe_exec=True) as hasty:
        hasty.run_all(SQUARES, [SQUARE])  # its worker starts now, and stays
        monkeypatch.setattr(worker, "IDLE_S", 2.0)
        monkeypatch.setattr(worker, "WALL_PER_CPU", 1.0)
        for program in (waits, disarmed):
            assert results(hasty, program, 1, cpu_limits_s=[0.1]).status == "stalled"
        monkeypatch.setattr(worker, "ANSWERS_S", 1.0)
        assert hasty.run_all(suite, [long], lambda *result: time.sleep(next(waits_s)) is None)[0].status == "ok"
