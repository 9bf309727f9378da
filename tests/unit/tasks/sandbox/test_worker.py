"""Workers that are lost or hang, and what is left of them; and what a program cannot claim."""

import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest
from support.processes import alive, descendants, wait_until_ended
from support.sandboxes import NINE_SIXTEEN, SQUARE, SQUARES, strike, worker_processes

from harness import HarnessError
from harness_tasks.sandbox import Sandbox, Suite, worker
from harness_tasks.sandbox.worker import Transcript, WorkerLost

END_S = 60.0  # a loaded machine takes long to end processes
# After the first result no pipe holds the second: a worker that the judge ends then has not delivered it.
LONG = "def square(x): return str(x) * 10**6"
LONG_HEADS = ['s"' + digit * 198 for digit in "34"]


def test_a_lost_worker_is_replaced_and_its_program_run_again_but_once(each_tier):
    judged = []

    def judge(program, test, text):
        judged.append(test)
        return len(judged) > 1 or strike(each_tier, signal.SIGKILL)

    run = each_tier.run_all(SQUARES, [LONG], judge)[0]
    assert (run.status, run.results, judged) == ("ok", LONG_HEADS, [0, 0, 1])
    run = each_tier.run_all(SQUARES, [LONG], lambda *result: judged.append(7) or strike(each_tier, signal.SIGKILL))[0]
    assert (run.status, run.results, judged) == ("error", [], [0, 0, 1, 7, 7])
    assert "lost its worker twice" in run.detail
    assert each_tier.run_all(SQUARES, [SQUARE])[0].results == NINE_SIXTEEN


def test_a_program_dies_with_its_fork_server(each_tier):
    family = []

    def judge(program, test, text):
        if family:
            return False  # when it is run again
        family.extend(worker_processes(each_tier))
        os.kill(family[-2], signal.SIGKILL)  # the fork server; the program is the last
        return True

    suite = Suite("square", [[3], [4]], [60.0] * 2)  # 20 minutes of wall time each
    waits = "import time\ndef square(x):\n    time.sleep(600 * (x == 4))\n    return x * x"
    assert each_tier.run_all(suite, [waits], judge)[0].status == "stopped"
    wait_until_ended(family, END_S)


def test_idle_workers_that_died_are_no_error_and_nothing_outlives_a_closed_sandbox():
    before, both = set(descendants()), threading.Barrier(2)
    with Sandbox(2, unsafe_exec=True) as sandbox:
        sandbox.run_all(SQUARES, [SQUARE] * 2, lambda program, test, text: test > 0 or both.wait(END_S) >= 0)
        assert len(sandbox._users) == 2
        strike(sandbox, signal.SIGKILL)
        assert [run.results for run in sandbox.run_all(SQUARES, [SQUARE] * 5)] == [NINE_SIXTEEN] * 5
        assert set(descendants()) > before
        assert os.getsid(worker_processes(sandbox)[0]) != os.getsid(0)  # a Ctrl-C reaches only the harness
    wait_until_ended(set(descendants()) - before, END_S)
    with pytest.raises(HarnessError, match="closed"):
        sandbox.run_all(SQUARES, [SQUARE])


def test_closing_ends_calls_under_way():
    sandbox = Sandbox(2, unsafe_exec=True)
    running = threading.Barrier(3)
    busy = "def square(x):\n    while x == 4: pass"
    closer = threading.Thread(target=lambda: (running.wait(END_S), sandbox.close()))
    closer.start()
    with pytest.raises(HarnessError, match="closed"):
        sandbox.run_all(SQUARES, [busy] * 2, lambda *result: running.wait(END_S) >= 0)
    closer.join()


HARNESS = """
    import os, signal, sys, threading
    from harness_tasks.sandbox import Sandbox, Suite
    sandbox, suite = Sandbox(2, unsafe_exec=True), Suite("f", [[0], [1]], [60.0, 60.0])
    def work(endless=True):
        told = lambda *result: os.write(1, b"running\\n") > 0 if endless else False  # whole, also from two threads
        sandbox.run_all(suite, ["def f(x):\\n    while x: pass\\n    return 1"] * 2, told)
    if sys.argv[1] == "main":
        work()
    elif sys.argv[1] == "thread":
        threading.Thread(target=work).start()
    else:
        work(endless=False)
        if twin := os.fork():
            os.write(1, f"{twin}\\n".encode())
        signal.pause()
"""


@pytest.mark.parametrize(
    ("where", "number"), [("thread", signal.SIGKILL), ("main", signal.SIGINT), ("forked", signal.SIGKILL)]
)
def test_a_harness_that_is_killed_or_interrupted_leaves_nothing_running_though_a_fork_of_it_lives(where, number):
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(HARNESS), where]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        line = process.stdout.readline()
        twins = {int(line)} if where == "forked" else set()
        family = set(descendants(process.pid)) - twins
        assert family
        process.send_signal(number)
        assert process.wait(END_S) != 0
        wait_until_ended(family, END_S)
        for twin in twins:
            assert alive(twin)
            os.kill(twin, signal.SIGKILL)


