"""The checker as a process: what it loads, and that it ends with the process that grades, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from support.paths import ROOT
from support.processes import alive, run_to_end, wait_until_ended

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
