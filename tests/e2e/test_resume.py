"""A run killed with SIGKILL at any moment and started again gives the tables of an unkilled one.

The toy engine computes a row in the same way whatever its batch is, so that all files are equal here, byte for byte.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.paths import TOY
from support.processes import harness_command, run_to_end
from support.stores import contents

KILLS = 6
PROBLEMS = 12


def command(store: Path) -> list[str]:
    fixed = ("--task", "colours", "--data", PROBLEMS, "--engine", "toy:delay_s=0.01,group=2", "--plugin", TOY)
    return harness_command("run", *fixed, "--store", store, "--selector", "spread", "--selector", "shuffle", "--json")


def files(store: Path) -> int:
    return sum(len(names) for _, _, names in os.walk(store))


@pytest.fixture(scope="module")
def unkilled(tmp_path_factory):
    store = tmp_path_factory.mktemp("unkilled")
    done = run_to_end(command(store), check=True)
    return done.stdout, contents(store), store


def killed_after(store: Path, count: int, delay_s: float) -> bool:
    """Start a run and SIGKILL it `delay_s` after the store holds `count` files; whether it was killed."""
    process = subprocess.Popen(command(store), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None:
        if files(store) >= count:
            time.sleep(delay_s)
            process.send_signal(signal.SIGKILL)
            return process.wait() == -signal.SIGKILL
        time.sleep(0.0005)
    return False


@pytest.mark.slow
def test_a_run_killed_at_any_moment_and_started_again_gives_the_bytes_of_an_unkilled_one(unkilled, tmp_path):
    table, whole, _ = unkilled

    def trial(kill: int) -> bool:
        store = tmp_path / str(kill)
        store.mkdir()
        was_killed = killed_after(store, round(kill * len(whole) / KILLS), delay_s=0.0007 * (kill % 3))
        if kill == KILLS // 2:  # again and again
            for more in (0.6, 0.8):
                killed_after(store, round(more * len(whole)), 0)
        again = run_to_end(command(store), check=True)
        assert again.stdout == table
        assert contents(store) == whole, f"kill {kill}"
        return was_killed

    with ThreadPoolExecutor(2) as pool:
        killed = list(pool.map(trial, range(KILLS)))
    assert sum(killed) >= KILLS - 2  # the last moments may be past the end
