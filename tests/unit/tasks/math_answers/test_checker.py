"""The checker's children: limits and answers; and `checker_process.py`: what it loads, and that it ends with us."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.math_grading import algebra_is_graded
from support.paths import ROOT
from support.processes import alive, run_to_end, wait_until_ended

from harness_tasks.math_answers import checker
from harness_tasks.math_answers.workers import shared_workers

FILTERED = pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="no table of system calls")
PROGRAM = """
import errno, os, signal, socket, sys, checker
arm = checker._confine(checker.seccomp() if sys.argv[1] == "filtered" else None)
for attempt in sys.argv[2:]:
    try:
        exec(attempt)
        print("done", flush=True)
    except MemoryError:
        print("memory", flush=True)
    except OSError as failure:
        print(errno.errorcode[failure.errno], flush=True)
arm(0.2)
while True: pass
"""


def outcomes(limits, attempts):
    """What each attempt ends with under a child's limits; then the process must overrun its limit on CPU time."""
    folder = Path(checker.__file__).parent
    done = run_to_end([sys.executable, "-c", PROGRAM, limits, *attempts], cwd=folder)
    assert done.returncode == -signal.SIGPROF, done.stderr
    return done.stdout.split()


@pytest.mark.slow
def test_a_child_gets_no_more_memory_and_cpu_time_than_its_limits_and_writes_no_file(tmp_path):
    write = f"with open({str(tmp_path / 'note')!r}, 'w') as file: file.write('x' * 100)"
    attempts = ["bytearray(3 << 30)", "bytearray(1 << 30)", write]
    assert outcomes("unfiltered", attempts) == ["memory", "done", "EFBIG"]
    assert (tmp_path / "note").stat().st_size == 0


REFUSED = [
    "socket.socket()",
    "os.fork()",
    "os.execv('/bin/true', ['true'])",
    "os.kill(os.getppid(), 0)",
    "open('/dev/null', 'w')",
    "os.unlink('/dev/nothing')",
    "signal.setitimer(signal.ITIMER_PROF, 0)",
]


@FILTERED
def test_a_child_is_refused_every_way_out():
    assert outcomes("filtered", REFUSED) == ["EPERM"] * len(REFUSED)


@FILTERED
def test_the_children_that_grade_are_under_the_filter():
    assert algebra_is_graded()
    for pid in shared_workers().pids()[1:]:
        assert re.search("^Seccomp:\t2$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)


def test_a_lack_of_memory_and_a_failure_of_sympy_are_answers_of_the_checker():
    def failing(failure):
        def agree(gold, answer):
            raise failure

        return checker._outcome([["1", "2"]], agree)

    assert failing(MemoryError()) == "memory"
    assert failing(RecursionError()) == "unparsed"


def test_small_decimals_are_compared_to_more_decimals():
    texts = {"3.14 1": 6, "0.5": 6, "0.05": 7, r"0.00067\pi": 9, "0.05 0.0005": 9, "10.05": 6, "1.05": 6, ".002": 8}
    assert {text: checker.rounding(text) for text in texts} == texts


def test_a_message_is_read_in_parts_and_refused_where_it_is_too_long_or_ends():
    message = checker.frame({"a": 1})
    parts = [message[:2], message[2:4], message[4:]]
    assert checker.read_frame(lambda count: parts.pop(0)) == {"a": 1}
    with pytest.raises(ValueError, match="a frame of 1048577 bytes"):
        checker.read_frame(lambda count: ((1 << 20) + 1).to_bytes(4, "big"))
    with pytest.raises(EOFError):
        checker.read_frame(lambda count: b"")


BEGIN = """
import os, sys, threading, time
sys.path.insert(0, "tests")
from support.math_grading import HANGING, algebra_is_graded, graded
from harness_tasks.math_answers.workers import shared_workers
assert algebra_is_graded()
checker, *children = shared_workers().pids()
"""
ENDS = """
with open(f"/proc/{checker}/maps") as maps:
    print(*sorted({"sympy", "math_verify", "torch"} & set(sys.modules)), "libtorch" in maps.read())
print(checker, *children)
"""
IS_KILLED = """
threading.Thread(target=graded, args=HANGING, daemon=True).start()
while " R " not in open(f"/proc/{children[-1]}/stat").read(): time.sleep(0.01)
copy = os.fork()
if copy: print(copy, checker, *children, flush=True)
time.sleep(600)
"""


def test_math_verify_is_loaded_by_the_checker_alone_which_ends_with_the_harness():
    done = run_to_end([sys.executable, "-W", "error", "-c", BEGIN + ENDS], cwd=ROOT, check=True)
    loaded, pids = done.stdout.splitlines()
    assert (loaded, done.stderr) == ("False", "")
    assert len(pids.split()) == 2
    wait_until_ended(map(int, pids.split()), 60)


def test_nothing_survives_a_killed_harness_though_a_fork_of_it_does():
    program = [sys.executable, "-W", "ignore", "-c", BEGIN + IS_KILLED]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, cwd=ROOT) as harness:
        copy, *pids = map(int, harness.stdout.readline().split())
        harness.kill()
    try:
        assert len(pids) == 2
        wait_until_ended(pids, 60)
        assert alive(copy)
    finally:
        os.kill(copy, signal.SIGKILL)
