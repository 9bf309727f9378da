"""Damage to any file of a store changes no table without a line; a store that can only be read is shown.

A run killed with SIGKILL at any moment and started again gives the tables of an unkilled one: the toy engine computes
a row in the same way whatever its batch is, so that all files are equal here, byte for byte.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from campaigns import bit_flips
from support.paths import TOY
from support.processes import harness_command, run_to_end
from support.stores import contents


@pytest.mark.slow
@pytest.mark.parametrize("damage", [bit_flips.flip, bit_flips.cut, bit_flips.swap])
def test_no_damage_to_any_kind_of_file_changes_a_table_without_a_line(tmp_path, damage):
    counts = bit_flips.outcomes(tmp_path, 60, seed=7, damage=damage)
    assert {outcome for _, outcome in counts} <= set(bit_flips.FINE), counts
    assert len({kind for kind, outcome in counts if outcome != "same"}) >= 8


def read_only(root: Path, *commands) -> subprocess.CompletedProcess:
    """Run commands where the store lies on a mount that can only be read, and show their exit codes."""
    mount = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0"'
    shell = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"]), "sh", "-c"]
    if subprocess.run([*shell, mount, str(root)], capture_output=True).returncode:
        pytest.skip("needs a mount of its own")
    lines = [f"{shlex.join(map(str, harness_command(*each)))}; echo exit {each[0]} $? >&2" for each in commands]
    return run_to_end([*shell, "\n".join([mount, *lines]), str(root)])


@pytest.mark.slow
def test_a_complete_store_that_can_only_be_read_is_shown(harness, tmp_path):
    root = tmp_path / "runs"
    options = ("--task", "keyed", "--engine", "toy", "--plugin", TOY, "--store", root, "--json", "--audit")
    run = ("run", *options, "--selector", "spread", "--selector", "head")
    rows = harness(*run).out
    before = contents(root)
    shown = read_only(
        root,
        run,
        ("doctor", "--store", root, "--json"),
        ("leaderboard", root / "cells", "--out", tmp_path / "out", "--quiet"),
        ("report", "--store", root, "--plugin", TOY, "--out", tmp_path / "page.html"),
        ("plot", "passk", root / "cells", "--out", tmp_path / "plots"),
        (*run, "--seed", "1"),
    )
    codes = [line for line in shown.stderr.splitlines() if line.startswith("exit ")]
    assert codes == ["exit run 0", "exit doctor 0", "exit leaderboard 0", "exit report 0", "exit plot 0", "exit run 2"]
    assert shown.stdout.startswith(rows)
    assert "Traceback" not in shown.stderr
    assert "cannot write" in shown.stderr
    assert contents(root) == before


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
    return done.stdout, contents(store)


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
    table, whole = unkilled

    def trial(kill: int) -> bool:
        store = tmp_path / str(kill)
        store.mkdir()
        was_killed = killed_after(store, round(kill * len(whole) / KILLS), delay_s=0.0007 * (kill % 3))
        if kill == KILLS // 2:  # again and again
            for more in (0.6, 0.8):
                killed_after(store, round(more * len(whole)), 0)
        again = run_to_end(command(store), check=True)
        assert again.stdout == table
        kept = {name: content for name, content in contents(store).items() if not name.endswith(".tmp")}
        assert kept == whole, f"kill {kill}"  # beside what a killed writer had begun, which `store prune` removes
        return was_killed

    with ThreadPoolExecutor(2) as pool:
        killed = list(pool.map(trial, range(KILLS)))
    assert sum(killed) >= KILLS - 2  # the last moments may be past the end
