"""Programs for the sandbox: how each ends, and some that look for what others left or disarm their limits."""

from __future__ import annotations

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

# A program that defines `square`; the status of its run; the detail
ENDINGS = [
    ("def square(x): return x * x", "ok", ""), ("def square(x): return (", "syntax", "SyntaxError"),
    ("1 / 0", "raised", "ZeroDivisionError"), ("import os\nraise SystemExit", "raised", "SystemExit"),
    ("def cube(x): return x", "missing", "square"), ("def square(x):\n    while True: pass", "timeout", "SIGPROF"),
    ("while True: pass", "timeout", "SIGPROF"), ("def square(x): return bytearray(1 << 40)", "memory", ""),
    ("x = bytearray(1 << 40)", "memory", "while it was defined"), ("def square(x): return 'x' * 10**7", "output", ""),
    ("def square(x): return 'x' * (3 << 20)", "output", ""),  # one result is short enough, two are not
    ("import os\ndef square(x): os._exit(3)", "killed", "exited with 3"),
    ("import ctypes\ndef square(x): ctypes.string_at(0)", "killed", "SIGSEGV"),
    ("import os\nos.close(3)\nwhile True: pass", "killed", "closed its output"), (FLOOD, "output", ""),
    (THREADS, "killed", "too many threads"),
]  # fmt: skip
# A program whose first test raises, and what is said of it
RAISES = [
    ("def square(x): return 1 / 0", "EZeroDivisionError"),
    ("def square(x): raise type('a b', (Exception,), {})", "EException"),
    ("def square(x): return input()", "EOSError"), ("import sys\ndef square(x): return sys.stdin.read()", "EOSError"),
]  # fmt: skip

BUSY = """
import time
def solve(x):
    end = time.thread_time() + x
    while time.thread_time() < end: pass
    return x
"""

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
    print("to nowhere", back, file=sys.stderr)
    print("\\ud800", flush=True)
    return dataclasses.astuple(back)
"""

POOL = """
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
@lru_cache(None)
def fibonacci(n): return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)
def solve(x):
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(fibonacci, range(x)))
"""

NUMPY = """
from numpy import linalg
import numpy as np
def solve(x): return linalg.det(np.eye(x)), np.arange(x).sum(), np.random.rand()
"""

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
DISARMS_AND_WAITS = """
import sys, time
sys._getframe(1).f_globals["confinement"].arm(0)
time.sleep(600)
"""

# Programs and their normal forms
LONG_INT = "x = 0x" + "f" * 5000
NORMAL_FORMS = {
    "def f( x ):\n  'doc'\n  return(x) # c": "def f(x):\n    return x",
    'def f(x):\n    """other"""\n\n    return x': "def f(x):\n    return x", "class A:\n 'doc'": "class A:\n    pass",
    "def f(): 'doc'\nprint(f.__doc__)": 'def f():\n    """doc"""\nprint(f.__doc__)',
    "import inspect\ndef f(): 'doc'": 'import inspect\n\ndef f():\n    """doc"""',
    "'doc'\nasync def f():\n    'doc'\n    1": "async def f():\n    1", "x = 1": "x = 1", "x = (": None,
    LONG_INT: LONG_INT,
}  # fmt: skip

# What a program's process has written before it exits with 0, and the status of its run on two tests
WRITTEN = [
    (b"+\n1 i1\n1 i2\n=ok \n", "ok"), (b"+\n1 i1\n=ok \n", "killed"), (b"+\n1 i1\n1 i2\n1 i3\n=ok \n", "killed"),
    (b"+\n=error \n", "killed"), (b"+\n=stalled \n", "killed"), (b"+\n=stopped a test raised\n", "killed"),
    (b"+\n1 i1\n=stopped a test raised\n", "killed"), (b"+\n1 EValueError\n=stopped a test raised\n", "stopped"),
    (b"+\n=memory \n1 i1\n1 i2\n=ok \n", "memory"), (b"+\n1 \xff\n", "killed"), (b"+\n-1 i1\n", "killed"),
    (b"+\n" + b"9" * 5000 + b" i1\n", "killed"), (b"+\n", "killed"),
]  # fmt: skip
# Why a process without a final line was ended, its wait status, and what its run says
WITHOUT_FINAL = {
    ((), 3 << 8): ("killed", "exited with 3"), ((), 27): ("timeout", "SIGPROF"), ((), 24): ("timeout", "SIGXCPU"),
    ((), 14): ("killed", "SIGALRM"), ((), 9): ("killed", "SIGKILL"), ((), 100): ("killed", "100"),
    (("stalled", ""), 0): ("stalled", ""), (("killed", "closed its output"), 9): ("killed", "closed its output"),
}  # fmt: skip
