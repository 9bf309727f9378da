"""A child and all that descends from it ends with it: late, left behind, interrupted, or when its owner is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.answering import echo
from support.processes import descendants, wait_for, wait_until_ended

from harness import HarnessError
from harness.system.children import Lost, Warden, Wardens, limited, run_child

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
END_S = 60.0  # a loaded machine takes long to end processes


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log"
    path.touch()
    return path


@pytest.fixture
def warden():
    warden = Warden()
    yield warden
    warden.close()


def pids(log: Path) -> list[int]:
    lines = [line.split()[1:] for line in log.read_text().splitlines() if line.startswith("pids")]
    return [int(pid) for line in lines for pid in line]


# A function with a limit of time.


def test_calls_share_a_process_and_a_failure_is_one_line():
    pid = limited(echo, "pid", 100)
    assert pid != os.getpid()
    assert limited(echo, [1, None], 100) == [1, None]
    with pytest.raises(HarnessError, match="ValueError: no ink left"):
        limited(echo, "raise", 100)
    assert limited(echo, "pid", 100) == pid


def test_a_late_call_is_ended_with_all_that_it_started_and_the_next_has_a_new_process(tmp_path):
    with pytest.raises(TimeoutError):
        limited(echo, tmp_path / "pids", 2)
    wait_until_ended(map(int, (tmp_path / "pids").read_text().split()), END_S)
    with pytest.raises(EOFError):
        limited(echo, "die", 100)
    assert limited(echo, "again", 100) == "again"


# A command.


def test_what_a_child_leaves_running_is_ended_and_what_was_there_before_is_not(tmp_path, log):
    stop = tmp_path / "stop"

    def watch():
        if len(pids(log)) == 4:
            stop.touch()

    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as other:
        assert run_child([sys.executable, "-c", FAMILY, stop], {}, log, watch, grace_s=0.5) == 3
        family = pids(log)
        assert len(family) == 4
        wait_until_ended(family, END_S)
        assert other.poll() is None
        other.kill()


def test_an_interrupt_ends_the_child_and_its_family(tmp_path, log):
    def watch():
        if len(pids(log)) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_child([sys.executable, "-c", FAMILY, tmp_path / "never"], {}, log, watch, grace_s=0.5)
    wait_until_ended(pids(log), END_S)


def test_the_status_of_a_child_is_returned_and_its_output_appended(log):
    log.write_text("before\n")
    script = "import os, sys; print(os.environ['WORD'], flush=True); print('err', file=sys.stderr); sys.exit(7)"
    assert run_child([sys.executable, "-c", script], {"WORD": "given"}, log) == 7
    assert log.read_text() == "before\ngiven\nerr\n"
    assert run_child([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], {}, log) == -signal.SIGKILL
    with pytest.raises(FileNotFoundError):
        run_child([str(log.with_name("absent"))], {}, log)


def test_status_and_the_end_of_the_output_come_back_and_the_warden_goes_on(warden):
    script = "import sys; print('out'); sys.exit(print('no', file=sys.stderr) or 3)"
    ended = warden.run([sys.executable, "-S", "-c", script])
    assert (ended.status, ended.out, ended.err) == (3, "out\n", "no\n")
    assert warden.run(["sh", "-c", "kill -9 $$"]).status == -signal.SIGKILL
    out = warden.run(["sh", "-c", "head -c 9000000 /dev/zero; echo end"]).out
    assert (len(out), out[-5:]) == (1 << 20, "\0end\n")
    for command in (["no-such-program"], ["echo", "a\0b"]):
        with pytest.raises(OSError, match=r"No such file|null byte"):
            warden.run(command)
    assert warden.run(["true"]).status == 0


def test_a_command_whose_time_is_up_leaves_no_process(warden, tmp_path, log):
    command = [sys.executable, "-c", FAMILY, str(tmp_path / "never")]
    assert warden.run(command, log=log, limit_s=1.5, grace_s=0.5).status is None
    wait_until_ended(pids(log), END_S)


def test_wardens_are_kept_for_the_next_command_and_closed_together():
    wardens = Wardens()
    with wardens.one() as first:
        assert first.run(["true"]).status == 0
        with wardens.one() as other:
            assert other is not first
    with wardens.one() as again:
        assert again in (first, other)
        wardens.close()
        with pytest.raises(Lost):
            again.run(["true"])
    assert not first.folder.exists()


OWNER = """
import sys
from pathlib import Path
from harness.system import children
command = [sys.executable, "-c", sys.argv[1], sys.argv[2]]
print(children.run_child(command, {}, Path(sys.argv[3]), grace_s=0.5), flush=True)
"""


@pytest.fixture
def owner(tmp_path, log):
    """A process that owns the family, once that is complete."""
    line = [sys.executable, "-c", OWNER, FAMILY, tmp_path / "stop", log]
    folder = tmp_path / "temporary"
    folder.mkdir()
    with subprocess.Popen(
        line, stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(folder)}
    ) as process:
        wait_for(lambda: len(pids(log)) == 4 or process.poll() is not None, what="the family")
        assert process.poll() is None
        yield process
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_an_owner_that_is_killed_takes_the_child_and_its_family_along(owner, log, number):
    everyone = [*descendants(owner.pid), *pids(log)]
    [folder] = [
        Path(word) for word in Path(f"/proc/{everyone[0]}/cmdline").read_text().split("\0") if "harness-" in word
    ]
    assert folder.exists()
    owner.send_signal(number)
    owner.wait()
    wait_until_ended(everyone, END_S)
    assert not folder.exists()
