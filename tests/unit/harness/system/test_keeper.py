"""A user's command ends with all that it started: when it is done, when its time is up, when the owner is killed."""

import os
import signal
import subprocess
import sys

import pytest
from support.processes import descendants, wait_for, wait_until_ended

from harness.system.keeper import Keeper

# A command that leaves a process in a session of its own, and writes the ids of both.
FAMILY = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"], start_new_session=True)
with open(sys.argv[1] + "~", "w") as file:
    print(os.getpid(), child.pid, file=file)
os.rename(sys.argv[1] + "~", sys.argv[1])
time.sleep(float(sys.argv[2]))
"""


@pytest.fixture
def keeper():
    keeper = Keeper()
    yield keeper
    keeper.close()


def test_status_and_output_come_back(keeper):
    ended = keeper.run(
        [sys.executable, "-S", "-c", "import sys; print('out'); sys.exit(print('no', file=sys.stderr) or 3)"], 60
    )
    assert (ended.status, ended.out, ended.err) == (3, "out\n", "no\n")
    assert keeper.run(["sh", "-c", "kill -9 $$"], 60).status == -signal.SIGKILL
    assert keeper.run(["sh", "-c", "head -c 200000 /dev/zero; echo end"], 60).out.endswith("\0end\n")


def test_what_cannot_be_started_is_an_error_and_the_keeper_goes_on(keeper):
    for command in (["no-such-program"], ["echo", "a\0b"]):
        with pytest.raises(OSError, match=r"No such file|null byte"):
            keeper.run(command, 60)
    assert keeper.run(["true"], 60).status == 0


@pytest.mark.parametrize(("sleep_s", "limit_s", "status"), [(600, 1.0, None), (0, 60, 0)])
def test_a_command_that_ends_or_must_end_leaves_no_process(keeper, tmp_path, sleep_s, limit_s, status):
    pids = tmp_path / "pids"
    assert keeper.run([sys.executable, "-S", "-c", FAMILY, str(pids), str(sleep_s)], limit_s).status == status
    wait_until_ended(map(int, pids.read_text().split()), 60)


def test_sigkill_of_the_owner_ends_the_command_and_deletes_the_keepers_folder(tmp_path):
    pids = tmp_path / "pids"
    command = [sys.executable, "-S", "-c", FAMILY, str(pids), "600"]
    code = "from harness.system.keeper import Keeper\nkeeper = Keeper()\nprint(keeper.folder, flush=True)\n"
    code += f"keeper.run({command!r}, 600)"
    owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    folder = owner.stdout.readline().strip()
    wait_for(pids.exists)
    everyone = [*descendants(owner.pid), *map(int, pids.read_text().split())]
    owner.kill()
    owner.communicate()
    wait_until_ended(everyone, 60)
    assert not os.path.exists(folder)
