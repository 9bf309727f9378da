"""A child and all that descends from it ends with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.processes import alive, wait_for, wait_until_ended

from harness.system.children import run_child, run_owned

# A child that starts a server in a session of its own, which starts another and ignores SIGTERM.
FAMILY = """
import os, signal, subprocess, sys, time
server = '''
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
inner = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print("pids", os.getpid(), inner.pid, flush=True)
time.sleep(600)
'''
child = subprocess.Popen([sys.executable, "-c", server], start_new_session=True)
print("pids", os.getpid(), child.pid, flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
sys.exit(3)
"""


def pids(log: Path) -> list[int]:
    lines = (
        [line.split()[1:] for line in log.read_text().splitlines() if line.startswith("pids")] if log.exists() else []
    )
    return [int(pid) for line in lines for pid in line]


def test_what_a_child_leaves_running_is_ended(tmp_path):
    log, stop = tmp_path / "log", tmp_path / "stop"

    def watch():
        if len(pids(log)) == 4:
            stop.touch()

    assert run_child([sys.executable, "-c", FAMILY, str(stop)], {}, log, watch, grace_s=0.5) == 3
    family = pids(log)
    assert len(family) == 4
    wait_until_ended(family, 20)


def test_an_interrupt_ends_the_child_and_its_family(tmp_path):
    log = tmp_path / "log"

    def watch():
        if len(pids(log)) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_child([sys.executable, "-c", FAMILY, str(tmp_path / "never")], {}, log, watch, grace_s=0.5)
    wait_until_ended(pids(log), 20)


def test_a_killed_child_says_its_signal(tmp_path):
    log = tmp_path / "log"

    def watch():
        if pids(log) and alive(pids(log)[0]):
            os.kill(pids(log)[0], signal.SIGKILL)

    script = "import os, time; print('pids', os.getpid(), flush=True); time.sleep(600)"
    assert run_child([sys.executable, "-c", script], {}, log, watch) == -signal.SIGKILL


def test_children_that_were_there_before_are_left_alone(tmp_path):
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        assert run_child([sys.executable, "-c", "print('hello')"], {}, tmp_path / "log") == 0
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_output_is_appended_to_the_log_and_the_environment_is_handed_on(tmp_path):
    log = tmp_path / "log"
    log.write_text("before\n")
    script = "import os, sys; print(os.environ['WORD'], flush=True); print('err', file=sys.stderr)"
    run_child([sys.executable, "-c", script], {"WORD": "given"}, log)
    assert log.read_text() == "before\ngiven\nerr\n"


OWNER = """
import sys
from pathlib import Path
from harness.system.children import run_owned
print(run_owned([sys.executable, "-c", sys.argv[1], sys.argv[2]], {}, Path(sys.argv[3]), grace_s=0.5), flush=True)
"""


@pytest.fixture
def owner(tmp_path):
    """A process that owns the family, once that is complete; and its log."""
    log = tmp_path / "log"
    line = [sys.executable, "-c", OWNER, FAMILY, str(tmp_path / "stop"), str(log)]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
    wait_for(lambda: len(pids(log)) == 4 or process.poll() is not None, 60, "the family")
    assert process.poll() is None
    yield process, log
    process.kill()
    process.wait()
    process.stdout.close()


def test_an_owner_that_is_killed_takes_the_child_and_its_family_along(owner):
    process, log = owner
    process.kill()
    process.wait()
    wait_until_ended(pids(log), 20)


def test_a_killed_warden_takes_the_child_and_its_family_along(owner):
    process, log = owner
    [warden] = map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())
    os.kill(warden, signal.SIGKILL)
    assert process.stdout.read() == f"{-signal.SIGKILL}\n"
    wait_until_ended(pids(log), 20)


@pytest.mark.parametrize("ending", ["raise SystemExit(7)", "import os; os.kill(os.getpid(), 9)", "pass"])
def test_an_owned_child_ends_as_it_would_alone(tmp_path, ending):
    command = [sys.executable, "-c", ending]
    assert run_owned(command, {}, tmp_path / "log") == run_child(command, {}, tmp_path / "log")


def test_an_owned_command_that_is_not_there_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        run_owned([str(tmp_path / "absent")], {}, tmp_path / "log")
