"""A child and all that descends from it ends with it; and the hub (`hub_access.py`) is switched off and on again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.processes import wait_for, wait_until_ended

from harness.system.children import run_child, run_owned
from harness.system.hub_access import hub_is_out_of_reach, hub_offline

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


def pids(log: Path) -> list[int]:
    lines = [line.split()[1:] for line in log.read_text().splitlines() if line.startswith("pids")]
    return [int(pid) for line in lines for pid in line]


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


@pytest.mark.parametrize("run", [run_child, run_owned])
def test_the_status_of_a_child_is_returned_and_its_output_appended(log, run):
    log.write_text("before\n")
    script = "import os, sys; print(os.environ['WORD'], flush=True); print('err', file=sys.stderr); sys.exit(7)"
    assert run([sys.executable, "-c", script], {"WORD": "given"}, log) == 7
    assert log.read_text() == "before\ngiven\nerr\n"
    assert run([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], {}, log) == -signal.SIGKILL
    with pytest.raises(FileNotFoundError):
        run([str(log.with_name("absent"))], {}, log)


OWNER = """
import sys
from pathlib import Path
from harness.system import children
children.WARDEN_S = 0.5
command = [sys.executable, "-c", sys.argv[1], sys.argv[2]]
print(children.run_owned(command, {}, Path(sys.argv[3]), grace_s=0.5), flush=True)
"""


@pytest.fixture
def owner(tmp_path, log):
    """A process that owns the family, once that is complete."""
    line = [sys.executable, "-c", OWNER, FAMILY, tmp_path / "stop", log]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        wait_for(lambda: len(pids(log)) == 4 or process.poll() is not None, what="the family")
        assert process.poll() is None
        yield process
        process.kill()


def test_an_owner_that_is_killed_takes_the_child_and_its_family_along(owner, log):
    owner.kill()
    owner.wait()
    wait_until_ended(pids(log), END_S)


def test_a_killed_warden_takes_the_child_and_its_family_along(owner, log):
    [warden] = map(int, Path(f"/proc/{owner.pid}/task/{owner.pid}/children").read_text().split())
    os.kill(warden, signal.SIGKILL)
    assert owner.stdout.read() == f"{-signal.SIGKILL}\n"
    wait_until_ended(pids(log), END_S)


def test_while_the_hub_is_off_nothing_is_fetched_and_afterwards_all_is_as_before(monkeypatch):
    from huggingface_hub import constants

    for before in (None, "0"):
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
        if before:
            monkeypatch.setenv("HF_HUB_OFFLINE", before)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        with hub_offline():
            assert constants.HF_HUB_OFFLINE
            assert hub_is_out_of_reach()
            assert os.environ["HF_HUB_OFFLINE"] == "1"
        assert not constants.HF_HUB_OFFLINE
        assert os.environ.get("HF_HUB_OFFLINE") == before