GREETS = "import os, socket, time\nserver = socket.socket(fileno=0)\nserver.recv(1 << 20)\nserver.send(b'+')\n"
LOSSES = [
    ("raise OSError('no room')", "OSError: no room"),
    ("import os\nos.write(0, b'-')\nwhile os.read(0, 1 << 20): pass", "it did not greet"),
    (GREETS + "server.recv(5)\nos.write(2, b'first\\nlast words\\n')", "last words"),
    (GREETS + "time.sleep(600)", "it did not answer in time"),
]


@pytest.mark.parametrize(("script", "loss"), LOSSES)
def test_a_worker_that_does_not_answer_as_it_should_is_lost(monkeypatch, script, loss):
    def use():
        child = worker.Worker([sys.executable], {}, {})
        try:
            child.run(SQUARES, SQUARE)
        finally:
            child.kill()

    monkeypatch.setattr(worker, "BOOTSTRAP", script)
    monkeypatch.setattr(worker, "ANSWERS_S", 2.0 if "time" in loss else 60.0)
    with pytest.raises(WorkerLost, match=loss):
        use()


# What a program's process has written before it exits with 0, and the status of its run on two tests
WRITTEN = [
    (b"+\n1 i1\n1 i2\n=ok \n", "ok"), (b"+\n1 i1\n=ok \n", "killed"), (b"+\n1 i1\n1 i2\n1 i3\n=ok \n", "killed"),
    (b"+\n=error \n", "killed"), (b"+\n=stopped by the judge\n", "killed"), (b"+\n+\n1 i1\n1 i2\n=ok \n", "killed"),
    (b"+\n1 i1\n=stopped a test raised\n", "killed"), (b"+\n1 EValueError\n=stopped a test raised\n", "stopped"),
    (b"+\n=memory \n1 i1\n1 i2\n=ok \n", "memory"), (b"+\n1 \xff\n", "killed"), (b"+\n-1 i1\n", "killed"),
    (b"+\n" + b"9" * 5000 + b" i1\n", "killed"), (b"+\n", "killed"),
]  # fmt: skip
# Why a process without a final line was ended, its wait status, and what its run says
WITHOUT_FINAL = {
    ((), 3 << 8): ("killed", "exited with 3"), ((), 27): ("timeout", "SIGPROF"), ((), 24): ("timeout", "SIGXCPU"),
    ((), 9): ("killed", "SIGKILL"), ((), 100): ("killed", "100"), (("stalled", ""), 0): ("stalled", ""),
    (("killed", "closed its output"), 9): ("killed", "closed its output"),
}  # fmt: skip


def transcript(*parts):
    made = Transcript(2, None)
    for part in parts:
        made.read(part)
    return made


def test_a_program_can_claim_nothing_that_it_should_not():
    faults = []
    for written, status in WRITTEN:
        for cut in range(len(written) if len(written) < 100 else 1):
            run = transcript(written[:cut], written[cut:]).run((), 0, 0.0)
            faults += [(written, cut, run)] * (run.status != status)
    assert faults == []
    runs = [transcript(b"+\n1500000000 i1\n").run(*ending, 0.25) for ending in WITHOUT_FINAL]
    assert [(run.status, run.detail) for run in runs] == list(WITHOUT_FINAL.values())
    assert all((run.results, run.cpu_s, run.process_cpu_s) == (["i1"], [1.5], 0.25) for run in runs)


def test_a_process_that_was_never_confined_is_our_fault():
    for written, reason in ((b"", "256"), (b"1 i1\n=ok \n", " i1"), (b"+", "256"), (b"-no room\n", "no room")):
        with pytest.raises(WorkerLost, match=f"could not be set up: {reason}"):
            transcript(written).run((), 256, 0.0)


def test_a_program_that_ended_is_seen_where_a_forked_process_keeps_its_pipe_open(monkeypatch):
    kept, pipe = [], os.pipe

    def kept_open():
        reading, writing = pipe()
        kept.append(os.dup(writing))
        return reading, writing

    program = "import os\ndef square(x): return x if x == 3 else os._exit(7)"
    with Sandbox(1, unsafe_exec=True) as sandbox:
        sandbox.run_all(SQUARES, [SQUARE])
        with monkeypatch.context() as patch:
            patch.setattr(os, "pipe", kept_open)
            run = sandbox.run_all(SQUARES, [program])[0]
    for writing in kept:
        os.close(writing)
    assert (run.results, run.status, run.detail) == (["i3"], "killed", "exited with 7")
